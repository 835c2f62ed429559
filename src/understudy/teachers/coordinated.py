"""A teacher that moves draws in coordinates in which the target is nearly standard."""

import jax
import jax.numpy as jnp

from understudy.checks import instance
from understudy.coordinates import Coordinates
from understudy.core import BoundLogDensity, Draws, Improved, IngredientError, Key, Proposal, Teacher
from understudy.teachers.common import TeacherWrapper


class InCoordinates(TeacherWrapper):
    """Carries draws to u, lets the inner teacher move them there, and carries them back.

    The log density of u has the volume change of the map in it, so the target stays invariant. One step
    size then suits every direction, skewed margins and walls included.

    Args:
        teacher: moves the draws, such as ``hmc(0.3)``.
        coordinates: from u to z.
    """

    teacher: Teacher
    coordinates: Coordinates

    def __init__(self, teacher: Teacher, coordinates: Coordinates):
        self.teacher = instance("teacher", Teacher, "hmc(0.3)", teacher)
        self.space, self.deterministic = "continuous", self.teacher.deterministic
        self.coordinates = instance("coordinates", Coordinates, "fit_coordinates(draws)", coordinates)

    def improve(self, key: Key, log_density: BoundLogDensity, z: Draws, proposal: Proposal) -> Improved:
        """Move draws in u."""
        if z.shape[-1] != self.coordinates.dim:
            raise IngredientError(
                f"These coordinates are for draws of size {self.coordinates.dim}; size {z.shape[-1]} "
                "came; fit them to draws of this target."
            )
        carry = jax.tree.map(jnp.asarray, self.coordinates)
        density_of_z = proposal.log_prob

        def inside(u):
            z, log_volume = carry.colour(u, jnp)
            return log_density(z) + log_volume

        def log_prob(u):
            assert density_of_z is not None
            z, log_volume = carry.colour(u, jnp)
            return density_of_z(z) + log_volume

        offered = Proposal(
            lambda key, n: carry.whiten(proposal.sample(key, n), jnp)[0],
            None if density_of_z is None else log_prob,
        )
        out = self.teacher.improve(key, inside, carry.whiten(z, jnp)[0], offered)
        control = None if out.control is None else carry.colour(out.control, jnp)[0]
        return out._replace(z=carry.colour(out.z, jnp)[0], control=control)
