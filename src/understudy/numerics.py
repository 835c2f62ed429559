"""What several rooms need: blocks of rows, whitening, kernels of distances, densities, acceptance."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import jax.scipy.linalg
import numpy as np
import scipy.linalg
from jaxtyping import Array, Float, PyTree, Scalar

from understudy.core import BoundLogDensity, Condition, ExplicitStudent, Student, Target
from understudy.devices import in_turn
from understudy.programs import jit_of_few

TINY = 1e-12
ROWS_AT_ONCE = 256
_NUMBERS_AT_ONCE = 2**22
_ROWS_OF_THE_MEDIAN = 500

AnyArray = Array | np.ndarray
Elementwise = Callable[[Float[Array, "*s"]], Float[Array, "*s"]]


# Blocks of rows, in bounded memory.


def in_blocks(function: Callable, *rows: Float[np.ndarray, "n _"], block: int = 4096) -> Any:
    """``function`` of blocks of rows, put together as numpy arrays: one shape, so one compilation.

    Several arrays with as many rows are cut alike. The last block is filled up with copies of the last
    row, which are left out of the result.
    """
    blocks = list(zip(*(row_blocks(part, block) for part in rows), strict=True))
    parts = in_turn(lambda _, some: function(*some), blocks)
    return jax.tree.map(lambda *leaves: np.concatenate(leaves)[: len(rows[0])], *parts)


def row_blocks(z: Float[np.ndarray, "n d"], block: int) -> list[Float[Array, "block d"]]:
    """Rows in blocks of one size and JAX's own precision, the last filled up with its last row."""
    z = np.asarray(z, jnp.result_type(float))
    blocks = [z[i : i + block] for i in range(0, len(z), block)]
    blocks[-1:] = [np.concatenate([b, np.repeat(b[-1:], block - len(b), 0)]) for b in blocks[-1:]]
    # Numpy's views cost nothing; slices of an array of JAX's would each be a program's run.
    return [jnp.asarray(rows) for rows in blocks]


