"""A regression whose posterior is known, amortised once for all tests of this file."""

import sys

import jax
import numpy as np
import pytest

import understudy
from tests.amortising.models import COVARIATES, exact, gaussian, regression, regressions
from understudy.amortising import Pairs, keeping
from understudy.amortising.amortise import _flow
from understudy.amortising.learning import CHUNK, mean_log_prob
from understudy.amortising.observations import DataSet
from understudy.core import IngredientError
from understudy.students import SplineFlow


def small_flow(key, dim, summary):
    return SplineFlow(key, dim, summary, layers=2, width=32, bins=4)


@pytest.fixture(scope="module")
def inference():
    settings = {"budget": understudy.Updates(500), "student": small_flow, "progress": False}
    return understudy.amortise(regression, COVARIATES, observed="y", **settings)


@pytest.fixture(scope="module")
def samples(inference):
    return inference.sample(0, regressions(16), 2000)


def test_means_and_deviations_are_those_of_the_exact_posterior(samples):
    drawn = samples.draws["weights"]
    assert drawn.shape == (16, 2000, 2)
    for one, y in zip(drawn, regressions(16), strict=True):
        mean, deviation = exact(y)
        assert np.abs((one.mean(0) - mean) / deviation).max() < 0.2
        assert np.abs(one.std(0) / deviation - 1).max() < 0.2


def test_every_data_set_has_a_route_and_a_verdict(samples):
    assert set(samples.route) <= {"student", "weights", "chains"}
    assert samples.trusted.all()
    assert not samples.novel.any()
    assert samples.pareto_k.shape == (16,)
    assert "16 data sets" in str(samples)


@pytest.mark.slow
def test_a_data_set_unlike_anything_simulated_is_named_and_still_right(inference):
    y = regressions(1, shift=12.0)
    samples = inference.sample(0, y, 1000)
    assert samples.novel.all()
    assert samples.route[0] == "chains"
    mean, deviation = exact(y[0])
    if samples.trusted[0]:
        assert np.abs((samples.draws["weights"][0].mean(0) - mean) / deviation).max() < 0.3


def test_one_data_set_is_a_posterior(inference):
    y = regressions(1)[0]
    posterior = inference(y)
    mean, deviation = exact(y)
    drawn = posterior.sample(0, 1500)["weights"]
    assert drawn.shape == (1500, 2)
    assert np.abs((drawn.mean(0) - mean) / deviation).max() < 0.2
    corrected = posterior.resample(1, 2000).draws["weights"]
    assert np.abs((corrected.mean(0) - mean) / deviation).max() < 0.15
    tree = posterior.to_arviz(jax.random.key(0), 400)
    np.testing.assert_allclose(tree["observed_data"]["y"], y, rtol=1e-5)
    assert "Pareto k" in str(posterior.verdict)


def test_a_student_that_learnt_is_calibrated(inference, tmp_path):
    trust = inference.check(0, simulations=256)
    assert {"calibration", "expected coverage", "TARP", "weights over data sets"} <= set(trust.verdicts)
    assert trust.trusted, str(trust)
    page = inference.report(tmp_path / "page.html", trust).read_text()
    assert page.count("<img") == 8
    assert "never learnt from" in page
    assert "TARP" in page


def test_an_amortised_model_explains_itself(inference):
    lines = str(inference).splitlines()
    assert lines[0].startswith("Amortised over data y")
    assert "Not tested yet" in lines[1]
    assert "after 0 s" in str(inference)
    assert "not finite and left out) in" in " ".join(str(inference).split())
    assert len(lines) < 20
    assert "<table>" in inference._repr_html_()
    assert len(repr(inference)) < 100
    for picture in (inference.plot_learning(), inference.plot_trust()):
        assert picture._repr_png_().startswith(b"\x89PNG")


def test_a_summary_says_what_data_tell_of_each_parameter(inference):
    table = inference.summary()
    assert list(table.index) == ["weights[0]", "weights[1]"]
    np.testing.assert_allclose(table["prior sd"], 1, rtol=0.2)
    ys = regressions(400)
    own = np.array([exact(y)[1] for y in ys]).mean(0)
    np.testing.assert_allclose(table["posterior sd"], own, rtol=0.15)
    np.testing.assert_allclose(table["narrowed"], 1 - own**2, atol=0.1)
    assert (table["recovered"] > 0.8).all()
    assert table["in 90 %"].between(0.8, 0.97).all()


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (np.zeros(11), "10 rows"),
        (np.zeros((10, 2)), "shape"),
        ({"x": np.zeros(10)}, "sites 'y'"),
        (np.full(10, np.inf), "infinite"),
        (np.array(["a"] * 10), "numbers"),
    ],
)
def test_data_that_do_not_fit_get_one_sentence(inference, data, words):
    with pytest.raises(IngredientError, match=words):
        inference(data)


