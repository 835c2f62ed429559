"""Set-wise feedbacks against closed forms between Gaussians, and their bias or lack of it."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.scipy.special import erf
from jax.test_util import check_grads

from understudy.core import CONDITIONS, IngredientError, Lesson, Target
from understudy.feedbacks import (
    EnergyDistance,
    EnergyMatching,
    MaximumMeanDiscrepancy,
    MomentMatching,
    SquaredDistance,
)
from understudy.students.gaussian import DiagonalGaussian, GaussianMixture
from understudy.teachers.identity import Identity
from understudy.teachers.langevin import Langevin


class Standard(Target):
    dim: int = eqx.field(static=True, default=1)

    def log_density(self, z, x=None):
        return jax.scipy.stats.norm.logpdf(z).sum()


TARGET = Standard()
SETWISE = [EnergyDistance(), MaximumMeanDiscrepancy(bandwidth=1.3), MomentMatching(2)]


def lesson_of(key, student, improve, n=6, weights=None, x=None):
    draw, noise, teach = jax.random.split(key, 3)
    before = student.sample(draw, x, n)
    weights = jnp.full(n, 1 / n) if weights is None else weights
    return Lesson(draw, noise, x, before, improve(teach, before), weights, before, weights > 0)


def independent(key, before):
    return jax.random.normal(key, before.shape)


def autoregressive(key, before):
    """A chain that keeps the standard normal and moves little."""
    return 0.9 * before + 0.19**0.5 * jax.random.normal(key, before.shape)


def statistics(feedback, student, improve, repeats=3000, n=6):
    """Mean over many lessons, and standard error, of the loss and of its gradient."""

    def one(key):
        lesson = lesson_of(key, student, improve, n)
        return jax.value_and_grad(lambda s: feedback.loss(s, None, TARGET, lesson))(student)

    rows = jax.jit(jax.vmap(one))(jax.random.split(jax.random.key(0), repeats))
    rows = np.concatenate([np.reshape(leaf, (repeats, -1)) for leaf in jax.tree.leaves(rows)], axis=1)
    return rows.mean(0), rows.std(0) / repeats**0.5


def mean_distance(shift, spread):
    """E|N(shift, spread^2)|."""
    first = spread * jnp.sqrt(2 / jnp.pi) * jnp.exp(-(shift**2) / (2 * spread**2))
    return first + shift * erf(shift / (spread * jnp.sqrt(2.0)))


def mean_kernel(shift, spread, h=1.3):
    """E exp(-N(shift, spread^2)^2 / 2h^2)."""
    total = h**2 + spread**2
    return h / jnp.sqrt(total) * jnp.exp(-(shift**2) / (2 * total))


def gap(similarity, mean, scale):
    across = similarity(mean, (1 + scale**2) ** 0.5)
    return similarity(0.0, scale * 2**0.5) - 2 * across + similarity(0.0, 2**0.5)


def closed_form(feedback, mean, scale):
    if isinstance(feedback, EnergyDistance):
        return gap(lambda *a: -mean_distance(*a), mean, scale)
    if isinstance(feedback, MaximumMeanDiscrepancy):
        return gap(mean_kernel, mean, scale)
    return mean**2 + (mean**2 + scale**2 - 1) ** 2


@pytest.mark.parametrize("feedback", SETWISE)
def test_value_and_gradient_match_the_closed_form(feedback):
    student = DiagonalGaussian(1, 0.6, 1.4)
    truth = jax.jit(jax.value_and_grad(lambda m, s: closed_form(feedback, m, jnp.exp(s)), (0, 1)))
    estimate, error = statistics(feedback, student, independent)
    value, slope = truth(0.6, jnp.log(1.4))
    assert np.all(np.abs(estimate - np.stack([value, *slope])) < 4.5 * error)


@pytest.mark.parametrize("feedback", [*SETWISE, MaximumMeanDiscrepancy("laplace", 1.0)])
def test_the_target_is_a_fixed_point_of_paired_teaching(feedback):
    gradient, error = statistics(feedback, DiagonalGaussian(1, 0.0, 1.0), autoregressive)
    assert np.all(np.abs(gradient) < 4.5 * error)


@pytest.mark.parametrize(
    "feedback",
    [
        EnergyDistance(diagonal=True),
        MaximumMeanDiscrepancy(bandwidth=1.3, diagonal=True),
        MomentMatching(diagonal=True),
    ],
)
def test_the_paired_diagonal_is_biased(feedback):
    gradient, error = statistics(feedback, DiagonalGaussian(1, 0.0, 1.0), autoregressive)
    assert gradient[2] < -8 * error[2]


def mixture():
    student = GaussianMixture(jax.random.key(0), 1, 2)
    start = (jnp.array([0.4, -0.4]), jnp.array([[-2.0], [2.0]]))
    return eqx.tree_at(lambda s: (s.logits, s.means), student, start)


@pytest.mark.parametrize(
    "feedback",
    [EnergyDistance(), pytest.param(MaximumMeanDiscrepancy(bandwidth=1.3), marks=pytest.mark.slow)],
)
def test_gates_have_no_bias_with_few_draws_per_branch(feedback):
    student = mixture()
    gradient, error = statistics(
        feedback, student, lambda key, before: student.sample(key, None, before.shape[0]), n=4
    )
    assert np.all(np.abs(gradient) < 4.5 * error)
    assert np.all(error > 0)


@pytest.mark.parametrize(
    "feedback", [EnergyDistance(), EnergyMatching(), MaximumMeanDiscrepancy("multiscale")]
)
def test_rows_of_weight_zero_do_not_matter(feedback):
    student = DiagonalGaussian(2, 0.3, 1.2)
    weights = jnp.array([0.5, 0.2, 0.0, 0.3])
    lesson = lesson_of(jax.random.key(2), student, independent, 4, weights)
    value = jax.jit(jax.value_and_grad(lambda s, le: feedback.loss(s, None, TARGET, le)))
    garbage = jnp.where(weights[:, None] > 0, lesson.after, 1e3)
    other = eqx.tree_at(lambda le: (le.after, le.before), lesson, (garbage, garbage))
    pairs = zip(*(jax.tree.leaves(value(student, le)) for le in (lesson, other)), strict=True)
    assert all(np.allclose(one, two, rtol=1e-5) for one, two in pairs)


def test_weights_count_as_repetitions():
    """Weights of draws that repeat give the biased and unbiased forms their exact values."""
    student = DiagonalGaussian(1, 0.3, 1.2)
    weights = jnp.array([0.5, 0.2, 0.1, 0.2])
    lesson = lesson_of(jax.random.key(2), student, independent, 4, weights)
    a, b, w, v = (np.asarray(v, float) for v in (lesson.after, lesson.before, weights, lesson.uniform))
    off = 1 - np.eye(4)
    mean = lambda r, c, u, t: np.sum(off * np.outer(u, t) * abs(r - c.T)) / np.sum(off * np.outer(u, t))  # noqa: E731
    expected = 2 * mean(a, b, w, v) - mean(b, b, v, v) - mean(a, a, w, w)
    np.testing.assert_allclose(EnergyDistance().loss(student, None, TARGET, lesson), expected, rtol=1e-5)


@pytest.mark.parametrize(
    "feedback",
    [
        EnergyDistance(),
        EnergyMatching(1.5),
        MaximumMeanDiscrepancy("imq", 0.9),
        *(
            pytest.param(feedback, marks=pytest.mark.slow)
            for feedback in (
                EnergyDistance(diagonal=True),
                *(MaximumMeanDiscrepancy(name, 0.9) for name in ("gaussian", "laplace", "multiscale")),
                MomentMatching(3),
                SquaredDistance(),
            )
        ),
    ],
)
def test_gradient_matches_finite_differences(feedback):
    gated = isinstance(feedback, EnergyDistance) and not feedback.diagonal
    with jax.enable_x64(True):
        student = mixture() if gated else DiagonalGaussian(1, 0.3, 1.2)
        student = jax.tree.map(lambda leaf: leaf.astype(float), student)
        lesson = lesson_of(jax.random.key(3), student, independent, 4)
        arrays, rest = eqx.partition(student, eqx.is_inexact_array)
        loss = jax.jit(lambda a: feedback.loss(eqx.combine(a, rest), None, TARGET, lesson))
        check_grads(loss, (arrays,), order=1, modes=["rev"], atol=1e-5, rtol=1e-5)


def test_pooling_compares_pairs_over_the_batch():
    student = DiagonalGaussian(1, 0.3, 1.2)
    x = jnp.array([[0.0], [1.0], [3.0]])
    lessons = jax.vmap(lambda key, x: lesson_of(key, student, independent, 1, x=x))(
        jax.random.split(jax.random.key(1), 3), x
    )
    loss = jax.vmap(
        lambda le: EnergyDistance(pool=True).loss(student, None, TARGET, le), axis_name=CONDITIONS
    )
    a, b = (np.concatenate([x, rows[:, 0]], axis=1) for rows in (lessons.after, lessons.before))
    off = (1 - np.eye(3)) / 6
    mean = lambda r, c: np.sum(off * np.linalg.norm(r[:, None] - c[None], axis=-1))  # noqa: E731
    np.testing.assert_allclose(loss(lessons), 2 * mean(a, b) - mean(b, b) - mean(a, a), rtol=1e-5)


def test_one_particle_without_pooling_is_refused():
    student = DiagonalGaussian(1)
    with pytest.raises(IngredientError, match="pool=True"):
        EnergyDistance().loss(
            student, None, TARGET, lesson_of(jax.random.key(0), student, independent, 1)
        )


@pytest.mark.parametrize("beta", [0.5, 1.0, 2.0])
def test_energy_matching_is_the_power_of_the_gap(beta):
    student = DiagonalGaussian(1, 0.3, 1.2)
    lesson = lesson_of(jax.random.key(0), student, independent, 4)
    gap = np.mean(lesson.before**2 - lesson.after**2) / 2
    value = EnergyMatching(beta).loss(student, None, TARGET, lesson)
    np.testing.assert_allclose(value, abs(gap) ** beta, rtol=1e-4)
    still = lesson_of(jax.random.key(0), student, lambda key, before: before, 4)
    slope = jax.grad(lambda s: EnergyMatching(beta).loss(s, None, TARGET, still))(student)
    assert all(np.all(np.isfinite(leaf)) for leaf in jax.tree.leaves(slope))


def test_squared_distance_is_for_deterministic_teachers():
    student = DiagonalGaussian(1)
    SquaredDistance().check(TARGET, student, Identity())
    with pytest.raises(IngredientError, match="SVGD"):
        SquaredDistance().check(TARGET, student, Langevin(0.1))


def test_settings_are_checked():
    with pytest.raises(IngredientError, match="'imq'"):
        MaximumMeanDiscrepancy("cosine")
    with pytest.raises(IngredientError, match="1 or more"):
        MomentMatching(0)


def test_a_sweep_over_bandwidths_is_one_vmap():
    student = DiagonalGaussian(1, 0.3, 1.2)
    lesson = lesson_of(jax.random.key(0), student, independent)
    loss = lambda h: MaximumMeanDiscrepancy(bandwidth=h).loss(student, None, TARGET, lesson)  # noqa: E731
    np.testing.assert_allclose(jax.vmap(loss)(jnp.array([0.5, 2.0])), [loss(0.5), loss(2.0)], rtol=1e-5)
