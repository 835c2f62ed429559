"""The conditional spline flow: one density, in both directions."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from understudy.students import SplineFlow


def bent(dim):
    flow = SplineFlow(jax.random.key(0), dim, jnp.zeros(3), layers=4, width=16, bins=5)
    return eqx.tree_at(lambda f: f.leave, flow, 15 * flow.leave)


@pytest.mark.parametrize("dim", [1, 2, 5])
def test_densities_of_draws_are_those_of_log_prob(dim):
    flow, x = bent(dim), jnp.array([0.3, -1.0, 0.2])
    z, log_q = flow.sample_and_log_prob(jax.random.key(1), x, 500)
    np.testing.assert_allclose(log_q, jax.vmap(lambda z: flow.log_prob(z, x))(z), atol=2e-3)


def test_the_density_integrates_to_one_for_every_condition():
    flow, grid = bent(1), jnp.linspace(-12, 12, 20_001)[:, None]
    densities = []
    for x in (jnp.zeros(3), jnp.array([1.0, -2.0, 0.5])):
        densities.append(np.exp(jax.vmap(lambda z, x=x: flow.log_prob(z, x))(grid)))
        assert densities[-1].sum() * 24 / 20_000 == pytest.approx(1, abs=1e-3)
    assert np.abs(densities[0] - densities[1]).max() > 1e-3
