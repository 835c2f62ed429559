"""Whether a data set is like those that were simulated."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from understudy.amortising.observations import DataSet
from understudy.numerics import AffineMap, whitening

_SPARED = 1e-3
_STEADY = 1e-2


class Novelty(eqx.Module):
    """How far the student's summary of a data set lies from those of simulated ones.

    The distance is Mahalanobis's. One simulation in a thousand lies further out than the limit, or
    nearer than the least distance: data that vary less than the model says are as unlike as those that
    vary more.

    Reference: Schmitt, Bürkner, Köthe and Radev, "Detecting Model Misspecification in Amortized Bayesian
    Inference with Neural Networks", 2023.

    Attributes:
        mean: of the summaries of simulated data sets.
        factor: of their covariance.
        limit: the distance of the most distant ones.
        least: the distance of the nearest ones.
    """

    mean: Float[Array, " m"]
    factor: Float[Array, "m m"]
    limit: Float[Array, ""]
    least: Float[Array, ""]

    def __call__(self, student: Any, data: DataSet) -> Float[np.ndarray, " s"]:
        """How far out, or how far in, every data set lies; above one it is unlike anything simulated."""
        return np.asarray(_novelties(self, student, data), float)


def fit_novelty(student: Any, data: DataSet) -> Novelty:
    """What simulated data sets look like to a student: a half for the map, the other for the limit."""
    seen = np.asarray(_summaries(student, data), float)
    half = len(seen) // 2
    # What never changes in simulations gets a spread of its own; a change would be seen.
    steady = np.random.default_rng(0).normal(size=seen[:half].shape) * _STEADY
    affine = whitening(seen[:half] + steady, shrinkage=0.01)
    least, limit = np.quantile(_distances(affine, seen), [_SPARED / 2, 1 - _SPARED / 2])
    parts = (affine.mean, affine.factor, max(float(limit), 1e-6), float(least))
    return Novelty(*(jnp.asarray(part, jnp.float32) for part in parts))


def _distances(affine: AffineMap, seen: Any) -> Any:
    return (affine.whiten(seen) ** 2).sum(-1) ** 0.5


@eqx.filter_jit
def _summaries(student: Any, data: DataSet) -> Float[Array, "s m"]:
    return jax.lax.map(student.summarise, data, batch_size=256)


# One program: step by step the same takes several milliseconds for a data set.
@eqx.filter_jit
def _novelties(novelty: Novelty, student: Any, data: DataSet) -> Float[Array, " s"]:
    seen = jax.lax.map(student.summarise, data, batch_size=256)
    distance = _distances(AffineMap(novelty.mean, novelty.factor), seen)
    return jnp.maximum(distance / novelty.limit, novelty.least / jnp.maximum(distance, 1e-30))
