"""The command line: bad input gets one sentence and an exit code, good input ends in one JSON line."""

import importlib
import json
import os
import subprocess
import sys
import types
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import pytest

from experiments.options import check_settings, option, run_with_settings
from understudy import cli
from understudy.cli.parsing import UsageError
from understudy.core import CannotMoveError, IngredientError
from understudy.files import StoreError


@dataclass(frozen=True)
class Settings:
    preset: Literal["quick", "paper"] = option("quick", "how long it runs")
    updates: int | None = option(None, "updates", least=1)
    step_size: float = option(0.1, "100% of a step", least=0.0)
    repeats: int = option(3, "trainings", least=1, most=100)
    averaged: bool = option(True, "whether weights are averaged")
    seed: int = option(0, "of everything random", least=0, most=2**31 - 1)

    def __post_init__(self):
        check_settings(self)


@pytest.fixture
def experiment(monkeypatch, tmp_path):
    """A fake experiment; ``calls`` records what it was run with, ``fails`` is raised if set."""
    module = types.ModuleType("fake_experiment", "A fake experiment.")
    module.calls, module.fails = [], None

    def run(settings, out, progress=None):
        if module.fails is not None:
            raise module.fails
        module.calls.append((settings, out, progress))
        if progress is not False:
            print("some words")
        return {"ksd": 0.05, "bad": float("nan"), "seed": settings.seed}

    module.run, module.Settings = run, Settings
    place = Path("runs", "demo")
    module.command = lambda words: run_with_settings("understudy demo", module, words, place)
    monkeypatch.setitem(sys.modules, "understudy.cli.demo", module)
    monkeypatch.delenv("UNDERSTUDY_DEBUG", raising=False)
    monkeypatch.chdir(tmp_path)
    return module


COMMANDS = "demo, fit, amortise, infer, sample, check, report"
BAD = [
    ("repot", ["'repot' is not a command", COMMANDS, "did you mean report?"]),
    ("zzz", ["'zzz' is not a command", COMMANDS]),
    ("reproduce", ["'reproduce' is not a command", COMMANDS]),
    ("x" * 5000, ["is not a command", COMMANDS]),
    ("--versoin", ["'--versoin' is not an option", "did you mean --version?"]),
    ("--version=2", ["--version", "ignored explicit argument"]),
    ("demo --sed 1", ["'--sed' is not an option", "--seed", "did you mean --seed?"]),
    ("demo --sed=1", ["'--sed' is not an option", "did you mean --seed?"]),
    ("demo --pre quick", ["'--pre' is not an option"]),
    ("demo extra", ["'extra' is not an option of understudy demo"]),
    ("demo --preset quik", ["--preset", "quick, paper", "'quik'", "did you mean quick?"]),
    ("demo --updates many", ["--updates", "whole number", "'many'"]),
    ("demo --updates 1.5", ["--updates", "whole number", "'1.5'"]),
    ("demo --updates 0", ["updates is a whole number of at least 1", "0 came"]),
    ("demo --updates -3", ["updates is a whole number of at least 1", "-3 came"]),
    ("demo --updates", ["--updates", "expected one argument"]),
    ("demo --repeats 101", ["repeats is", "at least 1 and of at most 100", "101 came"]),
    ("demo --seed -1", ["seed is", "at least 0", "-1 came"]),
    ("demo --seed 99999999999999999999", ["seed is a whole number", "at most"]),
    ("demo --seed " + "9" * 5000, ["--seed", "whole number"]),
    ("demo --step-size wide", ["--step-size", "a number", "'wide'"]),
    ("demo --step-size nan", ["step_size is a finite number", "nan came"]),
    ("demo --step-size inf", ["step_size is a finite number", "inf came"]),
    ("demo --averaged yes", ["'yes' is not an option"]),
    ("demo --quiet=1", ["--quiet", "ignored explicit argument"]),
    ("demo --out file", ["file cannot be written to", "choose another path"]),
    ("demo --out file/inside", ["file/inside cannot be written to", "choose another path"]),
    ("demo --out=", ["--out", "the name of a file or folder is expected"]),
    ("demo --out a\0b", ["--out", "the name of a file or folder is expected"]),
    ("demo --out /proc/none", ["/proc/none cannot be written to", "choose another path"]),
    ("report", ["run", "required"]),
    ("report nowhere", ["nowhere is not a folder"]),
    ("report empty", ["empty holds neither report.json nor metrics.jsonl"]),
    ("report file", ["file is not a folder"]),
    ("report empty empty", ["'empty' is not an option"]),
    ("report rows", ["rows/metrics.jsonl"]),
    ("report deep", ["cannot be read as JSON"]),
]


@pytest.mark.parametrize(("line", "expected"), BAD, ids=[line for line, _ in BAD])
def test_bad_input_gets_one_sentence(line, expected, experiment, capsys):
    Path("file").write_text("not a folder")
    for folder in ("empty", "rows", "deep"):
        Path(folder).mkdir()
    Path("rows/metrics.jsonl").write_text("5\n")
    Path("deep/report.json").write_text("[" * 100_000)
    assert cli.main(line.split(" ")) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("understudy: ")
    assert printed.err.count("\n") == 1
    assert "Traceback" not in printed.err
    for words in expected:
        assert words in printed.err
    assert experiment.calls == []


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (IngredientError("a is b;\n c came."), 2),
        (StoreError("a is b; c came."), 2),
        (FileNotFoundError(2, "No such file", "a is b; c came"), 2),
        (CannotMoveError("a is b; c came."), 1),
        (KeyboardInterrupt("a is b; c came."), 130),
        (UsageError("a is b; c came."), 2),
    ],
    ids=lambda value: type(value).__name__,
)
def test_expected_errors_of_an_experiment(error, code, experiment, capsys):
    experiment.fails = error
    assert cli.main(["demo"]) == code
    printed = capsys.readouterr().err
    assert printed.startswith("understudy: a is b; c came")
    assert printed.count("\n") == 1


