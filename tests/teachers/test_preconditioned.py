"""Preconditioning by the student on a badly scaled, correlated Gaussian."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from understudy.core import Improved, Proposal, Teacher
from understudy.teachers import IndependenceMetropolis, Preconditioned, hmc

ROOT = jnp.array([[100.0, 0.0], [0.009, 0.005]])
WHITEN = jnp.array([[0.01, 0.0], [-0.018, 200.0]])
MEAN = jnp.array([50.0, 1.0])


def log_density(z):
    return -0.5 * jnp.sum((WHITEN @ (z - MEAN)) ** 2)


def exact(key, n):
    return MEAN + jax.random.normal(key, (n, 2)) @ ROOT.T


def log_prob(z):
    return log_density(z) - jnp.log(2 * jnp.pi) - jnp.log(100.0 * 0.005)


STUDENT = Proposal(exact, log_prob)


@eqx.filter_jit
def improve(teacher, key, z):
    return teacher.improve(key, log_density, z, STUDENT)


def moments(z):
    u = np.asarray((z - MEAN) @ WHITEN.T)
    features = np.column_stack([u, u**2 - 1, u[:, 0] * u[:, 1]])
    return features.mean(0) / features.std(0) * np.sqrt(len(u))


@pytest.mark.parametrize(
    "full",
    [True, pytest.param(False, marks=pytest.mark.slow)],
)
def test_a_badly_scaled_target_is_kept_and_moves_well(full):
    z = exact(jax.random.key(0), 2000)
    out = improve(Preconditioned(hmc(0.5, 3), full=full), jax.random.key(1), z)
    assert np.abs(moments(out.z)).max() < 4
    assert float(out.acceptance.mean()) > 0.7
    distance = np.sqrt(np.mean(np.asarray((out.z - z) @ WHITEN.T) ** 2, 0))
    assert np.all(distance > 0.7)
    assert out.finite.all()


def test_the_plain_kernel_hardly_moves_there():
    z = exact(jax.random.key(0), 2000)
    out = improve(hmc(0.005, 3), jax.random.key(1), z)
    assert np.abs(np.asarray(out.z - z)[:, 0]).max() < 1.0


class Spy(Teacher):
    @property
    def space(self):
        return "continuous"

    @property
    def deterministic(self) -> bool:
        return False

    def improve(self, key, log_density, z, proposal):
        draws = proposal.sample(key, 4000)
        # The integral of exp log_prob by importance sampling is one only with the right Jacobian.
        base = jax.scipy.stats.norm.logpdf(draws, scale=1.5).sum(-1)
        ratio = jnp.exp(base - jax.vmap(proposal.log_prob)(draws))
        return Improved(z, jnp.isfinite(z).all(-1), (draws.mean(0), jnp.cov(draws.T), ratio.mean()))

    def adapt(self, acceptance):
        return self


def test_the_inner_teacher_sees_a_white_student_with_the_right_density():
    z = exact(jax.random.key(0), 10)
    out = improve(Preconditioned(Spy()), jax.random.key(1), z)
    mean, covariance, integral = out.acceptance
    np.testing.assert_allclose(mean, 0, atol=0.25)
    np.testing.assert_allclose(covariance, np.eye(2), atol=0.3)
    np.testing.assert_allclose(out.z, z, rtol=1e-4)
    np.testing.assert_allclose(integral, 1, atol=0.25)


def test_controls_are_mapped_back():
    z = exact(jax.random.key(0), 2000)
    out = improve(Preconditioned(IndependenceMetropolis()), jax.random.key(1), z)
    np.testing.assert_allclose(out.acceptance, 1.0, atol=0.02)
    assert np.abs(moments(out.control)).max() < 4


def test_few_draws_and_lost_ones_still_give_a_scale():
    sparse = Proposal(lambda key, n: exact(key, n).at[0].set(jnp.nan), None)
    z = exact(jax.random.key(0), 20)
    run = eqx.filter_jit(Preconditioned(hmc(0.1, 1), draws=3).improve)
    assert run(jax.random.key(1), log_density, z, sparse).finite.all()


def test_adapt_reaches_the_inner_teacher():
    teacher = Preconditioned(hmc(0.1, target_acceptance=0.8))
    adapted = teacher.adapt(jnp.array(1.0))
    assert adapted.teacher.parameters["step_size"] > 0.1
