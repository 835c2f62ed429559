"""Discrete numbers are told from continuous ones before a fit begins."""

import jax.numpy as jnp
import numpy as np
import pytest

from understudy import IngredientError, LogDensity
from understudy.fitting.discrete import check_steps
from understudy.fitting.evaluations import Evaluations

DISCRETE = {
    "rounded": lambda z: -jnp.sum(jnp.round(z) ** 2),
    "one of two": lambda z: -0.5 * z[0] ** 2 + jnp.where(z[1] > 0.5, 1.0, 0.0),
    "an index": lambda z: jnp.array([0.0, -1.0])[z[0].astype(int)] - z[1] ** 2,
    "zeros and ones": lambda z: jnp.where(jnp.all((z == 0) | (z == 1)), z @ z, -jnp.inf),
}
CONTINUOUS = {
    "a Gaussian": lambda z: -0.5 * z @ z,
    "a box": lambda z: jnp.where(jnp.all(jnp.abs(z) < 0.5), 0.0, -jnp.inf),
    "a number without a say": lambda z: -0.5 * z[0] ** 2,
    "flat near zero": lambda z: -jnp.sum(jnp.maximum(jnp.abs(z) - 5, 0.0)),
    "a step and a slope": lambda z: -0.5 * z @ z + jnp.where(z[0] > 0, 1.0, 0.0),
}


def checked(log_density):
    evaluate = Evaluations(LogDensity(log_density, 2))
    z = np.random.default_rng(0).uniform(-2, 2, (128, 2))
    check_steps(evaluate, z, *evaluate(z))


@pytest.mark.parametrize("name", DISCRETE)
def test_a_density_of_discrete_numbers_is_refused(name):
    with pytest.raises(IngredientError, match="discrete student"):
        checked(DISCRETE[name])


@pytest.mark.parametrize("name", CONTINUOUS)
def test_one_of_continuous_numbers_is_not(name):
    checked(CONTINUOUS[name])
