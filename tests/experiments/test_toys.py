"""A tiny run of the toys writes everything, and its measures know right from wrong."""

import json
from dataclasses import replace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from experiments import toys
from experiments.__main__ import main
from understudy import files
from understudy.core import IngredientError
from understudy.training import Trained

TINY = toys.Settings(updates=2, repeats=2, draws=100)
SIZES = {"FLOORS": 2, "MANY": 500, "REFERENCES": {"w1": 1000, "mmd": 300}}


def untrained(row, settings, progress):
    """What ``train_row`` returns, without the training."""
    keys = jax.random.split(jax.random.key(0), settings.repeats)
    students = eqx.filter_vmap(row.student)(keys)
    made = object.__new__(Trained)
    for name, value in (("student", students), ("repeats", settings.repeats)):
        object.__setattr__(made, name, value)
    for name in ("seconds", "compile_seconds"):
        object.__setattr__(made, name, 1.0)
    return made


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("toys")
    with pytest.MonkeyPatch.context() as patch:
        for name, value in SIZES.items():
            patch.setattr(toys, name, value)
        patch.setattr(toys, "PLANE", {"two moons": toys.PLANE["two moons"]})
        patch.setattr(toys, "train_row", untrained)
        figures = toys.run(TINY, folder, progress=False)
    return folder, figures


def test_the_files_and_figures_are_there(made):
    folder, figures = made
    assert {p.name for p in folder.iterdir()} == {"toys.jsonl", "toys.png", "report.json", "report.html"}
    names = {"targets_within", "forty_modes", "forty_weight_tv", "ising_tv"}
    assert names <= set(json.loads(json.dumps(figures, allow_nan=False)))


def test_every_row_is_whole(made):
    rows = files.read_rows(made[0] / "toys.jsonl")
    assert len(rows) == 5
    expected = {"kind", "name", "target", "student", "teacher", "feedback", "mmd", "mmd_floor", "w1"}
    expected |= {"w1_floor", "modes", "modes_total", "weight_tv", "total_variation", "seconds"}
    assert all(expected | {"compile_seconds", "commit", "settings"} <= set(row) for row in rows)
    by_name = {row["name"]: row for row in rows}
    assert by_name["two moons, explicit"]["teacher"] == "mala + IndependenceMetropolis"
    assert by_name["two moons, wild"]["w1"] > by_name["two moons, wild"]["w1_floor"]
    assert by_name["two moons, wild"]["modes_total"] == 2
    assert 0 < by_name["ising, discrete"]["total_variation"] < 1


@pytest.fixture(scope="module")
def eight():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(toys, "REFERENCES", {"w1": 10_000, "mmd": 1000})
        known = toys.Known(toys.PLANE["eight gaussians"], replace(TINY, draws=500))
    keys = jax.random.split(jax.random.key(9), 2)
    return known, jax.vmap(lambda key: known.target.sample(key, 10_000))(keys)


def test_exact_draws_are_within_and_wrong_ones_are_not(eight):
    known, draws = eight
    right = known(draws)
    assert right["within"]
    assert right["modes"] == 8
    assert right["weight_tv"] < 0.03
    assert not known(1.2 * draws)["within"]


def test_a_mode_missing_in_one_repeat_is_seen(eight):
    known, draws = eight
    first = known.target.means[0]
    gone = jnp.linalg.norm(draws[0] - first, axis=-1) < 2
    missing = draws.at[0].set(jnp.where(gone[:, None], -draws[0], draws[0]))
    measured = known(missing)
    assert measured["modes"] == 7
    assert not measured["within"]
    np.testing.assert_allclose(measured["weight_tv_repeats"][0], 1 / 8, atol=0.03)


def test_the_crescents_are_told_apart():
    moons = toys.PLANE["two moons"]
    z = moons.sample(jax.random.key(0), 4000)
    upper = z[jax.jit(jax.vmap(moons.log_parts))(z).argmax(1) == 0]
    np.testing.assert_allclose(toys.shares(moons, z), 0.5, atol=0.04)
    np.testing.assert_allclose(toys.shares(moons, upper), [1.0, 0.0])
    assert toys.shares(toys.PLANE["banana"], z) is None


def test_the_command_knows_the_toys(made, monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(toys, "run", lambda settings, out, progress: {"updates": settings.updates})
    monkeypatch.chdir(tmp_path)
    assert main(["toys", "--preset", "paper", "--out", "here"]) == 0
    assert json.loads(capsys.readouterr().out.splitlines()[-1]) == {"updates": 2000}


@pytest.mark.parametrize(("name", "value"), [("seed", -1), ("updates", 0), ("draws", 10)])
def test_impossible_settings_are_refused(name, value):
    with pytest.raises(IngredientError, match=f"{name} is a whole number"):
        replace(TINY, **{name: value})


@pytest.mark.slow
def test_the_ising_row_learns():
    settings = toys.Settings(updates=300, repeats=2)
    row = next(row for row in toys.rows(settings.updates) if row.name == "ising, discrete")
    untaught = toys.measure(untrained(row, settings, False), None)
    taught = toys.measure(toys.train_row(row, settings, False), None)
    assert untaught["total_variation"] > 0.5
    assert taught["total_variation"] < 0.1
