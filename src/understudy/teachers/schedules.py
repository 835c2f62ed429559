"""Settings of a teacher that follow a schedule over the updates."""

import dataclasses
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Int, PyTree

from understudy.checks import calling, instance, shown, takes
from understudy.core import BoundLogDensity, Draws, Improved, IngredientError, Key, Proposal, Teacher
from understudy.teachers.common import TeacherWrapper
from understudy.teachers.kernels import Kernel

Schedule = Callable[[Any], Any]


class Scheduled(TeacherWrapper):
    """A teacher whose settings change with the number of updates, such as a T that grows.

    ``Scheduled(mala(0.1), steps=optax.linear_schedule(1, 8, 5000))`` starts with one transition, which a
    poor student learns from cheaply, and ends with eight. A scheduled setting is never recompiled.

    Reference: Li, Turner and Liu, "Approximate Inference with Amortised MCMC", 2017.

    Args:
        teacher: the teacher to steer, or a wrapper of it.
        schedules: functions from the number of updates to a value, by the name of a setting. Whole
            numbers are rounded.
    """

    teacher: Teacher
    updates: Int[Array, "..."]
    schedules: tuple[tuple[str, Schedule], ...] = eqx.field(static=True)

    def __init__(self, teacher: Teacher, **schedules: Any):
        instance("teacher", Teacher, "mala(0.1)", teacher)
        if not schedules or not all(map(_is_schedule, schedules.values())):
            raise IngredientError(
                "Scheduled takes functions of the update by the name of a setting, such as "
                f"steps=optax.linear_schedule(1, 8, 5000); {shown(schedules)} came."
            )
        self.schedules = tuple(sorted(schedules.items()))
        self.updates = jnp.zeros((), jnp.int32)
        self.teacher = _set(teacher, self.schedules, self.updates)
        self.space, self.deterministic = teacher.space, teacher.deterministic

    def improve(self, key: Key, log_density: BoundLogDensity, z: Draws, proposal: Proposal) -> Improved:
        """Improve with the settings of this update."""
        return self.teacher.improve(key, log_density, z, proposal)

    def adapt(self, acceptance: PyTree) -> "Scheduled":
        """Count the update, let the teacher adapt, then impose the schedules."""
        updates = self.updates + 1
        teacher = _set(self.teacher.adapt(acceptance), self.schedules, updates)
        return eqx.tree_at(lambda s: (s.teacher, s.updates), self, (teacher, updates))


def _is_schedule(schedule: Any) -> bool:
    return callable(schedule) and takes(schedule, 1)


def _set(teacher: Teacher, schedules: tuple[tuple[str, Schedule], ...], updates: Array) -> Teacher:
    for name, schedule in schedules:
        now = _setting(teacher, name)
        with calling(f"The schedule of {name} is a function of the number of updates to a number"):
            value = jnp.broadcast_to(jnp.asarray(schedule(updates), float), jnp.shape(now))
        if not eqx.is_array(now):
            raise IngredientError(f"{name} is fixed when a teacher is made and cannot be scheduled.")
        value = jnp.round(value) if jnp.issubdtype(now.dtype, jnp.integer) else value
        teacher = eqx.tree_at(lambda t, name=name: _setting(t, name), teacher, value.astype(now.dtype))
    return teacher


def _setting(teacher: Teacher, name: str) -> Any:
    if isinstance(teacher, Kernel) and name in teacher.parameters:
        return teacher.parameters[name]
    fields = {field.name for field in dataclasses.fields(teacher)}
    if name in fields and getattr(teacher, name) is not None:
        return getattr(teacher, name)
    if isinstance(teacher, TeacherWrapper):
        return _setting(teacher.teacher, name)
    raise IngredientError(
        f"{type(teacher).__name__} has no setting {name!r} to schedule; schedule one of its numbers, "
        "such as steps or step_size."
    )
