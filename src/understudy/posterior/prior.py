"""Draws of a model's prior, as places to begin and to compare with."""

import jax
import numpy as np
from jaxtyping import Float

from understudy.core import HasPrior, Target


def prior_draws(target: Target, seed: int, count: int) -> Float[np.ndarray, "n d"]:
    """Unconstrained draws of the prior; none where the target does not know it.

    Args:
        target: made of a model, or not.
        seed: of the draws.
        count: how many are tried; those that are not finite are left out.
    """
    nothing = np.zeros((0, target.dim))
    if not isinstance(target, HasPrior):
        return nothing
    try:
        keys = jax.random.split(jax.random.key(seed), count)
        z = np.asarray(jax.jit(jax.vmap(target.draw_prior))(keys), float)
    except Exception:  # a model that cannot be run forward is no reason to stop
        return nothing
    return z[np.isfinite(z).all(1)]
