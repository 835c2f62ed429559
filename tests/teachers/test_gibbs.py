"""Gibbs sampling against exact conditionals and enumerated chains."""

import itertools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from understudy.core import IngredientError, Proposal
from understudy.teachers import Gibbs, SingleFlip

NONE = Proposal(lambda key, n: jnp.zeros((n, 2)), None)
COUPLING = jnp.array([[0.0, 0.8], [0.8, 0.0]])
FIELD = jnp.array([0.4, -0.7])


def log_density(z):
    return 0.5 * z @ COUPLING @ z + FIELD @ z


@eqx.filter_jit
def improve(teacher, key, z):
    return teacher.improve(key, log_density, z, NONE)


def states(values):
    return np.array(list(itertools.product(values, repeat=2)), dtype=np.float32)


def probabilities(values):
    heights = np.exp([float(log_density(jnp.asarray(z))) for z in states(values)])
    return heights / heights.sum()


def frequencies(z, values):
    return np.array([(np.asarray(z) == state).all(1).mean() for state in states(values)])


def transition_matrix(teacher, values, n):
    start = np.repeat(states(values), n, axis=0)
    end = np.asarray(improve(teacher, jax.random.key(3), jnp.asarray(start)).z)
    return np.array([frequencies(rows, values) for rows in np.split(end, len(states(values)))])


def heat_bath_site(values, site):
    table, p = states(values), probabilities(values)
    same = np.delete(table, site, 1)[:, None] == np.delete(table, site, 1)[None]
    weights = same.all(-1) * p[None]
    return weights / weights.sum(1, keepdims=True)


def metropolis_site(values, site):
    table, p = states(values), probabilities(values)
    same = (np.delete(table, site, 1)[:, None] == np.delete(table, site, 1)[None]).all(-1)
    moves = same * np.minimum(1, p[None] / p[:, None]) / (len(values) - 1)
    np.fill_diagonal(moves, 0)
    return moves + np.diag(1 - moves.sum(1))


CASES = {
    "heat bath": (SingleFlip(values=(-1, 1)), (-1, 1), heat_bath_site),
    "three values": (SingleFlip(values=3), (0, 1, 2), heat_bath_site),
    "metropolis": (SingleFlip(values=3, metropolis=True), (0, 1, 2), metropolis_site),
    "random scan": (SingleFlip(values=(-1, 1), random_scan=True), (-1, 1), heat_bath_site),
}


@pytest.mark.parametrize("name", CASES)
def test_transitions_are_those_of_the_enumerated_chain(name):
    teacher, values, site_matrix = CASES[name]
    sites = [site_matrix(values, site) for site in range(2)]
    mixed = sum(sites) / 2
    expected = mixed @ mixed if teacher.random_scan else sites[0] @ sites[1]
    p = probabilities(values)
    np.testing.assert_allclose(p @ expected, p, atol=1e-6)
    found = transition_matrix(teacher, values, 2000)
    np.testing.assert_allclose(found, expected, atol=4.5 * 0.5 / np.sqrt(2000))
    if teacher.random_scan:
        flow = p[:, None] * expected
        np.testing.assert_allclose(flow, flow.T, atol=1e-7)


def test_acceptance_is_given_where_there_is_a_test():
    z = jnp.full((50, 2), 2.0)
    assert improve(SingleFlip(values=3), jax.random.key(0), z).acceptance is None
    acceptance = improve(SingleFlip(values=3, metropolis=True), jax.random.key(0), z).acceptance
    assert 0 < float(acceptance.mean()) < 1


def test_gibbs_by_conditionals_reaches_a_correlated_gaussian():
    correlation = 0.6
    spread = np.sqrt(1 - correlation**2)

    def first(key, z):
        return z.at[0].set(correlation * z[1] + spread * jax.random.normal(key))

    def second(key, z):
        return z.at[1].set(correlation * z[0] + spread * jax.random.normal(key))

    run = eqx.filter_jit(Gibbs([first, second], 15).improve)
    out = run(jax.random.key(0), log_density, jnp.full((4000, 2), 5.0), NONE)
    np.testing.assert_allclose(np.cov(out.z.T), [[1, 0.6], [0.6, 1]], atol=0.1)
    np.testing.assert_allclose(out.z.mean(0), 0, atol=0.08)
    assert out.finite.all()


def test_bad_settings_are_refused():
    with pytest.raises(IngredientError, match="functions"):
        Gibbs([])
    with pytest.raises(IngredientError, match="from 2 to"):
        SingleFlip(values=1)
