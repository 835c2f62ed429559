"""Several teachers, one after the other."""

import functools

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import PyTree

from understudy.core import (
    BoundLogDensity,
    Draws,
    Improved,
    IngredientError,
    Key,
    Proposal,
    Space,
    Teacher,
)


class Compose(Teacher):
    """Teachers that take turns, such as local moves and then one that carries draws between modes.

    If each leaves the target invariant, so does the sequence. Its acceptance is the tuple of the
    acceptances of its members, and each member adapts to its own.

    Args:
        teachers: two or more, in the order in which they act.

    Examples:
        >>> import jax
        >>> from understudy.core import bind
        >>> from understudy.students import FullGaussian
        >>> from understudy.teachers import Compose, TemperedTransition, mala
        >>> teacher = Compose(TemperedTransition(), mala(0.3, steps=5))
        >>> proposal = bind(FullGaussian(2), None)
        >>> start = jax.numpy.ones((5, 2))
        >>> teacher.improve(jax.random.key(0), lambda z: -0.5 * z @ z, start, proposal).z.shape
        (5, 2)
    """

    teachers: tuple[Teacher, ...]
    space: Space = eqx.field(static=True)
    deterministic: bool = eqx.field(static=True)

    def __init__(self, *teachers: Teacher):
        if not teachers or not all(isinstance(teacher, Teacher) for teacher in teachers):
            raise IngredientError(
                f"Compose takes teachers one by one, such as Compose(mala(), TemperedTransition()); "
                f"{', '.join(type(came).__name__ for came in teachers) or 'nothing'} came."
            )
        spaces: list[Space] = [teacher.space for teacher in teachers if teacher.space != "any"]
        if len(set(spaces)) > 1:
            raise IngredientError(
                "Compose takes teachers for one kind of draws, continuous or discrete; "
                f"{', '.join(f'{type(came).__name__} ({came.space})' for came in teachers)} came."
            )
        self.teachers = teachers
        self.space = spaces[0] if spaces else "any"
        self.deterministic = all(teacher.deterministic for teacher in teachers)

    def improve(self, key: Key, log_density: BoundLogDensity, z: Draws, proposal: Proposal) -> Improved:
        """Let every teacher improve what the one before it left."""
        keys = jax.random.split(key, len(self.teachers))
        turns: list[Improved] = []
        for k, teacher in zip(keys, self.teachers, strict=True):
            turns.append(teacher.improve(k, log_density, z, proposal))
            z = turns[-1].z
        weights = [turn.log_weights for turn in turns if turn.log_weights is not None]
        controls = [turn.control for turn in turns if turn.control is not None]
        return Improved(
            z,
            functools.reduce(jnp.logical_and, [turn.finite for turn in turns]),
            tuple(turn.acceptance for turn in turns),
            functools.reduce(jnp.add, weights) if weights else None,
            controls[-1] if controls else None,
        )

    def adapt(self, acceptance: PyTree) -> "Compose":
        """Every member adapts to its own acceptance."""
        rates = (None,) * len(self.teachers) if acceptance is None else acceptance
        pairs = zip(self.teachers, rates, strict=True)
        return Compose(*[teacher.adapt(rate) for teacher, rate in pairs])
