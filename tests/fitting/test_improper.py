"""Densities that fall off are left alone; those that do not are called improper."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpyro.distributions import constraints

from understudy import IngredientError, LogDensity
from understudy.fitting.evaluations import Evaluations
from understudy.fitting.improper import check_ends


def normal(z):
    return -0.5 * jnp.sum(z**2)


def centred_hierarchy(z):
    """Ten effects around zero with a half-Cauchy scale, given by its logarithm."""
    log_tau, theta = z[0], z[1:]
    prior = log_tau - jnp.log1p(jnp.exp(2 * log_tau)) - 0.5 * jnp.sum((theta / jnp.exp(log_tau)) ** 2)
    return prior - 9 * log_tau - 0.5 * jnp.sum((theta - 1) ** 2)


PROPER = {
    "normal": (normal, 5),
    "wide": (normal, 400),
    "cauchy": (lambda z: -jnp.sum(jnp.log1p(z**2)), 3),
    "one cauchy": (lambda z: -jnp.log1p(z[0] ** 2), 1),
    "round cauchy": (lambda z: -3.5 * jnp.log1p(jnp.sum(z**2)), 6),
    "hierarchy": (centred_hierarchy, 10),
    "a deep floor": (lambda z: jnp.logaddexp(normal(z), -40.0 + 0 * z[0]), 2),
    "slower than any power but one": (
        lambda z: -jnp.log(jnp.e + jnp.abs(z[0])) - 2 * jnp.log(jnp.log(jnp.e + jnp.abs(z[0]))),
        1,
    ),
    "logistic regression with a prior": (lambda z: jax.nn.log_sigmoid(5 * z[0]) - 0.5 * z @ z, 2),
}
IMPROPER = {
    "an unused flat location": (lambda z: -0.5 * z[0] ** 2, 2),
    "only a sum is seen": (lambda z: -0.5 * (z[0] + 2 * z[1] - 1) ** 2 - 0.5 * z[2] ** 2, 3),
    "only one of three combinations": (lambda z: -0.5 * jnp.sum(z) ** 2, 3),
    "a slow tail": (lambda z: -0.5 * jnp.log1p(z @ z), 2),
    "a slow tail in no line": (lambda z: -1.4 * jnp.log1p(z @ z), 3),
    "a separated class": (lambda z: jnp.sum(jax.nn.log_sigmoid(z[0] * jnp.arange(1.0, 5))), 1),
    "a flat log scale": (lambda x: -jnp.log(x), {"x": constraints.positive}),
}


def draws(d):
    return np.random.default_rng(0).normal(size=(128, d))


@pytest.mark.parametrize("name", PROPER)
def test_a_density_that_falls_off_passes(name):
    target = LogDensity(*PROPER[name])
    check_ends(Evaluations(target), draws(target.dim))


@pytest.mark.parametrize("name", IMPROPER)
def test_a_density_without_an_end_is_refused(name):
    target = LogDensity(*IMPROPER[name])
    with pytest.raises(IngredientError, match="improper: its density does not fall off"):
        check_ends(Evaluations(target), draws(target.dim))


@pytest.mark.parametrize("away", [1e120, np.inf])
def test_chains_that_ran_away_show_it_too(away):
    with pytest.raises(IngredientError, match="does not fall off far out"):
        check_ends(Evaluations(LogDensity(lambda z: z[0], 2)), np.full((8, 2), away))
