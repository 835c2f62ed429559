"""What holds of any student, however little it learnt: supports, order, sizes, missing values."""

import equinox as eqx
import jax
import numpy as np
import numpyro.distributions as dist
import pytest

import understudy
from tests.amortising.exact import Exact
from tests.amortising.models import (
    COVARIATES,
    broken_at_times,
    exact,
    gaussian,
    points,
    regression,
    spot,
    walk,
)
from understudy.amortising import Amortised, Pairs, finishing
from understudy.amortising.amortise import _begin
from understudy.amortising.learning import simulate
from understudy.amortising.models import simulator_of
from understudy.amortising.novelty import fit_novelty
from understudy.core import IngredientError
from understudy.evaluation.trust.findings import Trust
from understudy.students import SplineFlow


def small_flow(key, dim, summary):
    return SplineFlow(key, dim, summary, layers=2, width=16, bins=4)


def untrained(simulator):
    seen = simulate(jax.random.key(0), simulator, 512)
    student = _begin(jax.random.key(1), simulator, seen, None, small_flow)
    novelty = fit_novelty(student, seen.data)
    return Amortised(simulator, student, novelty, (), np.zeros((0, 3)), 0, 512, seen.lost)


@pytest.fixture(scope="module")
def set_of_points():
    return untrained(simulator_of(points, (20,), {}, "y", sizes=(5, 20)))


def test_draws_of_a_bounded_parameter_stay_inside(set_of_points):
    y = np.random.default_rng(0).normal(5, 1, (3, 20))
    drawn = set_of_points.sample(0, y, 2000, finish=False).draws["mean"]
    assert (np.abs(drawn) <= 1).all()


@pytest.mark.slow
def test_a_permuted_set_has_the_same_posterior(set_of_points):
    y = np.random.default_rng(0).normal(size=13)
    one, other = (
        set_of_points.sample(0, [v], 500) for v in (y, np.random.default_rng(1).permutation(y))
    )
    np.testing.assert_allclose(one.draws["mean"], other.draws["mean"], atol=1e-5)
    one, other = (set_of_points(v).sample(0, 500, finish=False)["mean"] for v in (y, y[::-1]))
    np.testing.assert_allclose(one, other, atol=1e-5)


@pytest.mark.slow
def test_data_sets_of_several_sizes_are_finished_together(set_of_points):
    sets = [np.random.default_rng(n).normal(0.3, 1, n) for n in (5, 11, 20)]
    samples = set_of_points.sample(0, sets, 4000)
    grid = np.linspace(-1, 1, 2001)
    for drawn, y in zip(samples.draws["mean"], sets, strict=True):
        density = np.exp(-0.5 * ((y[:, None] - grid) ** 2).sum(0))
        density /= density.sum()
        mean = grid @ density
        deviation = np.sqrt((grid - mean) ** 2 @ density)
        assert drawn.mean() == pytest.approx(mean, abs=0.12 * deviation)
        assert drawn.std() == pytest.approx(deviation, rel=0.12)
    with pytest.raises(IngredientError, match="5 to 20 rows; one of 21 came"):
        set_of_points(np.zeros(21))


@pytest.mark.slow
def test_missing_numbers_are_left_out_of_the_posterior():
    inference = untrained(simulator_of(regression, (COVARIATES,), {}, "y", missing=True))
    y = np.linspace(-1, 1, 10)
    y[[2, 5]] = np.nan
    kept = ~np.isnan(y)
    mean, deviation = exact(y[kept], COVARIATES[kept])
    drawn = inference.sample(0, y[None], 4000).draws["weights"][0]
    assert np.abs((drawn.mean(0) - mean) / deviation).max() < 0.15


@pytest.fixture(scope="module")
def with_student():
    """The Gaussian's data sets with any student."""
    inference = untrained(gaussian())
    data = simulate(jax.random.key(2), inference.simulator, 2048).data

    def made(student):
        parts = (student, fit_novelty(student, data))
        return eqx.tree_at(lambda one: (one.student, one.novelty), inference, parts)

    return made


@pytest.mark.parametrize(
    ("fault", "route"),
    [
        ({}, "student"),
        ({"shift": 0.5, "width": 1.3}, "weights"),
        ({"shift": 6.0, "width": 0.3}, "chains"),
    ],
)
def test_one_data_set_is_given_and_told_what_several_are(with_student, fault, route):
    inference = with_student(Exact(**fault))
    y = np.array([[0.0, 0.6], [1.0, 0.2]])
    several, one = inference.sample(0, y, 4000), inference(y[1])
    assert list(several.route) == [route, route]
    assert one.trusted
    assert several.trusted.all()
    assert one.verdict.own == (route == "student")
    assert "trusted" in one.verdict.sentence
    deviation = 3**-0.5
    for drawn in (several.draws["mean"][1], one.sample(0, 4000)["mean"]):
        assert drawn.mean() == pytest.approx(0.4, abs=0.12 * deviation)
        assert drawn.std() == pytest.approx(deviation, rel=0.1)
    if route == "weights":  # different draws for every key, and enough of them for any number
        drawn = one.sample(1, 20_000)["mean"]
        assert len(np.unique(drawn)) > 12_000
        assert drawn.mean() == pytest.approx(0.4, abs=0.05 * deviation)


def test_what_nothing_repairs_is_not_trusted_for_one_data_set_either(with_student, monkeypatch):
    monkeypatch.setattr(finishing, "LARGEST_R_HAT", 1.0)  # which no chains reach
    inference = with_student(Exact(shift=6.0, width=0.3))
    y = np.array([1.0, 0.2])
    one = inference(y)
    assert not one.trusted
    assert not inference.sample(0, y[None], 500).trusted[0]
    with pytest.warns(UserWarning, match="Not converged"):
        one.sample(0, 500)


