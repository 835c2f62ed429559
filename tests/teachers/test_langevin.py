"""Unadjusted Langevin, the identity and sequences of teachers."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from understudy.core import IngredientError, Proposal
from understudy.teachers import Compose, Identity, IndependenceMetropolis, Langevin, mala

STANDARD = Proposal(
    lambda key, n: jax.random.normal(key, (n, 2)),
    lambda z: jax.scipy.stats.norm.logpdf(z).sum(),
)


def log_density(z):
    return -0.5 * jnp.sum(z**2)


@eqx.filter_jit
def improve(teacher, z):
    return teacher.improve(jax.random.key(2), log_density, z, STANDARD)


def test_langevin_has_the_variance_of_its_recursion():
    step, steps, start = 0.3, 7, 3.0
    out = improve(Langevin(step, steps), jnp.full((4000, 2), start))
    decay = (1 - step) ** steps
    variance = 2 * step * (1 - decay**2) / (1 - (1 - step) ** 2)
    np.testing.assert_allclose(out.z.mean(), start * decay, atol=4 * np.sqrt(variance / 8000))
    np.testing.assert_allclose(out.z.var(), variance, rtol=0.07)
    assert out.acceptance is None


def test_a_bound_on_the_drift_keeps_steep_targets_finite():
    def steep(z):
        return -1e3 * jnp.sum(z**4)

    @eqx.filter_jit
    def run(teacher, z):
        return teacher.improve(jax.random.key(0), steep, z, STANDARD)

    z = jax.random.normal(jax.random.key(1), (50, 2))
    assert not run(Langevin(0.1, 30), z).finite.any()
    assert run(Langevin(0.1, 30, drift_bound=0.5), z).finite.all()


def test_identity_returns_the_draws_and_never_asks_for_the_density():
    z = jnp.array([[1.0, 2.0], [jnp.nan, 0.0]])
    out = Identity().improve(jax.random.key(0), lambda z: 1 / 0, z, STANDARD)
    np.testing.assert_array_equal(out.z, z)
    assert out.finite.tolist() == [True, False]
    assert Identity().deterministic


def test_compose_runs_adapts_and_hands_on_each_member():
    team = Compose(mala(0.1, 2, target_acceptance=0.5), Langevin(0.1), IndependenceMetropolis())
    out = improve(team, jnp.ones((30, 2)))
    assert out.acceptance[0].shape == (30,)
    assert out.acceptance[1] is None
    np.testing.assert_allclose(out.acceptance[2], 1.0, atol=1e-5)
    np.testing.assert_allclose(out.z, out.control, rtol=1e-6)
    adapted = team.adapt(jax.tree.map(jnp.mean, out.acceptance))
    assert adapted.teachers[0].parameters["step_size"] > team.teachers[0].parameters["step_size"]
    assert not team.deterministic
    assert Compose(Identity(), Identity()).deterministic
    assert eqx.tree_equal(team.adapt(None), team)


def test_compose_wants_teachers():
    with pytest.raises(IngredientError, match="one by one"):
        Compose()
