import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.scipy.special import logsumexp
from jax.scipy.stats import multivariate_normal

from understudy.core import ExplicitStudent, IngredientError
from understudy.evaluation import annealed_evidence, bidirectional, gaussian_base, importance_weighted
from understudy.targets import LatentVariableModel

KEY = jax.random.key(3)
WEIGHT = jax.random.normal(jax.random.key(1), (12, 6))
NOISE = 0.3
ALL = jnp.stack(jnp.meshgrid(*[jnp.arange(2.0)] * 4), -1).reshape(-1, 4)
LOGITS = jnp.array([[3.0, 0.5], [-2.0, 2.0], [0.5, -3.0], [1.0, 1.0]])


class Linear(eqx.Module):
    weight: jax.Array
    bias: float = 0.0

    def __call__(self, z):
        return self.weight @ z + self.bias


class Posterior(ExplicitStudent):
    """The posterior of the linear model, its standard deviations times ``stretch``."""

    stretch: float = eqx.field(static=True)
    dim: int = eqx.field(static=True, default=6)

    def moments(self, x):
        covariance = jnp.linalg.inv(jnp.eye(6) + WEIGHT.T @ WEIGHT / NOISE**2)
        return covariance @ WEIGHT.T @ x / NOISE**2, self.stretch**2 * covariance

    def sample(self, key, x, n):
        return jax.random.multivariate_normal(key, *self.moments(x), (n,))

    def log_prob(self, z, x=None):
        return multivariate_normal.logpdf(z, *self.moments(x))


MODEL = LatentVariableModel(Linear(WEIGHT), 6, "gaussian", NOISE)
DISCRETE = LatentVariableModel(Linear(LOGITS, -0.5), 2)
X = MODEL.simulate(jax.random.key(2), 8)[1]


def exact():
    covariance = WEIGHT @ WEIGHT.T + NOISE**2 * jnp.eye(12)
    return jax.vmap(lambda x: multivariate_normal.logpdf(x, jnp.zeros(12), covariance))(X)


def exact_discrete():
    line = jnp.linspace(-6, 6, 241)
    grid = jnp.stack(jnp.meshgrid(line, line), -1).reshape(-1, 2)
    area = 2 * jnp.log(line[1] - line[0])
    density = jax.vmap(lambda x: jax.vmap(lambda z: DISCRETE.log_density(z, x))(grid))
    return logsumexp(density(ALL), axis=1) + area


def assert_close(found, truth, chains):
    """Within 0.05 nats where over half the chains count; never above the truth beyond noise."""
    off = found.log_evidence - truth
    good = found.effective > chains / 2
    assert good.sum() >= len(off) / 2
    assert np.abs(off[good]).max() <= 0.15
    assert np.abs(off[good].mean()) <= 0.05
    noise = np.sqrt(np.maximum(1 / found.effective - 1 / chains, 0) + 1e-6)
    assert (off < 4 * noise + 0.01).all()


def test_importance_weights_of_the_exact_posterior_give_the_evidence():
    found = importance_weighted(KEY, MODEL, Posterior(1.0), X, 7, chunk=3, batch=4)
    np.testing.assert_allclose(found.log_evidence, exact(), rtol=1e-4)
    np.testing.assert_allclose(found.effective, 7, rtol=1e-3)


def test_importance_weights_of_a_wider_proposal():
    found = importance_weighted(KEY, MODEL, Posterior(1.2), X, 4000, chunk=500, batch=8)
    np.testing.assert_allclose(found.log_evidence, exact(), atol=0.05)
    # The effective share of a Gaussian proposal stretched by s, per dimension: sqrt(2 s^2 - 1) / s^2.
    share = (np.sqrt(2 * 1.2**2 - 1) / 1.2**2) ** 6
    np.testing.assert_allclose(found.effective, 4000 * share, rtol=0.1)


def test_annealing_from_a_fitted_gaussian_gives_the_evidence():
    base = gaussian_base(KEY, MODEL, X, Posterior(2.0), chains=16, transitions=30, batch=8)
    found = annealed_evidence(KEY, MODEL, X, base, chains=32, rungs=40, batch=8)
    assert (found.effective > 16).all()
    assert_close(found, exact(), 32)


def test_annealing_from_the_prior_gives_the_evidence_of_a_discrete_model():
    found = annealed_evidence(KEY, DISCRETE, ALL, chains=64, rungs=40, batch=16)
    assert (found.effective > 32).all()
    assert_close(found, exact_discrete(), 64)
    np.testing.assert_allclose(jnp.exp(found.log_evidence).sum(), 1, atol=0.05)


def test_annealing_from_the_prior_is_below_a_stiff_truth_and_says_so():
    found = annealed_evidence(KEY, MODEL, X, chains=32, rungs=20, batch=8)
    assert (found.log_evidence < exact() + 0.3).all()
    assert found.effective.mean() < 16


def test_both_directions_enclose_the_truth():
    bounds = bidirectional(KEY, MODEL, 8, Posterior(1.5), chains=16, rungs=60, batch=8)
    assert -0.02 <= (bounds.upper - bounds.lower).mean() <= 0.1
    simulated = MODEL.simulate(jax.random.split(KEY, 3)[0], 8)[1]
    covariance = WEIGHT @ WEIGHT.T + NOISE**2 * jnp.eye(12)
    truth = jax.vmap(lambda x: multivariate_normal.logpdf(x, jnp.zeros(12), covariance))(simulated)
    np.testing.assert_allclose(bounds.lower.mean(), truth.mean(), atol=0.06)
    np.testing.assert_allclose(bounds.upper.mean(), truth.mean(), atol=0.06)


def test_a_base_is_the_posterior_of_a_linear_model():
    base = gaussian_base(KEY, MODEL, X[:2], Posterior(2.0), chains=32, transitions=40, batch=2)
    mean, covariance = jax.vmap(Posterior(1.0).moments)(X[:2])
    scale = jnp.sqrt(jnp.diagonal(covariance, axis1=1, axis2=2))
    assert (np.abs(base.mean - mean) / scale).max() < 0.4
    found = jnp.sqrt((base.factor**2).sum(-1)) / 1.1
    np.testing.assert_allclose(found, scale, rtol=0.35)


def test_bad_input_gets_a_sentence():
    with pytest.raises(IngredientError, match="rungs"):
        annealed_evidence(KEY, MODEL, X, rungs=0)
    with pytest.raises(IngredientError, match="one row per condition"):
        annealed_evidence(KEY, MODEL, None)
