"""Sums over all pairs of draws, a few rows at a time, so that 20,000 draws fit in memory."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Float, PyTree, Scalar

from understudy.checks import one_of

_NUMBERS_AT_ONCE = 2**22
_ROWS_OF_THE_MEDIAN = 500

Radial = Callable[[Array], Array]


def _gaussian(square: Array) -> Array:
    return jnp.exp(-square / 2)


def _inverse_multiquadric(square: Array) -> Array:
    return (1 + square) ** -0.5


KERNELS: dict[str, Radial] = {"gaussian": _gaussian, "imq": _inverse_multiquadric}
"""Radial kernels as functions of the squared distance over the squared bandwidth."""


def median_distance(z: Float[Array, "n d"]) -> Scalar:
    """The median distance between two draws (of at most 500, evenly picked)."""
    picked = z[:: -(-z.shape[0] // _ROWS_OF_THE_MEDIAN)]
    distances = jnp.linalg.norm(picked[:, None] - picked, axis=-1)
    without_diagonal = jnp.sort(distances.ravel())[picked.shape[0] :]
    return jnp.median(without_diagonal)


def resolve_bandwidth(kernel: str, bandwidth: ArrayLike | None, z: Float[Array, "n d"]) -> Array:
    """The given bandwidth, else the median distance for the Gaussian kernel and 1 for the other."""
    one_of("kernel", tuple(KERNELS), kernel)
    if bandwidth is not None:
        return jnp.asarray(bandwidth)
    return median_distance(z) if kernel == "gaussian" else jnp.ones(())


def map_rows(function: Callable[[PyTree], PyTree], rows: PyTree, size: int) -> PyTree:
    """Apply ``function`` to every row, as many at a time as ``size`` numbers a row allow."""
    return jax.lax.map(function, rows, batch_size=max(1, _NUMBERS_AT_ONCE // max(size, 1)))
