"""Models as a user would write them in a file, for the command line's tests."""

import numpyro
from numpyro import distributions as dist

NUMBER = 3


def schools(y, sigma, spread=5.0):
    mu = numpyro.sample("mu", dist.Normal(0, spread))
    tau = numpyro.sample("tau", dist.HalfNormal(spread))
    with numpyro.plate("schools", len(y)):
        t = numpyro.sample("t", dist.Normal(0, 1))
        theta = numpyro.deterministic("theta", mu + tau * t)
        numpyro.sample("y", dist.Normal(theta, sigma), obs=y)


def normal(y):
    mu = numpyro.sample("mu", dist.Normal(0, 1))
    numpyro.sample("y", dist.Normal(mu, 1), obs=y)


def discrete(y):
    k = numpyro.sample("k", dist.Bernoulli(0.5))
    numpyro.sample("y", dist.Normal(k, 1), obs=y)


def nothing(y):
    numpyro.sample("y", dist.Normal(0, 1), obs=y)


def outside(y):
    rate = numpyro.sample("rate", dist.Gamma(1, 1))
    numpyro.sample("y", dist.Poisson(rate), obs=y)


def measured(y=None):
    mu = numpyro.sample("mu", dist.Normal(0, 1))
    with numpyro.plate("times", 4):
        numpyro.sample("y", dist.Normal(mu, 1), obs=y)
