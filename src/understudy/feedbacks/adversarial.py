"""Divergences estimated by a critic that tells the teacher's draws from the student's.

The critic sees the paired draws before and after teaching; the student is judged on its draws, weighed
by the probabilities of its branches where it has any.
"""

from functools import partial
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree, Scalar

from understudy.checks import flag, one_of, positive
from understudy.core import Lesson, Student, Target
from understudy.feedbacks.common import Pathwise, average
from understudy.feedbacks.critics import WithCritic, evaluate, logistic_loss
from understudy.numerics import Elementwise, smooth_root


class Adversarial(WithCritic, Pathwise):
    """A divergence between the teacher's draws and the student's, as a scalar critic sees them."""


class Discriminating(Adversarial):
    """A divergence whose critic learns by logistic regression: log(q_T / q) at its best."""

    def critic_loss(self, critic: PyTree, target: Target, lesson: Lesson) -> Scalar:
        """Logistic loss of after against before."""
        del target
        return logistic_loss(critic, lesson)


class JensenShannon(Discriminating):
    """The student learns to fool a discriminator d of draws before and after teaching.

    The critic ascends ``E_{q_T} log s(d(z)) + E_q log(1 - s(d(z)))``, s the sigmoid, which at its best
    is 2 JS[q_T || q] - 2 log 2. The student descends ``-E_q log s(d(z))``, or
    ``E_q log(1 - s(d(z)))`` if saturating.

    Reference: Goodfellow et al., "Generative Adversarial Nets", 2014; Li, Turner and Liu, 2017, eq. (5).

    Args:
        saturating: use the loss of the bound itself, which is weak where the critic is sure.
        critic, critic_steps: as for every :class:`WithCritic`.

    Examples:
        >>> import jax.numpy as jnp, optax, understudy
        >>> from understudy.feedbacks import JensenShannon
        >>> from understudy.students import FullGaussian
        >>> from understudy.teachers import mala
        >>> target = understudy.LogDensity(lambda z: -0.5 * jnp.sum((z - 1) ** 2), dim=1)
        >>> ingredients = FullGaussian(1), mala(0.5, steps=5), JensenShannon()
        >>> settings = {"updates": 200, "optimiser": optax.adam(0.02), "progress": False}
        >>> trained = understudy.train(target, *ingredients, **settings)
        >>> bool(trained.summary()["mean"].iloc[0] > 0.5)
        True
    """

    saturating: bool = eqx.field(converter=partial(flag, "saturating"), static=True, default=False)

    def loss(self, student: Student, critic: PyTree, target: Target, lesson: Lesson) -> Scalar:
        """How well the discriminator sees through the student."""
        del target
        draws, weights = lesson.propose_weighted(student)
        judged = evaluate(critic, draws, lesson.x)
        losses = -jax.nn.softplus(judged) if self.saturating else jax.nn.softplus(-judged)
        return average(losses, weights)


class Conjugate(NamedTuple):
    """The two halves of the bound, as functions of the critic's value: g and f* of g."""

    after: Elementwise
    before: Elementwise


CONJUGATES: dict[str, Conjugate] = {
    "forward_kl": Conjugate(lambda v: v + 1, jnp.exp),
    "reverse_kl": Conjugate(lambda v: -jnp.exp(-v), lambda v: v - 1),
    "pearson": Conjugate(lambda v: v, lambda v: v**2 / 4 + v),
    "hellinger": Conjugate(lambda v: 1 - jnp.exp(-v / 2), lambda v: jnp.exp(v / 2) - 1),
    "total_variation": Conjugate(lambda v: jnp.tanh(v) / 2, lambda v: jnp.tanh(v) / 2),
    "jensen_shannon": Conjugate(
        lambda v: jnp.log(2.0) - jax.nn.softplus(-v), lambda v: jax.nn.softplus(v) - jnp.log(2.0)
    ),
}


class FDivergence(Adversarial):
    """Any f-divergence D[q_T || q] = E_q f(q_T / q) through its variational lower bound.

    The critic ascends and the student descends ``E_{q_T} g(d(z)) - E_q f*(g(d(z)))``, f* the conjugate
    of f and g a map onto its domain, chosen so that d is log(q_T / q) at its best (for "pearson" it is
    2 (q_T / q - 1), for "total_variation" plus or minus infinity). Kinds: "forward_kl" KL[q_T || q],
    "reverse_kl" KL[q || q_T], "pearson" E_q (q_T / q - 1)^2, "hellinger" integral (sqrt q_T - sqrt q)^2,
    "total_variation" half of integral |q_T - q|, and "jensen_shannon" 2 JS[q_T || q].

    Reference: Nowozin, Cseke and Tomioka, "f-GAN", 2016.

    Args:
        kind: which divergence.
        critic, critic_steps: as for every :class:`WithCritic`.
    """

    kind: str = eqx.field(
        static=True, converter=partial(one_of, "kind", CONJUGATES), default="reverse_kl"
    )

    def critic_loss(self, critic: PyTree, target: Target, lesson: Lesson) -> Scalar:
        """Minus the bound."""
        del target
        return -self._bound(critic, lesson, lesson.before, lesson.uniform)

    def loss(self, student: Student, critic: PyTree, target: Target, lesson: Lesson) -> Scalar:
        """The bound."""
        del target
        return self._bound(critic, lesson, *lesson.propose_weighted(student))

    def _bound(self, critic, lesson, draws, weights):
        conjugate = CONJUGATES[self.kind]
        after = conjugate.after(evaluate(critic, lesson.after, lesson.x))
        before = conjugate.before(evaluate(critic, draws, lesson.x))
        return average(after, lesson.weights) - average(before, weights)


class Wasserstein(Adversarial):
    """How far draws must be carried to match: the greatest E_{q_T} d - E_q d of slope one.

    The critic's slope is kept near one by ``penalty * E (|grad d(z)| - 1)^2`` at random points between
    draws after and before teaching. The critic needs several steps per update to be of use.

    Reference: Gulrajani et al., "Improved Training of Wasserstein GANs", 2017.

    Args:
        penalty: weight of the slope's penalty.
        critic, critic_steps: as for every :class:`WithCritic`.
    """

    penalty: Float[Array, ""] = eqx.field(converter=partial(positive, "penalty"), default=10.0)
    critic_steps: int = eqx.field(static=True, default=5, kw_only=True)

    def critic_loss(self, critic: PyTree, target: Target, lesson: Lesson) -> Scalar:
        """Minus the gap, and the penalty."""
        del target
        gap = _gap(critic, lesson, lesson.before, lesson.uniform)
        slopes = jax.vmap(jax.grad(lambda z: critic(z, lesson.x)))(_between(lesson))
        norms = smooth_root(jnp.sum(slopes**2, axis=-1))
        return self.penalty * average((norms - 1) ** 2, lesson.uniform) - gap

    def loss(self, student: Student, critic: PyTree, target: Target, lesson: Lesson) -> Scalar:
        """The gap."""
        del target
        return _gap(critic, lesson, *lesson.propose_weighted(student))


def _gap(critic, lesson, draws, weights):
    after = average(evaluate(critic, lesson.after, lesson.x), lesson.weights)
    return after - average(evaluate(critic, draws, lesson.x), weights)


def _between(lesson: Lesson) -> Float[Array, "n d"]:
    # Partners are drawn anew: between a draw and its own improvement there may be next to no way.
    choose, place = jax.random.split(lesson.noise)
    n = lesson.before.shape[0]
    partners = jax.random.choice(choose, lesson.after, (n,), p=lesson.weights)
    share = jax.random.uniform(place, (n, 1))
    return share * partners + (1 - share) * lesson.before
