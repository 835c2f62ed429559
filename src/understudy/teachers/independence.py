"""Independence Metropolis with the student as the proposal."""

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int

from understudy.checks import count
from understudy.core import BoundLogDensity, Draws, Improved, IngredientError, Key, Proposal, numbered
from understudy.teachers.common import FixedTeacher


class IndependenceMetropolis(FixedTeacher):
    """Replace z by a fresh draw z' of the student with probability min(1, p(z') q(z) / (p(z) q(z'))).

    The only simple move that teaches mode weights, since it jumps anywhere the student goes. The last
    proposals are handed on as control variates: where they are accepted they cancel in the inclusive KL,
    so its noise vanishes as the student approaches the target.

    Reference: Tierney, "Markov chains for exploring posterior distributions", 1994.

    Args:
        steps: the number of moves T.

    Examples:
        >>> import jax
        >>> from understudy.core import bind
        >>> from understudy.students import FullGaussian
        >>> from understudy.teachers import IndependenceMetropolis
        >>> teacher, proposal = IndependenceMetropolis(steps=3), bind(FullGaussian(2), None)
        >>> start = jax.numpy.ones((5, 2))
        >>> teacher.improve(jax.random.key(0), lambda z: -0.5 * z @ z, start, proposal).z.shape
        (5, 2)
    """

    space = "any"
    deterministic = False

    steps: Int[Array, "..."]

    def __init__(self, steps: Any = 1):
        self.steps = count("steps", steps)

    def improve(self, key: Key, log_density: BoundLogDensity, z: Draws, proposal: Proposal) -> Improved:
        """Offer every chain T draws of the student."""
        log_prob = proposal.log_prob
        if log_prob is None:
            raise IngredientError(
                "IndependenceMetropolis needs a student with a density (log_prob) and this one has "
                "none; use TemperedTransition() to carry draws between modes without a density."
            )
        log_weight = jax.vmap(lambda z: log_density(z) - log_prob(z))
        n = z.shape[0]

        def move(i, carry):
            z, weight, start, _, total = carry
            first = i == 0
            draw_key, test_key = jax.random.split(numbered(key, i))
            # The first turn weighs the start itself, so that the densities are compiled once.
            candidate = jnp.where(first, z, proposal.sample(draw_key, n))
            candidate_weight = log_weight(candidate)
            log_ratio = jnp.minimum(candidate_weight - weight, 0.0)
            probability = jnp.nan_to_num(jnp.exp(log_ratio))
            accept = first | (jax.random.uniform(test_key, (n,)) < probability)
            z = jnp.where(accept[:, None], candidate, z)
            weight = jnp.where(accept, candidate_weight, weight)
            start = jnp.where(first, weight, start)
            return z, weight, start, candidate, total + jnp.where(first, 0.0, probability)

        carry = (z, jnp.zeros(n), jnp.zeros(n), z, jnp.zeros(n))
        end, weight, start, control, total = jax.lax.fori_loop(0, self.steps + 1, move, carry)
        finite = jnp.isfinite(start) & jnp.isfinite(weight) & jnp.isfinite(end).all(-1)
        return Improved(end, finite, total / self.steps, None, control)
