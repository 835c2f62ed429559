from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.spatial
import scipy.stats

from understudy.core import IngredientError
from understudy.evaluation import (
    classifier_two_sample,
    energy_distance,
    energy_permutation_test,
    marginal_wasserstein_1,
    maximum_mean_discrepancy,
    mode_report,
    sliced_wasserstein,
    wasserstein_1,
)


def normal(seed, *shape):
    return jax.random.normal(jax.random.key(seed), shape)


@pytest.mark.parametrize(("n", "m"), [(50, 50), (50, 17), (1, 30)])
def test_wasserstein_is_that_of_scipy(n, m):
    a, b = normal(0, n), 2 * normal(1, m) + 1
    expected = scipy.stats.wasserstein_distance(np.asarray(a), np.asarray(b))
    np.testing.assert_allclose(jax.jit(wasserstein_1)(a, b), expected, rtol=1e-4)


def test_wasserstein_of_a_shift_is_the_shift():
    a = normal(0, 200)
    np.testing.assert_allclose(wasserstein_1(a, a - 0.7), 0.7, rtol=1e-4)
    np.testing.assert_allclose(wasserstein_1(a, jnp.repeat(a + 0.7, 2)), 0.7, rtol=1e-4)
    np.testing.assert_allclose(wasserstein_1(normal(1, 40_000), normal(2, 40_000) + 2), 2, atol=0.03)


def test_marginals_and_slices():
    a, shift = normal(0, 100, 3), jnp.array([0.0, 1.0, -2.0])
    np.testing.assert_allclose(marginal_wasserstein_1(a, a + shift), jnp.abs(shift), atol=1e-4)
    sliced = sliced_wasserstein(jax.random.key(0), a, a + shift, directions=4000)
    np.testing.assert_allclose(sliced, jnp.linalg.norm(shift) / 2, rtol=0.03)


def folded_normal(mean, deviation):
    ratio = mean / deviation
    return deviation * np.sqrt(2 / np.pi) * np.exp(-(ratio**2) / 2) + mean * (
        1 - 2 * scipy.stats.norm.cdf(-ratio)
    )


def test_energy_distance_of_gaussians():
    a, b = normal(0, 4000, 1), normal(1, 3000, 1) + 1
    expected = 2 * folded_normal(1, np.sqrt(2)) - 2 * folded_normal(0, np.sqrt(2))
    np.testing.assert_allclose(jax.jit(energy_distance)(a, b), expected, rtol=0.1)


def test_maximum_mean_discrepancy_of_gaussians():
    a, b, h, shift = normal(0, 4000, 2), normal(1, 3000, 2) + 0.8, 1.5, 2 * 0.8**2
    scale = h**2 / (h**2 + 2)
    expected = 2 * scale - 2 * scale * np.exp(-shift / (2 * (h**2 + 2)))
    value = maximum_mean_discrepancy(a, b, bandwidth=h, statistic="u", squared=True)
    np.testing.assert_allclose(value, expected, rtol=0.1)


def double_loop(a, b, kernel, unbiased):
    means = []
    for u, v in ((a, a), (b, b), (a, b)):
        values = np.array([[kernel(np.linalg.norm(x - y)) for y in v] for x in u])
        same = unbiased and u is v
        means.append((values.sum() - same * np.trace(values)) / (len(u) * (len(v) - same)))
    return means[0] + means[1] - 2 * means[2]


