"""The teacher that changes nothing."""

import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from understudy.core import BoundLogDensity, Improved, Key, Proposal, Space, Teacher


class Identity(Teacher):
    """No transition at all: for feedbacks that look at the target itself, as variational ones do."""

    @property
    def space(self) -> Space:
        """Any draws."""
        return "any"

    @property
    def deterministic(self) -> bool:
        """Whether equal draws always end at equal draws."""
        return True

    def improve(
        self,
        key: Key,
        log_density: BoundLogDensity,
        z: Float[Array, "n d"],
        proposal: Proposal,
    ) -> Improved:
        """Return the draws as they are; the log density is not evaluated."""
        del key, log_density, proposal
        return Improved(z, jnp.isfinite(z).all(-1))

    def adapt(self, acceptance: PyTree) -> "Identity":
        """Nothing to adapt."""
        del acceptance
        return self
