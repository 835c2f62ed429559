"""What teachers share: adapting nothing, an inner teacher or a step size; where chains are finite."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PyTree, Scalar

from understudy.core import BoundLogDensity, Space, Teacher


class FixedTeacher(Teacher):
    """A teacher with nothing to adapt."""

    def adapt(self, acceptance: PyTree) -> "FixedTeacher":
        """The same teacher, however often its moves were accepted."""
        del acceptance
        return self


class TeacherWrapper(Teacher):
    """A teacher that runs another one in its own way; the inner one's acceptance is its own."""

    teacher: eqx.AbstractVar[Teacher]
    space: Space = eqx.field(static=True)
    deterministic: bool = eqx.field(static=True)

    def adapt(self, acceptance: PyTree) -> "TeacherWrapper":
        """Let the inner teacher adapt."""
        return eqx.tree_at(lambda wrapper: wrapper.teacher, self, self.teacher.adapt(acceptance))


def moved(
    step_size: Float[Array, "..."],
    acceptance: Scalar,
    target: Scalar,
    rate: Scalar,
    largest: Scalar | None = None,
) -> Float[Array, "..."]:
    """A step size nearer to the acceptance a wanted: log step += rate (a - t) / (t (1 - t))."""
    change = rate * (acceptance - target) / (target * (1 - target))
    change = jnp.where(jnp.isfinite(change), change, 0.0)
    return jnp.clip(step_size * jnp.exp(change), 1e-10, largest)


def finite_at(log_density: BoundLogDensity, z: Float[Array, "n d"]) -> Bool[Array, " n"]:
    """Which draws have finite coordinates and a finite log density."""
    return jnp.isfinite(z).all(-1) & jnp.isfinite(jax.vmap(log_density)(z))
