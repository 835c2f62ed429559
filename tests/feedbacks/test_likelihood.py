"""Kullback-Leibler feedbacks against closed forms, quadrature and enumeration."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.test_util import check_grads

from understudy.core import (
    ExplicitStudent,
    IngredientError,
    Lesson,
    SemiImplicitStudent,
    Student,
    Target,
)
from understudy.feedbacks import ExclusiveKL, InclusiveKL, SemiImplicitInclusiveKL, SemiImplicitKL
from understudy.students.gaussian import DiagonalGaussian, GaussianMixture
from understudy.teachers.identity import Identity


class Normal(Target):
    mean: jax.Array
    scale: jax.Array
    dim: int = eqx.field(static=True, default=1)

    def log_density(self, z, x=None):
        return jax.scipy.stats.norm.logpdf(z, self.mean, self.scale).sum()


class Categorical(ExplicitStudent):
    logits: jax.Array
    dim: int = eqx.field(static=True, default=1)

    def sample(self, key, x, n):
        return jax.random.categorical(key, self.logits, shape=(n, 1)).astype(float)

    def log_prob(self, z, x=None):
        return jax.nn.log_softmax(self.logits)[z[0].astype(int)]


class Levels(Target):
    energies: jax.Array
    dim: int = eqx.field(static=True, default=1)

    def log_density(self, z, x=None):
        return self.energies[z[0].astype(int)]


class Wild(Student):
    dim: int = eqx.field(static=True, default=1)

    def sample(self, key, x, n):
        return jax.random.normal(key, (n, 1))


TARGET = Normal(jnp.array([0.5]), jnp.array([1.5]))


def lesson_of(key, student, improve, n=8, kept=None):
    draw, noise, teach = jax.random.split(key, 3)
    before = student.sample(draw, None, n)
    after = improve(teach, before)
    kept = jnp.ones(n, bool) if kept is None else kept
    return Lesson(draw, noise, None, before, after, kept / kept.sum(), before, kept)


def exact(key, before):
    return TARGET.mean + TARGET.scale * jax.random.normal(key, before.shape)


def gradients(feedback, student, improve, repeats, n, target=TARGET):
    """Mean gradient over many lessons, and its standard error."""

    def one(key):
        lesson = lesson_of(key, student, improve, n)
        return jax.grad(lambda s: feedback.loss(s, None, target, lesson))(student)

    rows = jax.jit(jax.vmap(one))(jax.random.split(jax.random.key(0), repeats))
    rows = np.concatenate([np.reshape(leaf, (repeats, -1)) for leaf in jax.tree.leaves(rows)], axis=1)
    return rows.mean(0), rows.std(0) / repeats**0.5


def close(estimate, truth, sigmas=4.5):
    mean, error = estimate
    truth = np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(truth)])
    assert np.all(np.abs(mean - truth) < sigmas * error + 1e-5), (mean, truth, error)
    assert np.all(error < 0.05)


def gaussian_kl(mean, log_scale, other_mean, other_log_scale):
    ratio = jnp.exp(2 * (log_scale - other_log_scale))
    shift = (mean - other_mean) ** 2 * jnp.exp(-2 * other_log_scale)
    return jnp.sum(0.5 * (ratio + shift - 1) + other_log_scale - log_scale)


@pytest.mark.parametrize("control", [True, False])
def test_inclusive_gradient_is_that_of_the_divergence(control):
    student = DiagonalGaussian(1, 0.0, 1.0)
    truth = jax.grad(lambda s: gaussian_kl(TARGET.mean, jnp.log(TARGET.scale), s.mean, s.log_scale))
    close(gradients(InclusiveKL(control), student, exact, 4000, 8), truth(student))


def test_control_variate_silences_the_fixed_point():
    student = DiagonalGaussian(1, 0.0, 1.0)
    stay = lambda key, before: before  # noqa: E731
    mean, error = gradients(InclusiveKL(), student, stay, 50, 8)
    np.testing.assert_allclose(mean, 0, atol=1e-7)
    np.testing.assert_allclose(error, 0, atol=1e-7)
    assert np.all(gradients(InclusiveKL(control=False), student, stay, 50, 8)[1] > 0)


@pytest.mark.parametrize("estimator", ["path", "reparameterised", "score"])
def test_exclusive_gradient_is_that_of_the_divergence(estimator):
    student = DiagonalGaussian(1, 0.0, 1.2)
    truth = jax.grad(lambda s: gaussian_kl(s.mean, s.log_scale, TARGET.mean, jnp.log(TARGET.scale)))
    close(gradients(ExclusiveKL(estimator), student, exact, 4000, 8), truth(student))


@pytest.mark.parametrize("estimator", ["path", "reparameterised", "score"])
def test_exclusive_value_is_the_divergence(estimator):
    student = DiagonalGaussian(1, 0.0, 1.2)
    lesson = lesson_of(jax.random.key(1), student, exact, 20000)
    value = ExclusiveKL(estimator).loss(student, None, TARGET, lesson)
    truth = gaussian_kl(student.mean, student.log_scale, TARGET.mean, jnp.log(TARGET.scale))
    np.testing.assert_allclose(value, truth, atol=0.01)


def test_path_gradient_has_no_noise_at_the_target():
    student = DiagonalGaussian(1, TARGET.mean, TARGET.scale)
    for estimator, silent in (("path", True), ("reparameterised", False)):
        _, error = gradients(ExclusiveKL(estimator), student, exact, 20, 8)
        assert np.all(error < 1e-6) == silent


@pytest.mark.parametrize("estimator", ["path", "reparameterised", "score"])
def test_gates_of_a_mixture_learn_without_bias(estimator):
    student = GaussianMixture(jax.random.key(0), 1, 2)
    student = eqx.tree_at(
        lambda s: (s.logits, s.means), student, (jnp.array([0.5, -0.5]), jnp.array([[-1.0], [1.5]]))
    )
    grid = jnp.linspace(-9, 9, 2001)[:, None]

    def divergence(student):
        log_q = jax.vmap(student.log_prob)(grid)
        costs = log_q - jax.vmap(TARGET.log_density)(grid)
        return jnp.sum(jnp.exp(log_q) * costs) * (grid[1, 0] - grid[0, 0])

    estimate = gradients(ExclusiveKL(estimator), student, exact, 4000, 8)
    close(estimate, jax.grad(divergence)(student))


def test_discrete_students_learn_from_both():
    student = Categorical(jnp.array([0.3, -0.2, 0.6]))
    target = Levels(jnp.array([0.1, 1.0, -0.5]))
    p = jax.nn.softmax(target.energies)

    def exclusive(s):
        q = jax.nn.softmax(s.logits)
        return jnp.sum(q * (jnp.log(q) - target.energies))

    def inclusive(s):
        return -jnp.sum(p * jax.nn.log_softmax(s.logits))

    def teach(key, before):
        return jax.random.categorical(key, target.energies, shape=before.shape).astype(float)

    close(gradients(ExclusiveKL("score"), student, teach, 4000, 5, target), jax.grad(exclusive)(student))
    close(gradients(InclusiveKL(), student, teach, 4000, 5, target), jax.grad(inclusive)(student))


@pytest.mark.parametrize("feedback", [InclusiveKL(), ExclusiveKL(), ExclusiveKL("score")])
def test_rows_that_are_not_kept_do_not_matter(feedback):
    student = DiagonalGaussian(1, 0.0, 1.2)
    kept = jnp.array([True, True, False, True])
    lesson = lesson_of(jax.random.key(2), student, exact, 4, kept)
    garbage = lambda rows: jnp.where(kept[:, None], rows, 7.0)  # noqa: E731
    other = eqx.tree_at(
        lambda le: (le.before, le.after, le.control),
        lesson,
        (garbage(lesson.before), garbage(lesson.after), garbage(lesson.control)),
    )
    value = jax.jit(jax.value_and_grad(lambda s, le: feedback.loss(s, None, TARGET, le)))
    for one, two in zip(
        jax.tree.leaves(value(student, lesson)), jax.tree.leaves(value(student, other)), strict=True
    ):
        np.testing.assert_allclose(one, two, rtol=1e-6)


@pytest.mark.parametrize("feedback", [InclusiveKL(), ExclusiveKL("reparameterised")])
def test_gradient_matches_finite_differences(feedback):
    with jax.enable_x64(True):
        student = DiagonalGaussian(1, jnp.array([0.3]), jnp.array([1.2]))
        lesson = lesson_of(jax.random.key(3), student, exact, 4)
        arrays, rest = eqx.partition(student, eqx.is_inexact_array)
        loss = jax.jit(lambda a: feedback.loss(eqx.combine(a, rest), None, TARGET, lesson))
        check_grads(loss, (arrays,), order=1, modes=["rev"])


def test_a_student_without_density_is_refused():
    for feedback in (InclusiveKL(), ExclusiveKL()):
        with pytest.raises(IngredientError, match="EnergyDistance"):
            feedback.check(TARGET, Wild(), Identity())


def test_unknown_estimator_is_refused():
    with pytest.raises(IngredientError, match="'path'"):
        ExclusiveKL("magic")


class Linear(SemiImplicitStudent):
    """Gaussians of scale s around slope * e: the mixture is N(0, slope^2 + s^2)."""

    slope: jax.Array
    log_scale: jax.Array
    dim: int = eqx.field(static=True, default=1)

    def noise(self, key, n):
        return jax.random.normal(key, (n, 1))

    def components(self, noise, x):
        means = self.slope * noise
        return means, jnp.broadcast_to(self.log_scale, means.shape)


LINEAR = Linear(jnp.array(1.2), jnp.log(jnp.array(0.9)))


def bound(student, fresh, n=1, lessons=20_000):
    def one(key):
        lesson = lesson_of(key, student, lambda _, z: z, n)
        return SemiImplicitKL(fresh=fresh).loss(student, None, TARGET, lesson)

    return jax.vmap(one)(jax.random.split(jax.random.key(0), lessons)).mean()


def test_the_semi_implicit_bound_falls_to_the_divergence():
    """KL[N(0, v) || N(m, s^2)] = log(s / sqrt v) + (v + m^2) / (2 s^2) - 1/2."""
    exact = float(np.log(1.5 / 1.5) + (1.5**2 + 0.5**2) / (2 * 1.5**2) - 0.5)
    alone = float(bound(LINEAR, 0))
    # With no other Gaussians log q is that of the draw's own: E log N(0; 0.9) - E log p.
    by_hand = -np.log(0.9) - 0.5 + np.log(1.5) + (1.5**2 + 0.5**2) / (2 * 1.5**2)
    assert alone == pytest.approx(by_hand, abs=0.03)
    few, many = float(bound(LINEAR, 4)), float(bound(LINEAR, 400, lessons=4000))
    assert alone > few > many > exact - 0.03
    assert many == pytest.approx(exact, abs=0.05)
    assert float(bound(LINEAR, 0, n=5)) == pytest.approx(few, abs=0.03)


def test_the_semi_implicit_bound_has_its_own_gradient():
    lesson = lesson_of(jax.random.key(1), LINEAR, lambda _, z: z, 6)

    def loss(slope, log_scale):
        return SemiImplicitKL(fresh=3).loss(Linear(slope, log_scale), None, TARGET, lesson)

    check_grads(loss, (LINEAR.slope, LINEAR.log_scale), order=1, modes=["rev"], atol=1e-2, rtol=1e-2)


def test_rows_that_are_not_kept_do_not_count_in_the_semi_implicit_bound():
    kept = jnp.array([True, False, True])
    lesson = lesson_of(jax.random.key(2), LINEAR, lambda _, z: z, 3, kept)
    broken = eqx.tree_at(lambda le: le.before, lesson, lesson.before.at[1].set(jnp.nan))
    assert jnp.isfinite(SemiImplicitKL().loss(LINEAR, None, TARGET, broken))


@pytest.mark.parametrize("feedback", [SemiImplicitKL(), SemiImplicitInclusiveKL()])
def test_only_semi_implicit_students_learn_by_their_bound(feedback):
    with pytest.raises(IngredientError, match="made of random Gaussians such as SemiImplicit"):
        feedback.check(TARGET, Wild(), Identity())


def inclusive_slope(teacher, fresh, lessons=20_000):
    """The mean gradient in the slope of :class:`Linear`, and its standard error."""

    def one(key):
        lesson = lesson_of(key, LINEAR, teacher, 2)

        def loss(slope):
            student = Linear(slope, LINEAR.log_scale)
            return SemiImplicitInclusiveKL(fresh=fresh).loss(student, None, TARGET, lesson)

        return jax.grad(loss)(LINEAR.slope)

    found = jax.vmap(one)(jax.random.split(jax.random.key(3), lessons))
    return float(found.mean()), float(found.std()) / lessons**0.5


def test_one_gaussian_makes_the_semi_implicit_divergence_the_inclusive_one():
    """All Gaussians are the same where they do not depend on the noise."""
    same = Linear(jnp.array(0.0), LINEAR.log_scale)
    lesson = lesson_of(jax.random.key(4), same, lambda _, z: 0.5 * z + 1, 5)
    found = SemiImplicitInclusiveKL(fresh=3).loss(same, None, TARGET, lesson)
    scale = jnp.exp(LINEAR.log_scale)
    log_q = lambda z: jax.scipy.stats.norm.logpdf(z, 0.0, scale).mean()  # noqa: E731
    np.testing.assert_allclose(found, log_q(lesson.before) - log_q(lesson.after), rtol=1e-4)


@pytest.mark.parametrize("fresh", [0, 5])
def test_a_teacher_that_moves_nothing_teaches_nothing(fresh):
    """The control variate cancels the cross entropy of its own draws."""
    mean, error = inclusive_slope(lambda _, z: z, fresh)
    assert abs(mean) <= 1e-6 + 4 * error


def test_the_control_variate_has_no_gradient_on_average():
    """So that teaching draws of their own law, not paired with them, moves the student nowhere."""
    again = lambda key, z: 1.5 * jax.random.normal(key, z.shape)  # noqa: E731
    few, few_error = inclusive_slope(again, 400, lessons=2000)
    assert abs(few) < 0.02 + 4 * few_error


def test_a_wider_teacher_widens_the_semi_implicit_student():
    """d/d slope of KL[N(0, w) || N(0, v)] = slope (v - w) / v^2, with v = slope^2 + scale^2."""
    wide = lambda key, z: 2.0 * jax.random.normal(key, z.shape)  # noqa: E731
    mean, error = inclusive_slope(wide, 400, lessons=4000)
    exact = 1.2 * (1.5**2 - 4.0) / 1.5**4
    assert mean == pytest.approx(exact, abs=0.03 + 4 * error)
