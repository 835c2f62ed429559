from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.spatial.distance import pdist

from understudy.core import IngredientError
from understudy.evaluation import (
    kernel_stein_discrepancy,
    stein_test,
)
from understudy.numerics import median_distance, radial_kernel, stein_kernel

squared = partial(kernel_stein_discrepancy, squared=True)
RADIAL = {"imq": lambda r, h: (1 + r / h**2) ** -0.5, "gaussian": lambda r, h: np.exp(-r / (2 * h**2))}


def by_finite_differences(z, y, s, t, kernel, h, e=1e-4):
    """The Stein kernel in float64 from the kernel's values alone."""
    k = lambda u, v: RADIAL[kernel](np.sum((u - v) ** 2), h)  # noqa: E731
    steps = e * np.eye(len(z))
    in_z = np.array([(k(z + i, y) - k(z - i, y)) / (2 * e) for i in steps])
    in_y = np.array([(k(z, y + i) - k(z, y - i)) / (2 * e) for i in steps])
    trace = sum(
        (k(z + i, y + i) - k(z + i, y - i) - k(z - i, y + i) + k(z - i, y - i)) / (4 * e**2)
        for i in steps
    )
    return s @ t * k(z, y) + s @ in_y + t @ in_z + trace


def some_draws(n=12, d=3):
    rng = np.random.default_rng(0)
    return rng.normal(size=(n, d)) * 1.5, rng.normal(size=(n, d))


@pytest.mark.parametrize("kernel", ["imq", "gaussian"])
@pytest.mark.parametrize("bandwidth", [1.0, 0.7])
def test_stein_kernel_is_its_definition(kernel, bandwidth):
    z, score = some_draws()
    arrays = [jnp.asarray(v, jnp.float32) for v in (z[0], z[1], score[0], score[1])]
    expected = by_finite_differences(z[0], z[1], score[0], score[1], kernel, bandwidth)
    found = stein_kernel(radial_kernel(kernel, bandwidth), *arrays)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kernel", ["imq", "gaussian"])
def test_statistics_are_a_double_loop(kernel):
    z, score = some_draws()
    pairs = np.array(
        [[by_finite_differences(a, b, s, t, kernel, 1.3) for b, t in zip(z, score, strict=True)]
         for a, s in zip(z, score, strict=True)]
    )  # fmt: skip
    n, args = len(z), (jnp.asarray(z, jnp.float32), jnp.asarray(score, jnp.float32), kernel, 1.3)
    biased, unbiased = pairs.mean(), (pairs.sum() - np.trace(pairs)) / (n * (n - 1))
    np.testing.assert_allclose(squared(*args, "v"), biased, rtol=1e-4)
    np.testing.assert_allclose(squared(*args, "u"), unbiased, rtol=1e-4)
    np.testing.assert_allclose(kernel_stein_discrepancy(*args, "v"), np.sqrt(biased), rtol=1e-4)
    np.testing.assert_allclose(
        kernel_stein_discrepancy(*args, "u"), np.sqrt(max(unbiased, 0)), rtol=1e-4
    )


def test_median_distance():
    z = jnp.array([[0.0], [1.0], [4.0]])
    assert median_distance(z) == 3.0
    z = jax.random.normal(jax.random.key(0), (900, 2))
    np.testing.assert_allclose(median_distance(z), np.median(pdist(z[::2])), rtol=1e-5)


def test_unbiased_statistic_has_mean_zero_under_the_target():
    z = jax.random.normal(jax.random.key(0), (400, 30, 2))
    values = jax.jit(jax.vmap(lambda z: squared(z, -z, statistic="u")))(z)
    assert abs(values.mean()) < 4 * values.std() / np.sqrt(400)
    shifted = jax.jit(jax.vmap(lambda z: squared(z, -z - 0.5, statistic="u")))(z)
    assert shifted.mean() > 10 * values.std() / np.sqrt(400)


def log_mixture(z):
    return jnp.logaddexp(-0.5 * (z + 3) ** 2, -0.5 * (z - 3) ** 2).sum()


def test_floor_of_exact_draws_and_blindness_to_a_missing_mode():
    def discrepancy(key, share):
        gate, noise = jax.random.split(key)
        side = jnp.where(jax.random.uniform(gate, (1000, 1)) < share, -3.0, 3.0)
        z = side + jax.random.normal(noise, (1000, 1))
        return kernel_stein_discrepancy(z, jax.grad(log_mixture)(z))

    over_seeds = jax.jit(jax.vmap(discrepancy, (0, None)))
    keys = jax.random.split(jax.random.key(0), 8)
    exact, one_mode = over_seeds(keys, 0.5).mean(), over_seeds(keys, 1.0).mean()
    assert 0.036 < exact < 0.06
    assert 0.036 < one_mode < 0.06


def test_wild_bootstrap_has_size_and_power():
    draws = jax.random.normal(jax.random.key(1), (100, 60, 1))
    keys = jax.random.split(jax.random.key(2), 100)
    test = jax.jit(
        jax.vmap(lambda k, z, shift: stein_test(k, z, -(z + shift), repeats=99).p_value, (0, 0, None))
    )
    assert 0.0 <= (test(keys, draws, 0.0) <= 0.1).mean() <= 0.2
    assert (test(keys, draws, 1.0) <= 0.1).mean() > 0.95


def test_unknown_choices_are_named():
    z = jnp.ones((3, 1))
    with pytest.raises(IngredientError, match="'gaussian', 'imq'; 'laplace' came"):
        kernel_stein_discrepancy(z, z, kernel="laplace")
    with pytest.raises(IngredientError, match="statistic is one of 'u', 'v'"):
        kernel_stein_discrepancy(z, z, statistic="w")
