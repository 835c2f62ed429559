"""Stein discrepancies: they ask the target's score, not the teacher, what is wrong with the draws."""

from collections.abc import Callable
from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree, Scalar

from understudy.checks import function, one_of, optional_positive, positive, sizes, whole
from understudy.core import Condition, Divergence, Key, Lesson, Student, Target, Teacher
from understudy.feedbacks.common import (
    Builder,
    CriticFree,
    Elementwise,
    average,
    average_over_pairs,
    needs_paths,
)
from understudy.feedbacks.two_sample import RADIAL, TwoSets, median_square, two_sets
from understudy.networks import Perceptron, flat

KERNELS = ("imq", "gaussian")


class KernelSteinDiscrepancy(CriticFree):
    """Squared kernel Stein discrepancy of the student's draws under the target's score; no teacher used.

    ``E u(b, b')`` over different particles, with s the score of p and
    ``u = s(b).s(b') k + s(b).grad' k + s(b').grad k + trace grad grad' k``. It cannot see the weights of
    modes that are far apart.

    Reference: Liu, Lee and Jordan, "A Kernelized Stein Discrepancy", 2016; Gorham and Mackey, "Measuring
    Sample Quality with Kernels", 2017 (the default kernel).

    Args:
        kernel: "imq" (1 + r^2 / h^2)^(-1/2) or "gaussian" exp(-r^2 / 2h^2).
        bandwidth: h; None takes the median distance between draws in each update.
    """

    kernel: str = eqx.field(static=True, default="imq")
    bandwidth: Float[Array, ""] | None = eqx.field(
        converter=partial(optional_positive, "bandwidth"), default=None
    )

    def __check_init__(self):
        """Only the kernels above."""
        one_of("kernel", KERNELS, self.kernel)

    def check(self, target: Target, student: Student, teacher: Teacher) -> None:
        """The student's draws must carry gradients."""
        del target, teacher
        needs_paths(self, student)

    def loss(self, student: Student, critic: PyTree, target: Target, lesson: Lesson) -> Scalar:
        """The squared discrepancy, without bias."""
        del critic
        sets = two_sets(student, lesson, pool=False)
        square = self._square(sets)
        values = stein_kernel(
            lambda r: RADIAL[self.kernel](r / square),
            jax.grad(lambda z: target.log_density(z, lesson.x)),
            sets.first,
            sets.second,
        )
        return average_over_pairs(values, sets.first_weights, sets.second_weights, sets.paired)

    def _square(self, sets: TwoSets) -> Scalar:
        if self.bandwidth is not None:
            return self.bandwidth**2
        return median_square(sets._replace(after=sets.second, after_weights=sets.second_weights))


def stein_kernel(
    radial: Elementwise,
    score: Callable[[Float[Array, " d"]], Float[Array, " d"]],
    a: Float[Array, "n d"],
    b: Float[Array, "m d"],
) -> Float[Array, "n m"]:
    """The Stein kernel of ``k(a, b) = radial(|a - b|^2)`` for every pair of rows."""
    slope = jax.grad(radial)
    bend = jax.grad(slope)

    def one(a, b, score_a, score_b):
        way = a - b
        square = way @ way
        drift = 2 * slope(square) * (score_b - score_a) @ way
        trace = -2 * a.size * slope(square) - 4 * square * bend(square)
        return score_a @ score_b * radial(square) + drift + trace

    row = jax.vmap(one, in_axes=(None, 0, None, 0))
    return jax.vmap(row, in_axes=(0, None, 0, None))(a, b, jax.vmap(score)(a), jax.vmap(score)(b))


class VectorCritic(eqx.Module):
    """A vector field of a draw and its condition, ``(z, x) -> (d,)``."""

    network: Perceptron

    def __init__(
        self,
        key: Key,
        dim: int,
        x: Condition,
        hidden: tuple[int, ...] = (64, 64),
        activation: Callable = jax.nn.softplus,
    ):
        self.network = Perceptron(key, [dim + flat(x).size, *sizes("hidden", hidden), dim], activation)

    def __call__(self, z: Float[Array, " d"], x: Condition = None) -> Float[Array, " d"]:
        """The field at one draw."""
        return self.network(jnp.concatenate([z, flat(x)]))


class LearntStein(Divergence):
    """Operator variational inference: a learnt test function shows where the draws miss the target.

    The critic f ascends and the student descends ``E_q[f.s + div f] - penalty E_q|f|^2``, s the score of
    p; the first term is zero for every f at q = p. The best scale of f turns this into
    ``(E_q[f.s + div f])^2 / (4 penalty E_q|f|^2)``, and the best f, (s - grad log q) / (2 penalty), into
    the Fisher divergence E_q|s - grad log q|^2 / (4 penalty). No teacher is used.

    Reference: Ranganath, Altosaar, Tran and Blei, "Operator Variational Inference", 2016.

    Args:
        penalty: weight of the size of the test function.
        critic: builder ``(key, dim, x) -> (z, x) -> (d,)``.
        critic_steps: critic's steps in each update.
        exact: dimensions up to which div f is the trace of the whole Jacobian; above, a random probe
            estimates it (Hutchinson).
    """

    penalty: Float[Array, ""] = eqx.field(converter=partial(positive, "penalty"), default=0.5)
    critic: Builder = eqx.field(static=True, default=VectorCritic)
    critic_steps: int = eqx.field(static=True, default=5)
    exact: int = eqx.field(static=True, default=16)

    def __check_init__(self):
        """A critic that can be built and learns."""
        function("critic", self.critic)
        whole("critic_steps", self.critic_steps)

    def check(self, target: Target, student: Student, teacher: Teacher) -> None:
        """The student's draws must carry gradients."""
        del target, teacher
        needs_paths(self, student)

    def init(self, key: Key, dim: int, x: Condition) -> PyTree:
        """Build the test function."""
        return self.critic(key, dim, x)

    def critic_loss(self, critic: PyTree, target: Target, lesson: Lesson) -> Scalar:
        """Minus the objective."""
        return -self._objective(critic, target, lesson, lesson.before, lesson.uniform)

    def loss(self, student: Student, critic: PyTree, target: Target, lesson: Lesson) -> Scalar:
        """The objective."""
        return self._objective(critic, target, lesson, *lesson.propose_weighted(student))

    def _objective(self, critic, target, lesson, draws, weights):
        score = jax.grad(lambda z: target.log_density(z, lesson.x))
        field = lambda z: critic(z, lesson.x)  # noqa: E731
        probes = jax.random.rademacher(lesson.noise, draws.shape, draws.dtype)

        def one(z, probe):
            value, divergence = self._divergence(field, z, probe)
            return value @ score(z) + divergence - self.penalty * value @ value

        return average(jax.vmap(one)(draws, probes), weights)

    def _divergence(self, field, z, probe):
        if z.size <= self.exact:
            return field(z), jnp.trace(jax.jacfwd(field)(z))
        value, push = jax.jvp(field, (z,), (probe,))
        return value, probe @ push
