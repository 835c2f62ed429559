"""Gaussian students against scipy, quadrature and exact moments."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

from understudy.core import IngredientError, Lesson
from understudy.students import DiagonalGaussian, FullGaussian, GaussianMixture, LowRankGaussian

KEY = jax.random.key(0)


def noise_like(tree, seed=0):
    rng = np.random.default_rng(seed)
    return jax.tree.map(lambda v: rng.normal(size=v.shape).astype(np.float32), tree)


def perturbed(student):
    return jax.tree.map(lambda v, e: v + 0.5 * e, student, noise_like(student))


def lessons_of(after, weights=None, kept=None):
    b, n, _ = after.shape
    kept = jnp.ones((b, n), bool) if kept is None else kept
    weights = kept / kept.sum(-1, keepdims=True) if weights is None else weights
    return jax.vmap(lambda z, w, k: Lesson(KEY, KEY, None, z, z, w, z, k))(after, weights, kept)


def covariance(student):
    if isinstance(student, DiagonalGaussian):
        return np.diag(np.exp(2 * np.asarray(student.log_scale)))
    factor = np.asarray(student.factor, float)
    if isinstance(student, FullGaussian):
        return factor @ factor.T
    return factor @ factor.T + np.diag(np.exp(2 * np.asarray(student.log_scale, float)))


GAUSSIANS = [DiagonalGaussian(4), FullGaussian(4), LowRankGaussian(4, 2), LowRankGaussian(2, 5)]


@pytest.mark.parametrize("student", GAUSSIANS, ids=lambda s: type(s).__name__)
def test_log_prob_is_that_of_scipy(student):
    student = perturbed(student)
    z = 2 * np.random.default_rng(0).normal(size=(8, student.dim))
    expected = scipy.stats.multivariate_normal(student.mean, covariance(student)).logpdf(z)
    ours = jax.jit(jax.vmap(student.log_prob))(jnp.asarray(z, jnp.float32))
    np.testing.assert_allclose(ours, expected, rtol=2e-4)


def test_low_rank_log_prob_keeps_its_digits_when_the_factor_dominates():
    student = eqx.tree_at(lambda s: s.factor, LowRankGaussian(6, 1, scale=0.01), jnp.full((6, 1), 10.0))
    z = 10.0 * jnp.ones(6) + 0.01 * jax.random.normal(KEY, (6,))
    expected = scipy.stats.multivariate_normal(np.zeros(6), covariance(student)).logpdf(np.asarray(z))
    assert float(student.log_prob(z)) == pytest.approx(expected, rel=0.02)


STUDENTS = [*GAUSSIANS, GaussianMixture(KEY, 3, 4)]


@pytest.mark.parametrize("student", STUDENTS, ids=lambda s: type(s).__name__)
def test_entropy_and_score_of_draws_agree_with_log_prob(student):
    # E[grad log q] = 0 and E[(z . grad log q)] = -d, for draws of q alone.
    student = perturbed(student)
    z = jax.jit(lambda k: student.sample(k, None, 20_000))(KEY)
    score = jax.jit(jax.vmap(jax.grad(student.log_prob)))(z)
    values = np.asarray(jnp.concatenate([score, (z * score).sum(-1, keepdims=True) + student.dim], 1))
    standard_error = values.std(0) / np.sqrt(len(values))
    assert np.all(np.abs(values.mean(0) / standard_error) < 4.5)


@pytest.mark.parametrize(
    "student", [LowRankGaussian(2, 1), GaussianMixture(KEY, 2, 3)], ids=["low", "mix"]
)
def test_density_integrates_to_one(student):
    student = perturbed(student)
    grid = jnp.linspace(-25, 25, 401)
    points = jnp.stack(jnp.meshgrid(grid, grid), -1).reshape(-1, 2)
    mass = jnp.exp(jax.jit(jax.vmap(student.log_prob))(points)).sum() * (grid[1] - grid[0]) ** 2
    assert float(mass) == pytest.approx(1, abs=1e-3)


@pytest.mark.parametrize("student", STUDENTS, ids=lambda s: type(s).__name__)
def test_pathwise_gradient_is_the_finite_difference(student):
    student, direction = perturbed(student), noise_like(student, seed=1)

    def value(t):
        moved = jax.tree.map(lambda v, u: v + t * u, student, direction)
        return jnp.sum(jnp.sin(moved.sample(KEY, None, 5)))

    both = jax.jit(jax.vmap(jax.value_and_grad(value)))
    (low, _, high), (_, slope, _) = both(jnp.array([-1e-2, 0, 1e-2]))
    assert float(slope) == pytest.approx(float(high - low) / 2e-2, rel=2e-2, abs=2e-2)


@pytest.mark.parametrize("kind", [DiagonalGaussian, FullGaussian])
def test_projection_at_rate_one_gives_the_sample_moments(kind):
    after = 3 + 2 * jax.random.normal(KEY, (4, 10, 3)) @ jnp.array(
        [[1.0, 0.5, 0], [0, 1, 0], [0, 0.3, 2]]
    )
    weights = jax.nn.softmax(jax.random.normal(KEY, (4, 10)))
    student = jax.jit(kind.project)(kind(3), lessons_of(after, weights), jnp.asarray(1.0))
    rows, w = np.asarray(after).reshape(-1, 3), np.asarray(weights).ravel() / 4
    expected = np.cov(rows.T, aweights=w, ddof=0)
    np.testing.assert_allclose(student.mean, w @ rows, rtol=1e-4)
    found = covariance(student)
    wanted = np.diag(np.diag(expected)) if kind is DiagonalGaussian else expected
    np.testing.assert_allclose(found, wanted, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("kind", [DiagonalGaussian, FullGaussian])
def test_projection_averages_raw_moments(kind):
    old, rate = kind(2, jnp.array([1.0, -2.0]), 0.5), 0.3
    after = jax.random.normal(KEY, (2, 6, 2))
    student = old.project(lessons_of(after), jnp.asarray(rate))
    rows = np.asarray(after).reshape(-1, 2)

    def second(mean, cov):
        return cov + np.outer(mean, mean)

    mean = (1 - rate) * np.asarray(old.mean) + rate * rows.mean(0)
    raw = (1 - rate) * second(old.mean, covariance(old)) + rate * rows.T @ rows / len(rows)
    found = second(np.asarray(student.mean), covariance(student))
    np.testing.assert_allclose(student.mean, mean, rtol=1e-5)
    np.testing.assert_allclose(np.diag(found), np.diag(raw), rtol=1e-4)
    if kind is FullGaussian:
        np.testing.assert_allclose(found, raw, rtol=1e-4)


@pytest.mark.parametrize("kind", [DiagonalGaussian, FullGaussian])
def test_projection_survives_few_draws_and_broken_chains(kind):
    after = jax.random.normal(KEY, (1, 3, 8)).at[0, 2].set(jnp.nan)
    kept = jnp.array([[True, True, False]])
    student = kind(8).project(lessons_of(after, kept=kept), jnp.asarray(1.0))
    np.testing.assert_allclose(student.mean, after[0, :2].mean(0), rtol=1e-5)
    assert jnp.isfinite(student.log_prob(jnp.zeros(8)))
    assert jnp.isfinite(student.sample(KEY, None, 4)).all()
    unmoved = kind(8, 2.0).project(lessons_of(after, kept=jnp.zeros((1, 3), bool)), jnp.asarray(1.0))
    np.testing.assert_allclose(unmoved.mean, 2 * jnp.ones(8))
    np.testing.assert_allclose(covariance(unmoved), np.eye(8), atol=1e-5)


def with_covariance(matrix, n=8):
    """Draws with exactly this covariance and mean zero."""
    d = len(matrix)
    points = np.concatenate([np.eye(d), -np.eye(d)] * n) * np.sqrt(d)
    return jnp.asarray(points @ np.linalg.cholesky(matrix).T)[None]


def test_low_rank_projection_finds_factor_and_noise():
    rng = np.random.default_rng(0)
    factor, noise = 2 * rng.normal(size=(6, 2)), rng.uniform(0.3, 2, 6)
    expected = factor @ factor.T + np.diag(noise)
    student, lessons = LowRankGaussian(6, 2, mean=1.0), lessons_of(with_covariance(expected))
    project = jax.jit(lambda s: s.project(lessons, jnp.asarray(1.0)))
    for _ in range(100):
        student = project(student)
    np.testing.assert_allclose(student.mean, 0, atol=1e-5)
    np.testing.assert_allclose(covariance(student), expected, rtol=0.02, atol=0.02)


@pytest.mark.parametrize("rate", [0.0, 0.3, 1.0])
def test_low_rank_projection_of_its_own_moments_changes_nothing(rate):
    student = eqx.tree_at(lambda s: s.mean, perturbed(LowRankGaussian(5, 2)), jnp.zeros(5))
    lessons = lessons_of(with_covariance(covariance(student)))
    moved = student.project(lessons, jnp.asarray(rate))
    np.testing.assert_allclose(covariance(moved), covariance(student), rtol=1e-3, atol=1e-4)


def test_low_rank_projection_never_fits_worse():
    """Every step of expectation-maximisation raises the likelihood of the draws."""
    rows = jax.random.normal(KEY, (1, 40, 5)) @ jax.random.normal(jax.random.key(1), (5, 5))
    student, fits = LowRankGaussian(5, 1), []
    for _ in range(6):
        fits.append(float(jax.vmap(student.log_prob)(rows[0]).mean()))
        student = student.project(lessons_of(rows), jnp.asarray(1.0))
    assert (np.diff(fits) > -1e-4).all()
    assert fits[-1] > fits[0] + 0.5


def test_low_rank_projection_survives_few_draws_and_broken_chains():
    after = jax.random.normal(KEY, (1, 3, 8)).at[0, 2].set(jnp.nan)
    kept = jnp.array([[True, True, False]])
    student = LowRankGaussian(8, 2).project(lessons_of(after, kept=kept), jnp.asarray(1.0))
    np.testing.assert_allclose(student.mean, after[0, :2].mean(0), rtol=1e-5)
    assert jnp.isfinite(student.log_prob(jnp.zeros(8)))
    none = lessons_of(after, kept=jnp.zeros((1, 3), bool))
    unmoved = LowRankGaussian(8, 2).project(none, jnp.asarray(1.0))
    np.testing.assert_allclose(covariance(unmoved), covariance(LowRankGaussian(8, 2)), atol=1e-4)


def test_strata_weigh_to_one_and_are_unbiased():
    student = perturbed(GaussianMixture(KEY, 2, 3))
    weights_of = jax.nn.softmax(student.logits)
    draw = jax.jit(jax.vmap(lambda k: student.stratified(k, None, 7)))
    z, weights = draw(jax.random.split(KEY, 4000))
    np.testing.assert_allclose(weights.sum(1), 1, rtol=1e-5)
    estimates = np.asarray(jnp.einsum("bn,bnd->bd", weights, z))
    error = estimates.std(0) / np.sqrt(len(estimates))
    assert np.all(np.abs(estimates.mean(0) - weights_of @ student.means) < 4.5 * error)


def test_gradient_reaches_the_mixture_weights_through_strata():
    student = perturbed(GaussianMixture(KEY, 1, 3))

    def mean(s):
        z, weights = s.stratified(KEY, None, 6)
        return weights @ z[:, 0]

    assert (jnp.abs(jax.jit(jax.grad(mean))(student).logits) > 1e-3).all()


def test_students_vectorise_over_repeats_and_conditions():
    students = jax.vmap(lambda k, s: GaussianMixture(k, 2, 3, s))(
        jax.random.split(KEY, 5), jnp.arange(5.0)
    )
    draws = jax.jit(jax.vmap(lambda s: s.sample(KEY, None, 4)))(students)
    assert draws.shape == (5, 4, 2)
    many = jax.vmap(lambda m, s: DiagonalGaussian(2, m, s))(jnp.arange(3.0), jnp.ones(3))
    x = jnp.ones((3, 2))
    assert jax.jit(jax.vmap(lambda s, c: s.sample(KEY, c, 4)))(many, x).shape == (3, 4, 2)


@pytest.mark.parametrize(
    "build",
    [
        lambda: DiagonalGaussian(0),
        lambda: DiagonalGaussian(3, jnp.zeros(2)),
        lambda: FullGaussian(3, scale=-1.0),
        lambda: FullGaussian(3, scale=jnp.eye(2)),
        lambda: LowRankGaussian(3, 0),
        lambda: GaussianMixture(KEY, 3, 4).stratified(KEY, None, 2),
    ],
)
def test_bad_settings_are_named(build):
    with pytest.raises(IngredientError, match="came"):
        build()
