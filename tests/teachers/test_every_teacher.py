"""What holds for every teacher: shapes under vmap over conditions, one structure under adapt."""

import equinox as eqx
import jax
import jax.numpy as jnp
import pytest

from tests.cases import TEACHERS
from understudy import teachers as t
from understudy.core import Proposal


def lesson(teacher, key, x):
    def log_density(z):
        return -0.5 * jnp.sum((z - x) ** 2)

    proposal = Proposal(
        lambda key, n: x + jax.random.normal(key, (n, 2)),
        lambda z: jax.scipy.stats.norm.logpdf(z - x).sum(),
    )
    return teacher.improve(key, log_density, jnp.zeros((5, 2)), proposal)


def update(teacher, key, x):
    out = jax.vmap(lesson, (None, 0, 0))(teacher, jax.random.split(key, 3), x)
    means = jax.tree.map(lambda a: a.mean((0, 1)), out.acceptance)
    return teacher.adapt(means), out


@pytest.mark.parametrize("name", TEACHERS)
def test_conditions_batch_and_adapting_keeps_the_structure(name):
    teacher, x = TEACHERS[name].make(2), jnp.zeros((3, 2))
    after, out = eqx.filter_eval_shape(update, teacher, jax.random.key(0), x)
    assert out.z.shape == (3, 5, 2)
    assert out.finite.shape == (3, 5)
    assert out.finite.dtype == bool
    assert isinstance(teacher.deterministic, bool)
    before = eqx.filter_eval_shape(lambda: teacher)
    assert eqx.tree_equal(jax.tree.structure(before), jax.tree.structure(after))
    for one, other in zip(jax.tree.leaves(before), jax.tree.leaves(after), strict=True):
        assert (one.shape, one.dtype, one.weak_type) == (other.shape, other.dtype, other.weak_type)


def test_everything_is_exported():
    assert all(hasattr(t, name) for name in t.__all__)
