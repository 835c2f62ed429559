"""Numbers that teachers share: checked once, kept as array leaves, moved towards an acceptance."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Scalar

from understudy.core import IngredientError, LogDensity


def positive(name: str, value: Any) -> Float[Array, "..."]:
    """A positive number as a leaf."""
    if _fails(value, lambda v: (v > 0) & np.isfinite(v)):
        raise IngredientError(f"{name} must be positive and finite, such as 0.1; {value} came.")
    return jnp.asarray(value, dtype=float)


def count(name: str, value: Any, least: int = 1) -> Int[Array, "..."]:
    """A whole number, ``least`` or more, as a leaf."""
    if _fails(value, lambda v: (v >= least) & (v == np.round(v))):
        raise IngredientError(f"{name} must be a whole number, {least} or more; {value} came.")
    return jnp.asarray(value, dtype=jnp.int32)


def fraction(name: str, value: Any) -> Float[Array, "..."]:
    """A number strictly between 0 and 1 as a leaf."""
    if _fails(value, lambda v: (v > 0) & (v < 1)):
        raise IngredientError(f"{name} must lie between 0 and 1, such as 0.6; {value} came.")
    return jnp.asarray(value, dtype=float)


def moved(
    step_size: Float[Array, "..."],
    acceptance: Scalar,
    target: Scalar,
    rate: Scalar,
    largest: Scalar | None = None,
) -> Float[Array, "..."]:
    """A step size nearer to the acceptance a wanted: log step += rate (a - t) / (t (1 - t))."""
    change = rate * (acceptance - target) / (target * (1 - target))
    change = jnp.where(jnp.isfinite(change), change, 0.0)
    return jnp.clip(step_size * jnp.exp(change), 1e-10, largest)


def finite_at(log_density: LogDensity, z: Float[Array, "n d"]) -> Bool[Array, " n"]:
    """Which draws have finite coordinates and a finite log density."""
    return jnp.isfinite(z).all(-1) & jnp.isfinite(jax.vmap(log_density)(z))


def _fails(value: Any, holds: Any) -> bool:
    if isinstance(value, jax.core.Tracer):
        return False
    return not bool(np.all(holds(np.asarray(value))))
