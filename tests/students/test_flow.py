"""Flows: densities that integrate to one and agree with their draws."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats
from flowjax.distributions import StandardNormal

from understudy.core import IngredientError, partition
from understudy.students import Flow, autoregressive_flow, coupling_flow

KEY = jax.random.key(5)
CONDITION = jnp.array([0.5, -1.0])
FACTOR = jnp.array([[1.5, 0.0], [0.5, 0.8]])
SMALL = {"layers": 2, "width": 6, "knots": 4}


def moved(flow):
    parameters, rest = partition(flow)
    rng = np.random.default_rng(0)
    noisy = jax.tree.map(lambda v: v + 0.1 * rng.normal(size=v.shape).astype(np.float32), parameters)
    return eqx.combine(noisy, rest)


def build(name):
    return {
        "coupling": lambda: coupling_flow(KEY, 2, mean=jnp.array([1.0, -1.0]), scale=FACTOR, **SMALL),
        "autoregressive": lambda: autoregressive_flow(KEY, 2, condition=CONDITION, **SMALL),
        "one": lambda: coupling_flow(KEY, 1, **SMALL),
        "one given x": lambda: autoregressive_flow(KEY, 1, condition=CONDITION, **SMALL),
    }[name]()


LONG = [pytest.param(name, marks=pytest.mark.slow) for name in ("autoregressive", "one given x")]


@pytest.mark.parametrize("name", ["coupling", "one", *LONG])
def test_density_integrates_to_one_and_fits_the_draws(name):
    flow = moved(build(name))
    side = jnp.linspace(-15, 15, 4001 if flow.dim == 1 else 401)
    points = jnp.stack(jnp.meshgrid(*[side] * flow.dim), -1).reshape(-1, flow.dim)

    @eqx.filter_jit
    def evaluate(flow):
        log_prob = jax.vmap(lambda z: flow.log_prob(z, CONDITION))
        return jnp.exp(log_prob(points)), flow.sample(KEY, CONDITION, 4000)

    density, draws = (np.asarray(v, float) for v in evaluate(flow))
    cell = float(side[1] - side[0]) ** flow.dim
    assert density.sum() * cell == pytest.approx(1, abs=0.003)
    mean = cell * density @ np.asarray(points, float)
    error = draws.std(0) / np.sqrt(len(draws))
    assert np.all(np.abs(draws.mean(0) - mean) < 4.5 * error + 0.01)


def test_flow_starts_close_to_the_gaussian_it_is_whitened_by():
    flow = build("coupling")
    points = np.random.default_rng(1).normal(size=(20, 2)) @ np.asarray(FACTOR).T + [1, -1]
    covariance = np.asarray(FACTOR, float) @ np.asarray(FACTOR, float).T
    expected = scipy.stats.multivariate_normal([1, -1], covariance).logpdf(points)
    ours = eqx.filter_jit(jax.vmap(lambda z: flow.log_prob(z)))(jnp.asarray(points, jnp.float32))
    np.testing.assert_allclose(ours, expected, atol=0.1)


def test_whitening_does_not_learn():
    flow = build("coupling")
    trained = jax.tree.leaves(partition(flow)[0].distribution.bijection)
    assert not trained


def test_flow_wraps_any_distribution_over_vectors():
    flow = Flow(StandardNormal((3,)))
    assert flow.dim == 3
    assert float(flow.log_prob(jnp.zeros(3))) == pytest.approx(-1.5 * np.log(2 * np.pi), rel=1e-5)
    with pytest.raises(IngredientError, match="vectors"):
        Flow(StandardNormal(()))


@pytest.mark.slow
@pytest.mark.parametrize("fast_sample", [True, False])
def test_pathwise_gradient_is_the_finite_difference(fast_sample):
    flow = moved(autoregressive_flow(KEY, 2, fast_sample=fast_sample, **SMALL))
    parameters, rest = partition(flow)

    def value(t):
        shifted = eqx.combine(jax.tree.map(lambda v: v + t, parameters), rest)
        return jnp.sum(jnp.sin(shifted.sample(KEY, None, 3)))

    both = jax.jit(jax.vmap(jax.value_and_grad(value)))
    (low, _, high), (_, slope, _) = both(jnp.array([-1e-3, 0, 1e-3]))
    assert float(slope) == pytest.approx(float(high - low) / 2e-3, rel=0.05, abs=0.02)
