"""Mixtures with ordered labels and with labels that may be exchanged."""

from itertools import permutations

import jax.numpy as jnp
import numpy as np
import numpyro
from numpyro import distributions as dist
from numpyro.distributions import constraints

from understudy.targets.numpyro import from_numpyro

from ..case import Case


def gaussian_mixture(y, count, ordered):
    """Gaussians on the line with unknown weights, means and scales."""
    if ordered:
        support = constraints.ordered_vector
        mu = numpyro.sample("mu", dist.ImproperUniform(support, (), (count,)))
        numpyro.sample("mu_prior", dist.Normal(0, 5), obs=mu)
    else:
        mu = numpyro.sample("mu", dist.Normal(0, 5).expand([count]).to_event(1))
    sigma = numpyro.sample("sigma", dist.LogNormal(0, 0.5).expand([count]).to_event(1))
    weight = numpyro.sample("weight", dist.Dirichlet(3 * jnp.ones(count)))
    mixture = dist.MixtureSameFamily(dist.Categorical(probs=weight), dist.Normal(mu, sigma))
    numpyro.sample("y", mixture, obs=y)


def poisson_mixture(y, ordered):
    """Two kinds of counts; the logs of their rates are ordered or not."""
    if ordered:
        rate = numpyro.sample("rate", dist.ImproperUniform(constraints.ordered_vector, (), (2,)))
        numpyro.sample("rate_prior", dist.Normal(1, 1), obs=rate)
    else:
        rate = numpyro.sample("rate", dist.Normal(1, 1).expand([2]).to_event(1))
    weight = numpyro.sample("weight", dist.Dirichlet(2 * jnp.ones(2)))
    mixture = dist.MixtureSameFamily(dist.Categorical(probs=weight), dist.Poisson(jnp.exp(rate)))
    numpyro.sample("y", mixture, obs=y)


def _gaussians(seed, centres, ordered):
    rng = np.random.default_rng(seed)
    which = rng.choice(3, size=150, p=[0.5, 0.3, 0.2])
    y = np.array(centres)[which] + np.array([1.0, 0.6, 0.8])[which] * rng.normal(size=150)
    return from_numpyro(gaussian_mixture, y, 3, ordered)


def _counts(ordered):
    rng = np.random.default_rng(303)
    y = rng.poisson(np.where(rng.uniform(size=100) < 0.4, 1.5, 6.0))
    return from_numpyro(poisson_mixture, y, ordered)


def exchange_labels(sites):
    """The draws under every permutation of the labels."""
    count = next(iter(sites.values())).shape[1]
    orders = [list(order) for order in permutations(range(count))]
    return {
        name: np.concatenate([values[:, order] for order in orders]) for name, values in sites.items()
    }


CASES = (
    Case("mixture_3_ordered", "mixtures", 8, lambda: _gaussians(301, (-3.0, 0.5, 4.0), True)),
    Case(
        "mixture_3_label_switching",
        "mixtures",
        8,
        lambda: _gaussians(302, (-4.0, 0.0, 4.0), False),
        easier=lambda: _gaussians(302, (-4.0, 0.0, 4.0), True),
        symmetrise=exchange_labels,
    ),
    Case(
        "poisson_mixture_label_switching",
        "mixtures",
        3,
        lambda: _counts(False),
        held_out=True,
        easier=lambda: _counts(True),
        symmetrise=exchange_labels,
    ),
)