def test_a_data_set_unlike_the_simulations_is_odd_yet_its_draws_are_right(with_student):
    inference = with_student(Exact())
    y = np.array([40.0, 41.0])
    one = inference(y)
    assert inference.sample(0, y[None], 500).novel[0]
    assert one.trusted
    assert "odd" in one.verdict.sentence
    assert one.sample(0, 2000)["mean"].mean() == pytest.approx(27.0, abs=0.1)


def test_a_table_of_pairs_has_no_density_and_says_so(tmp_path):
    mean = np.random.default_rng(0).uniform(0, 1, 600)
    data = mean[:, None] + np.random.default_rng(1).normal(size=(600, 2))
    inference = untrained(Pairs({"mean": mean}, data, {"mean": dist.constraints.unit_interval}))
    samples = inference.sample(0, data[:2], 300)
    assert ((samples.draws["mean"] >= 0) & (samples.draws["mean"] <= 1)).all()
    assert not samples.trusted.any()
    with pytest.raises(IngredientError, match="without a log likelihood"):
        inference(data[0]).refine(0, 10)
    with pytest.raises(IngredientError, match="teach needs a likelihood"):
        inference.teach(data[:2])
    assert "no likelihood" in str(inference)
    assert "no likelihood" in str(samples)
    page = inference.report(tmp_path / "page.html", Trust((), 0.0, 0)).read_text()
    assert "three tests cannot be had" in page


def test_saved_and_loaded_it_gives_the_same_draws(tmp_path):
    inference = untrained(simulator_of(regression, (COVARIATES,), {}, "y"))
    path, ys = tmp_path / "regression.safetensors", np.zeros((2, 10))
    inference.save(path)
    again = understudy.load(path, classes=[regression])
    before, after = (one.sample(3, ys, 200, finish=False) for one in (inference, again))
    np.testing.assert_array_equal(before.draws["weights"], after.draws["weights"])
    with pytest.raises(understudy.StoreError, match="regression"):
        understudy.load(path)
    with pytest.raises(understudy.StoreError, match="other data or parameters"):
        understudy.load(path, target=simulator_of(points, (20,), {}, "y"))


@pytest.mark.slow
def test_an_exported_file_draws_for_data_given_later(tmp_path):
    inference = untrained(simulator_of(regression, (COVARIATES,), {}, "y", sizes=(4, 10)))
    inference.export(tmp_path / "regression.bin")
    key = jax.random.key(3)
    loaded = understudy.load_exported(tmp_path / "regression.bin")
    assert loaded.inputs == {"y": (10,), "covariates": (10, 2)}
    for rows in (10, 6):
        y, covariates = np.linspace(-1, 1, rows), COVARIATES[:rows]
        wanted = inference(y, covariates).sample(key, 300, finish=False)["weights"]
        drawn = loaded.sample(key, 300, y=y, covariates=covariates)["weights"]
        np.testing.assert_allclose(drawn, wanted, rtol=1e-3, atol=1e-4)
    for given, words in [
        ({"y": np.zeros(10)}, "draws given y=, covariates=; y came"),
        ({"y": np.zeros(11), "covariates": COVARIATES}, "first number at least 4"),
        ({"y": np.zeros(5), "covariates": COVARIATES}, "as many rows"),
        ({"y": np.full(10, np.inf), "covariates": COVARIATES}, "not finite"),
    ]:
        with pytest.raises(understudy.StoreError, match=words):
            loaded.sample(0, 10, **given)


def test_a_simulator_made_by_hand_is_handed_over_when_loading(tmp_path):
    simulator, path = gaussian(), tmp_path / "gaussian.safetensors"
    inference = untrained(simulator)
    inference.save(path)
    again = understudy.load(path, target=simulator)
    data = np.zeros((1, 2))
    before, after = (one.sample(3, data, 200, finish=False) for one in (inference, again))
    np.testing.assert_array_equal(before.draws["mean"], after.draws["mean"])
    with pytest.raises(understudy.StoreError, match="target=simulator"):
        understudy.load(path)
    again.export(tmp_path / "gaussian.bin")
    loaded = understudy.load_exported(tmp_path / "gaussian.bin")
    assert loaded.inputs == {"x": (2,)}
    assert loaded.sample(0, 50, x=np.ones(2))["mean"].shape == (50,)


def test_simulations_that_are_not_finite_are_counted_and_left_out():
    inference = untrained(broken_at_times())
    assert 0.05 < inference.lost < 0.15
    assert np.isfinite(inference.sample(0, np.zeros((1, 2)), 100).draws["mean"]).all()


@pytest.mark.slow
def test_a_spot_in_an_image_is_found():
    """The whole image says where the spot is, to a twentieth of the prior's spread."""
    settings = {"budget": understudy.Updates(400), "student": small_flow, "progress": False}
    inference = understudy.amortise(spot, observed="y", **settings)
    assert inference.simulator.layout.rows == 0
    table = inference.summary()
    assert (table["recovered"] > 0.95).all(), str(table)
    assert (table["narrowed"] > 0.9).all(), str(table)


@pytest.mark.slow
def test_a_series_is_read_in_its_order():
    inference = untrained(simulator_of(walk, (40,), {}, "y"))
    layout = inference.simulator.layout
    assert layout.rows == 40
    assert not layout.exchangeable
    y = np.cumsum(np.random.default_rng(0).normal(size=40))
    drawn = inference.sample(0, y[None], 1000).draws["scale"][0]
    # Forty steps of unit variance.
    steps = np.diff(y, prepend=0)
    assert drawn.mean() == pytest.approx(steps.std(), rel=0.1)
