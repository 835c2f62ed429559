"""``python -m experiments``: one sentence for bad input, one JSON line at the end of good input."""

import json
import sys
import types
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import pytest

from experiments import __main__ as command
from experiments import settings as shared
from experiments.options import check_settings, option
from understudy.core import CannotMoveError, IngredientError


@dataclass(frozen=True)
class Settings:
    preset: Literal["quick", "paper"] = option("quick", "how long it runs")
    updates: int | None = option(None, "updates", least=1)
    seed: int = option(0, "of everything random", least=0)

    def __post_init__(self):
        check_settings(self)
        shared.fill_preset(self, {"quick": {"updates": 10}, "paper": {"updates": 1000}})


@pytest.fixture
def experiment(monkeypatch, tmp_path):
    """A fake mixture; ``calls`` records what it was run with, ``fails`` is raised if set."""
    module = types.ModuleType("experiments.mixture", "A fake experiment.")
    module.calls, module.fails = [], None

    def run(settings, out, progress=None):
        if module.fails is not None:
            raise module.fails
        module.calls.append((settings, out, progress))
        (out / "mixture.jsonl").write_text('{"kind": "summary"}\n')
        (out / "mixture_values.npz").write_bytes(b"values")
        (out / "report.html").write_text("a page")
        return {"updates": settings.updates, "bad": float("nan")}

    module.run, module.Settings = run, Settings
    monkeypatch.setitem(sys.modules, "experiments.mixture", module)
    monkeypatch.delenv("UNDERSTUDY_DEBUG", raising=False)
    monkeypatch.chdir(tmp_path)
    return module


BAD = [
    ("mixtur", ["'mixtur' is not an experiment", "bnn, mnist, imputation", "did you mean mixture?"]),
    ("--seed 1 mixture", ["Name the experiment first: python -m experiments mixture"]),
    ("mixture --sed 1", ["'--sed' is not an option", "did you mean --seed?"]),
    ("mixture extra", ["'extra' is not an option of python -m experiments mixture"]),
    ("mixture --preset quik", ["--preset", "quick, paper", "did you mean quick?"]),
    ("mixture --updates 0", ["updates is a whole number of at least 1", "0 came"]),
    ("mixture --out file", ["file cannot be written to", "choose another path"]),
    ("tables bnn", ["'bnn' is not an option of python -m experiments tables"]),
]


@pytest.mark.parametrize(("line", "expected"), BAD, ids=[line for line, _ in BAD])
def test_bad_input_gets_one_sentence(line, expected, experiment, capsys):
    Path("file").write_text("not a folder")
    assert command.main(line.split()) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.count("\n") == 1
    for words in expected:
        assert words in printed.err
    assert experiment.calls == []


@pytest.mark.parametrize(
    ("error", "code"),
    [(IngredientError("a; b came."), 2), (CannotMoveError("a; b came."), 1), (KeyboardInterrupt(), 130)],
    ids=lambda value: type(value).__name__,
)
def test_expected_errors_have_their_codes(error, code, experiment, capsys):
    experiment.fails = error
    assert command.main(["mixture"]) == code
    assert capsys.readouterr().err.count("\n") == 1


def test_a_run_ends_in_one_line_of_json(experiment, capsys):
    assert command.main(["mixture", "--seed", "7", "--quiet"]) == 0
    assert experiment.calls == [(Settings(seed=7), Path("runs/mixture"), False)]
    assert json.loads(capsys.readouterr().out) == {"updates": 10, "bad": None}
    assert not Path("results").exists()


def test_a_full_run_is_published(experiment):
    assert command.main(["mixture", "--preset", "paper", "--out", "here"]) == 0
    assert {p.name for p in Path("results").iterdir()} == {"mixture.jsonl", "mixture_values.npz"}
    assert command.main(["mixture", "--preset", "paper", "--out", "results"]) == 0


def test_every_experiment_is_listed_and_there(experiment, capsys):
    assert command.main([]) == 0
    text = capsys.readouterr().out
    folder = Path(command.__file__).parent
    for name in command.EXPERIMENTS:
        assert f"\n  {name} " in text
        assert (folder / f"{name}.py").exists() or (folder / name / "__init__.py").exists()


def test_presets_fill_what_was_not_given():
    assert Settings().updates == 10
    assert Settings(preset="paper").updates == 1000
    assert Settings(preset="paper", updates=3).updates == 3


def test_lists_are_read_and_checked():
    assert shared.listed(" a, b,", ("a", "b"), "A letter") == ["a", "b"]
    assert shared.listed("a, 1; b", ("a, 1", "b"), "A letter", ";") == ["a, 1", "b"]
    with pytest.raises(IngredientError, match="A letter is one of a, b; 'c' came"):
        shared.listed("a,c", ("a", "b"), "A letter")
