"""Weights of a student's draws, on targets whose quantiles and modes are known."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import norm

from understudy.coordinates import plain_coordinates
from understudy.fitting.evaluations import Evaluations
from understudy.fitting.judge import LEVELS, weighed_gaps
from understudy.fitting.learning import COPULA, Candidate
from understudy.fitting.weighing import nearly_right, weigh
from understudy.targets import LogDensity

N = 20_000


def gaussian(mean, scale):
    """A Gaussian student."""
    return Candidate(None, plain_coordinates(np.array([mean]), np.array([scale])), COPULA)


def standard(z):
    return jax.scipy.stats.norm.logpdf(z).sum()


def two_modes(z):
    parts = jnp.stack([jax.scipy.stats.norm.logpdf(z, m).sum() for m in (-6.0, 6.0)])
    return jax.scipy.special.logsumexp(parts) - jnp.log(2.0)


def wall(z):
    return jnp.where(z[0] > 0, -z[0], -jnp.inf)


@pytest.fixture(scope="module")
def densities():
    return {one: Evaluations(LogDensity(one, dim=1)) for one in (standard, two_modes, wall)}


def trace_of(means, seed=0, t=100, m=128):
    noise = np.random.default_rng(seed).normal(size=(t, m, 1))
    return np.resize(means, m)[:, None] + noise


def test_weights_tell_how_far_quantiles_are(densities):
    student = gaussian(0.1, 1.0)
    found = weigh(0, student, densities[standard], trace_of([0.0]), N)
    moved, error = weighed_gaps(found.z, found.weights)
    assert found.usable
    # Shares below the student's own quantiles, which lie .1 to the right, are too large.
    at = 0.1 + norm.ppf(LEVELS)
    slope = 1 / norm.pdf(norm.ppf(LEVELS)) / (2 * norm.ppf(0.75))
    expected = (norm.cdf(at) - LEVELS) * slope
    np.testing.assert_allclose(moved[:, 0], expected, rtol=0.3)
    assert (np.abs(moved[:, 0] - expected) < 4 * error[:, 0] + 0.01).all()


def test_a_student_that_is_nearly_right_is_known_better_than_by_as_many_draws(densities):
    found = weigh(1, gaussian(0.02, 1.0), densities[standard], trace_of([0.0]), N)
    _, error = weighed_gaps(found.z, found.weights)
    plain = np.sqrt(0.25 / N) / norm.pdf(0) / (2 * norm.ppf(0.75))
    assert error[2, 0] < plain / 5


def test_the_error_is_what_repetition_shows(densities):
    seen = [
        weighed_gaps(one.z, one.weights)
        for one in (
            weigh(seed, gaussian(0.0, 1.2), densities[standard], trace_of([0.0]), 2000)
            for seed in range(60)
        )
    ]
    # The median of the student is right, so what moves it is chance alone.
    root = np.sqrt(np.mean([moved[2, 0] ** 2 for moved, _ in seen]))
    assert root == pytest.approx(np.mean([error[2, 0] for _, error in seen]), rel=0.3)


def test_chains_see_the_mass_that_a_student_misses(densities):
    whole = weigh(0, gaussian(0.0, 1.1), densities[standard], trace_of([0.0]), N)
    half = weigh(0, gaussian(6.0, 1.1), densities[two_modes], trace_of([-6.0, 6.0]), N)
    assert whole.missed < 0.01
    assert half.missed == pytest.approx(0.5, abs=0.12)


def test_chains_that_were_in_one_mode_alone_are_seen_too(densities):
    found = weigh(0, gaussian(0.0, 7.0), densities[two_modes], trace_of([6.0]), N)
    assert found.missed > 0.2


def test_a_narrow_student_is_not_weighed(densities):
    assert not weigh(0, gaussian(0.0, 0.35), densities[standard], trace_of([0.0]), N).usable


def test_even_weights_with_an_odd_tail_are_used(densities):
    """The tail of nearly equal weights has a shape, but no size."""
    found = weigh(0, gaussian(0.0, 0.99), densities[standard], trace_of([0.0]), N)
    assert found.usable
    assert nearly_right(densities[standard], gaussian(0.0, 0.99), trace_of([0.0]))
    assert not nearly_right(densities[standard], gaussian(2.0, 1.0), trace_of([0.0]))


def test_draws_without_a_density_are_counted(densities):
    found = weigh(0, gaussian(1.0, 1.0), densities[wall], np.abs(trace_of([1.0])), N)
    assert found.outside == pytest.approx(norm.cdf(-1), abs=0.02)