@pytest.mark.parametrize("statistic", ["u", "v"])
def test_pair_statistics_are_double_loops(statistic):
    a, b = normal(0, 9, 2), normal(1, 6, 2) * 2
    unbiased = statistic == "u"
    pooled = np.concatenate([a, b])
    median = np.median(scipy.spatial.distance.pdist(pooled))
    gaussian = double_loop(a, b, lambda r: np.exp(-(r**2) / (2 * median**2)), unbiased)
    imq = double_loop(a, b, lambda r: (1 + r**2) ** -0.5, unbiased)
    energy = double_loop(a, b, lambda r: -r, unbiased)
    squared = partial(maximum_mean_discrepancy, squared=True)
    np.testing.assert_allclose(squared(a, b, statistic=statistic), gaussian, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(squared(a, b, "imq", statistic=statistic), imq, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(energy_distance(a, b, statistic), energy, rtol=1e-4, atol=1e-6)
    root = maximum_mean_discrepancy(a, b, statistic=statistic)
    np.testing.assert_allclose(root, np.sqrt(max(gaussian, 0)), rtol=1e-3)


def test_unbiased_statistics_have_mean_zero_for_equal_distributions():
    a, b = normal(0, 300, 20, 2), normal(1, 300, 15, 2)
    squared = partial(maximum_mean_discrepancy, bandwidth=1.0, statistic="u", squared=True)
    for distance in (energy_distance, squared):
        values = jax.jit(jax.vmap(distance))(a, b)
        assert abs(values.mean()) < 4 * values.std() / np.sqrt(300)


def test_permutation_test_has_the_right_size_and_power():
    a, b, keys = normal(0, 200, 20, 1), normal(1, 200, 25, 1), jax.random.split(jax.random.key(2), 200)
    test = jax.jit(jax.vmap(lambda k, a, b: energy_permutation_test(k, a, b, 59)))
    null = test(keys, a, b)
    assert 0.03 < (null <= 0.1).mean() < 0.17
    assert abs(null.mean() - 0.5) < 0.1
    assert (test(keys, a, b + 1.5) <= 0.1).mean() > 0.95


def test_mode_report():
    z = jnp.array([[-3.0], [-2.0], [3.0], [3.5], [4.0], [9.0]])
    centres = jnp.array([[-3.0], [3.0], [50.0]])
    report = jax.jit(mode_report)(z, centres)
    np.testing.assert_allclose(report.weights, [2 / 6, 4 / 6, 0], rtol=1e-6)
    np.testing.assert_array_equal(report.covered, [True, True, False])
    expected = [np.var([-3.0, -2.0]), np.var([3.0, 3.5, 4.0, 9.0])]
    np.testing.assert_allclose(report.variances[:2, 0], expected, rtol=1e-5)
    assert np.isnan(report.variances[2, 0])
    near = mode_report(z, centres, radius=1.1, smallest_share=0.4)
    np.testing.assert_allclose(near.weights, [2 / 6, 3 / 6, 0], rtol=1e-6)
    np.testing.assert_array_equal(near.covered, [False, True, False])
    np.testing.assert_allclose(near.variances[1, 0], np.var([3.0, 3.5, 4.0]), rtol=1e-5)


def test_a_mode_is_covered_from_a_twentieth_of_its_even_share():
    z = jnp.concatenate([-3 * jnp.ones((975, 1)), 3 * jnp.ones((25, 1))])
    centres = jnp.array([[-3.0], [3.0]])
    assert mode_report(z, centres).covered.all()
    assert not mode_report(z[:-1], centres).covered.all()


def test_classifier_tells_sets_apart_only_if_they_differ():
    test = jax.jit(lambda a, b: classifier_two_sample(jax.random.key(0), a, b, steps=300))
    a, b = normal(0, 500, 2), normal(1, 600, 2)
    assert 0.43 < test(a, b) < 0.57
    assert test(a, b + jnp.array([5.0, 0.0])) > 0.97
    bayes = scipy.stats.norm.cdf(0.5)
    assert abs(test(a, b + jnp.array([1.0, 0.0])) - bayes) < 0.06
    assert test(a, 3 * b) > 0.7


def test_classifier_needs_enough_draws():
    with pytest.raises(IngredientError, match=r"size of the smaller set, 3; 5 came"):
        classifier_two_sample(jax.random.key(0), jnp.ones((3, 1)), jnp.ones((9, 1)))
