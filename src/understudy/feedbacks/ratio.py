"""Divergences through the ratio of two densities that a critic learns by telling draws apart."""

from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import PyTree, Scalar

from understudy.checks import flag, one_of
from understudy.core import Condition, IngredientError, Key, Lesson, Student, Target, Teacher
from understudy.feedbacks.adversarial import Adversarial, Discriminating
from understudy.feedbacks.common import average, log_densities, log_probs, needs_density, score_loss
from understudy.feedbacks.critics import WithCritic, evaluate, logistic_loss
from understudy.numerics import AffineMap, Elementwise

DESCENT: dict[str, Elementwise] = {
    "forward_kl": lambda r: -jnp.exp(r),
    "reverse_kl": lambda r: -r,
    "pearson": lambda r: -jnp.exp(2 * r),
    "hellinger": lambda r: -jnp.exp(r / 2),
    "jensen_shannon": lambda r: -jax.nn.softplus(r),
}


class DensityRatio(Discriminating):
    """The critic learns r = log(q_T / q) by logistic regression, the student descends a divergence in r.

    D_f[q_T || q] = E_q f(e^r) has the gradient of ``-E_q f*(f'(e^r))`` with r held fixed, f* the
    conjugate of f: the student descends that, so an exact critic gives the exact gradient. Kinds, as
    D[first || second]: "forward_kl" KL[q_T || q], "reverse_kl" KL[q || q_T], "pearson"
    E_q (q_T / q - 1)^2, "hellinger" integral (sqrt q_T - sqrt q)^2, and "jensen_shannon"
    2 JS[q_T || q].

    Reference: Mohamed and Lakshminarayanan, "Learning in Implicit Generative Models", 2016.

    Args:
        kind: which divergence.
        critic, critic_steps: as for every :class:`WithCritic`.
    """

    kind: str = eqx.field(static=True, converter=partial(one_of, "kind", DESCENT), default="reverse_kl")

    def loss(self, student: Student, critic: PyTree, target: Target, lesson: Lesson) -> Scalar:
        """The divergence in terms of the ratio, up to what does not move the student."""
        del target
        draws, weights = lesson.propose_weighted(student)
        return average(DESCENT[self.kind](evaluate(critic, draws, lesson.x)), weights)


class AdversarialELBO(Adversarial):
    """Variational inference for students without a density; no teacher is used.

    The critic learns d = log q(z | x) - log p_0(z) by logistic regression of the student's draws against
    draws of a base p_0; the student descends ``E_q[d(z, x) + log p_0(z) - log p(x, z)]``, which is
    KL[q || p] up to a constant. With p_0 = N(0, I), the usual prior of a latent-variable model, this is
    adversarial variational Bayes.

    Reference: Mescheder, Nowozin and Geiger, "Adversarial Variational Bayes", 2017.

    Args:
        base: "prior" for N(0, I), or "adaptive" for the Gaussian with the mean and the scale of the
            student's draws for this condition (adaptive contrast; needs several particles).
        critic, critic_steps: as for every :class:`WithCritic`.
    """

    base: str = eqx.field(static=True, default="prior")

    def __check_init__(self):
        """Only the bases above."""
        one_of("base", ("prior", "adaptive"), self.base)

    @property
    def is_free_energy(self) -> bool:
        """With the learnt ratio for log q."""
        return True

    def critic_loss(self, critic: PyTree, target: Target, lesson: Lesson) -> Scalar:
        """Logistic loss of the student's draws against the base, in the base's units."""
        del target
        noise = jax.random.normal(lesson.noise, lesson.before.shape)
        drawn = evaluate(critic, self._base(lesson).whiten(lesson.before), lesson.x)
        base = evaluate(critic, noise, lesson.x)
        return average(jax.nn.softplus(-drawn), lesson.uniform) + jax.nn.softplus(base).mean()

    def loss(self, student: Student, critic: PyTree, target: Target, lesson: Lesson) -> Scalar:
        """Free energy with the learnt ratio."""
        draws, weights = lesson.propose_weighted(student)
        base = self._base(lesson)
        ratio = evaluate(critic, base.whiten(draws), lesson.x)
        log_base = jax.scipy.stats.norm.logpdf(draws, base.mean, base.factor).sum(-1)
        return average(ratio + log_base - log_densities(target, draws, lesson.x), weights)

    def _base(self, lesson: Lesson) -> AffineMap:
        if self.base == "prior":
            return AffineMap(jnp.zeros(lesson.before.shape[1]), jnp.ones(lesson.before.shape[1]))
        if lesson.before.shape[0] < 2:
            raise IngredientError(
                "base='adaptive' needs two or more particles per condition, and one came: draw more, or "
                "choose base='prior'."
            )
        mean = lesson.uniform @ lesson.before
        variance = lesson.uniform @ (lesson.before - mean) ** 2
        return AffineMap(mean, jnp.sqrt(variance + 1e-6))


class ContrastiveDivergence(WithCritic):
    """By how much the teacher brought the student nearer the target: KL[q || p] - KL[q_T || p].

    With f = log q - log p and the critic's r = log(q / q_T), log q_T = log q - r gives
    ``E_q log q - E_{q_T} log q_T = (E_q - E_{q_T}) log q + E_{q_T} r`` for the residual, so that
    ``CD = E[f(z_0) - f(z_T) + r(z_T)]`` over the pairs (z_0, z_T) of teaching. Scores are zero on
    average, so its gradient, q_T's dependence on the student included, is
    ``E[(f(z_0) - f(z_T) + r(z_T)) grad log q(z_0)]``: no derivative of the teacher, but each ``after``
    must come from its ``before`` (paired lessons, restarted chains).

    Without r (``ratio=False``) it is the upper bound CD + KL[q_T || q], which needs no critic.

    Reference: Li, Turner and Liu, 2017, appendix; Ruiz and Titsias, "A Contrastive Divergence for
    Combining Variational Inference and MCMC", 2019 (the upper bound).

    Args:
        ratio: estimate the residual with a critic; otherwise descend the upper bound.
        critic, critic_steps: as for every :class:`WithCritic`.
    """

    ratio: bool = eqx.field(converter=partial(flag, "ratio"), static=True, default=True)

    def check(self, target: Target, student: Student, teacher: Teacher) -> None:
        """The student needs a density."""
        del target, teacher
        needs_density(self, student)

    def init(self, key: Key, dim: int, x: Condition) -> PyTree:
        """Build the critic, if the ratio is used."""
        return self.critic(key, dim, x) if self.ratio else None

    def critic_loss(self, critic: PyTree, target: Target, lesson: Lesson) -> Scalar:
        """Logistic loss of before against after."""
        del target
        return logistic_loss(lambda z, x: -critic(z, x), lesson)

    def loss(self, student: Student, critic: PyTree, target: Target, lesson: Lesson) -> Scalar:
        """The difference of the two divergences."""
        x, before, after = lesson.x, lesson.before, lesson.after
        scores, taught = log_probs(student, before, x), log_probs(student, after, x)
        energy = taught - log_densities(target, after, x)
        if self.ratio:
            energy = energy - evaluate(critic, after, x)
        costs = scores - log_densities(target, before, x) - energy * lesson.weights * lesson.kept.sum()
        loss = score_loss(costs, scores, lesson.uniform)
        if self.ratio:
            return loss
        return loss - average(taught - jax.lax.stop_gradient(taught), lesson.weights)
