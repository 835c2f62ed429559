"""Kullback-Leibler divergences, for students whose density can be evaluated."""

from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.scipy.special import logsumexp
from jax.scipy.stats import norm
from jaxtyping import Array, Float, PyTree, Scalar

from understudy.checks import flag, one_of, whole
from understudy.core import IngredientError, Lesson, SemiImplicitStudent, Student, Target, Teacher
from understudy.feedbacks.common import (
    CriticFree,
    average,
    frozen,
    log_densities,
    log_probs,
    needs_density,
    needs_paths,
    score_loss,
)

ESTIMATORS = ("path", "reparameterised", "score")


class InclusiveKL(CriticFree):
    """Make the student likely where the teacher's draws are: KL[q_T || q], which covers mass.

    The loss is ``-E_{q_T} log q(z_T) + E_q log q(c)`` with frozen draws. The second term is a control
    variate: its gradient is zero on average, E_q grad log q = 0, and cancels most of the noise of the
    first where ``c`` (the student's draws before teaching) and ``z_T`` are close. This is the
    score-function form, so discrete students learn from it as well. The value is an estimate of
    E_q log q - E_{q_T} log q, not of the divergence.

    Reference: Li, Turner and Liu, "Approximate Inference with Amortised MCMC", 2017, section 3.

    Args:
        control: use the control variate.

    Examples:
        >>> import jax.numpy as jnp, optax, understudy
        >>> from understudy.feedbacks import InclusiveKL
        >>> from understudy.students import FullGaussian
        >>> from understudy.teachers import mala
        >>> target = understudy.LogDensity(lambda z: -0.5 * jnp.sum((z - 1) ** 2), dim=1)
        >>> ingredients = FullGaussian(1), mala(0.5, steps=5), InclusiveKL()
        >>> settings = {"updates": 200, "optimiser": optax.adam(0.02), "progress": False}
        >>> trained = understudy.train(target, *ingredients, **settings)
        >>> bool(trained.summary()["mean"].iloc[0] > 0.5)
        True
    """

    control: bool = eqx.field(converter=partial(flag, "control"), static=True, default=True)

    def check(self, target: Target, student: Student, teacher: Teacher) -> None:
        """The student needs a density."""
        del target, teacher
        needs_density(self, student)

    def loss(self, student: Student, critic: PyTree, target: Target, lesson: Lesson) -> Scalar:
        """Cross entropy of the teacher's draws, with the control variate."""
        del critic, target
        if not self.control:
            return -average(log_probs(student, lesson.after, lesson.x), lesson.weights)
        both = log_probs(student, jnp.concatenate([lesson.after, lesson.control]), lesson.x)
        after, control = jnp.split(both, 2)
        return average(control, lesson.uniform) - average(after, lesson.weights)


class ExclusiveKL(CriticFree):
    """Variational inference: KL[q || p] = E_q[log q(z) - log p(z)], which seeks modes; no teacher used.

    Estimators of the gradient, all unbiased:

    - ``"path"``: through the draws alone, log q is evaluated with frozen parameters. The score term
      that is left out is zero on average, over strata too, and the gradient's noise vanishes at q = p.
    - ``"reparameterised"``: through the draws and through the parameters of log q.
    - ``"score"``: (f - baseline) grad log q with f = log q - log p and a leave-one-out baseline; for
      students whose draws are discrete.

    Reference: Roeder, Wu and Duvenaud, "Sticking the Landing", 2017; Mnih and Rezende, "Variational
    Inference for Monte Carlo Objectives", 2016 (the baseline).

    Args:
        estimator: one of the above.
    """

    estimator: str = eqx.field(static=True, default="path")

    def __check_init__(self):
        """Only the estimators above."""
        one_of("estimator", ESTIMATORS, self.estimator)

    @property
    def is_free_energy(self) -> bool:
        """Not by the score, whose costs are constants."""
        return self.estimator != "score"

    def check(self, target: Target, student: Student, teacher: Teacher) -> None:
        """The student needs a density."""
        del target, teacher
        needs_density(self, student)
        if self.estimator != "score":
            needs_paths(self, student)

    def loss(self, student: Student, critic: PyTree, target: Target, lesson: Lesson) -> Scalar:
        """Free energy of the student's draws."""
        del critic
        if self.estimator == "score":
            scores = log_probs(student, lesson.before, lesson.x)
            costs = scores - log_densities(target, lesson.before, lesson.x)
            return score_loss(costs, scores, lesson.uniform)
        draws, weights = lesson.propose_weighted(student)
        density = frozen(student) if self.estimator == "path" else student
        costs = log_probs(density, draws, lesson.x) - log_densities(target, draws, lesson.x)
        return average(costs, weights)


