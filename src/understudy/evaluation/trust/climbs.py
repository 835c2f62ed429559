"""Climbs from dispersed starts to the peaks of a target, in coordinates where the student is white."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Bool, Float, Int

from understudy.core import Condition, Target
from understudy.evaluation.trust.moves import BLOCK, Moved
from understudy.numerics import in_blocks
from understudy.programs import jit_of_few

OWN, BLOWN, ROUND = 48, 64, 72
STEPS = 300
_RATE = 0.3
_NUDGE = 0.03
_NEWTONS = 4
_STEEP = 0.1


class Slope(NamedTuple):
    """The log density of a target in whitened coordinates, by one program for blocks of points."""

    target: Target
    x: Condition
    mean: Float[Array, " d"]
    factor: Float[Array, "d d"]

    def climb(
        self, u: Float[np.ndarray, "m d"], steps: int = STEPS
    ) -> tuple[Float[np.ndarray, "m d"], Float[np.ndarray, " m"], Float[np.ndarray, "m d"]]:
        """Ends of climbs, and the log density and its gradient there; no steps only evaluate."""

        def climbed(points):
            return _climb(self.target, self.x, self.mean, self.factor, points, jnp.array(steps))

        found = in_blocks(climbed, u, block=BLOCK)
        return jax.tree.map(lambda values: values.astype(float), found)

    def curvature(self, u: Float[np.ndarray, "m d"]) -> Float[np.ndarray, "m d d"]:
        """Minus the Hessian by central differences of gradients."""
        m, d = u.shape
        nudges = _NUDGE * np.concatenate([np.eye(d), -np.eye(d)])
        _, _, gradients = self.climb((u[:, None] + nudges).reshape(-1, d), 0)
        up, down = np.split(gradients.reshape(m, 2 * d, d), 2, axis=1)
        hessian = (up - down) / (2 * _NUDGE)
        return -(hessian + hessian.swapaxes(1, 2)) / 2


@jit_of_few
def _climb(
    target: Target,
    x: Condition,
    mean: Float[Array, " d"],
    factor: Float[Array, "d d"],
    u: Float[Array, "m d"],
    steps: Int[Array, ""],
) -> tuple[Float[Array, "m d"], Float[Array, " m"], Float[Array, "m d"]]:
    evaluate = jax.vmap(jax.value_and_grad(lambda u: target.log_density(mean + factor @ u, x)))
    optimiser = optax.adam(optax.cosine_decay_schedule(-_RATE, STEPS), b2=0.9)

    def step(_, carry):
        u, memory, *_ = carry
        value, gradient = evaluate(u)
        usable = jnp.isfinite(gradient).all(-1, keepdims=True)
        updates, memory = optimiser.update(jnp.where(usable, gradient, 0.0), memory)
        moved: Any = optax.apply_updates(u, updates)
        return jnp.where(steps > 0, moved, u), memory, value, gradient

    start = (u, optimiser.init(u), jnp.zeros(u.shape[0]), u)
    end, _, value, gradient = jax.lax.fori_loop(0, jnp.maximum(steps, 1), step, start)
    return end, value, gradient


class Peak(NamedTuple):
    """A local maximum in whitened coordinates with the Gaussian of its curvature.

    Attributes:
        place: where it is.
        value: log density there.
        factor: Cholesky factor of the inverse of minus the Hessian.
        own: whether climbs from the student's draws lead there.
    """

    place: Float[np.ndarray, " d"]
    value: float
    factor: Float[np.ndarray, "d d"]
    own: bool

    def log_gaussian(self, u: Float[np.ndarray, "n d"]) -> Float[np.ndarray, " n"]:
        """The parabola of the log density at its peak."""
        noise = np.linalg.solve(self.factor, (u - self.place).T)
        return self.value - (noise**2).sum(0) / 2


def starts(generator: np.random.Generator, moved: Moved) -> Float[np.ndarray, "m d"]:
    """Whitened starts: the student's draws, the same blown up, a wide Gaussian, a box around zero."""
    n, d = moved.before.shape
    draws = moved.scale.whiten(moved.before[generator.integers(0, n, OWN + BLOWN)])
    draws[OWN:] *= generator.uniform(3, 10, (BLOWN, 1))
    wide = generator.uniform(2, 8, (ROUND, 1)) * generator.normal(size=(ROUND, d))
    box = generator.uniform(-2, 2, (BLOCK - OWN - BLOWN - ROUND, d))
    return np.concatenate([draws, wide, moved.scale.whiten(box)])


def peaks_at(
    slope: Slope, u: Float[np.ndarray, "m d"], own: Bool[np.ndarray, " m"], apart: float
) -> list[Peak]:
    """Newton steps, then those points that are converged maxima, each once."""
    for _ in range(_NEWTONS):
        _, value, gradient = slope.climb(u, 0)
        move = _newton(slope.curvature(u), gradient)
        better = slope.climb(u + move, 0)[1] > value
        u = np.where(better[:, None], u + move, u)
    _, value, gradient = slope.climb(u, 0)
    found: list[Peak] = []
    for place, height, g, curve, mine in zip(u, value, gradient, slope.curvature(u), own, strict=True):
        if not np.isfinite(curve).all() or np.linalg.eigvalsh(curve).min() < 1e-4:
            continue
        new = all(np.linalg.norm(place - peak.place) > apart / 2 for peak in found)
        if new and g @ np.linalg.solve(curve, g) < _STEEP:
            factor = np.linalg.cholesky(np.linalg.inv(curve))
            found.append(Peak(place, float(height), factor, bool(mine)))
    return found


def _newton(curvature: Float[np.ndarray, "m d d"], gradient: np.ndarray) -> np.ndarray:
    usable = np.asarray(np.isfinite(curvature).all((1, 2)) & np.isfinite(gradient).all(1))
    safe = np.where(usable[:, None, None], curvature, np.eye(gradient.shape[1]))
    values, vectors = np.linalg.eigh(safe)
    along = np.einsum("mji,mj->mi", vectors, np.where(usable[:, None], gradient, 0))
    move = np.einsum("mij,mj->mi", vectors, along / np.maximum(np.abs(values), 1e-2))
    return move * np.minimum(1, 1 / np.maximum(np.linalg.norm(move, axis=1, keepdims=True), 1e-12))
