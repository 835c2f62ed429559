"""Targets with exact samplers, to see whether a student is right."""

from collections.abc import Callable
from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.scipy.special import logsumexp
from jax.scipy.stats import norm
from jaxtyping import Array, Float, Scalar

from understudy import checks
from understudy.checks import number, one_number, one_positive, positive, vector, whole
from understudy.core import Condition, IngredientError, Key, Target


class MixtureOfGaussians(Target):
    """A mixture of spherical Gaussians, sum_k w_k N(z; m_k, s_k^2 I), normalised.

    Args:
        means: (k, d) centres.
        scales: standard deviations, one or k.
        weights: probabilities, equal if None.

    Examples:
        >>> import jax.numpy as jnp
        >>> from understudy.targets import MixtureOfGaussians
        >>> target = MixtureOfGaussians(jnp.array([[-3.0], [3.0]]), 1.0, jnp.array([0.3, 0.7]))
        >>> bool(target.log_density(jnp.array([3.0])) > target.log_density(jnp.array([-3.0])))
        True
    """

    means: Float[Array, "k d"]
    scales: Float[Array, " k"]
    log_weights: Float[Array, " k"]
    dim: int = eqx.field(static=True)

    def __init__(self, means, scales=1.0, weights=None):
        self.means = number("means", means)
        if self.means.ndim != 2:
            raise IngredientError(
                f"means has one row per component, shape (k, d); shape {self.means.shape} came."
            )
        k, self.dim = self.means.shape
        self.scales = vector("scales", positive("scales", scales), k)
        weights = vector("weights", positive("weights", 1.0 if weights is None else weights), k)
        self.log_weights = jnp.log(weights / weights.sum())

    def log_density(self, z: Float[Array, " d"], x: Condition = None) -> Scalar:
        """Normalised log density."""
        del x
        parts = norm.logpdf(z, self.means, self.scales[:, None]).sum(-1)
        return logsumexp(self.log_weights + parts)

    def sample(self, key: Key, n: int) -> Float[Array, "n d"]:
        """Exact draws."""
        choose, noise = jax.random.split(key)
        k = jax.random.categorical(choose, self.log_weights, shape=(n,))
        return self.means[k] + self.scales[k, None] * jax.random.normal(noise, (n, self.dim))


class Warped(Target):
    """A standard Gaussian pushed through a smooth bijection, so density and draws are exact.

    Args:
        dim: size of a draw.
        forward: noise to draw.
        inverse: draw to (noise, log absolute determinant of its Jacobian).
    """

    dim: int = eqx.field(static=True)
    forward: Callable = eqx.field(static=True)
    inverse: Callable = eqx.field(static=True)

    def __check_init__(self):
        """A size and two functions."""
        whole("dim", self.dim)
        checks.function("forward", self.forward)
        checks.function("inverse", self.inverse)

    def log_density(self, z: Float[Array, " d"], x: Condition = None) -> Scalar:
        """Normalised log density by the change of variables."""
        del x
        noise, log_det = self.inverse(z)
        return norm.logpdf(noise).sum() + log_det

    def sample(self, key: Key, n: int) -> Float[Array, "n d"]:
        """Exact draws."""
        return jax.vmap(self.forward)(jax.random.normal(key, (n, self.dim)))


def two_gaussians() -> MixtureOfGaussians:
    """The mixture of section 5.1 of the paper: 1/2 N(-3, 1) + 1/2 N(3, 1).

    Examples:
        >>> import jax
        >>> from understudy.targets import two_gaussians
        >>> target = two_gaussians()
        >>> z = target.sample(jax.random.key(0), 5)
        >>> z.shape, target.log_density(z[0]).shape
        ((5, 1), ())
    """
    return MixtureOfGaussians([[-3.0], [3.0]])


def eight_gaussians(radius: float = 4.0, scale: float = 0.5) -> MixtureOfGaussians:
    """Eight Gaussians on a circle.

    Examples:
        >>> import jax
        >>> from understudy.targets import eight_gaussians
        >>> target = eight_gaussians()
        >>> z = target.sample(jax.random.key(0), 5)
        >>> z.shape, target.log_density(z[0]).shape
        ((5, 2), ())
    """
    angles, away = jnp.arange(8) * jnp.pi / 4, positive("radius", radius)
    return MixtureOfGaussians(away * jnp.stack([jnp.cos(angles), jnp.sin(angles)], -1), scale)


