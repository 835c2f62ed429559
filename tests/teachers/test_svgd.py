"""Stein variational gradient descent."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from understudy.core import Proposal
from understudy.teachers import SVGD

NONE = Proposal(lambda key, n: jnp.zeros((n, 2)), None)


def log_density(z):
    return -0.5 * jnp.sum((z - 1) ** 2)


@eqx.filter_jit
def improve(teacher, key, z):
    return teacher.improve(key, log_density, z, NONE)


def test_one_step_is_the_formula():
    z = jax.random.normal(jax.random.key(0), (5, 2))
    width, step = 0.7, 0.2

    def kernel(y, z):
        return jnp.exp(-jnp.sum((y - z) ** 2) / width)

    def direction(target):
        return jnp.mean(
            jnp.stack(
                [kernel(y, target) * jax.grad(log_density)(y) + jax.grad(kernel)(y, target) for y in z]
            ),
            0,
        )

    expected = jnp.stack([y + step * direction(y) for y in z])
    out = improve(SVGD(step, 1, width), jax.random.key(0), z)
    np.testing.assert_allclose(out.z, expected, rtol=2e-5, atol=1e-6)


def test_it_is_deterministic_and_reaches_the_target():
    z = 0.1 * jax.random.normal(jax.random.key(0), (100, 2)) - 2
    first, second = (improve(SVGD(0.5, 300), jax.random.key(k), z).z for k in (1, 2))
    np.testing.assert_array_equal(first, second)
    assert SVGD().deterministic
    np.testing.assert_allclose(first.mean(0), 1, atol=0.1)
    np.testing.assert_allclose(first.var(0), 1, atol=0.25)


def test_lost_particles_move_nobody():
    z = jax.random.normal(jax.random.key(0), (20, 2))
    lost = jnp.concatenate([z, jnp.full((1, 2), jnp.nan)])
    alone, together = (
        improve(SVGD(0.3, 2), jax.random.key(0), z),
        improve(SVGD(0.3, 2), jax.random.key(0), lost),
    )
    np.testing.assert_allclose(alone.z, together.z[:-1], rtol=1e-5)
    assert together.finite.tolist() == [True] * 20 + [False]
