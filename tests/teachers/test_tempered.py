"""Tempered transitions on mixtures with known weights."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from understudy.core import IngredientError, Proposal
from understudy.teachers import TemperedTransition

NONE = Proposal(lambda key, n: jnp.zeros((n, 1)), None)


def log_density(z, weight):
    left = jnp.log(1 - weight) - 0.5 * (z + 3) ** 2
    right = jnp.log(weight) - 0.5 * (z - 3) ** 2
    return jnp.logaddexp(left, right).sum()


def exact(key, n, weight):
    side_key, key = jax.random.split(key)
    side = jnp.where(jax.random.uniform(side_key, (n, 1)) < weight, 3.0, -3.0)
    return side + jax.random.normal(key, (n, 1))


@eqx.filter_jit
def improve(teacher, key, z, weight):
    return teacher.improve(key, lambda z: log_density(z, weight), z, NONE)


def test_a_mixture_with_unequal_weights_is_kept_and_its_modes_are_swapped():
    n, weight = 4000, 0.7
    z = exact(jax.random.key(0), n, weight)
    out = improve(TemperedTransition(steps=3), jax.random.key(1), z, weight)
    share = float((out.z > 0).mean())
    assert abs(share - weight) < 4 * np.sqrt(weight * (1 - weight) / n)
    u = np.asarray(jnp.where(out.z > 0, out.z - 3, out.z + 3))
    assert abs(u.mean()) < 4 / np.sqrt(n)
    assert abs((u**2).mean() - 1) < 4 * np.sqrt(2 / n)
    swapped = np.asarray(jnp.sign(out.z) != jnp.sign(z))[:, 0]
    assert 0.1 < swapped.mean() < 0.5
    assert out.finite.all()
    flow = (swapped & np.asarray(z[:, 0] > 0)).mean() - (swapped & np.asarray(z[:, 0] < 0)).mean()
    assert abs(flow) < 4 * np.sqrt(swapped.mean() / n)


def test_about_half_of_the_excursions_are_accepted():
    z = exact(jax.random.key(0), 4000, 0.5)
    out = improve(TemperedTransition(), jax.random.key(1), z, 0.5)
    assert 0.35 < float(out.acceptance.excursion.mean()) < 0.65
    assert 0.2 < float(out.acceptance.walk.mean()) < 0.9


def test_one_mode_fills_the_other():
    z = jnp.full((4000, 1), 3.0)
    out = improve(TemperedTransition(steps=60), jax.random.key(1), z, 0.3)
    assert abs(float((out.z > 0).mean()) - 0.3) < 0.03


def test_adapt_steers_the_random_walks():
    teacher = TemperedTransition(step_size=20.0, target_acceptance=0.4)
    z = exact(jax.random.key(0), 4000, 0.5)
    first = last = float(improve(teacher, jax.random.key(9), z, 0.5).acceptance.walk.mean())
    for i in range(40):
        acceptance = improve(teacher, jax.random.key(i), z, 0.5).acceptance
        last = float(acceptance.walk.mean())
        teacher = teacher.adapt(jax.tree.map(jnp.mean, acceptance))
    assert first < 0.25
    assert abs(last - 0.4) < 0.03


def test_chains_outside_the_support_are_flagged():
    def half(z):
        return jnp.where(z[0] > 0, -0.5 * jnp.sum(z**2), jnp.nan)

    run = eqx.filter_jit(TemperedTransition().improve)
    out = run(jax.random.key(0), half, jnp.array([[1.0], [-1.0]]), NONE)
    assert out.finite.tolist() == [True, False]


@pytest.mark.parametrize(
    "bad", [{"rungs": 0}, {"hottest": 1.5}, {"step_size": -1.0}, {"target_acceptance": 1.0}]
)
def test_bad_settings_are_refused(bad):
    with pytest.raises(IngredientError, match=next(iter(bad))):
        TemperedTransition(**bad)
