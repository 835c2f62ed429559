"""Coordinates: there and back, volumes, and margins that are met."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import norm

from understudy.coordinates import Walls, fit_coordinates, fit_knots
from understudy.core import bind
from understudy.students import Placed
from understudy.surroundings import double_precision
from understudy.teachers import InCoordinates, hmc

GENERATOR = np.random.default_rng(0)
SKEWED = np.exp(GENERATOR.normal(size=8000))
PLAIN = np.stack(
    [1000 + 1e-4 * GENERATOR.normal(size=8000), SKEWED, 1e8 * (GENERATOR.standard_t(3, 8000) + SKEWED)],
    1,
)
WALLED = np.stack([GENERATOR.exponential(size=8000), GENERATOR.uniform(-1, 2, 8000)], 1)


def coordinates_of(z, walls=None):
    return fit_knots(fit_coordinates(z, walls, float(len(z))), z)


CASES = [
    (PLAIN, None),
    (WALLED, Walls(np.array([0.0, -1.0]), np.array([np.inf, 2.0]))),
]


@pytest.mark.parametrize(("z", "walls"), CASES, ids=["plain", "walls"])
def test_there_and_back(z, walls):
    fitted = coordinates_of(z, walls)
    u, volume = fitted.whiten(z)
    back, forward = fitted.colour(u)
    np.testing.assert_allclose((back - z) / z.std(0), 0, atol=1e-8)
    np.testing.assert_allclose(volume, forward, atol=1e-6)


@pytest.mark.parametrize(("z", "walls"), CASES, ids=["plain", "walls"])
def test_draws_are_nearly_standard(z, walls):
    u, _ = coordinates_of(z, walls).whiten(z)
    np.testing.assert_allclose(u.mean(0), 0, atol=0.05)
    np.testing.assert_allclose(u.std(0), 1, atol=0.05)
    np.testing.assert_allclose(np.corrcoef(u.T), np.eye(z.shape[1]), atol=0.05)


@pytest.mark.parametrize(("z", "walls"), CASES, ids=["plain", "walls"])
def test_the_volume_is_the_derivative(z, walls):
    fitted = coordinates_of(z, walls)
    with double_precision():
        carry = jax.tree.map(jnp.asarray, fitted)
        u = jnp.asarray(fitted.whiten(z[:5])[0])
        derivative = jax.vmap(jax.jacfwd(lambda one: carry.colour(one, jnp)[0]))(u)
        expected = np.linalg.slogdet(np.asarray(derivative))[1]
        np.testing.assert_allclose(carry.colour(u, jnp)[1], expected, rtol=1e-6, atol=1e-6)


def test_walls_are_kept():
    z, walls = CASES[1]
    drawn, _ = coordinates_of(z, walls).colour(GENERATOR.normal(size=(20_000, 2)))
    assert (drawn[:, 0] > 0).all()
    assert ((drawn[:, 1] > -1) & (drawn[:, 1] < 2)).all()


def test_a_placed_gaussian_is_the_gaussian_copula():
    z = 3 + 2 * GENERATOR.normal(size=(20_000, 1))
    fitted = fit_coordinates(z, None, 20_000.0)
    with double_precision():
        student = Placed(fitted)
        values = jax.vmap(student.log_prob)(jnp.array([[1.0], [3.0], [6.0]]))
    np.testing.assert_allclose(values, norm.logpdf([1, 3, 6], 3, 2), atol=0.05)


def test_moves_in_coordinates_leave_the_target_as_it_is():
    fitted = coordinates_of(PLAIN)
    with double_precision():
        student = Placed(fitted)
        teacher = InCoordinates(hmc(0.6, 4), fitted)
        z = student.sample(jax.random.key(0), None, 4000)
        out = jax.jit(lambda key, z: teacher.improve(key, student.log_prob, z, bind(student, None)))(
            jax.random.key(1), z
        )
        quantiles = np.array([0.1, 0.5, 0.9])
        before, after = (np.quantile(np.asarray(v), quantiles, axis=0) for v in (z, out.z))
        assert float(out.acceptance.mean()) > 0.7
    np.testing.assert_allclose((after - before) / (before[2] - before[0]), 0, atol=0.05)
