"""Models whose posteriors are known, for tests of amortised inference."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from numpyro.contrib.control_flow import scan

from understudy.amortising import PriorSimulator

COVARIATES = np.random.default_rng(0).normal(size=(10, 2)).astype(np.float32)
NOISE = 0.5


def regression(covariates, y=None):
    weights = numpyro.sample("weights", dist.Normal(0, 1).expand([2]).to_event(1))
    with numpyro.plate("rows", covariates.shape[0]):
        numpyro.sample("y", dist.Normal(covariates @ weights, NOISE), obs=y)


def exact(y, covariates=COVARIATES):
    """Mean and standard deviations of the regression's posterior."""
    covariance = np.linalg.inv(np.eye(2) + covariates.T @ covariates / NOISE**2)
    return covariance @ covariates.T @ y / NOISE**2, np.sqrt(np.diag(covariance))


def regressions(count, seed=0, shift=0.0):
    generator = np.random.default_rng(seed)
    weights = shift + generator.normal(size=(count, 2))
    return weights @ COVARIATES.T + NOISE * generator.normal(size=(count, len(COVARIATES)))


def points(count, y=None):
    mean = numpyro.sample("mean", dist.Uniform(-1, 1))
    with numpyro.plate("rows", count):
        numpyro.sample("y", dist.Normal(mean, 1), obs=y)


def schools(y=None):
    mean = numpyro.sample("mean", dist.Normal(0, 1))
    with numpyro.plate("schools", 8):
        effect = numpyro.sample("effect", dist.Normal(mean, 1))
        numpyro.sample("y", dist.Normal(effect, 1), obs=y)


def two_sites(y=None, w=None):
    rate = numpyro.sample("rate", dist.Gamma(2.0, 1.0))
    with numpyro.plate("rows", 5):
        numpyro.sample("y", dist.Poisson(rate), obs=y)
    numpyro.sample("w", dist.Normal(rate, 1).expand([3]).to_event(1), obs=w)


def gaussian(likelihood=True, scale=1.0, prior_mean=0.0):
    """One number with noise; ``scale`` other than one plants a wrong likelihood, a mean a prior."""
    prior = {"mean": dist.Normal(0.0, 1.0)}

    def simulate(key, mean):
        return mean + jax.random.normal(key, (2,))

    def log_likelihood(x, mean):
        other = dist.Normal(prior_mean, 1.0).log_prob(mean) - prior["mean"].log_prob(mean)
        return dist.Normal(mean, scale).log_prob(x).sum() + other

    return PriorSimulator(prior, simulate, log_likelihood if likelihood else None)


def broken_at_times():
    """A simulator of which one simulation in ten is not finite."""

    def simulate(key, mean):
        first, second = jax.random.split(key)
        return jnp.where(
            jax.random.uniform(first) < 0.1, jnp.nan, mean + jax.random.normal(second, (2,))
        )

    return PriorSimulator({"mean": dist.Normal(0.0, 1.0)}, simulate)


def walk(steps, y=None):
    scale = numpyro.sample("scale", dist.HalfNormal(1))
    numpyro.sample("y", dist.GaussianRandomWalk(scale, num_steps=steps), obs=y)


def river(steps, y=None):
    """A series whose numbers lean on those before them, as NumPyro scans one."""
    lean = numpyro.sample("lean", dist.Uniform(-1, 1))

    def step(before, now):
        return numpyro.sample("y", dist.Normal(lean * before, 1), obs=now), None

    scan(step, 0.0, y, length=steps)


def spot(y=None):
    """A bright spot somewhere in an image."""
    place = numpyro.sample("place", dist.Normal(0, 1).expand([2]).to_event(1))
    axis = jnp.linspace(-3, 3, 24)
    bright = jnp.exp(-((axis[:, None] - place[0]) ** 2) - (axis - place[1]) ** 2)
    numpyro.sample("y", dist.Normal(bright, 0.3).to_event(2), obs=y)