def forty_gaussians(seed: int = 0, box: float = 40.0, scale: float = 1.0) -> MixtureOfGaussians:
    """Forty Gaussians at random places of a box.

    Examples:
        >>> import jax
        >>> from understudy.targets import forty_gaussians
        >>> target = forty_gaussians()
        >>> z = target.sample(jax.random.key(0), 5)
        >>> z.shape, target.log_density(z[0]).shape
        ((5, 2), ())
    """
    key, reach = jax.random.key(checks.seed("seed", seed)), positive("box", box)
    means = jax.random.uniform(key, (40, 2), minval=-reach, maxval=reach)
    return MixtureOfGaussians(means, scale)


def banana(curvature: float = 0.5) -> Warped:
    """A banana: z1 is Gaussian with scale 2, z2 is Gaussian around ``curvature`` z1^2.

    Examples:
        >>> import jax
        >>> from understudy.targets import banana
        >>> target = banana(curvature=0.5)
        >>> z = target.sample(jax.random.key(0), 5)
        >>> z.shape, target.log_density(z[0]).shape
        ((5, 2), ())
    """
    curvature = one_number("curvature", curvature)

    def forward(noise):
        first = 2.0 * noise[0]
        return jnp.array([first, noise[1] + curvature * (first**2 - 4.0)])

    def inverse(z):
        noise = jnp.array([z[0] / 2.0, z[1] - curvature * (z[0] ** 2 - 4.0)])
        return noise, -jnp.log(2.0)

    return Warped(2, forward, inverse)


def funnel(dim: int = 2, scale: float = 1.5) -> Warped:
    """Neal's funnel: z1 ~ N(0, scale^2), the others ~ N(0, exp(z1)).

    Examples:
        >>> import jax
        >>> from understudy.targets import funnel
        >>> target = funnel(dim=5)
        >>> z = target.sample(jax.random.key(0), 5)
        >>> z.shape, target.log_density(z[0]).shape
        ((5, 5), ())
    """
    dim, scale = whole("dim", dim, least=2), one_positive("scale", scale)

    def forward(noise):
        first = scale * noise[0]
        return jnp.concatenate([first[None], noise[1:] * jnp.exp(first / 2)])

    def inverse(z):
        noise = jnp.concatenate([z[:1] / scale, z[1:] * jnp.exp(-z[0] / 2)])
        return noise, -jnp.log(scale) - (dim - 1) * z[0] / 2

    return Warped(dim, forward, inverse)


class Ring(Target):
    """A ring in the plane: the squared radius is Gaussian, truncated at zero, the angle uniform.

    Examples:
        >>> import jax
        >>> from understudy.targets import Ring
        >>> target = Ring(radius=3.0, width=0.3)
        >>> z = target.sample(jax.random.key(0), 5)
        >>> z.shape, target.log_density(z[0]).shape
        ((5, 2), ())
    """

    radius: Float[Array, ""] = eqx.field(converter=partial(positive, "radius"), default=3.0)
    width: Float[Array, ""] = eqx.field(converter=partial(positive, "width"), default=0.3)
    dim: int = eqx.field(static=True, default=2, init=False)

    def log_density(self, z: Float[Array, " d"], x: Condition = None) -> Scalar:
        """Log density up to a constant."""
        del x
        return norm.logpdf(z @ z, self.radius**2, 2 * self.radius * self.width)

    def sample(self, key: Key, n: int) -> Float[Array, "n d"]:
        """Exact draws: the squared radius is the sufficient statistic of a spherical density."""
        turn, length = jax.random.split(key)
        angle = jax.random.uniform(turn, (n,), maxval=2 * jnp.pi)
        r = _ring_radius(length, self.radius, self.width, n)
        return r[:, None] * jnp.stack([jnp.cos(angle), jnp.sin(angle)], -1)


