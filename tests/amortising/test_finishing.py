"""Draws finished data set by data set: by the student, by weights, by chains."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.amortising.exact import Exact
from tests.amortising.models import gaussian
from understudy.amortising import finishing
from understudy.amortising.finishing import finish, nested_r_hat, pareto_smooth
from understudy.amortising.observations import DataSet
from understudy.evaluation.trust.weights import pareto_smoothed

X = np.array([[0.0, 1.0], [2.0, -1.0], [-3.0, -2.0]], np.float32)


def finished(student, likelihood=True):
    simulator = gaussian(likelihood)
    data = DataSet({"x": X}, {"x": np.ones(3, bool)})
    target = simulator.target if likelihood else None
    return finish(jax.random.key(0), student, target, data, 2000)


def errors(done):
    """Errors of means and deviations, in deviations of the exact posterior."""
    mean, deviation = X.sum(1) / 3, 3**-0.5
    z = done.z[..., 0]
    return np.abs(z.mean(1) - mean).max() / deviation, np.abs(z.std(1) / deviation - 1).max()


@pytest.mark.parametrize(
    ("fault", "route"), [({}, 0), ({"shift": 0.5, "width": 1.3}, 1), ({"shift": 6.0, "width": 0.3}, 2)]
)
def test_draws_are_right_whatever_the_student(fault, route):
    done = finished(Exact(**fault))
    assert (done.route == route).all(), done
    assert done.trusted.all()
    off, wide = errors(done)
    assert off < 0.15
    assert wide < 0.12
    assert (done.gradients > 0) == (route == 2)
    assert route < 2 or all(len(np.unique(z)) > 1500 for z in done.z)


def test_draws_that_were_picked_again_and_again_are_moved_apart(monkeypatch):
    monkeypatch.setattr(finishing, "_CANDIDATES", (2048,))
    done = finished(Exact(shift=1.0, width=1.3))
    assert (done.route == 1).all()
    assert (done.share < 0.6).all()
    assert all(len(np.unique(z)) > 1900 for z in done.z)
    off, wide = errors(done)
    assert off < 0.15
    assert wide < 0.12


def test_a_large_data_set_is_weighed_in_parts_and_the_weights_are_the_same(monkeypatch):
    target, z = gaussian().target, jax.random.normal(jax.random.key(0), (100, 1))
    x = DataSet({"x": X[0]}, {"x": np.array(True)})
    whole = finishing._log_densities(target, z, x)
    monkeypatch.setattr(finishing, "_NUMBERS_AT_ONCE", 64)
    parts = finishing._log_densities(target, z, x)
    np.testing.assert_allclose(parts, whole, rtol=1e-6)


def test_without_a_likelihood_draws_are_the_students_own_and_nobody_vouches_for_them():
    done = finished(Exact(shift=1.0), likelihood=False)
    assert not done.trusted.any()
    assert errors(done)[0] == pytest.approx(1.0, abs=0.1)


@pytest.mark.parametrize(("scale", "n"), [(0.3, 1000), (1.0, 1000), (2.0, 4096)])
def test_smoothed_weights_are_those_of_arviz(scale, n):
    log_weights = np.random.default_rng(0).standard_t(5, n) * scale
    expected, k = pareto_smoothed(log_weights)
    smooth, shape = pareto_smooth(jnp.asarray(log_weights, jnp.float32))
    assert float(shape) == pytest.approx(k, abs=0.02)
    np.testing.assert_allclose(np.exp(smooth), np.exp(expected), atol=2e-3)


def test_weights_without_a_finite_one_have_no_shape_and_even_ones_shape_zero():
    assert float(pareto_smooth(jnp.full(1000, -jnp.inf))[1]) == np.inf
    assert float(pareto_smooth(jnp.zeros(1000))[1]) == 0


def test_nested_r_hat_sees_groups_that_do_not_agree():
    trace = jax.random.normal(jax.random.key(0), (10, 64, 2))
    assert float(nested_r_hat(trace, 16)) < 1.05
    apart = trace + 2 * jnp.repeat(jnp.arange(16) % 2, 4)[None, :, None]
    assert float(nested_r_hat(apart, 16)) > 1.2
