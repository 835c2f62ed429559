"""Several divergences at once."""

from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree, Scalar

from understudy.checks import positive, shown
from understudy.core import Condition, Divergence, IngredientError, Key, Lesson, Student, Target, Teacher


class WeightedSum(Divergence):
    """A weighted sum of divergences, sum_i w_i D_i[q_T, q], each with its own critic if it has one.

    ``WeightedSum([(1.0, ExclusiveKL()), (0.1, InclusiveKL())])`` seeks the mode by the target and covers
    its mass by the teacher's draws. Weights are leaves: another weight compiles nothing again.

    Reference: Minka, "Divergence measures and message passing", 2005 (what each divergence sees).

    Args:
        terms: pairs of a positive weight and a divergence.
    """

    weights: tuple[Float[Array, ""], ...]
    divergences: tuple[Divergence, ...]
    critic_steps: int = eqx.field(static=True)

    def __init__(self, terms: Sequence[tuple[Any, Divergence]]):
        if not _are_terms(terms):
            raise IngredientError(
                "WeightedSum takes pairs of a weight and a divergence, such as [(1.0, ExclusiveKL()), "
                f"(0.1, InclusiveKL())]; {shown(terms)} came."
            )
        self.weights = tuple(positive("weight", weight) for weight, _ in terms)
        self.divergences = tuple(divergence for _, divergence in terms)
        self.critic_steps = max(divergence.critic_steps for divergence in self.divergences)

    def check(self, target: Target, student: Student, teacher: Teacher) -> None:
        """The ingredients have to suit every divergence."""
        for divergence in self.divergences:
            divergence.check(target, student, teacher)

    def init(self, key: Key, dim: int, x: Condition) -> PyTree:
        """The critics in a tuple, None where there is none; None if nobody has one."""
        keys = jax.random.split(key, len(self.divergences))
        pairs = zip(keys, self.divergences, strict=True)
        critics = tuple(divergence.init(key, dim, x) for key, divergence in pairs)
        return critics if any(critic is not None for critic in critics) else None

    def critic_loss(self, critic: PyTree, target: Target, lesson: Lesson) -> Scalar:
        """The sum of the critics' losses: none shares its parameters, so weights do not matter."""
        pairs = zip(self.divergences, self._critics(critic), strict=True)
        losses = [one.critic_loss(own, target, lesson) for one, own in pairs if own is not None]
        return sum(losses, jnp.zeros(()))

    def loss(self, student: Student, critic: PyTree, target: Target, lesson: Lesson) -> Scalar:
        """The weighted sum of the losses."""
        terms = zip(self.weights, self.divergences, self._critics(critic), strict=True)
        losses = [weight * one.loss(student, own, target, lesson) for weight, one, own in terms]
        return sum(losses, jnp.zeros(()))

    def _critics(self, critic: PyTree) -> tuple[PyTree, ...]:
        return (None,) * len(self.divergences) if critic is None else critic


def _are_terms(terms: Any) -> bool:
    return (
        isinstance(terms, Sequence)
        and len(terms) > 0
        and all(isinstance(term, Sequence) and len(term) == 2 for term in terms)
        and all(isinstance(term[1], Divergence) for term in terms)
    )