def test_other_covariates_than_trained_for_are_refused(inference):
    with pytest.raises(IngredientError, match="arguments="):
        inference(np.zeros(10), COVARIATES)


def test_a_budget_of_updates_is_kept(inference):
    assert inference.curve[0, 1] == 0
    assert inference.curve[-1, 1] == pytest.approx(500, abs=CHUNK)


def test_a_budget_of_seconds_is_kept_and_one_of_updates_makes_the_same_again():
    made = understudy.amortise(gaussian(), budget=2.0, student=small_flow, progress=False)
    assert 2.0 <= made.curve[-1, 0] < 4.0  # a chunk of updates is never cut short
    counted = {"budget": understudy.Updates(20), "student": small_flow, "progress": False}
    one, other = (understudy.amortise(gaussian(), **counted) for _ in range(2))
    np.testing.assert_array_equal(one.curve[:, 1:], other.curve[:, 1:])


def test_without_a_budget_rounds_end_with_a_verdict_and_advice(monkeypatch, capsys):
    monkeypatch.setattr(sys.modules[understudy.amortise.__module__], "_ROUNDS", (2.0, 2.0))
    made = understudy.amortise(gaussian(), student=small_flow, progress=True)
    learnt = [stage for stage in made.stages if stage.name.startswith("learn")]
    assert 1 <= len(learnt) <= 2
    ends = ("that is enough", "would teach it no more", "may teach it more")
    assert learnt[-1].note.endswith(ends)
    assert "need no chains" in learnt[-1].note
    assert f"round {len(learnt)}: " in capsys.readouterr().err


def test_a_table_is_not_learnt_by_heart():
    generator = np.random.default_rng(0)
    mean, fresh = generator.normal(size=300), generator.normal(size=2000)
    data, other = (m[:, None] + generator.normal(size=(len(m), 2)) for m in (mean, fresh))
    settings = {"budget": understudy.Updates(2500), "student": small_flow, "progress": False}
    inference = understudy.amortise(Pairs({"mean": mean}, data), **settings)
    assert inference.simulations == 300
    assert inference.curve[-1, 1] < 2500
    assert "by heart" in inference.stages[-1].note
    assert inference.check()["posterior z"].pictures["z"].shape == (30, 1)
    pairs = DataSet({"x": other}, {"x": np.ones(2000, bool)})
    entropy = 0.5 * np.log(2 * np.pi * np.e / 3)
    # What the exact posterior of the same 2,000 pairs has, but for a seventh of a nat.
    assert float(mean_log_prob(inference.student, fresh[:, None], pairs)) > -entropy - 0.15


def test_no_settings_make_a_flow_of_the_size_of_the_problem():
    assert _flow(jax.random.key(0), 2, np.zeros(3)).enter.shape[0] == 6
    assert _flow(jax.random.key(0), 20, np.zeros(3)).enter.shape[0] == 8


@pytest.mark.slow
def test_teaching_at_shifted_data_makes_more_of_them_even(inference):
    shifted = regressions(64, seed=5, shift=2.5)
    taught = inference.teach(shifted[:48], budget=understudy.Updates(300))
    before, after = (one.sample(0, shifted[48:], 500, finish=False) for one in (inference, taught))
    assert np.median(after.share) > np.median(before.share)
    assert taught.stages[-1].name == "teach"


def test_a_training_that_was_cut_off_goes_on(tmp_path, monkeypatch):
    settings = {"observed": "y", "student": small_flow, "progress": False, "folder": tmp_path}
    settings["budget"] = understudy.Updates(60)
    monkeypatch.setattr(keeping, "SECONDS", 0.0)
    steps, write = [], keeping.Kept.write

    def noted(self, learning, state, *rest, **more):
        write(self, learning, state, *rest, **more)
        steps.append(int(state.step))
        if len(steps) == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr(keeping.Kept, "write", noted)
    with pytest.raises(KeyboardInterrupt):
        understudy.amortise(regression, COVARIATES, **settings)
    with pytest.raises(IngredientError, match="pass resume=True"):
        understudy.amortise(regression, COVARIATES, **settings)
    with pytest.raises(IngredientError, match="another model or seed"):
        understudy.amortise(regression, COVARIATES, seed=7, resume=True, **settings)
    again = understudy.amortise(regression, COVARIATES, resume=True, **settings)
    assert steps == sorted(set(steps))  # it did not begin anew
    assert again.simulations > steps[2]


def test_resuming_nothing_gets_a_sentence():
    with pytest.raises(IngredientError, match="needs the folder"):
        understudy.amortise(regression, COVARIATES, observed="y", resume=True)
