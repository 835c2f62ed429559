"""Discrete students by enumeration."""

import itertools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from understudy.core import IngredientError, Lesson
from understudy.students import Autoregressive, Bernoulli, Categorical

KEY = jax.random.key(3)
CONDITION = jnp.array([0.5, -1.0])
RNG = np.random.default_rng(0)


def moved(student):
    parameters, rest = eqx.partition(student, eqx.is_inexact_array)
    noisy = jax.tree.map(lambda v: v + RNG.normal(size=v.shape).astype(np.float32), parameters)
    return eqx.combine(noisy, rest)


STUDENTS = {
    "bernoulli": (moved(Bernoulli(4)), 2),
    "categorical": (moved(Categorical(3, 3)), 3),
    "autoregressive": (moved(Autoregressive(KEY, 4, hidden=9, depth=2)), 2),
    "conditional": (
        moved(Autoregressive(KEY, 4, hidden=8, condition=CONDITION, activation=jnp.tanh)),
        2,
    ),
    "single": (moved(Autoregressive(KEY, 1, hidden=2)), 2),
}


@pytest.mark.parametrize("name", STUDENTS)
def test_probabilities_sum_to_one_and_are_the_frequencies(name):
    student, values = STUDENTS[name]
    states = np.array(list(itertools.product(range(values), repeat=student.dim)), np.float32)
    log_prob = eqx.filter_jit(jax.vmap(lambda z: student.log_prob(z, CONDITION)))
    probabilities = np.exp(np.asarray(log_prob(jnp.asarray(states)), float))
    assert probabilities.sum() == pytest.approx(1, abs=1e-5)
    n = 20_000
    draws = np.asarray(eqx.filter_jit(lambda k: student.sample(k, CONDITION, n))(KEY))
    code = values ** np.arange(student.dim)
    counts = np.bincount((draws @ code).astype(int), minlength=len(states))[(states @ code).astype(int)]
    error = np.sqrt(n * probabilities * (1 - probabilities)) + 1
    assert np.all(np.abs(counts - n * probabilities) < 4.5 * error)


def test_masks_let_later_coins_see_earlier_ones_alone():
    student, _ = STUDENTS["conditional"]
    jacobian = jax.jit(jax.jacobian(student._logits(CONDITION)))(jnp.full(4, 0.3))
    np.testing.assert_array_equal(np.triu(jacobian), 0)
    assert np.all(np.abs(jacobian[np.tril_indices(4, -1)]) > 0)


def test_students_vectorise_over_conditions():
    student, _ = STUDENTS["conditional"]
    x = jnp.stack([CONDITION, 5 * CONDITION])
    z = jnp.array([1.0, 0, 1, 1])
    batched = eqx.filter_jit(jax.vmap(lambda c: student.log_prob(z, c)))(x)
    np.testing.assert_allclose(batched[1], student.log_prob(z, x[1]), rtol=1e-5)
    assert float(jnp.abs(batched[0] - batched[1])) > 1e-3


@pytest.mark.parametrize("name", ["bernoulli", "categorical"])
def test_projection_averages_frequencies(name):
    student, values = STUDENTS[name]
    after = jnp.asarray(RNG.integers(0, values, (2, 5, student.dim)), jnp.float32)
    kept = jnp.ones((2, 5), bool).at[0, 0].set(False)
    weights = kept / kept.sum(-1, keepdims=True)
    lessons = jax.vmap(lambda z, w, k: Lesson(KEY, KEY, None, z, z, w, z, k))(after, weights, kept)
    result = eqx.filter_jit(type(student).project)(student, lessons, jnp.asarray(0.25))

    def table(s):
        if name == "categorical":
            return np.asarray(jax.nn.softmax(s.logits))
        return np.stack([jax.nn.sigmoid(-s.logits), jax.nn.sigmoid(s.logits)], -1)

    share = np.asarray(weights).ravel() / 2
    rows = np.asarray(after).reshape(-1, student.dim)
    frequencies = np.stack([share @ (rows == value) for value in range(values)], -1)
    np.testing.assert_allclose(table(result), 0.75 * table(student) + 0.25 * frequencies, rtol=1e-4)


def test_projection_at_rate_one_keeps_log_probabilities_finite():
    weights, kept = jnp.full(4, 0.25), jnp.ones(4, bool)
    lessons = jax.vmap(lambda z: Lesson(KEY, KEY, None, z, z, weights, z, kept))(jnp.ones((1, 4, 3)))
    student = Bernoulli(3).project(lessons, jnp.asarray(1.0))
    assert jnp.isfinite(student.log_prob(jnp.zeros(3)))
    assert float(student.log_prob(jnp.ones(3))) == pytest.approx(0, abs=1e-4)


def test_bad_settings_are_named():
    with pytest.raises(IngredientError, match="probability"):
        Bernoulli(3, 1.0)
    with pytest.raises(IngredientError, match="categories"):
        Categorical(3, 1)
    with pytest.raises(IngredientError, match="2 numbers"):
        STUDENTS["conditional"][0].log_prob(jnp.zeros(4), None)
