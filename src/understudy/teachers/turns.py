"""A teacher's turn at draws outside training, where it has to leave the target as it is."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PyTree, Scalar

from understudy.checks import calling
from understudy.core import Condition, Draws, IngredientError, Key, Student, Target, Teacher, bind


class Turn(NamedTuple):
    """Draws after one call of a teacher.

    Attributes:
        z: where they are now; a chain that is not finite stays where it was.
        finite: which chains are finite.
        acceptance: the mean over chains (of the first teacher, where several are composed); not a
            number where there is no accept test.
        rates: all mean acceptances, as ``Teacher.adapt`` takes them.
    """

    z: Float[Array, "n d"]
    finite: Bool[Array, " n"]
    acceptance: Scalar
    rates: PyTree


def turn(
    key: Key, teacher: Teacher, target: Target, student: Student, z: Draws, x: Condition = None
) -> Turn:
    """Let an exact teacher move draws of a student once."""
    with calling(f"The teacher {type(teacher).__name__} moves draws of size {z.shape[1]}"):
        out = teacher.improve(key, lambda z: target.log_density(z, x), z, bind(student, x))
    if out.log_weights is not None:
        raise IngredientError(
            "Draws are refined and checked by a teacher that leaves the target invariant, such as "
            "hmc(0.1); this one returns weighted draws. Leave teacher out to have one made."
        )
    rates = jax.tree.map(lambda rate: jnp.nan_to_num(rate).mean(), out.acceptance)
    first = (*jax.tree.leaves(rates), jnp.asarray(jnp.nan))[0]
    return Turn(jnp.where(out.finite[:, None], out.z, z), out.finite, first, rates)
