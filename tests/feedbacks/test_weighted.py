"""A weighted sum against its terms and against the closed form between Gaussians."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from understudy.core import IngredientError, Lesson
from understudy.feedbacks import (
    EnergyDistance,
    ExclusiveKL,
    InclusiveKL,
    JensenShannon,
    Wasserstein,
    WeightedSum,
)
from understudy.students import DiagonalGaussian, Implicit
from understudy.targets import LogDensity
from understudy.teachers import Identity

KEY = jax.random.key(0)
TARGET = LogDensity(lambda z: jax.scipy.stats.norm.logpdf(z).sum(), 1)


def lesson_of(student, n):
    before = student.sample(KEY, None, n)
    after = jax.random.normal(jax.random.key(1), before.shape)
    return Lesson(KEY, KEY, None, before, after, jnp.full(n, 1 / n), before, jnp.ones(n, bool))


def gradient(feedback, student, lesson, critic=None):
    loss = lambda s: feedback.loss(s, critic, TARGET, lesson)  # noqa: E731
    return jax.jit(jax.value_and_grad(loss))(student)


def test_loss_and_gradient_add_up():
    student = DiagonalGaussian(1, 0.7, 1.3)
    lesson = lesson_of(student, 50)
    terms = [(0.3, ExclusiveKL()), (2.0, InclusiveKL())]
    value, slope = gradient(WeightedSum(terms), student, lesson)
    parts = [gradient(feedback, student, lesson) for _, feedback in terms]
    np.testing.assert_allclose(value, 0.3 * parts[0][0] + 2.0 * parts[1][0], rtol=1e-5)
    expected = jax.tree.map(lambda a, b: 0.3 * a + 2.0 * b, parts[0][1], parts[1][1])
    np.testing.assert_allclose(slope.mean, expected.mean, rtol=1e-5)
    np.testing.assert_allclose(slope.log_scale, expected.log_scale, rtol=1e-5)


def test_both_kl_divergences_of_a_shift():
    """KL[q || p] = m^2 / 2 and KL[p || q] = m^2 / 2 for unit Gaussians, so the slope is (a + b) m."""
    shift, a, b = 0.5, 0.4, 1.5
    student = DiagonalGaussian(1, shift)
    feedback = WeightedSum([(a, ExclusiveKL()), (b, InclusiveKL())])
    _, slope = gradient(feedback, student, lesson_of(student, 200_000))
    np.testing.assert_allclose(slope.mean, (a + b) * shift, rtol=0.02)


def test_every_divergence_has_its_own_critic():
    terms = [JensenShannon(), EnergyDistance(), Wasserstein(critic_steps=3)]
    feedback = WeightedSum([(1.0, term) for term in terms])
    student = Implicit(KEY, 1)
    lesson, critics = lesson_of(student, 20), feedback.init(KEY, 1, None)
    assert feedback.critic_steps == 3
    assert critics[1] is None
    expected = sum(terms[i].critic_loss(critics[i], TARGET, lesson) for i in (0, 2))
    np.testing.assert_allclose(feedback.critic_loss(critics, TARGET, lesson), expected, rtol=1e-5)
    losses = [term.loss(student, own, TARGET, lesson) for term, own in zip(terms, critics, strict=True)]
    np.testing.assert_allclose(feedback.loss(student, critics, TARGET, lesson), sum(losses), rtol=1e-5)


def test_without_critics_there_is_none():
    feedback = WeightedSum([(1.0, ExclusiveKL()), (1.0, EnergyDistance())])
    assert feedback.init(KEY, 1, None) is None
    assert feedback.critic_steps == 0


def test_another_weight_compiles_nothing_again():
    student, traces = DiagonalGaussian(1), []
    lesson = lesson_of(student, 8)

    @eqx.filter_jit
    def loss(feedback):
        traces.append(1)
        return feedback.loss(student, None, TARGET, lesson)

    values = [loss(WeightedSum([(weight, ExclusiveKL())])) for weight in (1.0, 2.0)]
    assert len(traces) == 1
    np.testing.assert_allclose(values[1], 2 * values[0], rtol=1e-5)


def test_ingredients_must_suit_every_term():
    feedback = WeightedSum([(1.0, EnergyDistance()), (1.0, InclusiveKL())])
    with pytest.raises(IngredientError, match="InclusiveKL"):
        feedback.check(TARGET, Implicit(KEY, 1), Identity())


def test_an_empty_sum_is_refused():
    with pytest.raises(IngredientError, match="pairs of a weight and a divergence"):
        WeightedSum([])


@pytest.mark.parametrize("weight", [0.0, -1.0, float("nan")])
def test_weights_are_positive(weight):
    with pytest.raises(IngredientError, match="weight must be positive"):
        WeightedSum([(weight, ExclusiveKL())])
