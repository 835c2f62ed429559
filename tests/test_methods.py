"""Every named method on a problem whose answer is known."""

import inspect

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jax.scipy.stats import norm

from understudy import LogDensity, methods
from understudy.core import Target
from understudy.feedbacks import EnergyDistance, InclusiveKL
from understudy.students import DiagonalGaussian, FullGaussian, GaussianEncoder, Implicit
from understudy.teachers import mala

KEY = jax.random.key(0)
MEAN, SCALE = jnp.array([1.5, -0.5]), jnp.array([0.5, 2.0])
GAUSSIAN = LogDensity(lambda z: norm.logpdf(z, MEAN, SCALE).sum(), 2)
SHIFTED = LogDensity(lambda z: norm.logpdf(z, 2.0).sum(), 1)
NOISE = 0.7


class Linear(Target):
    """z ~ N(0, 1), x | z ~ N(slope z + offset, NOISE^2), so x ~ N(offset, slope^2 + NOISE^2)."""

    slope: jax.Array
    offset: jax.Array
    dim: int = eqx.field(static=True, default=1)

    def log_density(self, z, x=None):
        return norm.logpdf(z).sum() + norm.logpdf(x, self.slope * z + self.offset, NOISE).sum()


X = 1.0 + 1.5 * jax.random.normal(KEY, (200, 1))
OFFSET, SLOPE = float(X.mean()), float(jnp.sqrt(X.var() - NOISE**2))
MODEL = Linear(jnp.array(0.5), jnp.array(-1.0))
RATE = {"optimiser": optax.adam(1e-2), "model_optimiser": optax.adam(1e-2)}
LEARNING = {**RATE, "particles": 4, "updates": 1500, "seed": 1}


def encoder():
    return GaussianEncoder(eqx.nn.Linear(1, 2, key=KEY), 1)


def distance(model):
    return np.array([abs(float(model.slope)) - SLOPE, float(model.offset) - OFFSET])


def test_vi_finds_a_gaussian_posterior():
    start = DiagonalGaussian(2)
    result = methods.vi(GAUSSIAN, start, updates=1500, particles=4, optimiser=optax.adam(1e-2))
    np.testing.assert_allclose(result.student.mean, MEAN, atol=0.01)
    np.testing.assert_allclose(result.student.scale, SCALE, rtol=0.02)


def test_chains_of_mcmc_have_the_moments_of_the_target():
    n = 1000
    result = methods.mcmc(GAUSSIAN, jnp.full((n, 2), 4.0), mala(0.3, steps=10), updates=100)
    z = (result.student.z - MEAN) / SCALE
    np.testing.assert_allclose(z.mean(0), 0, atol=4.5 / n**0.5)
    np.testing.assert_allclose(z.var(0), 1, atol=4.5 * (2 / n) ** 0.5)
    assert abs(np.corrcoef(z.T)[0, 1]) < 4.5 / n**0.5
    quarter = [float((z[:, 0] < level).mean()) for level in (-0.6745, 0.0, 0.6745)]
    np.testing.assert_allclose(quarter, [0.25, 0.5, 0.75], atol=0.07)


def test_amc_chooses_its_feedback_by_the_student(monkeypatch):
    monkeypatch.setattr(methods, "train", lambda target, student, teacher, feedback, data: feedback)
    assert isinstance(choose(DiagonalGaussian(1)), InclusiveKL)
    assert isinstance(choose(Implicit(KEY, 1)), EnergyDistance)


def choose(student):
    return inspect.unwrap(methods.amc)(SHIFTED, student)


def test_amc_learns_a_gaussian():
    settings = {"updates": 1500, "particles": 16, "optimiser": optax.adam(2e-2), "average": 0.99}
    result = methods.amc(GAUSSIAN, FullGaussian(2), mala(0.2, steps=5), **settings)
    np.testing.assert_allclose(result.student.mean, MEAN, atol=0.15)
    np.testing.assert_allclose(jnp.exp(result.student.log_diagonal), SCALE, rtol=0.12)


@pytest.mark.parametrize(
    "method", [methods.amortised_svgd, pytest.param(methods.operator_vi, marks=pytest.mark.slow)]
)
def test_wild_students_come_closer_without_a_density(method):
    start = Implicit(KEY, 1, hidden=(8,))
    settings = {"updates": 600, "particles": 32, "optimiser": optax.adam(1e-2)}
    result = method(SHIFTED, start, **settings)
    before, after = (s.sample(KEY, None, 4000) for s in (start, result.student))
    assert abs(float(after.mean()) - 2) < 0.25 * abs(float(before.mean()) - 2)
    assert 0.4 < float(after.std()) < 2.0


@pytest.mark.parametrize(
    "method",
    [methods.mcmc_vi, *(pytest.param(m, marks=pytest.mark.slow) for m in (methods.vae, methods.amc))],
)
def test_theta_reaches_the_maximum_of_the_likelihood(method):
    result = method(MODEL, encoder(), data=X, **LEARNING)
    np.testing.assert_allclose(distance(result.state.target), 0, atol=0.15)
    assert np.all(np.abs(distance(result.state.target)) < 0.5 * np.abs(distance(MODEL)))


def test_persistent_chains_teach_theta():
    settings = {**LEARNING, "updates": 2000, "particles": 2}
    result = methods.persistent_mcmc(MODEL, X, mala(0.2, steps=5), chains=2, **settings)
    np.testing.assert_allclose(distance(result.state.target.target), 0, atol=0.15)
    assert result.student.z.shape == (200, 2, 1)


@pytest.mark.slow
def test_avb_learns_theta_without_a_density():
    start = Implicit(KEY, 1, condition=X[0])
    critic = {"critic_optimiser": optax.adam(5e-3, b1=0.5)}
    result = methods.avb(MODEL, start, X, **{**LEARNING, **critic, "updates": 3000, "particles": 8})
    np.testing.assert_allclose(distance(result.state.target), 0, atol=0.4)
    assert np.all(np.abs(distance(result.state.target)) < 0.5 * np.abs(distance(MODEL)))
