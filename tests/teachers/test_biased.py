"""Kernels without an exact accept test: near the target for small steps, and away from it for large."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from understudy.core import Proposal
from understudy.teachers import mala, mclmc, minibatch_mala, sghmc, sgld

NONE = Proposal(lambda key, n: jnp.zeros((n, 2)), None)


def log_density(z):
    return -0.5 * jnp.sum(z**2)


@eqx.filter_jit
def improve(teacher, z):
    return teacher.improve(jax.random.key(2), log_density, z, NONE)


def draws(n):
    return jax.random.normal(jax.random.key(1), (n, 2))


def test_sgld_settles_at_the_variance_of_its_step():
    out = improve(sgld(0.4, 30), draws(4000))
    assert out.acceptance is None
    assert out.finite.all()
    np.testing.assert_allclose(out.z.var(), 1 / (1 - 0.4 / 2), rtol=0.06)


def test_minibatch_mala_is_the_mala_kernel_by_another_name():
    z = draws(50)
    np.testing.assert_array_equal(improve(minibatch_mala(0.3, 2), z).z, improve(mala(0.3, 2), z).z)


@pytest.mark.slow
@pytest.mark.parametrize("teacher", [sghmc(0.05, 10, 4), mclmc(0.3, 20)], ids=["sghmc", "mclmc"])
def test_small_steps_stay_near_the_target(teacher):
    z = draws(4000)
    out = improve(teacher, z)
    assert out.finite.all()
    assert float(jnp.abs(out.z - z).mean()) > 0.3
    np.testing.assert_allclose(out.z.mean(0), 0, atol=0.08)
    np.testing.assert_allclose(out.z.var(0), 1, atol=0.12)
