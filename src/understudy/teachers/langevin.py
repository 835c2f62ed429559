"""Langevin dynamics without an accept test; with one they are :func:`~understudy.teachers.mala`."""

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from understudy.checks import count, optional, positive
from understudy.core import BoundLogDensity, Draws, Improved, Key, Proposal, numbered
from understudy.teachers.common import FixedTeacher, finite_at


class Langevin(FixedTeacher):
    """T unadjusted Langevin steps, z' = z + eps grad log p(z) + sqrt(2 eps) noise.

    Biased: there is no accept test, so the chain settles near the target, the nearer the smaller eps.

    Reference: Roberts and Tweedie, "Exponential convergence of Langevin distributions", 1996.

    Args:
        step_size: eps; stable while it is below 2 / (largest curvature of -log p).
        steps: the number of steps T.
        drift_bound: the longest move eps grad log p may make, a guard against steps that are too large.

    Examples:
        >>> import jax
        >>> from understudy.core import bind
        >>> from understudy.students import FullGaussian
        >>> from understudy.teachers import Langevin
        >>> teacher, proposal = Langevin(0.1, steps=5), bind(FullGaussian(2), None)
        >>> start = jax.numpy.ones((5, 2))
        >>> teacher.improve(jax.random.key(0), lambda z: -0.5 * z @ z, start, proposal).z.shape
        (5, 2)
    """

    space = "continuous"
    deterministic = False

    step_size: Float[Array, "..."]
    steps: Int[Array, "..."]
    drift_bound: Float[Array, "..."] | None

    def __init__(self, step_size: Any = 0.1, steps: Any = 1, drift_bound: Any = None):
        self.step_size = positive("step_size", step_size)
        self.steps = count("steps", steps)
        self.drift_bound = optional(positive, "drift_bound", drift_bound)

    def improve(self, key: Key, log_density: BoundLogDensity, z: Draws, proposal: Proposal) -> Improved:
        """Run T steps of every chain."""
        del proposal

        def step(i, z):
            noise = jax.random.normal(numbered(key, i), z.shape)
            drift = self._drift(jax.vmap(jax.grad(log_density))(z))
            return z + drift + jnp.sqrt(2 * self.step_size) * noise

        end = jax.lax.fori_loop(0, self.steps, step, z)
        return Improved(end, finite_at(log_density, z) & finite_at(log_density, end))

    def _drift(self, gradient: Float[Array, "n d"]) -> Float[Array, "n d"]:
        drift = self.step_size * gradient
        if self.drift_bound is None:
            return drift
        length = jnp.linalg.norm(drift, axis=-1, keepdims=True)
        return drift * self.drift_bound / jnp.maximum(length, self.drift_bound)
