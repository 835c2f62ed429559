"""Targets with exact samplers, to see whether a student is right."""

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.scipy.special import logsumexp
from jax.scipy.stats import norm
from jaxtyping import Array, Float, PRNGKeyArray, Scalar

from understudy.core import Condition, IngredientError, Target


class Mixture(Target):
    """A mixture of spherical Gaussians, sum_k w_k N(z; m_k, s_k^2 I), normalised.

    Args:
        means: (k, d) centres.
        scales: standard deviations, one or k.
        weights: probabilities, equal if None.
    """

    means: Float[Array, "k d"]
    scales: Float[Array, " k"]
    log_weights: Float[Array, " k"]
    dim: int = eqx.field(static=True)

    def __init__(self, means, scales=1.0, weights=None):
        self.means = jnp.asarray(means, float)
        if self.means.ndim != 2:
            raise IngredientError(
                f"means has one row per component, shape (k, d); shape {self.means.shape} came."
            )
        k, self.dim = self.means.shape
        self.scales = jnp.broadcast_to(jnp.asarray(scales, float), (k,))
        weights = jnp.ones(k) if weights is None else jnp.asarray(weights, float)
        self.log_weights = jnp.log(weights / weights.sum())

    def log_density(self, z: Float[Array, " d"], x: Condition = None) -> Scalar:
        """Normalised log density."""
        del x
        parts = norm.logpdf(z, self.means, self.scales[:, None]).sum(-1)
        return logsumexp(self.log_weights + parts)

    def sample(self, key: PRNGKeyArray, n: int) -> Float[Array, "n d"]:
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

    def log_density(self, z: Float[Array, " d"], x: Condition = None) -> Scalar:
        """Normalised log density by the change of variables."""
        del x
        noise, log_det = self.inverse(z)
        return norm.logpdf(noise).sum() + log_det

    def sample(self, key: PRNGKeyArray, n: int) -> Float[Array, "n d"]:
        """Exact draws."""
        return jax.vmap(self.forward)(jax.random.normal(key, (n, self.dim)))


def two_gaussians() -> Mixture:
    """The mixture of section 5.1 of the paper: 1/2 N(-3, 1) + 1/2 N(3, 1)."""
    return Mixture([[-3.0], [3.0]])


def eight_gaussians(radius: float = 4.0, scale: float = 0.5) -> Mixture:
    """Eight Gaussians on a circle."""
    angles = jnp.arange(8) * jnp.pi / 4
    return Mixture(radius * jnp.stack([jnp.cos(angles), jnp.sin(angles)], -1), scale)


def forty_gaussians(seed: int = 0, box: float = 40.0, scale: float = 1.0) -> Mixture:
    """Forty Gaussians at random places of a box."""
    means = jax.random.uniform(jax.random.key(seed), (40, 2), minval=-box, maxval=box)
    return Mixture(means, scale)


def banana(curvature: float = 0.5) -> Warped:
    """A banana: z1 is Gaussian with scale 2, z2 is Gaussian around ``curvature`` z1^2."""

    def forward(noise):
        first = 2.0 * noise[0]
        return jnp.array([first, noise[1] + curvature * (first**2 - 4.0)])

    def inverse(z):
        noise = jnp.array([z[0] / 2.0, z[1] - curvature * (z[0] ** 2 - 4.0)])
        return noise, -jnp.log(2.0)

    return Warped(2, forward, inverse)


def funnel(dim: int = 2, scale: float = 1.5) -> Warped:
    """Neal's funnel: z1 ~ N(0, scale^2), the others ~ N(0, exp(z1))."""

    def forward(noise):
        first = scale * noise[0]
        return jnp.concatenate([first[None], noise[1:] * jnp.exp(first / 2)])

    def inverse(z):
        noise = jnp.concatenate([z[:1] / scale, z[1:] * jnp.exp(-z[0] / 2)])
        return noise, -jnp.log(scale) - (dim - 1) * z[0] / 2

    return Warped(dim, forward, inverse)


class Ring(Target):
    """A ring in the plane: the squared radius is Gaussian, truncated at zero, the angle uniform."""

    radius: Float[Array, ""] = eqx.field(converter=jnp.asarray, default=3.0)
    width: Float[Array, ""] = eqx.field(converter=jnp.asarray, default=0.3)
    dim: int = eqx.field(static=True, default=2)

    def log_density(self, z: Float[Array, " d"], x: Condition = None) -> Scalar:
        """Log density up to a constant."""
        del x
        return norm.logpdf(z @ z, self.radius**2, 2 * self.radius * self.width)

    def sample(self, key: PRNGKeyArray, n: int) -> Float[Array, "n d"]:
        """Exact draws: the squared radius is the sufficient statistic of a spherical density."""
        turn, length = jax.random.split(key)
        angle = jax.random.uniform(turn, (n,), maxval=2 * jnp.pi)
        scale = 2 * self.radius * self.width
        square = jax.random.truncated_normal(length, -(self.radius**2) / scale, jnp.inf, (n,))
        r = jnp.sqrt(self.radius**2 + scale * square)
        return r[:, None] * jnp.stack([jnp.cos(angle), jnp.sin(angle)], -1)
