"""A student of nearly standard draws, carried to where the mass lies."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import paramax
from jaxtyping import Array, Float, Scalar

from understudy.checks import instance
from understudy.coordinates import Coordinates
from understudy.core import Condition, ExplicitStudent, IngredientError, Key


class Placed(ExplicitStudent):
    """Draws of a student, or of a standard Gaussian, carried to z by coordinates.

    A standard Gaussian so placed is a Gaussian copula with margins of its own. Where location and
    scale need it, draw under ``jax.enable_x64``: the coordinates are kept in double precision, while the
    inner student works in its own.

    Args:
        coordinates: from nearly standard draws to z.
        inner: draws those; None is the standard Gaussian.
    """

    coordinates: Any
    inner: ExplicitStudent | None
    dim: int = eqx.field(static=True)

    def __init__(self, coordinates: Coordinates, inner: ExplicitStudent | None = None):
        instance("coordinates", Coordinates, "fit_coordinates(draws)", coordinates)
        if inner is not None:
            _check_inner(coordinates, inner)
        self.coordinates = paramax.non_trainable(coordinates)
        self.inner = inner
        self.dim = coordinates.dim

    def sample(self, key: Key, x: Condition, n: int) -> Float[Array, "n d"]:
        """Nearly standard draws, carried to z."""
        if self.inner is None:
            u = jax.random.normal(key, (n, self.dim), jnp.float32)
        else:
            u = self.inner.sample(key, x, n)
        return self._carried().colour(u.astype(jnp.result_type(float)), jnp)[0]

    def log_prob(self, z: Float[Array, " d"], x: Condition = None) -> Scalar:
        """Log density by the change of variables."""
        u, log_volume = self._carried().whiten(z, jnp)
        if self.inner is None:
            inside = jax.scipy.stats.norm.logpdf(u).sum()
        else:
            inside = self.inner.log_prob(u.astype(jnp.float32), x)
        return inside - log_volume

    def _carried(self) -> Coordinates:
        return jax.tree.map(jnp.asarray, paramax.unwrap(self.coordinates))


def _check_inner(coordinates: Coordinates, inner: ExplicitStudent) -> None:
    instance("inner", ExplicitStudent, "CouplingFlow(key, dim)", inner)
    if inner.dim != coordinates.dim:
        raise IngredientError(
            f"inner draws vectors of size {inner.dim} and the coordinates carry size {coordinates.dim}; "
            "build both for one size."
        )
