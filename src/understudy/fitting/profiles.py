"""Whether the mass at far values of one coordinate falls off, all others integrated out.

A scale without a proper prior is improper where no line shows it: towards zero its effects gather in
ever less room at an ever higher density, towards infinity they spread at an ever lower one. The mass at
a value of the scale is what tells, and Laplace's formula gives it up to a factor that no longer changes
far out: the density at the best place of the others over the root of its curvature there.
"""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from understudy.core import IngredientError, Target
from understudy.fitting.improper import DEEP, SLACK, improper
from understudy.numerics import AnyArray
from understudy.surroundings import double_precision, in_double

# Distances from the middle of the chains, in their deviations, and how many of them must tell.
_LADDER = 1.5 * 2 ** np.arange(0.0, 5.5, 0.25)
_LEAST = 4
# The least eigenvalue that a curvature in units of its diagonal may have: below it, rounding speaks.
_ROUNDED = 1e-11
# Steps of Newton's method at every distance, how they may be shortened, and where they have arrived.
_STEPS, _LENGTHS, _ARRIVED = 20, (1.0, 0.3, 0.1, 0.01, 0.0), 1e-6
# Beyond so many dimensions, the curvatures of all coordinates at all distances take too long.
_MOST = 64
_POINTS, _TOGETHER = 2, 8


def check_profiles(target: Target, z: Float[np.ndarray, "n d"]) -> None:
    """Refuse a density whose mass does not fall off along a coordinate.

    Args:
        target: what it is a density of.
        z: draws of chains.
    """
    d = z.shape[1]
    scale = z.std(0)
    if d > _MOST or not ((scale > 0) & np.isfinite(scale)).all():
        return
    points = z[np.linspace(0, len(z) - 1, _POINTS).astype(int)]
    points = np.stack([np.where(np.eye(d, dtype=bool), np.median(z, 0), point) for point in points])
    with double_precision():
        mass = np.asarray(_profiles(in_double(target), points, scale))
    endless = _endless(mass).all(0).any(-1)
    if endless.any():
        raise IngredientError(
            improper(f"along coordinate {int(np.argmax(endless))}, the others integrated out")
        )


def _endless(mass: Float[np.ndarray, "... rungs"]) -> Bool[np.ndarray, "..."]:
    """Whether a mass falls no faster than 1/r, as far as it is known; the first rung is the middle."""
    middle, far = mass[..., :1], mass[..., 1:]
    known = np.cumprod(np.isfinite(far), -1).astype(bool)
    with np.errstate(invalid="ignore"):
        slow = np.diff(far, axis=-1) / np.diff(np.log(_LADDER)) > -1 - SLACK
        high = far > middle - DEEP
    return (known.sum(-1) >= _LEAST) & (slow | ~known[..., 1:]).all(-1) & (high | ~known).all(-1)


@eqx.filter_jit
def _profiles(
    target: Target, points: Float[AnyArray, "p d d"], scale: Float[AnyArray, " d"]
) -> Float[Array, "p d 2 rungs"]:
    """Logarithms of the mass in the middle of every coordinate and at the distances to both sides.

    Args:
        target: whose density it is.
        points: places to begin at; the i-th of a point has the i-th coordinate in the middle.
        scale: deviations of the coordinates.
    """
    p, d, _ = points.shape
    ladder = jnp.concatenate([jnp.zeros(1), jnp.asarray(_LADDER)])

    def profile(which: Any) -> Float[Array, " rungs"]:
        point, i, side = which
        away = side * scale[i] * ladder
        return jax.lax.scan(
            lambda place, far: _mass(target.log_density, place.at[i].set(point[i] + far), i), point, away
        )[1]

    i = jnp.tile(jnp.repeat(jnp.arange(d), 2), p)
    side = jnp.tile(jnp.array([-1.0, 1.0]), p * d)
    every = (jnp.repeat(points.reshape(p * d, d), 2, 0), i, side)
    return jax.lax.map(profile, every, batch_size=_TOGETHER).reshape(p, d, 2, -1)


def _mass(
    log_density: Callable, place: Float[Array, " d"], held: Any
) -> tuple[Float[Array, " d"], Float[Array, ""]]:
    """The best place of all coordinates but one, and the logarithm of the mass around it, or NaN."""
    free = jnp.arange(len(place)) != held
    pairs = free[:, None] & free[None, :]
    lengths = jnp.asarray(_LENGTHS)

    def newton(place: Array) -> tuple[Array, Array, Array]:
        slope = jnp.where(free, jax.grad(log_density)(place), 0.0)
        curvature = jnp.where(pairs, -jax.hessian(log_density)(place), jnp.eye(len(place)))
        # Coordinates of very different scales are brought to one before anything is solved.
        units = 1 / jnp.sqrt(jnp.maximum(jnp.diagonal(curvature), 1e-300))
        values, vectors = jnp.linalg.eigh(curvature * units * units[:, None])
        step = units * (vectors @ ((slope * units) @ vectors / values))
        volume = jnp.log(values).sum() - 2 * jnp.log(units).sum()
        return step, jnp.abs(step @ slope), jnp.where(values[0] > _ROUNDED, volume, jnp.nan)

    def climb(place: Array, _: None) -> tuple[Array, None]:
        tried = place + lengths[:, None] * newton(place)[0]
        log_p = jax.vmap(log_density)(tried)
        return tried[jnp.argmax(jnp.where(jnp.isfinite(log_p), log_p, -jnp.inf))], None

    place = jax.lax.scan(climb, place, None, length=_STEPS)[0]
    _, left, volume = newton(place)
    mass = log_density(place) - volume / 2
    return place, jnp.where(left < _ARRIVED, mass, jnp.nan)