class SemiImplicitKL(CriticFree):
    """Variational inference for semi-implicit students: a bound above KL[q || p].

    The density of a draw is estimated by the average of the densities of the Gaussian it came from, of
    those of the other draws and of fresh ones. The mean of its logarithm is at least that of log q, and
    the bound tightens as their number grows. No teacher is used.

    Reference: Yin and Zhou, "Semi-Implicit Variational Inference", 2018.

    Args:
        fresh: Gaussians drawn beside those of the draws.
    """

    fresh: int = eqx.field(static=True, default=8)

    def __check_init__(self):
        """A whole number."""
        whole("fresh", self.fresh, least=0)

    @property
    def is_free_energy(self) -> bool:
        """A bound on it, with the same gradient in theta."""
        return True

    def check(self, target: Target, student: Student, teacher: Teacher) -> None:
        """The student needs Gaussians to draw from."""
        del target, teacher
        _needs_gaussians(self, student, "ExclusiveKL")

    def loss(self, student: Student, critic: PyTree, target: Target, lesson: Lesson) -> Scalar:
        """Free energy of the student's draws, by the bound."""
        del critic
        assert isinstance(student, SemiImplicitStudent)
        n = lesson.before.shape[0]
        means, log_scales = _gaussians(student, lesson, self.fresh)
        noise = jax.random.normal(jax.random.split(lesson.key)[1], (n, student.dim))
        draws = means[:n] + jnp.exp(log_scales[:n]) * noise
        draws = jnp.where(lesson.kept[:, None], draws, lesson.before)
        costs = _mixed(draws, means, log_scales) - log_densities(target, draws, lesson.x)
        return average(costs, lesson.uniform)


class SemiImplicitInclusiveKL(CriticFree):
    """Make a semi-implicit student likely where the teacher's draws are: KL[q_T || q] by its mixture.

    log q is estimated by the mixture m of the Gaussians that the draws before teaching came from and of
    fresh ones, and the loss is ``-E log m(z_T) + E log m(z_0)`` with frozen draws. The second term is a
    control variate: z_0 came from one of the Gaussians of m, each as likely as any other, so that its
    gradient is zero on average whatever their number. The lessons must be paired, so that each draw's
    own Gaussian is there.

    References: Yin and Zhou, "Semi-Implicit Variational Inference", 2018; Li, Turner and Liu,
    "Approximate Inference with Amortised MCMC", 2017, section 3.

    Args:
        fresh: Gaussians drawn beside those of the draws.

    Examples:
        >>> import jax, jax.numpy as jnp, optax, understudy
        >>> from understudy.feedbacks import SemiImplicitInclusiveKL
        >>> from understudy.students import semi_implicit
        >>> from understudy.teachers import mala
        >>> target = understudy.LogDensity(lambda z: -0.5 * jnp.sum((z - 1) ** 2), dim=1)
        >>> student = semi_implicit(jax.random.key(0), 1)
        >>> settings = {"updates": 200, "optimiser": optax.adam(0.02), "progress": False}
        >>> feedback = SemiImplicitInclusiveKL()
        >>> trained = understudy.train(target, student, mala(0.5, steps=5), feedback, **settings)
        >>> bool(trained.summary()["mean"].iloc[0] > 0.5)
        True
    """

    fresh: int = eqx.field(static=True, default=8)

    def __check_init__(self):
        """A whole number."""
        whole("fresh", self.fresh, least=0)

    def check(self, target: Target, student: Student, teacher: Teacher) -> None:
        """The student needs Gaussians to draw from."""
        del target, teacher
        _needs_gaussians(self, student, "InclusiveKL")

    def loss(self, student: Student, critic: PyTree, target: Target, lesson: Lesson) -> Scalar:
        """Cross entropy of the teacher's draws by the mixture, with the control variate."""
        del critic, target
        assert isinstance(student, SemiImplicitStudent)
        gaussians = _gaussians(student, lesson, self.fresh)
        before = average(_mixed(lesson.before, *gaussians), lesson.uniform)
        return before - average(_mixed(lesson.after, *gaussians), lesson.weights)


def _gaussians(
    student: SemiImplicitStudent, lesson: Lesson, fresh: int
) -> tuple[Float[Array, "m d"], Float[Array, "m d"]]:
    """Means and log scales of the Gaussians that ``before`` was drawn from, and of fresh ones."""
    first, _ = jax.random.split(lesson.key)
    noise = student.noise(first, lesson.before.shape[0]), student.noise(lesson.noise, fresh)
    return student.components(jnp.concatenate(noise), lesson.x)


def _needs_gaussians(feedback: eqx.Module, student: Student, otherwise: str) -> None:
    if not isinstance(student, SemiImplicitStudent):
        raise IngredientError(
            f"{type(feedback).__name__} needs a student made of random Gaussians such as SemiImplicit, "
            f"and {type(student).__name__} is not; choose {otherwise} for a student with a density, "
            f"EnergyDistance for any other."
        )


def _mixed(
    z: Float[Array, "n d"], means: Float[Array, "m d"], log_scales: Float[Array, "m d"]
) -> Float[Array, " n"]:
    """Log density of every row under the mixture of all Gaussians."""
    each = norm.logpdf(z[:, None], means, jnp.exp(log_scales)).sum(-1)
    return logsumexp(each, 1) - jnp.log(len(means))
