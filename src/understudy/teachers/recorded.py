"""A teacher that hands out draws made elsewhere, such as those of chains that run on the side."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Float

from understudy.checks import number
from understudy.core import BoundLogDensity, Draws, Improved, IngredientError, Key, Proposal
from understudy.teachers.common import FixedTeacher


class Recorded(FixedTeacher):
    """Replaces the student's draws by recorded ones, picked at random.

    With the inclusive KL the student then learns the recorded draws by maximum likelihood. The program
    does not hold the target, so it is the same for every target of a size.

    Args:
        draws: the record, one draw a row; a leaf, so that it can grow fresh without compiling anew.

    Examples:
        >>> import jax
        >>> from understudy.core import bind
        >>> from understudy.students import FullGaussian
        >>> from understudy.teachers import Recorded
        >>> teacher, proposal = Recorded(jax.numpy.zeros((100, 2))), bind(FullGaussian(2), None)
        >>> start = jax.numpy.ones((5, 2))
        >>> teacher.improve(jax.random.key(0), lambda z: -0.5 * z @ z, start, proposal).z.shape
        (5, 2)
    """

    space = "any"
    deterministic = False

    draws: Float[Array, "m d"]

    def __init__(self, draws: ArrayLike):
        self.draws = number("draws", draws)
        if self.draws.ndim != 2 or not self.draws.shape[0]:
            raise IngredientError(
                f"draws is a record with one draw a row, one row or more; shape {self.draws.shape} came."
            )

    def improve(self, key: Key, log_density: BoundLogDensity, z: Draws, proposal: Proposal) -> Improved:
        """Recorded draws in place of ``z``."""
        del log_density, proposal
        if z.shape[-1] != self.draws.shape[1]:
            raise IngredientError(
                f"The record holds draws of size {self.draws.shape[1]} and the student's have size "
                f"{z.shape[-1]}; record draws of this target."
            )
        rows = jax.random.randint(key, (z.shape[0],), 0, self.draws.shape[0])
        return Improved(self.draws[rows], jnp.ones(z.shape[0], bool))
