"""What teachers share: step sizes moved towards an acceptance, and where chains are finite."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Scalar

from understudy.core import BoundLogDensity


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


def finite_at(log_density: BoundLogDensity, z: Float[Array, "n d"]) -> Bool[Array, " n"]:
    """Which draws have finite coordinates and a finite log density."""
    return jnp.isfinite(z).all(-1) & jnp.isfinite(jax.vmap(log_density)(z))
