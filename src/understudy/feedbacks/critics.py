"""Critics: functions of a draw and its condition that learn to tell the teacher's draws from others."""

from collections.abc import Callable
from functools import partial
from typing import Any

import equinox as eqx
import jax
from jaxtyping import Array, Float, PyTree, Scalar

from understudy.checks import flag, function, sizes, whole
from understudy.core import Condition, Divergence, Key, Lesson
from understudy.feedbacks.common import average
from understudy.networks import Critic

Builder = Callable[[Key, int, Condition], Callable]


def _widths(hidden: Any) -> tuple[int, ...]:
    return tuple(sizes("hidden", hidden))


class CriticBuilder(eqx.Module):
    """Builds the usual critic, a perceptron on the draw and the numbers of its condition.

    Args:
        hidden: sizes of the hidden layers.
        activation: between layers; a smooth one gives the student smooth gradients.
        vector: whether the critic is a vector field, with as many values as a draw has, or a scalar.
    """

    hidden: tuple[int, ...] = eqx.field(static=True, converter=_widths, default=(64, 64))
    activation: Callable = eqx.field(static=True, default=jax.nn.softplus)
    vector: bool = eqx.field(converter=partial(flag, "vector"), static=True, default=False)

    def __check_init__(self):
        """Something to call between layers."""
        function("activation", self.activation)

    def __call__(self, key: Key, dim: int, x: Condition) -> Critic:
        """Create the critic."""
        outputs = dim if self.vector else None
        return Critic(key, dim, x, self.hidden, self.activation, outputs)


class WithCritic(Divergence):
    """A divergence that needs a critic.

    Args:
        critic: builder ``(key, dim, x) -> (z, x) -> value``.
        critic_steps: critic's steps in each update.
    """

    critic: Builder = eqx.field(static=True, default=CriticBuilder(), kw_only=True)
    critic_steps: int = eqx.field(static=True, default=1, kw_only=True)

    def __check_init__(self):
        """A critic that can be built and learns."""
        function("critic", self.critic)
        whole("critic_steps", self.critic_steps)

    def init(self, key: Key, dim: int, x: Condition) -> PyTree:
        """Build the critic."""
        return self.critic(key, dim, x)


def evaluate(critic: Callable, z: Float[Array, "n d"], x: Condition) -> Float[Array, " n"]:
    """The critic's value at every row."""
    return jax.vmap(lambda row: critic(row, x))(z)


def logistic_loss(critic: Callable, lesson: Lesson) -> Scalar:
    """Logistic regression of after against before: at its best the critic is log(q_T / q)."""
    after = evaluate(critic, lesson.after, lesson.x)
    before = evaluate(critic, lesson.before, lesson.x)
    return average(jax.nn.softplus(-after), lesson.weights) + average(
        jax.nn.softplus(before), lesson.uniform
    )
