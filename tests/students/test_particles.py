"""Particles, normalised particles and tables of chains."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from understudy.core import Indexed, IngredientError, Lesson
from understudy.students import ChainTable, NormalisedGaussian, Particles

KEY = jax.random.key(2)
RNG = np.random.default_rng(0)


def normal(*shape):
    return jnp.asarray(RNG.normal(size=shape), jnp.float32)


def lessons_of(x, after, kept):
    weights = kept / jnp.maximum(kept.sum(-1, keepdims=True), 1)
    build = jax.vmap(lambda c, z, w, k: Lesson(KEY, KEY, c, z, z, w, z, k))
    return build(x, after, weights, kept)


def test_particles_come_back_in_order_or_at_random():
    z = normal(5, 2)
    student = Particles(z)
    np.testing.assert_array_equal(student.sample(KEY, None, 5), z)
    some = np.asarray(student.sample(KEY, None, 50))
    assert {tuple(row) for row in some} == {tuple(row) for row in np.asarray(z)}


def test_particles_copy_the_improved_draws_that_are_finite():
    z, after = normal(4, 2), normal(1, 4, 2).at[0, 1].set(jnp.nan)
    kept = jnp.isfinite(after).all(-1)
    full = jax.jit(Particles.project)(Particles(z), lessons_of(None, after, kept), jnp.asarray(1.0))
    np.testing.assert_allclose(full.z, jnp.where(kept[0][:, None], after[0], z), rtol=1e-6)
    half = Particles(z).project(lessons_of(None, after, kept), jnp.asarray(0.5))
    np.testing.assert_allclose(half.z[0], (z[0] + after[0, 0]) / 2, rtol=1e-6)


def test_normalised_draws_have_exactly_the_mean_and_scale():
    mean, scale = jnp.array([1.0, -20.0, 0.0]), jnp.array([0.5, 3.0, 10.0])
    z = np.asarray(jax.jit(lambda k: NormalisedGaussian(3, mean, scale).sample(k, None, 10))(KEY), float)
    np.testing.assert_allclose(z.mean(0), mean, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(z.std(0), scale, rtol=1e-5)


def test_normalised_gradients_are_one_and_the_noise():
    student = NormalisedGaussian(2, 1.0, 2.0)
    gradient = jax.jit(jax.grad(lambda s: jnp.sum(s.sample(KEY, None, 6) ** 2)))(student)
    np.testing.assert_allclose(gradient.mean, 2 * 6 * np.ones(2), rtol=1e-5)
    np.testing.assert_allclose(gradient.log_scale, 2 * 6 * 4 * np.ones(2), rtol=1e-5)


def test_table_moves_only_the_rows_met():
    table = ChainTable(rows=6, chains=3, dim=2, start=normal(6, 3, 2))
    after = normal(2, 3, 2)
    kept = jnp.ones((2, 3), bool).at[1, 0].set(False)
    x = Indexed(jnp.array([4, 1]), None)
    moved = jax.jit(ChainTable.project)(table, lessons_of(x, after, kept), jnp.asarray(1.0))
    np.testing.assert_allclose(moved.z[4], after[0], rtol=1e-6)
    np.testing.assert_allclose(moved.z[1, 1:], after[1, 1:], rtol=1e-6)
    np.testing.assert_array_equal(moved.z[1, 0], table.z[1, 0])
    untouched = np.array([0, 2, 3, 5])
    np.testing.assert_array_equal(moved.z[untouched], table.z[untouched])


def test_table_gives_the_chains_of_each_condition():
    table = ChainTable(rows=6, chains=3, dim=2, start=normal(6, 3, 2))
    x = Indexed(jnp.array([5, 0]), normal(2, 4))
    draws = jax.jit(jax.vmap(lambda c: table.sample(KEY, c, 3)))(x)
    np.testing.assert_array_equal(draws, table.z[jnp.array([5, 0])])
    few = jax.jit(jax.vmap(lambda c: table.sample(KEY, c, 2)))(x)
    assert all(row in np.asarray(table.z[5]) for row in np.asarray(few[0]))


def test_bad_settings_are_named():
    with pytest.raises(IngredientError, match="2 or more"):
        NormalisedGaussian(3).sample(KEY, None, 1)
    few = lessons_of(Indexed(jnp.array([0]), None), normal(1, 2, 2), jnp.ones((1, 2), bool))
    with pytest.raises(IngredientError, match="5 particles"):
        Particles(normal(5, 2)).project(few, jnp.asarray(1.0))
    with pytest.raises(IngredientError, match="3 chains"):
        ChainTable(4, 3, 2).project(few, jnp.asarray(1.0))
