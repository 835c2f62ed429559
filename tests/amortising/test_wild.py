"""A conditional student without a density, taught over data sets as the page on simulators shows."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import understudy
from understudy.feedbacks import EnergyDistance
from understudy.students import Implicit
from understudy.teachers import hmc


def log_density(z, x):
    return -0.5 * jnp.sum(z**2) + jnp.sum(x * z[0] - jnp.exp(z[0]))


def simulate(key):
    first, second = jax.random.split(key)
    rate = jnp.exp(jax.random.normal(first, (64, 1)))
    return jax.random.poisson(second, rate, (64, 5)).astype(float)


def exact(x):
    """Mean and deviation of the posterior, on a grid."""
    grid = np.linspace(-4, 4, 4001)
    logs = -0.5 * grid**2 + x.sum() * grid - len(x) * np.exp(grid)
    share = np.exp(logs - logs.max())
    share /= share.sum()
    mean = grid @ share
    return mean, np.sqrt((grid - mean) ** 2 @ share)


def test_a_wild_student_gives_the_posterior_of_data_sets_that_it_did_not_see():
    target = understudy.LogDensity(log_density, dim=1, conditional=True)
    student = Implicit(jax.random.key(0), 1, noise=4, hidden=[64, 64], condition=jnp.zeros(5))
    trained = understudy.train(
        target,
        student,
        hmc(0.2, leapfrogs=3, steps=2),
        EnergyDistance(),
        simulate,
        updates=300,
        particles=16,
        optimiser=optax.adam(optax.cosine_decay_schedule(3e-3, 300)),
        progress=False,
    )
    errors, ratios = [], []
    for x in np.asarray(simulate(jax.random.key(5)))[:24]:
        mean, deviation = exact(x)
        drawn = np.asarray(trained.sample(1, 2000, x=jnp.asarray(x)))
        errors.append(abs(drawn.mean() - mean) / deviation)
        ratios.append(drawn.std() / deviation)
    assert np.median(errors) < 0.25
    assert np.median(ratios) == pytest.approx(1.0, abs=0.2)
