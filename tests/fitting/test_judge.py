"""The figures by which a student is held against chains, on draws whose answers are known."""

import numpy as np
import pytest
from scipy.stats import norm

from understudy.fitting.judge import LEVELS, dependence_gap, quantile_errors, quantile_gaps


def independent(seed, t=500, m=128, c=3):
    return np.random.default_rng(seed).normal(size=(t, m, c))


def sluggish(seed, t=500, m=128, c=3, memory=0.9):
    """Autoregressions with standard normal margins."""
    noise = independent(seed, t, m, c)
    chain = [noise[0]]
    for one in noise[1:]:
        chain.append(memory * chain[-1] + np.sqrt(1 - memory**2) * one)
    return np.stack(chain)


def test_errors_of_quantiles_of_independent_draws_are_the_known_ones():
    levels = np.array(LEVELS)
    expected = np.sqrt(levels * (1 - levels) / (500 * 128)) / norm.pdf(norm.ppf(levels))
    found = quantile_errors(independent(0)) * 2 * norm.ppf(0.75)
    np.testing.assert_allclose(found, np.tile(expected[:, None], 3), rtol=0.35)


def test_chains_that_hang_together_know_their_quantiles_less_well():
    found = quantile_errors(sluggish(1)).mean() / quantile_errors(independent(1)).mean()
    # The median's draws are worth about (1 - a) / (1 + a) of independent ones.
    assert 2.5 < found < 6


def test_the_error_of_a_quantile_is_what_repetition_shows():
    medians = [np.median(sluggish(seed, 200, 16, 1)) for seed in range(200)]
    told = np.mean([quantile_errors(sluggish(seed, 200, 16, 1))[2, 0] for seed in range(40)])
    assert np.std(medians) / (2 * norm.ppf(0.75)) == pytest.approx(told, rel=0.25)


@pytest.mark.parametrize(("shift", "scale"), [(0.3, 1.0), (0.0, 0.8), (0.0, 1.3)])
def test_gaps_show_what_is_off(shift, scale):
    draws = np.random.default_rng(5).normal(size=(4096, 3))
    right = quantile_gaps(draws, independent(2))
    draws[:, 1] = shift + scale * draws[:, 1]
    wrong = quantile_gaps(draws, independent(2)).max(0)
    assert right.max() < 0.02
    assert wrong[1] > 0.06 > max(wrong[0], wrong[2])


def test_dependence_is_seen_where_margins_agree():
    rows = independent(3).reshape(-1, 3)[:4096]
    turned = rows.copy()
    turned[:, 1] = 0.6 * rows[:, 0] + 0.8 * rows[:, 1]
    sized = rows.copy()
    sized[:, 1] = np.abs(sized[:, 1]) * np.sign(rows[:, 0])
    assert dependence_gap(rows, independent(4).reshape(-1, 3)[:4096], 4096.0) < 0.02
    for other in (turned, sized):
        assert dependence_gap(other, independent(4).reshape(-1, 3)[:4096], 4096.0) > 0.3
