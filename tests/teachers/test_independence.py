"""Independence Metropolis with a student that is too wide."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from understudy.core import IngredientError, Proposal
from understudy.teachers import IndependenceMetropolis

WIDE = Proposal(
    lambda key, n: 2 * jax.random.normal(key, (n, 1)),
    lambda z: jax.scipy.stats.norm.logpdf(z, scale=2.0).sum(),
)


def log_density(z):
    return 5.0 + jax.scipy.stats.norm.logpdf(z).sum()


@eqx.filter_jit
def improve(teacher, key, z):
    return teacher.improve(key, log_density, z, WIDE)


def test_exact_draws_stay_exact_at_the_known_acceptance():
    n = 4000
    z = jax.random.normal(jax.random.key(0), (n, 1))
    out = improve(IndependenceMetropolis(3), jax.random.key(1), z)
    assert abs(float(out.z.mean())) < 4 / np.sqrt(n)
    assert abs(float((out.z**2).mean()) - 1) < 4 * np.sqrt(2 / n)
    # w(z) falls with |z|: P(accept) = E_p[q(|y| < |z|)] + E_q[p(|z| < |y|)] = 2 P(2|a| < |b|)
    expected = 4 / np.pi * np.arctan(0.5)
    np.testing.assert_allclose(out.acceptance.mean(), expected, atol=0.02)
    assert out.finite.all()


def test_the_last_proposals_are_the_controls():
    z = jnp.full((2000, 1), 1.0)
    out = improve(IndependenceMetropolis(), jax.random.key(1), z)
    moved = np.asarray(out.z != z)[:, 0]
    assert 0.2 < moved.mean() < 0.9
    np.testing.assert_array_equal(out.z[moved], out.control[moved])
    np.testing.assert_allclose(out.control.std(), 2.0, rtol=0.08)


def test_many_moves_reach_the_target_from_anywhere():
    out = improve(IndependenceMetropolis(60), jax.random.key(1), jnp.full((4000, 1), 3.0))
    np.testing.assert_allclose(out.z.mean(), 0.0, atol=0.07)
    np.testing.assert_allclose(out.z.var(), 1.0, atol=0.1)


def test_a_student_without_a_density_is_refused_with_an_alternative():
    blind = WIDE._replace(log_prob=None)
    with pytest.raises(IngredientError, match="TemperedTransition"):
        IndependenceMetropolis().improve(jax.random.key(0), log_density, jnp.zeros((3, 1)), blind)
