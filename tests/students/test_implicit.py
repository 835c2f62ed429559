"""Networks of noise and the variational program."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import norm

from understudy.core import IngredientError
from understudy.students import Gated, Implicit, VariationalProgram

KEY = jax.random.key(1)
CONDITION = {"image": jnp.ones((2, 2)), "label": jnp.asarray(3)}


def test_program_has_the_moments_of_two_rectified_gaussians():
    program = VariationalProgram(weight=jnp.array([1.0, 0.5]), bias=jnp.array([1.0, 2.0]))
    z = np.asarray(jax.jit(lambda k: program.sample(k, None, 40_000))(KEY), float)[:, 0]
    right = norm.cdf(1.0) + norm.pdf(1.0)
    left = 2 * norm.cdf(4.0) + 0.5 * norm.pdf(4.0)
    assert z.mean() == pytest.approx((right - left) / 2, abs=4.5 * z.std() / 200)
    atom = (norm.cdf(-1.0) + norm.cdf(-4.0)) / 2
    assert np.mean(z == 0) == pytest.approx(atom, abs=4.5 * np.sqrt(atom / 40_000))


def test_program_starts_at_random_from_a_key():
    programs = jax.vmap(VariationalProgram.random)(jax.random.split(KEY, 500))
    assert float(programs.weight.std()) == pytest.approx(1, abs=0.1)
    assert float(jnp.abs(jnp.corrcoef(programs.weight.T, programs.bias.T)[0, 2])) < 0.2


STUDENTS = [
    VariationalProgram(),
    Implicit(KEY, 2, noise=4, hidden=(5,), condition=CONDITION, activation=jnp.tanh),
    Gated(KEY, 3, 4, hidden=(5,), activation=jnp.tanh),
    Gated(KEY, 2, 3, condition=CONDITION, activation=jnp.tanh),
]


@pytest.mark.parametrize("student", STUDENTS, ids=lambda s: type(s).__name__)
def test_pathwise_gradient_is_the_finite_difference(student):
    parameters, rest = eqx.partition(student, eqx.is_inexact_array)
    rng = np.random.default_rng(0)
    direction = jax.tree.map(lambda v: rng.normal(size=v.shape).astype(np.float32), parameters)

    def value(t):
        moved = eqx.combine(jax.tree.map(lambda v, u: v + t * u, parameters, direction), rest)
        return jnp.sum(jnp.sin(moved.sample(KEY, CONDITION, 4)))

    both = jax.jit(jax.vmap(jax.value_and_grad(value)))
    (low, _, high), (_, slope, _) = both(jnp.array([-1e-3, 0, 1e-3]))
    assert float(slope) == pytest.approx(float(high - low) / 2e-3, rel=0.02, abs=0.02)


@pytest.mark.parametrize("student", STUDENTS, ids=lambda s: type(s).__name__)
def test_students_vectorise_over_conditions(student):
    x = jax.tree.map(lambda v: jnp.stack([v, 2 * v]), CONDITION)
    keys = jnp.stack([KEY, KEY])
    draws = eqx.filter_jit(jax.vmap(lambda k, c: student.sample(k, c, 5)))(keys, x)
    assert draws.shape == (2, 5, student.dim)
    one = eqx.filter_jit(student.sample)(KEY, jax.tree.map(lambda v: v[1], x), 5)
    np.testing.assert_allclose(draws[1], one, rtol=1e-4, atol=1e-5)


def gated(condition):
    student, rng = STUDENTS[2 if condition is None else 3], np.random.default_rng(1)
    logits, gate = (
        0.5 * rng.normal(size=v.shape).astype(np.float32) for v in (student.logits, student.gate)
    )
    return eqx.tree_at(lambda s: (s.logits, s.gate), student, (jnp.asarray(logits), jnp.asarray(gate)))


@pytest.mark.parametrize("condition", [None, CONDITION], ids=["plain", "conditional"])
def test_strata_agree_with_plain_draws(condition):
    student = gated(condition)
    z, weights = jax.jit(jax.vmap(lambda k: student.stratified(k, condition, 7)))(
        jax.random.split(KEY, 3000)
    )
    np.testing.assert_allclose(weights.sum(1), 1, rtol=1e-5)
    plain = np.asarray(jax.jit(lambda k: student.sample(k, condition, 30_000))(jax.random.key(7)))
    features = np.concatenate([plain, plain**2], 1)
    both = jnp.concatenate([z, z**2], -1)
    estimates = np.asarray(jnp.einsum("bn,bnd->bd", weights, both))
    error = np.sqrt(estimates.var(0) / len(estimates) + features.var(0) / len(features))
    assert np.all(np.abs(estimates.mean(0) - features.mean(0)) < 4.5 * error)


def test_gate_receives_a_gradient_through_the_weights():
    student = gated(CONDITION)

    def mean(s):
        z, weights = s.stratified(KEY, CONDITION, 6)
        return weights @ z[:, 0]

    gradient = eqx.filter_jit(eqx.filter_grad(mean))(student)
    assert (jnp.abs(gradient.logits) > 1e-4).all()
    assert (jnp.abs(gradient.gate) > 1e-4).all()


def test_bad_settings_are_named():
    with pytest.raises(IngredientError, match="noise"):
        Implicit(KEY, 3, noise=0)
    with pytest.raises(IngredientError, match="5 numbers"):
        STUDENTS[1].sample(KEY, None, 2)
    with pytest.raises(IngredientError, match="4 branches"):
        STUDENTS[2].stratified(KEY, None, 3)
