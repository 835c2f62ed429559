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

    The distance is Mahalanobis's, over the distance that one simulation in a thousand exceeds.

    Reference: Schmitt, Bürkner, Köthe and Radev, "Detecting Model Misspecification in Amortized Bayesian
    Inference with Neural Networks", 2023.

    Attributes:
        mean: of the summaries of simulated data sets.
        factor: of their covariance.
        limit: the distance of the most distant ones.
    """

    mean: Float[Array, " m"]
    factor: Float[Array, "m m"]
    limit: Float[Array, ""]

    def __call__(self, student: Any, data: DataSet) -> Float[np.ndarray, " s"]:
        """The distance of every data set; above one it is unlike anything simulated."""
        distance = _distances(AffineMap(self.mean, self.factor), _summaries(student, data))
        return np.asarray(distance / self.limit, float)


def fit_novelty(student: Any, data: DataSet) -> Novelty:
    """What simulated data sets look like to a student: a half for the map, the other for the limit."""
    seen = np.asarray(_summaries(student, data), float)
    half = len(seen) // 2
    # What never changes in simulations gets a spread of its own; a change would be seen.
    steady = np.random.default_rng(0).normal(size=seen[:half].shape) * _STEADY
    affine = whitening(seen[:half] + steady, shrinkage=0.01)
    limit = np.quantile(_distances(affine, seen), 1 - _SPARED)
    parts = (affine.mean, affine.factor, max(float(limit), 1e-6))
    return Novelty(*(jnp.asarray(part, jnp.float32) for part in parts))


def _distances(affine: AffineMap, seen: Any) -> Any:
    return (affine.whiten(seen) ** 2).sum(-1) ** 0.5


@eqx.filter_jit
def _summaries(student: Any, data: DataSet) -> Float[Array, "s m"]:
    return jax.lax.map(student.summarise, data, batch_size=256)
