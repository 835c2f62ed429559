"""A divergence of views against the divergence of the views themselves."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import understudy
from understudy.core import IngredientError, Lesson
from understudy.feedbacks import EnergyDistance, JensenShannon, MaximumMeanDiscrepancy, Viewed
from understudy.students import DiagonalGaussian, FullGaussian, Gated
from understudy.targets import LogDensity
from understudy.teachers import mala

KEY = jax.random.key(0)
TARGET = LogDensity(lambda z: -0.5 * jnp.sum((jnp.abs(z) - 2) ** 2), 2)
SIZE = Viewed(EnergyDistance(), lambda target, z, x: jnp.abs(z))


def lesson_of(student, n=20):
    before = student.sample(KEY, None, n)
    after = before + 0.3
    return Lesson(KEY, KEY, None, before, after, jnp.full(n, 1 / n), before, jnp.ones(n, bool))


def test_the_whole_view_is_no_view():
    student = DiagonalGaussian(2, 0.7, 1.3)
    lesson = lesson_of(student)
    for inner in (EnergyDistance(), MaximumMeanDiscrepancy()):
        feedback = Viewed(inner, lambda target, z, x: z)
        given = (student, None, TARGET, lesson)
        np.testing.assert_allclose(feedback.loss(*given), inner.loss(*given), rtol=1e-6)


def test_a_linear_view_is_the_divergence_of_the_viewed_student():
    """z -> 2 z of N(0.7, 1.3^2) is N(1.4, 2.6^2), drawn from the same noise."""
    student, wider = DiagonalGaussian(2, 0.7, 1.3), DiagonalGaussian(2, 1.4, 2.6)
    lesson = lesson_of(student)
    twice = eqx.tree_at(lambda le: (le.before, le.after), lesson, (2 * lesson.before, 2 * lesson.after))
    found = Viewed(EnergyDistance(), lambda target, z, x: 2 * z).loss(student, None, TARGET, lesson)
    np.testing.assert_allclose(found, EnergyDistance().loss(wider, None, TARGET, twice), rtol=1e-5)


def test_what_the_view_does_not_tell_apart_does_not_count():
    """Draws at -2 are as good as draws at 2 to a view of sizes, and not to the draws themselves."""
    student = DiagonalGaussian(2, 2.0, 0.1)
    lesson = lesson_of(student)
    mirrored = eqx.tree_at(lambda le: le.after, lesson, -lesson.before)
    assert abs(float(SIZE.loss(student, None, TARGET, mirrored))) < 0.1
    assert float(EnergyDistance().loss(student, None, TARGET, mirrored)) > 5


def test_the_target_is_seen_and_students_learn():
    feedback = Viewed(EnergyDistance(), lambda target, z, x: target.log_density(z)[None])
    settings = {"updates": 300, "optimiser": optax.adam(0.03), "progress": False}
    start = FullGaussian(2, 0.5, 0.3)
    trained = understudy.train(TARGET, start, mala(0.3, steps=5), feedback, **settings)
    energy = lambda student: jax.vmap(TARGET.log_density)(student.sample(KEY, None, 500)).mean()  # noqa: E731
    assert energy(trained.student) > energy(start) + 0.5


def test_a_gate_keeps_its_weights():
    student = Gated(KEY, 2, branches=3)
    slope = eqx.filter_grad(lambda s: SIZE.loss(s, None, TARGET, lesson_of(student)))(student)
    assert jnp.abs(slope.logits).max() > 0


def test_only_comparisons_of_sets_have_a_view():
    with pytest.raises(IngredientError, match="EnergyDistance"):
        Viewed(JensenShannon(), lambda target, z, x: z)