class Moons(Target):
    """Two crescents of equal weight that interlock, one open below, the other above; normalised.

    On each the squared radius is Gaussian, truncated at zero, and the angle is a Gaussian wrapped
    around the circle.

    Args:
        radius: of both crescents.
        width: about their standard deviation across.
        arc: standard deviation of the angle.

    Examples:
        >>> import jax
        >>> from understudy.targets import Moons
        >>> target = Moons()
        >>> z = target.sample(jax.random.key(0), 5)
        >>> z.shape, target.log_density(z[0]).shape
        ((5, 2), ())
    """

    radius: Float[Array, ""] = eqx.field(converter=partial(positive, "radius"), default=2.0)
    width: Float[Array, ""] = eqx.field(converter=partial(positive, "width"), default=0.2)
    arc: Float[Array, ""] = eqx.field(converter=partial(positive, "arc"), default=0.7)
    dim: int = eqx.field(static=True, default=2, init=False)

    @property
    def centres(self) -> Float[Array, "2 2"]:
        """The centres of the two circles."""
        return self.radius * jnp.array([[-0.5, -0.25], [0.5, 0.25]])

    def log_parts(self, z: Float[Array, " d"]) -> Float[Array, "2"]:
        """Log weighted density of each crescent."""
        away = (z - self.centres) * jnp.array([[1.0], [-1.0]])
        turn = jnp.arctan2(away[:, 1], away[:, 0]) - jnp.pi / 2
        turns = turn[:, None] + 2 * jnp.pi * jnp.arange(-2, 3)
        angle = logsumexp(norm.logpdf(turns, 0.0, self.arc), axis=1)
        scale = 2 * self.radius * self.width
        square = norm.logpdf(jnp.sum(away**2, -1), self.radius**2, scale)
        # The area element is half that of (squared radius, angle), and each crescent weighs one half.
        return square - norm.logcdf(self.radius**2 / scale) + angle

    def log_density(self, z: Float[Array, " d"], x: Condition = None) -> Scalar:
        """Normalised log density."""
        del x
        return logsumexp(self.log_parts(z))

    def sample(self, key: Key, n: int) -> Float[Array, "n d"]:
        """Exact draws."""
        choose, turn, length = jax.random.split(key, 3)
        second = jax.random.bernoulli(choose, shape=(n,)).astype(int)
        angle = jnp.pi / 2 + self.arc * jax.random.normal(turn, (n,))
        r = _ring_radius(length, self.radius, self.width, n)
        away = r[:, None] * jnp.stack([jnp.cos(angle), jnp.sin(angle)], -1)
        return self.centres[second] + jnp.where(second[:, None] == 1, -away, away)


def two_moons() -> Moons:
    """Two interlocking crescents of radius 2.

    Examples:
        >>> import jax
        >>> from understudy.targets import two_moons
        >>> target = two_moons()
        >>> z = target.sample(jax.random.key(0), 5)
        >>> z.shape, target.log_density(z[0]).shape
        ((5, 2), ())
    """
    return Moons()


class Ising(Target):
    """Spins on a grid with free edges, p(z) proportional to exp(coupling * sum_<ij> s_i s_j).

    Draws hold zeros and ones, row by row, and s = 2 z - 1. All 2^d probabilities are at hand.

    Reference: Ising, "Beitrag zur Theorie des Ferromagnetismus", 1925.

    Args:
        rows: of the grid.
        columns: of the grid; at most 16 sites in all, since every state is enumerated.
        coupling: above zero, neighbours like to agree.

    Examples:
        >>> import jax.numpy as jnp
        >>> from understudy.targets import Ising
        >>> target = Ising(3, 3, coupling=0.4)
        >>> bool(target.log_density(jnp.ones(9)) == target.log_density(jnp.zeros(9)))
        True
    """

    coupling: Float[Array, ""]
    rows: int = eqx.field(static=True)
    columns: int = eqx.field(static=True)
    dim: int = eqx.field(static=True)

    def __init__(self, rows: int = 3, columns: int = 3, coupling: float = 0.4):
        self.rows, self.columns = whole("rows", rows), whole("columns", columns)
        self.dim = rows * columns
        self.coupling = jnp.asarray(one_number("coupling", coupling))
        if self.dim > 16:
            raise IngredientError(
                f"Every state of an Ising target is enumerated, so it has at most 16 sites; "
                f"{rows} x {columns} = {self.dim} came."
            )

    @property
    def states(self) -> Float[Array, "states d"]:
        """Every vector of zeros and ones."""
        return (jnp.arange(2**self.dim)[:, None] >> jnp.arange(self.dim)[::-1] & 1).astype(float)

    @property
    def probabilities(self) -> Float[Array, " states"]:
        """The exact probability of every row of ``states``."""
        return jax.nn.softmax(jax.vmap(self.log_density)(self.states))

    def log_density(self, z: Float[Array, " d"], x: Condition = None) -> Scalar:
        """Log probability up to a constant."""
        del x
        spins = (2 * z - 1).reshape(self.rows, self.columns)
        across, down = spins[:, 1:] * spins[:, :-1], spins[1:] * spins[:-1]
        return self.coupling * (across.sum() + down.sum())

    def sample(self, key: Key, n: int) -> Float[Array, "n d"]:
        """Exact draws."""
        return self.states[jax.random.categorical(key, jnp.log(self.probabilities), shape=(n,))]


def _ring_radius(key: Key, radius: Array, width: Array, n: int) -> Float[Array, " n"]:
    scale = 2 * radius * width
    square = jax.random.truncated_normal(key, -(radius**2) / scale, jnp.inf, (n,))
    return jnp.sqrt(radius**2 + scale * square)
