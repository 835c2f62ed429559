"""A divergence between what draws do, rather than between the draws."""

from collections.abc import Callable

import equinox as eqx
import jax
from jaxtyping import Array, Float, PyTree, Scalar

from understudy.checks import function, instance
from understudy.core import (
    Condition,
    Divergence,
    Key,
    Lesson,
    StratifiedStudent,
    Student,
    Target,
    Teacher,
)
from understudy.feedbacks.two_sample import TwoSample

View = Callable[[Target, Float[Array, " d"], Condition], Float[Array, " e"]]


class Viewed(Divergence):
    """Compare a view of the draws, D[v(q_T), v(q)]: what networks predict, say, and not their weights.

    Draws that the view does not tell apart, such as networks whose units have changed places, count as
    one; a student need not find the one among them that the teacher happened upon. The view may look at
    the target, which holds its data.

    Args:
        divergence: a comparison of two sets, such as ``EnergyDistance()``.
        view: a function of the target, one draw and its condition that gives a vector.

    Examples:
        >>> import jax, jax.numpy as jnp, understudy
        >>> from understudy.feedbacks import EnergyDistance, Viewed
        >>> from understudy.students import FullGaussian
        >>> from understudy.teachers import mala
        >>> target = understudy.LogDensity(lambda z: -0.5 * jnp.sum((jnp.abs(z) - 1) ** 2), dim=2)
        >>> feedback = Viewed(EnergyDistance(), lambda target, z, x: jnp.abs(z))
        >>> settings = {"updates": 20, "progress": False}
        >>> understudy.train(target, FullGaussian(2), mala(0.1), feedback, **settings).sample(0, 5).shape
        (5, 2)
    """

    divergence: Divergence
    view: View = eqx.field(static=True)
    critic_steps: int = eqx.field(static=True, default=0, init=False)

    def __check_init__(self):
        """A comparison of two sets, and a function."""
        instance("divergence", TwoSample, "EnergyDistance()", self.divergence)
        function("view", self.view)

    def check(self, target: Target, student: Student, teacher: Teacher) -> None:
        """As the divergence itself."""
        self.divergence.check(target, student, teacher)

    def init(self, key: Key, dim: int, x: Condition) -> PyTree:
        """There is no critic."""
        return self.divergence.init(key, dim, x)

    def critic_loss(self, critic: PyTree, target: Target, lesson: Lesson) -> Scalar:
        """Never called: there is no critic."""
        return self.divergence.critic_loss(critic, target, lesson)

    def loss(self, student: Student, critic: PyTree, target: Target, lesson: Lesson) -> Scalar:
        """The divergence of the views."""
        look = jax.vmap(lambda z: self.view(target, z, lesson.x))
        seen = eqx.tree_at(
            lambda le: (le.before, le.after, le.control),
            lesson,
            (look(lesson.before), look(lesson.after), look(lesson.control)),
        )
        kind = _SeenStrata if isinstance(student, StratifiedStudent) else _Seen
        viewed = kind(student=student, look=look, dim=seen.before.shape[1])  # pyright: ignore
        return self.divergence.loss(viewed, critic, target, seen)


class _Seen(Student):
    """A student whose draws are views of another's."""

    student: Student
    look: Callable = eqx.field(static=True)
    dim: int = eqx.field(static=True)

    def sample(self, key: Key, x: Condition, n: int) -> Float[Array, "n d"]:
        return self.look(self.student.sample(key, x, n))


class _SeenStrata(StratifiedStudent):
    """The same for a student with a gate."""

    student: StratifiedStudent
    look: Callable = eqx.field(static=True)
    dim: int = eqx.field(static=True)

    def sample(self, key: Key, x: Condition, n: int) -> Float[Array, "n d"]:
        return self.look(self.student.sample(key, x, n))

    def stratified(
        self, key: Key, x: Condition, n: int
    ) -> tuple[Float[Array, "n d"], Float[Array, " n"]]:
        draws, weights = self.student.stratified(key, x, n)
        return self.look(draws), weights