def test_interrupt_without_a_message_says_so(experiment, capsys):
    experiment.fails = KeyboardInterrupt()
    assert cli.main(["demo"]) == 130
    assert capsys.readouterr().err == "understudy: Interrupted.\n"


def test_faults_of_the_program_keep_their_traceback(experiment):
    experiment.fails = ZeroDivisionError("a fault")
    with pytest.raises(ZeroDivisionError):
        cli.main(["demo"])


@pytest.mark.parametrize("line", ["--debug demo", "demo --debug"])
def test_debug_raises(line, experiment):
    experiment.fails = IngredientError("no")
    with pytest.raises(IngredientError):
        cli.main(line.split())


def test_debug_by_the_environment(experiment, monkeypatch):
    monkeypatch.setenv("UNDERSTUDY_DEBUG", "1")
    with pytest.raises(UsageError):
        cli.main(["nothing"])


def test_an_experiment_gets_its_settings_and_ends_in_json(experiment, capsys):
    line = "demo --preset paper --seed 7 --no-averaged --step-size 0.5 --out runs/a"
    assert cli.main(line.split()) == 0
    [(settings, out, progress)] = experiment.calls
    assert settings == Settings(preset="paper", seed=7, averaged=False, step_size=0.5)
    assert out == Path("runs/a")
    assert out.is_dir()
    assert progress is None
    printed = capsys.readouterr().out
    assert json.loads(printed.splitlines()[-1]) == {"ksd": 0.05, "bad": None, "seed": 7}


def test_quiet_prints_the_last_line_alone(experiment, capsys):
    assert cli.main(["demo", "--quiet"]) == 0
    assert experiment.calls == [(Settings(), Path("runs/demo"), False)]
    assert len(capsys.readouterr().out.splitlines()) == 1


def test_help_of_an_experiment_gives_every_option_and_default(experiment, capsys):
    with pytest.raises(SystemExit) as stopped:
        cli.main(["demo", "--help"])
    assert stopped.value.code == 0
    text = " ".join(capsys.readouterr().out.split())
    for words in (
        "A fake experiment.",
        "--preset {quick,paper} how long it runs (default: quick)",
        "--updates N updates (default: from the preset)",
        "100% of a step (default: 0.1)",
        "--averaged, --no-averaged",
        "--out FOLDER where to write (default: runs/demo)",
    ):
        assert words in text


def test_help_without_words_lists_commands_and_examples(experiment, capsys):
    assert cli.main([]) == 0
    text = capsys.readouterr().out
    for words in (*COMMANDS.split(", "), "examples:", "understudy report runs/demo"):
        assert words in text
    for checkout_only in ("reproduce", "bench", "experiment"):
        assert checkout_only not in text


def test_version(capsys):
    assert cli.main(["--version"]) == 0
    assert capsys.readouterr().out.split()[0] == "understudy"


def test_report_prints_where_the_page_is(tmp_path, capsys):
    (tmp_path / "metrics.jsonl").write_text('{"step": 1, "loss": 0.5}\n')
    assert cli.main(["report", str(tmp_path)]) == 0
    assert capsys.readouterr().out.strip() == str(tmp_path / "report.html")
    assert (tmp_path / "report.html").exists()


def test_warnings_are_sentences_too(experiment, monkeypatch, capsys):
    def run(settings, out, progress=None):
        with warnings.catch_warnings():
            warnings.simplefilter("always")
            warnings.warn("something\nis odd", stacklevel=1)
        return {}

    monkeypatch.setattr(experiment, "run", run)
    assert cli.main(["demo"]) == 0
    assert capsys.readouterr().err == "understudy: warning: something is odd\n"


@pytest.mark.parametrize(
    ("name", "value"),
    [("updates", 1.5), ("repeats", True), ("averaged", 1), ("preset", None), ("step_size", "1")],
)
def test_settings_of_another_type_are_refused(name, value):
    with pytest.raises(IngredientError, match=f"^{name} is .*; {value!r} came"):
        Settings(**{name: value})


def test_every_command_is_a_file_of_its_own_with_its_summary():
    for name, text in importlib.import_module("understudy.cli.main").COMMANDS.items():
        module = importlib.import_module(f"understudy.cli.{name}")
        assert module.command.__doc__.splitlines()[0] == text


@pytest.mark.parametrize("error", [SystemExit(0), SystemExit(None), SystemExit("bye")], ids=repr)
def test_code_that_ends_the_program_is_told_and_never_a_success(error, experiment, capsys):
    experiment.fails = error
    assert cli.main(["demo"]) == 2
    assert "ended the program" in capsys.readouterr().err


def test_too_little_memory_is_a_sentence(experiment, capsys):
    experiment.fails = MemoryError()
    assert cli.main(["demo"]) == 1
    assert "not enough memory" in capsys.readouterr().err


def test_a_folder_is_tried_before_the_work(experiment, tmp_path):
    cli.main(["demo", "--out", str(tmp_path / "a" / "b")])
    assert (tmp_path / "a" / "b").is_dir()
    assert not list((tmp_path / "a" / "b").iterdir())


def test_from_a_shell(tmp_path):
    environment = {name: value for name, value in os.environ.items() if name != "UNDERSTUDY_DEBUG"}
    ran = subprocess.run(
        [sys.executable, "-m", "understudy", "report", str(tmp_path / "nowhere")],
        capture_output=True,
        text=True,
        env=environment,
        check=False,
    )
    assert ran.returncode == 2
    assert ran.stderr.startswith("understudy: ")
    assert ran.stderr.count("\n") == 1
