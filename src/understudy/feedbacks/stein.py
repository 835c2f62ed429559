"""Stein discrepancies: they ask the target's score, not the teacher, what is wrong with the draws."""

from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree, Scalar

from understudy.checks import one_of, optional, positive, whole
from understudy.core import Lesson, Student, Target
from understudy.feedbacks.common import CriticFree, Pathwise, average, average_over_pairs
from understudy.feedbacks.critics import Builder, CriticBuilder, WithCritic
from understudy.feedbacks.two_sample import TwoSets, median_square, two_sets
from understudy.numerics import radial_kernel, stein_kernel

KERNELS = ("imq", "gaussian")


class KernelSteinDiscrepancy(CriticFree, Pathwise):
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
        converter=partial(optional, positive, "bandwidth"), default=None
    )

    def __check_init__(self):
        """Only the kernels above."""
        one_of("kernel", KERNELS, self.kernel)

    def loss(self, student: Student, critic: PyTree, target: Target, lesson: Lesson) -> Scalar:
        """The squared discrepancy, without bias."""
        del critic
        sets = two_sets(student, lesson, pool=False)
        score = jax.vmap(jax.grad(lambda z: target.log_density(z, lesson.x)))
        one = partial(stein_kernel, radial_kernel(self.kernel, self._bandwidth(sets)))
        row = jax.vmap(one, in_axes=(None, 0, None, 0))
        every = jax.vmap(row, in_axes=(0, None, 0, None))
        values = every(sets.first, sets.second, score(sets.first), score(sets.second))
        return average_over_pairs(values, sets.first_weights, sets.second_weights, sets.paired)

    def _bandwidth(self, sets: TwoSets) -> Scalar:
        if self.bandwidth is not None:
            return self.bandwidth
        drawn = sets._replace(after=sets.second, after_weights=sets.second_weights)
        return jnp.sqrt(median_square(drawn))


class LearntStein(WithCritic, Pathwise):
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
    exact: int = eqx.field(converter=partial(whole, "exact", least=0), static=True, default=16)
    critic: Builder = eqx.field(static=True, default=CriticBuilder(vector=True), kw_only=True)
    critic_steps: int = eqx.field(static=True, default=5, kw_only=True)

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
