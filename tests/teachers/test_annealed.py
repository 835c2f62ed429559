"""Annealing against the known evidence of a Gaussian."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from understudy.core import IngredientError, Proposal
from understudy.teachers import Annealed, mala, tempered_smc

MEAN = jnp.array([1.0, -1.0])
SCALE = jnp.array([0.5, 0.8])
LOG_EVIDENCE = 3.0
STANDARD = Proposal(
    lambda key, n: jax.random.normal(key, (n, 2)),
    lambda z: jax.scipy.stats.norm.logpdf(z).sum(),
)


def log_density(z):
    return LOG_EVIDENCE + jax.scipy.stats.norm.logpdf(z, MEAN, SCALE).sum()


@eqx.filter_jit
def improve(teacher, key, z):
    return teacher.improve(key, log_density, z, STANDARD)


def check(out, tolerance=0.1):
    weights = jnp.exp(out.log_weights)
    np.testing.assert_allclose(jnp.log(weights.mean()), LOG_EVIDENCE, atol=tolerance)
    share = weights / weights.sum()
    mean = share @ out.z
    np.testing.assert_allclose(mean, MEAN, atol=tolerance)
    np.testing.assert_allclose(share @ (out.z - mean) ** 2, SCALE**2, atol=tolerance)
    assert out.finite.all()


@pytest.mark.parametrize(
    "teacher",
    [Annealed(mala(0.1, 2), 20), Annealed(mala(0.1, 2), 20, mean=0.5, scale=1.5, power=2.0)],
    ids=["student", "gaussian"],
)
def test_weights_average_to_the_evidence(teacher):
    z = STANDARD.sample(jax.random.key(0), 3000)
    out = improve(teacher, jax.random.key(1), z)
    check(out)
    assert 0.3 < float(out.acceptance.mean()) <= 1


def test_one_rung_is_plain_importance_sampling():
    z = STANDARD.sample(jax.random.key(0), 100)
    out = improve(Annealed(mala(0.1), 1), jax.random.key(1), z)
    expected = jax.vmap(lambda z: log_density(z) - STANDARD.log_prob(z))(z)
    np.testing.assert_allclose(out.log_weights, expected, rtol=1e-4, atol=1e-4)


def test_resampling_keeps_the_evidence_and_evens_the_weights():
    z = STANDARD.sample(jax.random.key(0), 3000)
    plain = improve(Annealed(mala(0.05), 6), jax.random.key(1), z).log_weights
    out = improve(tempered_smc(mala(0.05), 6, 0.9), jax.random.key(1), z)
    check(out, 0.15)
    assert float(out.log_weights.std()) < 0.5 * float(plain.std())


def test_lost_particles_are_flagged_or_resampled_away():
    z = STANDARD.sample(jax.random.key(0), 100).at[0].set(jnp.nan)
    assert not improve(Annealed(mala(0.1), 6), jax.random.key(1), z).finite[0]
    assert improve(tempered_smc(mala(0.1), 6, 0.999), jax.random.key(1), z).finite.all()


def test_the_moves_adapt():
    teacher = Annealed(mala(0.1, target_acceptance=0.6))
    assert teacher.adapt(jnp.array(1.0)).teacher.parameters["step_size"] > 0.1


def test_a_student_without_a_density_needs_a_base():
    blind = STANDARD._replace(log_prob=None)
    with pytest.raises(IngredientError, match="Gaussian base"):
        Annealed(mala()).improve(jax.random.key(0), log_density, jnp.zeros((3, 2)), blind)
