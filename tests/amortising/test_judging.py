"""Tests of amortised students: right ones pass, planted faults are flagged."""

import jax
import pytest

from tests.amortising.exact import Exact
from tests.amortising.models import gaussian
from understudy.amortising.judging import judge


def judged(student, simulator=None, seed=0):
    return judge(jax.random.key(seed), simulator or gaussian(), student, ["mean"])


def test_a_right_student_passes_every_test():
    trust = judged(Exact())
    assert trust.trusted
    assert sum(verdict == "ok" for verdict in trust.verdicts.values()) >= 7, str(trust)


@pytest.mark.parametrize(
    ("fault", "tests"),
    [
        ({"width": 1.5}, ("calibration", "expected coverage", "posterior z")),
        ({"width": 0.65}, ("calibration", "expected coverage", "posterior z")),
        ({"shift": 0.6}, ("calibration", "posterior z")),
        ({"column": 0}, ("likelihood of the truth",)),
    ],
)
def test_a_planted_fault_is_flagged(fault, tests):
    verdicts = judged(Exact(**fault)).verdicts
    for name in tests:
        assert verdicts[name] == "fail", (name, verdicts)


@pytest.mark.parametrize("scale", [0.5, 2.0])
def test_a_likelihood_that_is_not_the_simulators_is_flagged(scale):
    verdicts = judged(Exact(), gaussian(scale=scale)).verdicts
    assert verdicts["weighted calibration"] == "fail"
    assert verdicts["calibration"] == "ok"


def test_a_prior_that_is_not_the_simulators_is_flagged():
    verdicts = judged(Exact(), gaussian(prior_mean=1.0)).verdicts
    assert verdicts["weighted calibration"] == "fail"
    assert verdicts["calibration"] == "ok"


@pytest.mark.parametrize("fault", [{"width": 1.3}, {"width": 0.8}, {"shift": 0.4}])
def test_a_wrong_student_does_not_cast_doubt_on_a_right_likelihood(fault):
    assert judged(Exact(**fault)).verdicts["weighted calibration"] != "fail"


def test_without_a_likelihood_the_tests_that_need_one_are_left_out():
    verdicts = judged(Exact(), gaussian(likelihood=False)).verdicts
    assert set(verdicts) == {"calibration", "expected coverage", "TARP", "posterior z", "recovery"}
    assert "fail" not in verdicts.values()


@pytest.mark.slow
def test_verdicts_keep_their_level_over_many_seeds():
    trusts = [judged(Exact(), seed=seed) for seed in range(40)]
    assert all(trust.trusted for trust in trusts)
    for name in trusts[0].verdicts:
        flagged = sum(trust.verdicts[name] != "ok" for trust in trusts)
        assert flagged <= 3, name
