"""Every exact teacher keeps a correlated mixture, by a permutation test of the energy distance."""

import equinox as eqx
import jax
import jax.numpy as jnp
import pytest

from tests.cases import TEACHERS
from understudy.core import Proposal

ROOTS = jnp.array([[[0.8, 0.0], [0.5, 0.4]], [[1.0, 0.0], [-0.3, 0.7]]])
CENTRES = jnp.array([[-1.5, 0.0], [1.2, 0.5]])
SHARES = jnp.array([0.3, 0.7])
WHITEN = jnp.linalg.inv(ROOTS)


def log_density(z):
    heights = -0.5 * jnp.sum(jnp.einsum("kij,kj->ki", WHITEN, z - CENTRES) ** 2, -1)
    return jax.nn.logsumexp(heights + jnp.log(SHARES) + jnp.linalg.slogdet(WHITEN)[1])


def exact(key, n):
    side_key, key = jax.random.split(key)
    side = jax.random.choice(side_key, 2, (n,), p=SHARES)
    noise = jax.random.normal(key, (n, 2))
    return CENTRES[side] + jnp.einsum("nij,nj->ni", ROOTS[side], noise)


STUDENT = Proposal(
    lambda key, n: 1.8 * jax.random.normal(key, (n, 2)),
    lambda z: jax.scipy.stats.norm.logpdf(z, scale=1.8).sum(),
)

EXACT = [name for name, case in TEACHERS.items() if case.exact]


def energy_level(key, a, b, permutations=999):
    """Level of the permutation test that two samples have one distribution."""
    both = jnp.concatenate([a, b])
    distances = jnp.linalg.norm(both[:, None] - both[None], axis=-1)
    signs = jnp.concatenate([jnp.ones(len(a)), -jnp.ones(len(b))])
    shuffled = jax.vmap(lambda k: jax.random.permutation(k, signs))(jax.random.split(key, permutations))
    everyone = jnp.concatenate([signs[None], shuffled])
    statistic = -jnp.sum((everyone @ distances) * everyone, -1)
    return float((statistic >= statistic[0]).mean())


@pytest.mark.slow
@pytest.mark.parametrize("name", EXACT)
def test_exact_draws_stay_exact(name):
    start, fresh = exact(jax.random.key(1), 1000), exact(jax.random.key(2), 1000)
    run = eqx.filter_jit(TEACHERS[name].exact().improve)
    out = run(jax.random.key(3), log_density, start, STUDENT)
    assert float(jnp.abs(out.z - start).mean()) > 0.2
    assert energy_level(jax.random.key(4), out.z, fresh) > 0.05 / len(EXACT)


@pytest.mark.slow
def test_the_test_sees_small_departures():
    draws, fresh = exact(jax.random.key(1), 1000), exact(jax.random.key(2), 1000)
    assert energy_level(jax.random.key(4), draws + 0.2, fresh) < 0.05 / len(EXACT)
