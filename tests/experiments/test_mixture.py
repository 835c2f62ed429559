"""A tiny run of the mixture writes everything, and its measures know right from wrong."""

import jax
import numpy as np
import pytest

from experiments import mixture
from experiments.mixture.rows import paper_rows
from understudy import files
from understudy.core import IngredientError

SHORT, LONG = "program, T=1, eta=1", "program, T=10, eta=0.1"
TINY = {"updates": 4, "repeats": 2, "draws": 100}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("mixture")
    mixture.run(mixture.Settings(rows=LONG, **TINY), folder, progress=False)
    return folder, mixture.run(mixture.Settings(rows=SHORT, **TINY), folder, progress=False)


def test_rows_are_added_and_stand_in_order(made):
    folder, figures = made
    rows = files.read_rows(folder / "mixture.jsonl")
    found = [(row["kind"], row["name"]) for row in rows]
    assert found == [
        ("exact", "exact draws"),
        *(("summary", name) for name in (SHORT, LONG)),
        *(("curve", name) for name in (SHORT, LONG)),
        ("gain", "program, T eta=1: T=10 over T=1"),
    ]
    assert {p.name for p in folder.iterdir()} >= {"mixture.png", "report.html"}
    assert figures["program"]["repeats"] == 2
    curve = next(row for row in rows if row["kind"] == "curve")
    assert np.shape(curve["ksd"]) == np.shape(curve["w1"]) == (len(curve["step"]), 2)


def test_other_settings_start_anew(made, tmp_path):
    path = tmp_path / "mixture.jsonl"
    files.append_row(path, {"kind": "summary", "name": SHORT, "settings": {"updates": 9}})
    settings = mixture.Settings(rows=LONG, **TINY)
    mixture.run(settings, tmp_path, progress=False)
    names = [row["name"] for row in files.read_rows(path)]
    assert names == ["exact draws", LONG, LONG]


def test_the_sweep_holds_t_eta():
    rows = paper_rows()
    assert len(rows) == 12
    for row in rows:
        steps, size = row.chain
        assert steps * size == pytest.approx(0.1) or steps * size == pytest.approx(1.0)
        assert row.name.endswith(f"T={steps}, eta={size:g}")
        np.testing.assert_allclose(row.teacher.parameters["step_size"], size, rtol=1e-6)


def test_a_gain_is_the_fall_of_the_discrepancy():
    def curve(name, ksd, seconds):
        values = np.asarray(ksd)[:, None] + np.array([0.0, 0.1])
        return {"kind": "curve", "name": name, "ksd": values, "w1": values, "training_seconds": seconds}

    rows = [curve(SHORT, [1.0, 1.0, 0.5, 0.5], [1, 2, 3, 4])]
    rows += [curve(LONG, [1.0, 0.4, 0.3, 0.1], [2, 4, 6, 8])]
    (gain,) = mixture.gains(rows, mixture.Settings(**TINY))
    np.testing.assert_allclose(gain["ksd_gain_updates"], 0.3, rtol=1e-6)
    np.testing.assert_allclose(gain["ksd_gain_seconds"], 0.1, rtol=1e-6)
    np.testing.assert_allclose(gain["ksd_gain_updates_se"], 0.0, atol=1e-9)


def test_exact_draws_have_the_floor_and_one_mode_is_seen():
    settings = mixture.Settings(repeats=2, updates=1)
    found = mixture.look(jax.random.key(0), mixture.Exact(), settings)
    assert (found["ksd"] < 0.1).all()
    assert (found["w1"] < 0.2).all()
    one = mixture.look(jax.random.key(0), _OneMode(), settings)
    assert (one["ksd"] < 0.1).all(), "which is why it is read beside the others"
    assert (one["w1"] > 2).all()
    assert (one["weight_error"] > 0.45).all()


class _OneMode(mixture.Exact):
    def sample(self, key, x, n):
        return abs(super().sample(key, x, n))


def test_an_unknown_row_is_refused():
    with pytest.raises(IngredientError, match=r"A row is one of .*'program' came"):
        mixture.Settings(rows="program")
