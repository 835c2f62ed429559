"""Hierarchies of groups, centred and non-centred, with one or two effects per group."""

import jax.numpy as jnp
import numpy as np
import numpyro
from numpyro import distributions as dist

from understudy.targets.numpyro import from_numpyro

from ..case import Case


def _effects(count, centred):
    mu = numpyro.sample("mu", dist.Normal(0, 2))
    tau = numpyro.sample("tau", dist.HalfNormal(1))
    if centred:
        return numpyro.sample("theta", dist.Normal(mu, tau).expand([count]).to_event(1))
    z = numpyro.sample("z", dist.Normal(0, 1).expand([count]).to_event(1))
    return numpyro.deterministic("theta", mu + tau * z)


def linear_groups(y, count, centred):
    """Means of groups, each seen in the same number of rows."""
    theta = _effects(count, centred)
    sigma = numpyro.sample("sigma", dist.HalfNormal(2))
    numpyro.sample("y", dist.Normal(theta[:, None], sigma).to_event(2), obs=y)


def logistic_groups(successes, trials, count, centred):
    """Rates of success of groups."""
    theta = _effects(count, centred)
    numpyro.sample("successes", dist.Binomial(trials, logits=theta).to_event(1), obs=successes)


def poisson_groups(counts, exposure, count, centred):
    """Rates of events of groups."""
    theta = _effects(count, centred)
    numpyro.sample("counts", dist.Poisson(exposure * jnp.exp(theta)).to_event(1), obs=counts)


def correlated_slopes(x, y, centred):
    """An intercept and a slope per group with an unknown correlation between them."""
    count = y.shape[0]
    mu = numpyro.sample("mu", dist.Normal(0, 2).expand([2]).to_event(1))
    tau = numpyro.sample("tau", dist.HalfNormal(1).expand([2]).to_event(1))
    correlation = numpyro.sample("correlation", dist.LKJCholesky(2, 2.0))
    sigma = numpyro.sample("sigma", dist.HalfNormal(1))
    scale = tau[:, None] * correlation
    if centred:
        prior = dist.MultivariateNormal(mu, scale_tril=scale).expand([count]).to_event(1)
        theta = numpyro.sample("theta", prior)
    else:
        z = numpyro.sample("z", dist.Normal(0, 1).expand([count, 2]).to_event(2))
        theta = numpyro.deterministic("theta", mu + z @ scale.T)
    mean = theta[:, :1] + theta[:, 1:] * x
    numpyro.sample("y", dist.Normal(mean, sigma).to_event(2), obs=y)


def crossed_effects(rows, columns, y):
    """Two crossed factors, both centred, of which one hardly varies."""
    mu = numpyro.sample("mu", dist.Normal(0, 2))
    spread = numpyro.sample("spread", dist.HalfNormal(1).expand([2]).to_event(1))
    first = numpyro.sample("first", dist.Normal(0, spread[0]).expand([15]).to_event(1))
    second = numpyro.sample("second", dist.Normal(0, spread[1]).expand([12]).to_event(1))
    sigma = numpyro.sample("sigma", dist.HalfNormal(1))
    numpyro.sample("y", dist.Normal(mu + first[rows] + second[columns], sigma), obs=y)


def crossed_effects_noncentred(rows, columns, y):
    """The same posterior with standardised effects."""
    mu = numpyro.sample("mu", dist.Normal(0, 2))
    spread = numpyro.sample("spread", dist.HalfNormal(1).expand([2]).to_event(1))
    z1 = numpyro.sample("z1", dist.Normal(0, 1).expand([15]).to_event(1))
    z2 = numpyro.sample("z2", dist.Normal(0, 1).expand([12]).to_event(1))
    first = numpyro.deterministic("first", spread[0] * z1)
    second = numpyro.deterministic("second", spread[1] * z2)
    sigma = numpyro.sample("sigma", dist.HalfNormal(1))
    numpyro.sample("y", dist.Normal(mu + first[rows] + second[columns], sigma), obs=y)


def _linear(count, rows, tau, seed, centred):
    rng = np.random.default_rng(seed)
    y = 1 + tau * rng.normal(size=(count, 1)) + rng.normal(size=(count, rows))
    return from_numpyro(linear_groups, y, count, centred)


def _logistic(count, tau, seed, centred):
    rng = np.random.default_rng(seed)
    trials = rng.integers(3, 20, count)
    rate = 1 / (1 + np.exp(-(-0.5 + tau * rng.normal(size=count))))
    return from_numpyro(
        logistic_groups, rng.binomial(trials, rate).astype(float), trials.astype(float), count, centred
    )


def _poisson(count, tau, seed, centred):
    rng = np.random.default_rng(seed)
    exposure = rng.uniform(0.5, 4, count)
    counts = rng.poisson(exposure * np.exp(0.3 + tau * rng.normal(size=count)))
    return from_numpyro(poisson_groups, counts.astype(float), exposure, count, centred)


def _slopes(seed, centred):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(20, 8))
    scale = np.linalg.cholesky(np.array([[0.64, -0.24], [-0.24, 0.25]]))
    theta = np.array([1.0, 0.5]) + rng.normal(size=(20, 2)) @ scale.T
    y = theta[:, :1] + theta[:, 1:] * x + 0.6 * rng.normal(size=(20, 8))
    return from_numpyro(correlated_slopes, x, y, centred)


def _crossed(model):
    rng = np.random.default_rng(209)
    rows, columns = rng.integers(0, 15, 120), rng.integers(0, 12, 120)
    y = 0.5 + 0.8 * rng.normal(size=15)[rows] + 0.1 * rng.normal(size=12)[columns]
    return from_numpyro(model, rows, columns, y + 0.7 * rng.normal(size=120))


def _pair(name, dim, build, held=(), which=("centred", "noncentred")):
    """The centred and the non-centred form of one hierarchy."""
    cases = {
        "centred": Case(
            f"{name}_centred",
            "hierarchies",
            dim,
            lambda: build(True),
            held_out="centred" in held,
            easier=lambda: build(False),
        ),
        "noncentred": Case(
            f"{name}_noncentred",
            "hierarchies",
            dim,
            lambda: build(False),
            held_out="noncentred" in held,
        ),
    }
    return [cases[form] for form in which]


CASES = (
    *_pair("linear_10_groups", 13, lambda c: _linear(10, 4, 0.3, 201, c), held=("noncentred",)),
    *_pair("linear_100_groups", 103, lambda c: _linear(100, 3, 0.5, 202, c), which=("centred",)),
    *_pair("linear_1000_groups", 1003, lambda c: _linear(1000, 5, 0.7, 203, c), which=("centred",)),
    *_pair("logistic_100_groups", 102, lambda c: _logistic(100, 0.6, 204, c), held=("centred",)),
    *_pair("poisson_10_groups", 12, lambda c: _poisson(10, 0.4, 205, c), which=("noncentred",)),
    *_pair("poisson_100_groups", 102, lambda c: _poisson(100, 0.3, 206, c), which=("centred",)),
    *_pair(
        "poisson_1000_groups",
        1002,
        lambda c: _poisson(1000, 0.5, 207, c),
        which=("noncentred",),
        held=("noncentred",),
    ),
    *_pair("correlated_slopes", 46, lambda c: _slopes(208, c), held=("centred",)),
    Case(
        "crossed_effects",
        "hierarchies",
        31,
        lambda: _crossed(crossed_effects),
        easier=lambda: _crossed(crossed_effects_noncentred),
    ),
)
