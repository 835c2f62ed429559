"""Feedbacks whose best student has a closed form: no gradient, no optimiser."""

from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from understudy.checks import positive
from understudy.core import (
    IngredientError,
    Lesson,
    ProjectableStudent,
    Projection,
    Student,
    Target,
    Teacher,
)


class MomentProjection(Projection):
    """Move the student a share of the way to its closed-form fit of the teacher's draws.

    For a Gaussian student the fit has the draws' moments, which minimises KL[q_T || q]; the rate is that
    of an exponential moving average of those moments.

    Reference: Cappe and Moulines, "On-line expectation-maximization algorithm", 2009.

    Args:
        rate: the share, in (0, 1].

    Examples:
        >>> import jax.numpy as jnp, understudy
        >>> from understudy.feedbacks import MomentProjection
        >>> from understudy.students import FullGaussian
        >>> from understudy.teachers import mala
        >>> target = understudy.LogDensity(lambda z: -0.5 * jnp.sum((z - 1) ** 2), dim=1)
        >>> ingredients = FullGaussian(1), mala(0.5, steps=5), MomentProjection(0.1)
        >>> trained = understudy.train(target, *ingredients, updates=100, progress=False)
        >>> bool(abs(trained.summary()["mean"].iloc[0] - 1) < 0.2)
        True
    """

    rate: Float[Array, ""] = eqx.field(converter=partial(positive, "rate"), default=0.1)

    def __check_init__(self):
        """The rate is a share."""
        if isinstance(self.rate, jax.core.Tracer):
            return
        if not jnp.all(self.rate <= 1):
            raise IngredientError(f"rate is a share in (0, 1]; {self.rate} came.")

    def check(self, target: Target, student: Student, teacher: Teacher) -> None:
        """The student needs a closed-form fit."""
        del target, teacher
        _needs_fit(self, student)

    def project(self, student: Student, lessons: Lesson) -> Student:
        """The student after one batch of lessons."""
        assert isinstance(student, ProjectableStudent)
        return student.project(lessons, self.rate)


class Copy(Projection):
    """The student becomes the teacher's draws: MCMC itself for particles, persistent chains for a table.

    Reference: Tieleman, "Training Restricted Boltzmann Machines using Approximations to the Likelihood
    Gradient", 2008.
    """

    def check(self, target: Target, student: Student, teacher: Teacher) -> None:
        """The student needs a closed-form fit."""
        del target, teacher
        _needs_fit(self, student)

    def project(self, student: Student, lessons: Lesson) -> Student:
        """The student after one batch of lessons."""
        assert isinstance(student, ProjectableStudent)
        return student.project(lessons, jnp.ones(()))


def _needs_fit(feedback: Projection, student: Student) -> None:
    if not isinstance(student, ProjectableStudent):
        raise IngredientError(
            f"{type(feedback).__name__} needs a student with a closed-form fit (project), and "
            f"{type(student).__name__} has none: choose Particles, ChainTable or a Gaussian "
            f"without a network as student, or InclusiveKL or EnergyDistance as feedback."
        )
