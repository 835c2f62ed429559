"""A tiny demo writes everything a demo writes."""

import json
from dataclasses import replace

import numpy as np
import pytest

from understudy import cli, files
from understudy.cli import demo, schools
from understudy.core import IngredientError
from understudy.posterior import Posterior, cost
from understudy.students import FullGaussian, Gated
from understudy.targets.numpyro import from_numpyro
from understudy.teachers import mala

LITTLE = np.linspace(-1, 1, 50)[:, None]


def stand_in():
    """A Gaussian in the place of the fit of eight schools."""
    target = from_numpyro(schools.eight_schools, schools.EFFECTS, schools.ERRORS)
    return Posterior(target, FullGaussian(10))


@pytest.fixture(scope="module")
def printed(tmp_path_factory):
    folder = tmp_path_factory.mktemp("demo")
    (folder / "metrics.jsonl").write_text('{"step": 99, "loss": 1.0}\n')
    with pytest.MonkeyPatch.context() as patch:
        small = {"CHAINS": 4, "BLOCK": 50, "BLOCKS": 2, "teacher": lambda: mala(0.3)}
        small["student"] = lambda key: Gated(key, 1, branches=2, hidden=(4,))
        for name, value in small.items():
            patch.setattr(demo, name, value)
        patch.setattr(schools, "fit_schools", lambda _: stand_in())
        patch.setattr(schools, "MANY", 20_000)
        patch.setattr(
            cost, "measure_nuts", lambda *_: cost.NutsCost(1.0, 100.0, np.ones((50, 10)) * LITTLE)
        )
        figures = demo.run(demo.Settings(updates=3, draws=20_000), folder, progress=False)
    return folder, figures


def test_the_files_are_there(printed):
    folder, _ = printed
    names = {path.name for path in folder.iterdir()}
    expected = {
        "report.html",
        "report.json",
        "density.png",
        "schools.png",
        "metrics.jsonl",
        "rows.jsonl",
    }
    assert names == expected | {"student.safetensors"}
    assert [row["step"] for row in files.read_rows(folder / "metrics.jsonl")] == [1, 3]
    assert isinstance(files.load(folder / "student.safetensors"), Gated)
    assert (folder / "report.html").read_text().count("data:image/png") == 3
    assert (folder / "report.html").stat().st_size < 1_000_000


def test_the_figures_are_sound(printed):
    folder, figures = printed
    assert json.loads(json.dumps(figures, allow_nan=False)) == figures
    assert np.isclose(sum(figures["weights"]), 1.0)
    assert figures["exact_w1"] < 0.5 < figures["w1"]
    assert 0.02 < figures["exact_ksd"] < 0.08
    assert all(figures[name] > 0 for name in figures if name.endswith("_per_second"))
    [row] = files.read_rows(folder / "rows.jsonl")
    assert row["kind"] == "demo"
    assert row["ksd"] == figures["ksd"]
    assert row["settings"] == {"seed": 0, "updates": 3, "draws": 20_000}


def test_the_table_shows_student_and_exact_draws(printed):
    _, figures = printed
    text = demo.table(figures)
    for name in ("ksd", "exact_ksd", "w1"):
        assert f"{figures[name]:.3f}" in text
    assert f"{figures['draws_per_second']:,.0f}" in text


def test_the_command_ends_in_one_json_line(printed, monkeypatch, tmp_path, capsys):
    _, figures = printed
    monkeypatch.setattr(demo, "run", lambda settings, out, progress: figures | {"seed": settings.seed})
    assert cli.main(["demo", "--seed", "5", "--out", str(tmp_path)]) == 0
    assert json.loads(capsys.readouterr().out.splitlines()[-1]) == figures | {"seed": 5}


IMPOSSIBLE = [("seed", -1), ("updates", 0), ("draws", 10)]


@pytest.mark.parametrize(("name", "value"), IMPOSSIBLE)
def test_impossible_settings_are_refused(name, value):
    with pytest.raises(IngredientError, match=f"{name} is a whole number"):
        replace(demo.Settings(), **{name: value})
