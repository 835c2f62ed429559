"""Stein feedbacks against closed forms between Gaussians, and projections."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.scipy.stats import norm
from jax.test_util import check_grads

from understudy.core import IngredientError, Lesson, Target
from understudy.feedbacks import Copy, KernelSteinDiscrepancy, LearntStein, MomentProjection
from understudy.numerics import RADIAL, stein_kernel
from understudy.students.gaussian import DiagonalGaussian, GaussianMixture
from understudy.teachers.identity import Identity


class Standard(Target):
    dim: int = eqx.field(static=True, default=1)

    def log_density(self, z, x=None):
        return norm.logpdf(z).sum()


class Linear(eqx.Module):
    matrix: jax.Array
    offset: jax.Array

    def __call__(self, z, x=None):
        return self.matrix @ z + self.offset


TARGET = Standard()


def lesson_of(key, student, n):
    draw, noise = jax.random.split(key)
    before = student.sample(draw, None, n)
    return Lesson(draw, noise, None, before, before, jnp.full(n, 1 / n), before, jnp.ones(n, bool))


@pytest.mark.parametrize("name", ["imq", "gaussian"])
def test_stein_kernel_matches_its_definition(name):
    a, b = jnp.array([0.3, -1.0]), jnp.array([0.8, 0.4])
    score = lambda z: -(z**3)  # noqa: E731
    k = lambda a, b: RADIAL[name](jnp.sum((a - b) ** 2))  # noqa: E731
    cross = jnp.trace(jax.jacfwd(jax.grad(k, 1), 0)(a, b))
    expected = score(a) @ score(b) * k(a, b) + score(a) @ jax.grad(k, 1)(a, b) + cross
    expected += score(b) @ jax.grad(k, 0)(a, b)
    value = jax.jit(lambda a, b: stein_kernel(RADIAL[name], a, b, score(a), score(b)))(a, b)
    np.testing.assert_allclose(value, expected, rtol=1e-5)


def test_kernel_stein_discrepancy_of_a_shift():
    """The scores of N(m, 1) and N(0, 1) differ by m everywhere, so KSD^2 = m^2 E k."""
    shift, h = 0.7, 1.1
    student, feedback = DiagonalGaussian(1, shift), KernelSteinDiscrepancy("gaussian", h)

    def one(key):
        lesson = lesson_of(key, student, 6)
        value, slope = jax.value_and_grad(lambda s: feedback.loss(s, None, TARGET, lesson))(student)
        return jnp.stack([value, slope.mean[0]])

    rows = jax.jit(jax.vmap(one))(jax.random.split(jax.random.key(0), 4000))
    mean_kernel = h / (h**2 + 2) ** 0.5
    expected = np.array([shift**2, 2 * shift]) * mean_kernel
    assert np.all(np.abs(rows.mean(0) - expected) < 4.5 * rows.std(0) / 4000**0.5)


@pytest.mark.parametrize("exact", [16, 0])
def test_learnt_stein_reaches_the_fisher_divergence(exact):
    """The best test function for N(m, s^2) is linear, and has no slope of its own left."""
    mean, scale, penalty = jnp.array([0.4, 0.0]), jnp.array([1.0, 1.5]), 0.7
    best = Linear(jnp.diag(1 / scale**2 - 1) / (2 * penalty), -mean / scale**2 / (2 * penalty))
    student = DiagonalGaussian(2, mean, scale)
    feedback = LearntStein(penalty, exact=exact)
    lesson = lesson_of(jax.random.key(0), student, 40000)
    fisher = jnp.sum(mean**2 + (1 / scale - scale) ** 2)
    loss = jax.jit(lambda c: feedback.loss(student, c, TARGET, lesson))
    np.testing.assert_allclose(loss(best), fisher / (4 * penalty), rtol=0.03)
    slope = jax.jit(jax.grad(lambda c: feedback.critic_loss(c, TARGET, lesson)))(best)
    np.testing.assert_allclose(slope.matrix, 0, atol=0.05)
    np.testing.assert_allclose(slope.offset, 0, atol=0.03)


def test_learnt_stein_moves_the_student_down_the_fisher_divergence():
    student, penalty = DiagonalGaussian(1, 0.4), 0.5
    best = Linear(jnp.zeros((1, 1)), jnp.array([-0.4]) / (2 * penalty))
    lesson = lesson_of(jax.random.key(0), student, 20000)
    slope = jax.jit(jax.grad(lambda s: LearntStein(penalty).loss(s, best, TARGET, lesson)))(student)
    np.testing.assert_allclose(slope.mean, 2 * 0.4 / (4 * penalty), rtol=1e-4)


@pytest.mark.parametrize(
    "feedback", [KernelSteinDiscrepancy(bandwidth=0.8), LearntStein(), LearntStein(exact=1)]
)
def test_gradient_matches_finite_differences(feedback):
    with jax.enable_x64(True):
        student = DiagonalGaussian(2, jnp.array([0.3, 0.1]), jnp.array([1.2, 0.8]))
        critic = feedback.init(jax.random.key(1), 2, None)
        lesson = lesson_of(jax.random.key(3), student, 4)
        arrays, rest = eqx.partition(student, eqx.is_inexact_array)
        loss = jax.jit(lambda a: feedback.loss(eqx.combine(a, rest), critic, TARGET, lesson))
        check_grads(loss, (arrays,), order=1, modes=["rev"], atol=1e-5, rtol=1e-5)


def test_projection_moves_the_share_of_the_way():
    student = DiagonalGaussian(1, 0.0, 1.0)
    lesson = lesson_of(jax.random.key(0), DiagonalGaussian(1, 3.0, 0.5), 4)
    lessons = jax.tree.map(lambda leaf: leaf[None], lesson)
    mean, scale = lesson.after.mean(0), lesson.after.std(0)
    moved = MomentProjection(0.25).project(student, lessons)
    np.testing.assert_allclose(moved.mean, 0.25 * mean, rtol=1e-5)
    copied = Copy().project(student, lessons)
    np.testing.assert_allclose([copied.mean, copied.scale], [mean, scale], rtol=1e-4)


def test_what_cannot_be_projected_is_refused():
    student = GaussianMixture(jax.random.key(0), 2, 1)
    for feedback in (MomentProjection(), Copy()):
        with pytest.raises(IngredientError, match="InclusiveKL"):
            feedback.check(TARGET, student, Identity())
    with pytest.raises(IngredientError, match="share"):
        MomentProjection(1.5)
    with pytest.raises(IngredientError, match="'imq'"):
        KernelSteinDiscrepancy("cosine")
