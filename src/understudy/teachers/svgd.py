"""Stein variational gradient descent."""

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Scalar

from understudy.checks import count, optional, positive
from understudy.core import BoundLogDensity, Draws, Improved, Key, Proposal
from understudy.numerics import squared_distances
from understudy.teachers.common import FixedTeacher, finite_at


class SVGD(FixedTeacher):
    """T steps along the direction, in a kernel space, that brings the particles fastest to the target.

    z_i' = z_i + eps mean_j [k(z_j, z_i) grad log p(z_j) + grad_j k(z_j, z_i)] with
    k(y, z) = exp(-|y - z|^2 / h). It is deterministic, and the particles need each other: use many.

    Reference: Liu and Wang, "Stein variational gradient descent", 2016.

    Args:
        step_size: eps.
        steps: the number of steps T.
        bandwidth: h; None takes the median of the squared distances over log(n + 1) at every step.

    Examples:
        >>> import jax
        >>> from understudy.core import bind
        >>> from understudy.students import FullGaussian
        >>> from understudy.teachers import SVGD
        >>> teacher, proposal = SVGD(0.1), bind(FullGaussian(2), None)
        >>> start = jax.numpy.ones((5, 2))
        >>> teacher.improve(jax.random.key(0), lambda z: -0.5 * z @ z, start, proposal).z.shape
        (5, 2)
    """

    space = "continuous"
    deterministic = True

    step_size: Float[Array, "..."]
    steps: Int[Array, "..."]
    bandwidth: Float[Array, "..."] | None

    def __init__(self, step_size: Any = 0.1, steps: Any = 1, bandwidth: Any = None):
        self.step_size = positive("step_size", step_size)
        self.steps = count("steps", steps)
        self.bandwidth = optional(positive, "bandwidth", bandwidth)

    def improve(self, key: Key, log_density: BoundLogDensity, z: Draws, proposal: Proposal) -> Improved:
        """Move all particles together; those that are not finite move nobody."""
        del key, proposal
        usable = finite_at(log_density, z)
        score = jax.vmap(jax.grad(log_density))

        def step(_, z):
            direction = self._direction(z, score(z), usable)
            return z + self.step_size * jnp.where(usable[:, None], direction, 0.0)

        end = jax.lax.fori_loop(0, self.steps, step, z)
        return Improved(end, usable & finite_at(log_density, end))

    def _direction(
        self, z: Float[Array, "n d"], score: Float[Array, "n d"], usable: Array
    ) -> Float[Array, "n d"]:
        safe = jnp.where(usable[:, None], z, 0.0)
        squares = squared_distances(safe, safe)
        width = self._width(squares, usable)
        kernel = jnp.where(usable[:, None], jnp.exp(-squares / width), 0.0)
        attraction = kernel.T @ jnp.where(usable[:, None], score, 0.0)
        repulsion = 2 / width * (safe * kernel.sum(0)[:, None] - kernel.T @ safe)
        return (attraction + repulsion) / jnp.maximum(usable.sum(), 1)

    def _width(self, squares: Float[Array, "n n"], usable: Array) -> Scalar:
        if self.bandwidth is not None:
            return self.bandwidth
        pairs = usable[:, None] & usable[None] & ~jnp.eye(len(squares), dtype=bool)
        median = jnp.nanmedian(jnp.where(pairs, squares, jnp.nan))
        return jnp.maximum(jnp.nan_to_num(median), 1e-6) / jnp.log(usable.sum() + 1.0)
