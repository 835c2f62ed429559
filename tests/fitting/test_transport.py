"""Chains in a flow's noise, draws with long tails, places lost in rounding, windows that end in time."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import logsumexp
from scipy.stats import norm

from understudy.coordinates import fit_coordinates, match_knots, plain_coordinates
from understudy.core import partition
from understudy.fitting.budget import Budget
from understudy.fitting.chains import Chains
from understudy.fitting.evaluations import Evaluations
from understudy.fitting.learning import Candidate
from understudy.fitting.starts import rough
from understudy.fitting.transport import FlowCoordinates
from understudy.students import CouplingFlow
from understudy.targets import LogDensity

GENERATOR = np.random.default_rng(0)
DRAWS = GENERATOR.normal(size=(4000, 2)) @ [[2.0, 1.0], [0.0, 0.5]] + [3.0, -1.0]


@pytest.fixture(scope="module")
def flow():
    flow = CouplingFlow(jax.random.key(0), dim=2, width=4)
    parameters, rest = partition(flow)
    rng = np.random.default_rng(1)
    moved = jax.tree.map(lambda v: v + 0.2 * rng.normal(size=v.shape).astype(np.float32), parameters)
    return eqx.combine(moved, rest)


@pytest.fixture(scope="module")
def through(flow):
    return FlowCoordinates(flow, fit_coordinates(DRAWS, None, 1000.0))


def test_noise_comes_back_from_the_draws_it_made(through):
    noise = GENERATOR.normal(size=(300, 2))
    z, log_volume = through.colour(noise)
    back, log_back = through.whiten(z)
    np.testing.assert_allclose(back, noise, atol=2e-4)
    np.testing.assert_allclose(log_back, log_volume, atol=2e-4)


def test_chains_in_a_flow_remember_the_coordinates_they_came_from(through):
    chains = Chains(Evaluations(LogDensity(lambda z: -0.5 * jnp.sum(z**2), 2)), seed=0)
    chains.change(through.inner)
    chains.change(through)
    assert chains.coordinates is through
    assert chains.home is through.inner


def test_volume_and_slopes_are_derivatives(through):
    noise = GENERATOR.normal(size=(3, 2))
    slope = GENERATOR.normal(size=(3, 2))
    step = 1e-2
    pulled = through.pull(noise, slope)
    for j in range(2):
        change = step * np.eye(2)[j]
        above, below = (
            (part[0] * slope).sum(1) + part[1]
            for part in (through.colour(noise + change), through.colour(noise - change))
        )
        np.testing.assert_allclose(pulled[:, j], (above - below) / (2 * step), rtol=0.02, atol=0.02)
    rows = [[(through.colour(noise + s * step * e)[0]) for s in (1, -1)] for e in np.eye(2)]
    jacobian = np.stack([(a - b) / (2 * step) for a, b in rows], 1)
    _, log_volume = through.colour(noise)
    np.testing.assert_allclose(np.linalg.slogdet(jacobian)[1], log_volume, atol=0.02)


def test_chains_in_noise_leave_the_target_as_it_is(through):
    target = LogDensity(lambda z: -0.5 * jnp.sum(((z - 1) / jnp.array([1.0, 3.0])) ** 2), dim=2)
    chains = Chains(Evaluations(target), 0)
    chains.change(through)
    chains.place(1 + GENERATOR.normal(size=(chains.count, 2)) * [1.0, 3.0])
    chains.pace(0.3)
    z = chains.traced(chains.run(150))[20:].reshape(-1, 2)
    np.testing.assert_allclose(z.mean(0), 1.0, atol=0.25)
    np.testing.assert_allclose(z.std(0), [1.0, 3.0], rtol=0.08)


@pytest.mark.parametrize("with_flow", [False, True])
def test_wide_draws_have_the_density_they_say(through, with_flow):
    candidate = Candidate(through.flow if with_flow else None, through.inner, "one")
    z, log_q = candidate.draw(0, 40_000, wide=True)
    np.testing.assert_allclose(candidate.log_prob(z[:500], wide=True), log_q[:500], atol=5e-3)
    # Weighted to the student itself, wide draws have its mass, and none weighs more than twice.
    weight = candidate.log_prob(z) - log_q
    assert logsumexp(weight) - np.log(len(z)) == pytest.approx(0, abs=0.02)
    assert weight.max() < np.log(2) + 0.01


def test_wide_draws_reach_further():
    candidate = Candidate(None, plain_coordinates(np.zeros(2), np.ones(2)), "one")
    wide, own = (candidate.draw(0, 40_000, wide)[0] for wide in (True, False))
    assert (np.abs(wide).max(1) > 3.5).mean() > 3 * (np.abs(own).max(1) > 3.5).mean()


def test_margins_are_matched_where_scales_differ_by_far():
    z = GENERATOR.normal(size=(60_000, 2)) * np.where(GENERATOR.uniform(size=(60_000, 1)) < 0.5, 1, 0.1)
    noise = GENERATOR.normal(size=(60_000, 2))
    matched = match_knots(plain_coordinates(np.zeros(2), np.ones(2)), noise, z, 0.015)
    drawn, log_volume = matched.colour(noise)
    for level in (0.05, 0.25, 0.5, 0.75, 0.95):
        np.testing.assert_allclose(
            np.quantile(drawn, level, 0), np.quantile(z, level, 0), atol=0.01, rtol=0.05
        )
    back, log_back = matched.whiten(drawn)
    np.testing.assert_allclose(back, noise, atol=1e-9)
    np.testing.assert_allclose(log_back, log_volume, atol=1e-9)


def test_margins_that_are_right_are_left_alone():
    z = GENERATOR.normal(size=(100_000, 1))
    matched = match_knots(
        plain_coordinates(np.zeros(1), np.ones(1)), GENERATOR.normal(size=(100_000, 1)), z, 0.015
    )
    np.testing.assert_allclose(matched.colour(z)[0], z, atol=1e-6)


def test_places_lost_in_rounding_are_seen():
    def log_density(z):
        size = jnp.exp(z[0])
        rising = jax.scipy.special.gammaln(size + 5) - jax.scipy.special.gammaln(size)
        return rising - 5 * z[0] - z[0] ** 2

    evaluate = Evaluations(LogDensity(log_density, dim=1))
    z = np.array([[0.0], [1.0], [-2.0], [33.0], [35.0]])
    np.testing.assert_array_equal(rough(evaluate, z), [False, False, False, True, True])


def test_a_meter_ends_work_in_time(monkeypatch):
    now = [0.0]
    monkeypatch.setattr("time.perf_counter", lambda: now[0])
    budget = Budget(100.0)
    meter = budget.meter()
    now[0] = 10.0
    assert meter.afford(1000, 20, 0.4) == 60
    assert meter.afford(50, 20, 0.4) == 50
    now[0] = 90.0
    assert meter.afford(1000, 20, 0.4) == 8


def test_a_straight_coupling_tells_a_funnel_exactly():
    """The straight part alone can make x = exp(v / 2) noise."""
    flow = CouplingFlow(jax.random.key(0), dim=2, layers=1, width=1)
    (mask,) = flow._halves
    seen, moved = int(np.flatnonzero(mask)[0]), int(np.flatnonzero(~mask)[0])
    where = lambda f: (f.enter, f.bias, f.leave, f.straight)  # noqa: E731
    straight = jnp.zeros((1, 1, 4)).at[0, 0, 2 + moved].set(0.5)
    parts = (
        jnp.zeros((1, 2, 1)).at[0, seen, 0].set(1.0),
        jnp.zeros((1, 1)),
        jnp.zeros((1, 1, 4)),
        straight,
    )
    flow = eqx.tree_at(where, flow, parts)
    z = np.zeros((1, 2))
    z[0, seen], z[0, moved] = 1.2, 0.7
    expected = norm.logpdf(1.2) + norm.logpdf(0.7, scale=np.exp(0.6))
    assert float(flow.log_prob(jnp.asarray(z[0]))) == pytest.approx(expected, abs=0.02)
