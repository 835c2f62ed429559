"""Gaussian students: diagonal, normalised, full, low rank, and mixtures of them."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.scipy.linalg import cho_solve, solve_triangular
from jax.scipy.stats import norm
from jaxtyping import Array, ArrayLike, Float, Scalar

from understudy.checks import number, positive, random_key, vector, whole
from understudy.core import (
    Condition,
    ExplicitStudent,
    IngredientError,
    Key,
    Lesson,
    ProjectableStudent,
    StratifiedStudent,
    Student,
)
from understudy.students.common import pool, stratify

# The share of the old covariance that projection always keeps, so that it stays positive definite.
_KEPT = 1e-10
# Steps of factor analysis in one projection, and the share of a variance that no factor may explain.
_STEPS = 10
_LEAST_OWN = 1e-6


class MeanField(Student):
    """A student with a mean and a standard deviation for every coordinate."""

    mean: Float[Array, " d"]
    log_scale: Float[Array, " d"]
    dim: int = eqx.field(static=True)

    def __init__(self, dim: int, mean: ArrayLike = 0.0, scale: ArrayLike = 1.0):
        self.dim = dim = whole("dim", dim)
        self.mean = vector("mean", mean, dim)
        self.log_scale = jnp.log(vector("scale", positive("scale", scale), dim))

    @property
    def scale(self) -> Float[Array, " d"]:
        """The standard deviations."""
        return jnp.exp(self.log_scale)


class DiagonalGaussian(MeanField, ExplicitStudent, ProjectableStudent):
    """A Gaussian with independent coordinates, q(z) = N(z; mean, diag(scale^2)).

    Projection averages the first two moments, which minimises the inclusive KL of a mixture of the
    old student (share 1 - rate) and the teacher's draws (share rate).

    Reference: Bishop, "Pattern Recognition and Machine Learning", 2006, section 10.7.

    Args:
        dim: size of a draw.
        mean: start of the mean, one number or a vector.
        scale: start of the standard deviations, one positive number or a vector.

    Examples:
        >>> import jax
        >>> from understudy.students import DiagonalGaussian
        >>> student = DiagonalGaussian(2, mean=1.0, scale=0.5)
        >>> student.sample(jax.random.key(1), None, 5).shape
        (5, 2)
    """

    def __init__(self, dim: int, mean: ArrayLike = 0.0, scale: ArrayLike = 1.0):
        super().__init__(dim, mean, scale)

    def sample(self, key: Key, x: Condition, n: int) -> Float[Array, "n d"]:
        """Draw mean + scale * noise."""
        return self.mean + self.scale * jax.random.normal(key, (n, self.dim))

    def log_prob(self, z: Float[Array, " d"], x: Condition = None) -> Scalar:
        """Log density, a sum over coordinates."""
        return norm.logpdf(z, self.mean, self.scale).sum()

    def project(self, lessons: Lesson, rate: Scalar) -> "DiagonalGaussian":
        """Move mean and variances towards the weighted moments of the improved draws."""
        rows, weights, rate = pool(lessons, rate)
        mean = weights @ rows
        within = (1 - rate) * self.scale**2 + rate * (weights @ (rows - mean) ** 2)
        variance = within + rate * (1 - rate) * (mean - self.mean) ** 2
        scale = jnp.sqrt(jnp.maximum(variance, _KEPT * self.scale**2))
        return DiagonalGaussian(self.dim, self.mean + rate * (mean - self.mean), scale)


class NormalisedGaussian(MeanField):
    """A mean-field Gaussian whose n draws have, as a set, exactly its mean and standard deviation.

    The noises are normalised by their own mean and standard deviation before they are scaled, which
    ties the draws together: the student has no density.

    Reference: Li, Turner and Liu, "Approximate Inference with Amortised MCMC", 2017, section 5.2.

    Its settings are those of :class:`DiagonalGaussian`.

    Examples:
        >>> import jax
        >>> from understudy.students import NormalisedGaussian
        >>> student = NormalisedGaussian(2)
        >>> student.sample(jax.random.key(1), None, 5).shape
        (5, 2)
    """

    def __init__(self, dim: int, mean: ArrayLike = 0.0, scale: ArrayLike = 1.0):
        super().__init__(dim, mean, scale)

    def sample(self, key: Key, x: Condition, n: int) -> Float[Array, "n d"]:
        """Draw noises, normalise them over the set, scale and shift."""
        whole("the number of normalised particles", n, least=2)
        noise = jax.random.normal(key, (n, self.dim))
        noise = (noise - noise.mean(0)) / noise.std(0)
        return self.mean + self.scale * noise


class FullGaussian(ExplicitStudent, ProjectableStudent):
    """A Gaussian with any covariance, q(z) = N(z; mean, L L'), L triangular with a positive diagonal.

    Projection averages the first two moments, as for :class:`DiagonalGaussian`; it works on square
    roots (one QR factorisation), so few draws in many dimensions do no harm.

    Reference: Bishop, "Pattern Recognition and Machine Learning", 2006, section 10.7.

    Args:
        dim: size of a draw.
        mean: start of the mean, one number or a vector.
        scale: start of L: one positive number, a vector (its diagonal) or a lower triangular matrix.

    Examples:
        >>> import jax
        >>> from understudy.students import FullGaussian
        >>> student = FullGaussian(2, mean=1.0, scale=0.5)
        >>> student.sample(jax.random.key(1), None, 5).shape
        (5, 2)
    """

    mean: Float[Array, " d"]
    log_diagonal: Float[Array, " d"]
    lower: Float[Array, "d d"]
    dim: int = eqx.field(static=True)

    def __init__(self, dim: int, mean: ArrayLike = 0.0, scale: ArrayLike = 1.0):
        self.dim = dim = whole("dim", dim)
        self.mean = vector("mean", mean, dim)
        scale = number("scale", scale)
        factor = scale if scale.ndim == 2 else jnp.diag(vector("scale", scale, dim))
        if factor.shape != (dim, dim):
            raise IngredientError(f"scale as a matrix has shape {(dim, dim)}; {factor.shape} came.")
        self.log_diagonal = jnp.log(positive("the diagonal of scale", jnp.diag(factor)))
        self.lower = jnp.tril(factor, -1)

    @property
    def factor(self) -> Float[Array, "d d"]:
        """The Cholesky factor L of the covariance."""
        return jnp.tril(self.lower, -1) + jnp.diag(jnp.exp(self.log_diagonal))

    def sample(self, key: Key, x: Condition, n: int) -> Float[Array, "n d"]:
        """Draw mean + L noise."""
        return self.mean + jax.random.normal(key, (n, self.dim)) @ self.factor.T

    def log_prob(self, z: Float[Array, " d"], x: Condition = None) -> Scalar:
        """Log density, by one triangular solve."""
        noise = solve_triangular(self.factor, z - self.mean, lower=True)
        return norm.logpdf(noise).sum() - self.log_diagonal.sum()

    def project(self, lessons: Lesson, rate: Scalar) -> "FullGaussian":
        """Move mean and covariance towards the weighted moments of the improved draws."""
        mean, _, roots = _averaged(self.mean, self.factor, lessons, rate)
        upper = jnp.linalg.qr(roots, mode="r")
        factor = upper.T * jnp.where(jnp.diag(upper) < 0, -1, 1)
        return FullGaussian(self.dim, mean, factor)


class LowRankGaussian(ExplicitStudent, ProjectableStudent):
    """A Gaussian with a few free directions, q(z) = N(z; mean, diag(scale^2) + F F').

    A density takes O(d r^2). Projection averages the first two moments, as for :class:`FullGaussian`,
    and fits them by a few steps of factor analysis that start where the student is.

    Reference: Ong, Nott and Smith, "Gaussian Variational Approximation with a Factor Covariance
    Structure", 2018; Rubin and Thayer, "EM algorithms for ML factor analysis", 1982 (the projection).

    Args:
        dim: size of a draw.
        rank: number of columns of F.
        mean: start of the mean, one number or a vector.
        scale: start of the diagonal, one positive number or a vector; F starts as a tenth of it.

    Examples:
        >>> import jax
        >>> from understudy.students import LowRankGaussian
        >>> student = LowRankGaussian(5, rank=2)
        >>> student.sample(jax.random.key(1), None, 5).shape
        (5, 5)
    """

    mean: Float[Array, " d"]
    log_scale: Float[Array, " d"]
    factor: Float[Array, "d r"]
    dim: int = eqx.field(static=True)

    def __init__(self, dim: int, rank: int, mean: ArrayLike = 0.0, scale: ArrayLike = 1.0):
        self.dim = dim = whole("dim", dim)
        self.mean = vector("mean", mean, dim)
        scale = vector("scale", positive("scale", scale), dim)
        self.log_scale = jnp.log(scale)
        # F = 0 is a saddle point, so F starts as small cosines, which are orthogonal.
        angles = jnp.outer(jnp.arange(dim) + 0.5, jnp.arange(whole("rank", rank)) % dim)
        self.factor = 0.1 * scale[:, None] * jnp.cos(jnp.pi / dim * angles)

    def sample(self, key: Key, x: Condition, n: int) -> Float[Array, "n d"]:
        """Draw mean + scale * noise + F noise'."""
        noise = jax.random.normal(key, (n, self.dim + self.factor.shape[1]))
        own, shared = noise[:, : self.dim], noise[:, self.dim :]
        return self.mean + jnp.exp(self.log_scale) * own + shared @ self.factor.T

    def log_prob(self, z: Float[Array, " d"], x: Condition = None) -> Scalar:
        """Log density by Woodbury's identity, as a sum of squares so that nothing cancels."""
        u = (z - self.mean) * jnp.exp(-self.log_scale)
        v = self.factor * jnp.exp(-self.log_scale)[:, None]
        cholesky = jnp.linalg.cholesky(jnp.eye(v.shape[1]) + v.T @ v)
        shared = cho_solve((cholesky, True), v.T @ u)
        squares = jnp.sum((u - v @ shared) ** 2) + jnp.sum(shared**2)
        log_determinant = 2 * jnp.sum(self.log_scale) + 2 * jnp.sum(jnp.log(jnp.diag(cholesky)))
        return -0.5 * (squares + log_determinant + self.dim * jnp.log(2 * jnp.pi))

    def project(self, lessons: Lesson, rate: Scalar) -> "LowRankGaussian":
        """Move mean and covariance towards the weighted moments of the improved draws."""
        mean, kept, roots = _averaged(self.mean, self.factor, lessons, rate)
        own = jnp.exp(2 * self.log_scale)
        variance, factor = _factor_analysis(own, self.factor, kept * own, roots)
        moved = (mean, 0.5 * jnp.log(variance), factor)
        return eqx.tree_at(
            lambda student: (student.mean, student.log_scale, student.factor), self, moved
        )


def _averaged(
    mean: Float[Array, " d"], factor: Float[Array, "d r"], lessons: Lesson, rate: Scalar
) -> tuple[Float[Array, " d"], Scalar, Float[Array, "m d"]]:
    """The averaged mean, the share of the old covariance, and R; R' R averages F F' with the draws'."""
    rows, weights, rate = pool(lessons, rate)
    centre = weights @ rows
    kept = jnp.maximum(1 - rate, _KEPT)
    roots = [
        jnp.sqrt(kept) * factor.T,
        jnp.sqrt(rate * weights)[:, None] * (rows - centre),
        jnp.sqrt(rate * (1 - rate)) * (centre - mean)[None],
    ]
    return mean + rate * (centre - mean), kept, jnp.concatenate(roots)


def _factor_analysis(
    variance: Float[Array, " d"],
    factor: Float[Array, "d r"],
    own: Float[Array, " d"],
    roots: Float[Array, "m d"],
) -> tuple[Float[Array, " d"], Float[Array, "d r"]]:
    """Steps of expectation-maximisation that fit diag(variance) + F F' to S = diag(own) + R' R.

    S is never made, so a step takes O(m d r).
    """
    total = own + (roots**2).sum(0)

    def step(_, fit):
        variance, factor = fit
        scaled = factor / variance[:, None]
        noise = jnp.linalg.inv(jnp.eye(factor.shape[1]) + factor.T @ scaled)
        gain = scaled @ noise
        crossed = own[:, None] * gain + roots.T @ (roots @ gain)
        moments = noise + gain.T @ crossed
        factor = jnp.linalg.solve(moments, crossed.T).T
        return jnp.maximum(total - (factor * crossed).sum(1), _LEAST_OWN * total), factor

    return jax.lax.fori_loop(0, _STEPS, step, (variance, factor))


class GaussianMixture(ExplicitStudent, StratifiedStudent):
    """A mixture of diagonal Gaussians, q(z) = sum_k pi_k N(z; mean_k, diag(scale_k^2)).

    Reference: Bishop, "Pattern Recognition and Machine Learning", 2006, section 9.2.

    Args:
        key: random key for the means.
        dim: size of a draw.
        components: number of Gaussians.
        spread: standard deviation of the means at the start; scales start at one, weights equal.

    Examples:
        >>> import jax
        >>> from understudy.students import GaussianMixture
        >>> student = GaussianMixture(jax.random.key(0), dim=2, components=3)
        >>> student.sample(jax.random.key(1), None, 5).shape
        (5, 2)
    """

    logits: Float[Array, " k"]
    means: Float[Array, "k d"]
    log_scales: Float[Array, "k d"]
    dim: int = eqx.field(static=True)

    def __init__(self, key: Key, dim: int, components: int, spread: ArrayLike = 3.0):
        self.dim = dim = whole("dim", dim)
        shape = (whole("components", components), dim)
        self.logits = jnp.zeros(components)
        self.means = vector("spread", spread, dim) * jax.random.normal(random_key(key), shape)
        self.log_scales = jnp.zeros(shape)

    def sample(self, key: Key, x: Condition, n: int) -> Float[Array, "n d"]:
        """Draw components at random, then from them."""
        key, gate = jax.random.split(key)
        return self._draw(key, jax.random.categorical(gate, self.logits, shape=(n,)))

    def stratified(
        self, key: Key, x: Condition, n: int
    ) -> tuple[Float[Array, "n d"], Float[Array, " n"]]:
        """Draw from every component, weighed by its probability."""
        branch, weights = stratify(self.logits, n)
        return self._draw(key, branch), weights

    def log_prob(self, z: Float[Array, " d"], x: Condition = None) -> Scalar:
        """Log density, summed over components."""
        within = norm.logpdf(z, self.means, jnp.exp(self.log_scales)).sum(-1)
        return jax.nn.logsumexp(jax.nn.log_softmax(self.logits) + within)

    def _draw(self, key: Key, branch: Array) -> Float[Array, "n d"]:
        noise = jax.random.normal(key, (branch.shape[0], self.dim))
        return self.means[branch] + jnp.exp(self.log_scales)[branch] * noise
