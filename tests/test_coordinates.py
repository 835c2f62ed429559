"""Coordinates: there and back, volumes, and margins that are met."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import norm
from scipy.stats import t as student_t

from understudy.coordinates import Walls, fit_coordinates, fit_knots, shrunk, stretched
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


POWERS = np.stack([GENERATOR.standard_t(1, 8000), 5 + GENERATOR.standard_t(2, 8000)], 1)
CASES = [
    (PLAIN, None),
    (POWERS, None),
    (WALLED, Walls(np.array([0.0, -1.0]), np.array([np.inf, 2.0]))),
]


@pytest.mark.parametrize(("z", "walls"), CASES, ids=["plain", "powers", "walls"])
def test_there_and_back(z, walls):
    fitted = coordinates_of(z, walls)
    u, volume = fitted.whiten(z)
    back, forward = fitted.colour(u)
    np.testing.assert_allclose((back - z) / (z.std(0) + np.abs(z)), 0, atol=1e-8)
    np.testing.assert_allclose(volume, forward, atol=1e-6)


@pytest.mark.parametrize(("z", "walls"), CASES, ids=["plain", "powers", "walls"])
def test_draws_are_nearly_standard(z, walls):
    u, _ = coordinates_of(z, walls).whiten(z)
    np.testing.assert_allclose(u.mean(0), 0, atol=0.05)
    np.testing.assert_allclose(u.std(0), 1, atol=0.05)
    np.testing.assert_allclose(np.corrcoef(u.T), np.eye(z.shape[1]), atol=0.05)


@pytest.mark.parametrize(("z", "walls"), CASES, ids=["plain", "powers", "walls"])
def test_the_volume_is_the_derivative(z, walls):
    fitted = coordinates_of(z, walls)
    with double_precision():
        carry = jax.tree.map(jnp.asarray, fitted)
        u = jnp.asarray(fitted.whiten(z[:5])[0])
        derivative = jax.vmap(jax.jacfwd(lambda one: carry.colour(one, jnp)[0]))(u)
        expected = np.linalg.slogdet(np.asarray(derivative))[1]
        np.testing.assert_allclose(carry.colour(u, jnp)[1], expected, rtol=1e-6, atol=1e-6)


def test_walls_are_kept():
    z, walls = CASES[2]
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


@pytest.mark.parametrize(("freedom", "least", "most"), [(1, 0.7, 1.4), (2, 0.35, 0.75), (4, 0.1, 0.35)])
def test_tails_that_fall_as_powers_are_met(freedom, least, most):
    """Tukey's h is one over the power."""
    generator = np.random.default_rng(freedom)
    z = generator.standard_t(freedom, (40_000, 1))
    fitted = coordinates_of(z)
    assert least <= fitted.heavy[0] <= most
    drawn, _ = fitted.colour(generator.normal(size=(1_000_000, 1)))
    far = student_t(freedom).ppf(0.9999)
    assert np.quantile(drawn, 0.9999) == pytest.approx(far, rel=0.4)


def test_tails_of_no_power_have_no_h():
    z = np.stack([GENERATOR.normal(size=20_000), GENERATOR.laplace(size=20_000)], 1)
    assert coordinates_of(z).heavy is None


@pytest.mark.parametrize("heavy", [0.0, 0.1, 1.4])
def test_tukeys_curve_goes_there_and_back(heavy):
    w = np.array([-8.0, -1e-8, 0.0, 0.5, 3.0, 15.0])
    there, log_slope = stretched(w, heavy, np)
    np.testing.assert_allclose(shrunk(there, heavy, np), w, rtol=1e-12, atol=1e-300)
    slope = (stretched(w + 1e-6, heavy, np)[0] - stretched(w - 1e-6, heavy, np)[0]) / 2e-6
    np.testing.assert_allclose(log_slope[:-1], np.log(slope[:-1]), atol=1e-6)


def test_many_rows_are_carried_as_few_are():
    noise = GENERATOR.normal(size=(2**21 // 3 + 7, 3))
    fitted = coordinates_of(PLAIN)
    some = np.r_[0:50, -50:0]
    for carry, rows in ((fitted.colour, noise), (fitted.scores, fitted.colour(noise)[0])):
        many, few = carry(rows), carry(rows[some])
        np.testing.assert_allclose(many[0][some], few[0], rtol=1e-12)
        np.testing.assert_allclose(many[1][some], few[1], rtol=1e-10, atol=1e-10)
