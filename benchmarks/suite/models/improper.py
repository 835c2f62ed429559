"""Densities without a finite integral, which a fit should refuse or flag."""

import jax.numpy as jnp
import numpy as np
import numpyro
from numpyro import distributions as dist
from numpyro.distributions import constraints

from understudy.targets.density import LogDensity
from understudy.targets.numpyro import from_numpyro

from ..case import Case


def _flat(support, shape=()):
    return dist.ImproperUniform(support, (), shape)


def unidentified_sum(y):
    """Two flat effects of which only the sum is seen."""
    first = numpyro.sample("first", _flat(constraints.real))
    second = numpyro.sample("second", _flat(constraints.real))
    numpyro.sample("y", dist.Normal(first + second, 1), obs=y)


def unused_location(y):
    """A flat location that no row of the data mentions."""
    numpyro.sample("unused", _flat(constraints.real))
    mu = numpyro.sample("mu", dist.Normal(0, 1))
    numpyro.sample("y", dist.Normal(mu, 1), obs=y)


def two_groups(y):
    """A flat scale between two groups, too few for a flat prior."""
    mu = numpyro.sample("mu", _flat(constraints.real))
    tau = numpyro.sample("tau", _flat(constraints.positive))
    z = numpyro.sample("z", dist.Normal(0, 1).expand([2]).to_event(1))
    numpyro.sample("y", dist.Normal(mu + tau * z, 1), obs=y)


def separable_classes(x, y):
    """Logistic regression with flat coefficients on classes that a plane separates."""
    beta = numpyro.sample("beta", _flat(constraints.real_vector, (x.shape[1],)))
    numpyro.sample("y", dist.Bernoulli(logits=x @ beta), obs=y)


def no_successes(y):
    """Haldane's prior on a rate, with no success in the data."""
    rate = numpyro.sample("rate", _flat(constraints.unit_interval))
    numpyro.factor("prior", -jnp.log(rate) - jnp.log1p(-rate))
    numpyro.sample("y", dist.Bernoulli(rate), obs=y)


def inverse_scale(y):
    """Means of groups, centred, with the density 1/tau on their scale, infinite near zero."""
    mu = numpyro.sample("mu", dist.Normal(0, 5))
    tau = numpyro.sample("tau", _flat(constraints.positive))
    numpyro.factor("prior", -jnp.log(tau))
    theta = numpyro.sample("theta", dist.Normal(mu, tau).expand([len(y)]).to_event(1))
    numpyro.sample("y", dist.Normal(theta, 1), obs=y)


def _case(name, dim, make, held_out=False):
    return Case(name, "improper", dim, make, improper=True, held_out=held_out)


def _separable():
    x = np.random.default_rng(801).normal(size=(40, 3))
    return from_numpyro(separable_classes, x, (x @ np.array([1.0, -1.0, 0.5]) > 0).astype(float))


_NUMBERS = np.array([0.3, -0.8, 1.4, 0.1, 0.6])

CASES = (
    _case("improper_unidentified_sum", 2, lambda: from_numpyro(unidentified_sum, _NUMBERS)),
    _case("improper_unused_location", 2, lambda: from_numpyro(unused_location, _NUMBERS), held_out=True),
    _case("improper_flat_scale", 4, lambda: from_numpyro(two_groups, np.array([0.5, -0.7]))),
    _case("improper_separable_classes", 3, _separable, held_out=True),
    _case(
        "improper_inverse_on_positive",
        1,
        lambda: LogDensity(lambda x: -jnp.log(x), {"x": constraints.positive}),
    ),
    _case("improper_no_successes", 1, lambda: from_numpyro(no_successes, np.zeros(8))),
    _case("improper_inverse_scale", 7, lambda: from_numpyro(inverse_scale, _NUMBERS), held_out=True),
    _case("improper_flat_tail", 2, lambda: LogDensity(lambda z: -0.5 * jnp.log1p(z @ z), 2)),
)