def map_rows(function: Callable[[PyTree], PyTree], rows: PyTree, size: int) -> PyTree:
    """Apply ``function`` to every row, as many at a time as ``size`` numbers a row allow."""
    return jax.lax.map(function, rows, batch_size=max(1, _NUMBERS_AT_ONCE // max(size, 1)))


# Whitening.


class AffineMap(NamedTuple):
    """The map z = mean + L u: what is white in u has this mean and the covariance L L'.

    Of numpy arrays everything is computed by numpy in their precision, of JAX's by JAX.

    Attributes:
        mean: where u = 0 lies.
        factor: the lower triangular matrix L; a vector stands for its diagonal, with nothing else.
    """

    mean: Float[AnyArray, "*b d"]
    factor: Float[AnyArray, "*b d d"] | Float[AnyArray, "*b d"]

    def colour(self, u: Float[AnyArray, "*n d"]) -> Any:
        """From u to z, one point or one a row."""
        return self.mean + (u * self.factor if self.factor.ndim == 1 else u @ self.factor.T)

    def whiten(self, z: Float[AnyArray, "*n d"]) -> Any:
        """From z to u, one point or one a row."""
        centred = z - self.mean
        if self.factor.ndim == 1:
            return centred / self.factor
        linalg: Any = scipy.linalg if isinstance(self.factor, np.ndarray) else jax.scipy.linalg
        return linalg.solve_triangular(self.factor, centred.T, lower=True).T

    @property
    def log_volume(self) -> Any:
        """Log determinant of L."""
        diagonal = self.factor if self.factor.ndim == 1 else self.factor.diagonal()
        return _library(self.factor).log(diagonal).sum()

    def whitened(self, log_density: BoundLogDensity) -> BoundLogDensity:
        """The log density of u for one of z, volume included."""
        return lambda u: log_density(self.colour(u)) + self.log_volume


def whitening(
    z: Float[AnyArray, "n d"],
    kept: AnyArray | None = None,
    shrinkage: Any = 1e-6,
    full: bool = True,
) -> AffineMap:
    """The map to coordinates in which draws have mean zero and unit covariance.

    Args:
        z: the draws.
        kept: which of them to use; None uses all, and they are finite then.
        shrinkage: the share of the correlations that is given up, so that few draws, or draws in a
            subspace, have a factor too.
        full: whether to whiten correlations, or scales alone.
    """
    xp = _library(z)
    used = (xp.ones(len(z), bool) if kept is None else kept)[:, None]
    n, rows = xp.maximum(used.sum(), 1), xp.where(used, z, 0)
    mean = rows.sum(0) / n
    centred = xp.where(used, rows - mean, 0)
    least = 10 * xp.finfo(z.dtype).eps * (1 + xp.abs(rows).max(0))
    scale = xp.maximum(xp.sqrt((centred**2).sum(0) / n), least)
    if not full:
        return AffineMap(mean, scale)
    standard = centred / scale
    correlation = (1 - shrinkage) * (standard.T @ standard) / n + shrinkage * xp.eye(len(mean))
    return AffineMap(mean, scale[:, None] * xp.linalg.cholesky(correlation))


def _library(array: AnyArray) -> Any:
    return np if isinstance(array, np.ndarray) else jnp


# Distances and kernels of them.


def squared_distances(a: Float[Array, "n d"], b: Float[Array, "m d"]) -> Float[Array, "n m"]:
    """Squared Euclidean distance of every row of ``a`` to every row of ``b``."""
    return jnp.sum((a[:, None, :] - b[None, :, :]) ** 2, axis=-1)


def median_distance(z: Float[Array, "n d"]) -> Scalar:
    """The median distance between two draws (of at most 500, evenly picked)."""
    picked = z[:: -(-z.shape[0] // _ROWS_OF_THE_MEDIAN)]
    distances = jnp.sqrt(squared_distances(picked, picked))
    without_diagonal = jnp.sort(distances.ravel())[picked.shape[0] :]
    return jnp.median(without_diagonal)


def smooth_root(square: Float[Array, "..."]) -> Float[Array, "..."]:
    """A square root whose gradient at zero is finite, so that of a norm is zero there."""
    return jnp.sqrt(square + TINY)


def _gaussian(square: Float[Array, "*s"]) -> Float[Array, "*s"]:
    return jnp.exp(-square / 2)


def _laplace(square: Float[Array, "*s"]) -> Float[Array, "*s"]:
    return jnp.exp(-smooth_root(square))


def _inverse_multiquadric(square: Float[Array, "*s"]) -> Float[Array, "*s"]:
    return 1 / jnp.sqrt(1 + square)


def _multiscale(square: Float[Array, "*s"]) -> Float[Array, "*s"]:
    return jnp.exp(-square[..., None] / 2 * 4.0 ** jnp.arange(-2, 3)).mean(-1)


RADIAL: dict[str, Elementwise] = {
    "gaussian": _gaussian,
    "laplace": _laplace,
    "imq": _inverse_multiquadric,
    "multiscale": _multiscale,
}
"""Radial kernels as functions of the squared distance over the squared bandwidth."""


def radial_kernel(name: str, bandwidth: Any) -> Elementwise:
    """The radial kernel of this name and bandwidth h, as a function of the squared distance r^2.

    "gaussian" is exp(-r^2 / 2h^2), "laplace" exp(-r / h), "imq" (1 + r^2 / h^2)^(-1/2), and "multiscale"
    the mean of Gaussian ones at h/4, h/2, h, 2h and 4h.
    """
    square = jnp.asarray(bandwidth) ** 2
    return lambda squares: RADIAL[name](squares / square)


def stein_kernel(
    radial: Elementwise,
    z: Float[Array, " d"],
    other: Float[Array, " d"],
    score: Float[Array, " d"],
    other_score: Float[Array, " d"],
) -> Scalar:
    """The kernel whose mean over draws z, z' is zero if either follows the target.

    With s the score and k(z, z') = radial(|z - z'|^2),

    k_p(z, z') = s . s' k + s . grad_z' k + s' . grad_z k + tr grad_z grad_z' k.

    Reference: Gorham and Mackey, "Measuring Sample Quality with Kernels", 2017.
    """
    difference = z - other
    square = difference @ difference
    value, slope = jax.value_and_grad(radial)(square)
    curvature = jax.grad(jax.grad(radial))(square)
    drift = 2 * slope * ((other_score - score) @ difference)
    trace = -2 * z.size * slope - 4 * square * curvature
    return score @ other_score * value + drift + trace


# Densities at draws.


def log_standard(u: Float[AnyArray, "*n d"]) -> Any:
    """Log density of a standard Gaussian, at one point or at every row."""
    return -0.5 * (u**2).sum(-1) - 0.5 * u.shape[-1] * np.log(2 * np.pi)


class Densities(NamedTuple):
    """Log density of the target and of the student (None for wild students) at draws."""

    target: Float[AnyArray, " n"]
    student: Float[AnyArray, " n"] | None


@jit_of_few
def log_densities(
    target: Target, student: Student, z: Float[Array, "n d"], x: Condition = None
) -> Densities:
    """Both log densities at draws, as one program in bounded memory."""

    def both(z):
        log_q = student.log_prob(z, x) if isinstance(student, ExplicitStudent) else None
        return Densities(target.log_density(z, x), log_q)

    return jax.lax.map(both, z, batch_size=ROWS_AT_ONCE)


def independence_acceptance(log_weights: Float[np.ndarray, " n"]) -> float:
    """Acceptance of independence Metropolis moves in equilibrium, E min(w, w') / E w for w = p / q.

    It is one for the target itself, and zero where no draw of the student has a finite weight.
    """
    usable = np.where(np.isnan(log_weights), -np.inf, log_weights)
    if not np.isfinite(usable.max()):
        return 0.0
    w = np.sort(np.exp(usable - usable.max()))
    n = len(w)
    return float(w @ np.arange(2 * n - 1, 0, -2) / n**2 / w.mean())


def effective_draws(log_weights: Float[Array, " n"]) -> Scalar:
    """How many draws of equal weight would do as well, (sum w)^2 / sum w^2."""
    return jnp.exp(2 * jax.nn.logsumexp(log_weights) - jax.nn.logsumexp(2 * log_weights))
