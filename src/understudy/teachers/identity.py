"""The teacher that changes nothing."""

import jax.numpy as jnp

from understudy.core import BoundLogDensity, Draws, Improved, Key, Proposal
from understudy.teachers.common import FixedTeacher


class Identity(FixedTeacher):
    """No transition at all: for feedbacks that look at the target itself, as variational ones do.

    Examples:
        >>> import jax
        >>> from understudy.core import bind
        >>> from understudy.students import FullGaussian
        >>> from understudy.teachers import Identity
        >>> teacher, proposal = Identity(), bind(FullGaussian(2), None)
        >>> start = jax.numpy.ones((5, 2))
        >>> teacher.improve(jax.random.key(0), lambda z: -0.5 * z @ z, start, proposal).z.shape
        (5, 2)
    """

    space = "any"
    deterministic = True
    moves = False

    def __init__(self):
        """Nothing to choose."""

    def improve(self, key: Key, log_density: BoundLogDensity, z: Draws, proposal: Proposal) -> Improved:
        """Return the draws as they are; the log density is not evaluated."""
        del key, log_density, proposal
        return Improved(z, jnp.isfinite(z).all(-1))
