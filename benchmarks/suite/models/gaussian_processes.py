"""Gaussian processes with a latent function at every point."""

import jax.numpy as jnp
import numpy as np
import numpyro
from numpyro import distributions as dist

from understudy.targets.numpyro import from_numpyro

from ..case import Case


def _root(x, amplitude, length):
    distance = x[:, None] - x
    kernel = amplitude**2 * jnp.exp(-0.5 * (distance / length) ** 2)
    return jnp.linalg.cholesky(kernel + 1e-4 * jnp.eye(x.size))


def latent_function(x, centred):
    """A function with unknown amplitude and length scale."""
    amplitude = numpyro.sample("amplitude", dist.HalfNormal(1.5))
    length = numpyro.sample("length", dist.InverseGamma(5, 5))
    root = _root(x, amplitude, length)
    if centred:
        return numpyro.sample("f", dist.MultivariateNormal(jnp.zeros(x.size), scale_tril=root))
    z = numpyro.sample("z", dist.Normal(0, 1).expand([x.size]).to_event(1))
    return numpyro.deterministic("f", root @ z)


def gp_latent_regression(x, y, centred):
    """Regression with Student t noise around a latent function."""
    f = latent_function(x, centred)
    sigma = numpyro.sample("sigma", dist.HalfNormal(0.5))
    numpyro.sample("y", dist.StudentT(4, f, sigma), obs=y)


def gp_classification(x, y):
    """Two classes with a latent function as the log odds."""
    f = latent_function(x, False)
    numpyro.sample("y", dist.Bernoulli(logits=f), obs=y)


def gp_counts(x, y):
    """Counts with a latent function as the log rate."""
    level = numpyro.sample("level", dist.Normal(0, 2))
    f = latent_function(x, False)
    numpyro.sample("y", dist.Poisson(jnp.exp(level + f)), obs=y)


def _regression(centred):
    rng = np.random.default_rng(501)
    x = np.linspace(-3, 3, 30)
    return from_numpyro(
        gp_latent_regression, x, np.sin(2 * x) + 0.3 * rng.standard_t(4, size=30), centred
    )


def _classification():
    rng = np.random.default_rng(502)
    x = np.linspace(-3, 3, 50)
    y = (rng.uniform(size=50) < 1 / (1 + np.exp(-2 * np.sin(1.5 * x)))).astype(float)
    return from_numpyro(gp_classification, x, y)


def _counts():
    rng = np.random.default_rng(503)
    x = np.linspace(-3, 3, 40)
    return from_numpyro(gp_counts, x, rng.poisson(np.exp(1 + np.cos(x))))


CASES = (
    Case(
        "gp_latent_regression_centred",
        "Gaussian processes",
        33,
        lambda: _regression(True),
        easier=lambda: _regression(False),
    ),
    Case("gp_latent_regression_noncentred", "Gaussian processes", 33, lambda: _regression(False)),
    Case("gp_classification_50", "Gaussian processes", 52, _classification, held_out=True),
    Case("gp_counts_40", "Gaussian processes", 43, _counts),
)
