"""Draws of a model's prior, as places to begin."""

from typing import Any

import jax
import numpy as np
from jaxtyping import Float

from understudy.core import Target


def prior_draws(target: Target, seed: int, count: int) -> Float[np.ndarray, "n d"]:
    """Unconstrained draws of the prior of a NumPyro model; none for other targets.

    Args:
        target: made of a model, or not.
        seed: of the draws.
        count: how many are tried; those that are not finite are left out.
    """
    nothing = np.zeros((0, target.dim))
    if type(target).__module__ != "understudy.targets.numpyro":
        return nothing
    try:
        keys = jax.random.split(jax.random.key(seed), count)
        z = np.asarray(jax.jit(jax.vmap(_one(target)))(keys), float)
    except Exception:  # a model that cannot be run forward is no reason to stop
        return nothing
    return z[np.isfinite(z).all(1)]


def _one(target: Any) -> Any:
    from numpyro.handlers import seed as seeded
    from numpyro.handlers import trace

    args, kwargs = target.arguments
    names = [site.name for site in target.sites]

    def draw(key: Any) -> Any:
        run = trace(seeded(target.model, key)).get_trace(*args, **kwargs)
        return target.unconstrain({name: run[name]["value"] for name in names})

    return draw
