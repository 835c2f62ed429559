"""The commands about many data sets: train once, then draw for what came."""

import importlib
import json
from pathlib import Path

import numpy as np
import pytest

from understudy import cli

MODEL = Path(__file__).parent / "model_file.py"


@pytest.mark.slow
def test_amortise_and_then_infer(tmp_path, capsys):
    words = ["amortise", f"{MODEL}:measured", "--observed", "y", "--out", str(tmp_path / "run")]
    words += ["--missing"]
    assert cli.main([*words, "--budget", "5", "--quiet"]) == 0
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["simulations"] > 0
    assert cli.main([*words, "--quiet"]) == 2
    assert "a finished training" in capsys.readouterr().err
    data = tmp_path / "data.json"
    data.write_text(json.dumps([{"y": [1.0, 2, 0, 1]}, {"y": [-1.0, None, 0, 0]}]))
    line = [
        "infer",
        str(tmp_path / "run"),
        str(data),
        "-n",
        "2000",
        "--out",
        str(tmp_path / "draws.npz"),
    ]
    assert cli.main(line) == 2
    assert "--trust-code" in capsys.readouterr().err
    assert cli.main([*line, "--model", f"{MODEL}:measured"]) == 0
    figures = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert figures["data_sets"] == 2
    drawn = np.load(tmp_path / "draws.npz")["mu"]
    # Conjugate: precision one and one for every number that is there.
    np.testing.assert_allclose(drawn.mean(1), [4 / 5, -1 / 4], atol=0.08)
    assert cli.main(["sample", str(tmp_path / "run")]) == 2
    assert "understudy infer" in capsys.readouterr().err
    for command in ("check", "report"):
        assert cli.main([command, str(tmp_path / "run"), "--model", f"{MODEL}:measured"]) == 0
    assert (tmp_path / "run" / "report.html").stat().st_size < 1_000_000


LINES = {
    "amortise {model}:measured": "--observed",
    "amortise {model}:measured --observed z --out {out}/run": "no site 'z'",
    "amortise {model}:measured --observed y,y --out {out}/run": "different ones",
    "amortise {model}:measured --observed , --out {out}/run": "different ones",
    "amortise {model}:nobody --observed y": "nobody",
    "amortise {model}:NUMBER --observed y": "NUMBER",
    "amortise {model} --observed y": "file.py:function",
    "amortise {out}/none.py:measured --observed y": "none.py",
    "amortise {model}:measured --observed y --budget 0": "--budget",
    "amortise {model}:measured --observed y --budget nan": "--budget",
    "amortise {model}:measured --observed y --sizes 1": "--sizes",
    "amortise {model}:measured --observed y --sizes 0 4": "--sizes",
    "amortise {model}:measured --observed y --sizes 9 4 --out {out}/run": "number of rows",
    "amortise {model}:measured --observed y --seed -1": "--seed",
    "amortise {model}:measured --observed y --seed 12345678901234567890123": "--seed",
    "amortise {model}:measured --observed y --data {model}": "JSON",
    "amortise {model}:measured --observed y --data {out}/none.json": "none.json",
    "amortise {model}:measured --observed y --data {out}/other.json --out {out}/run": "does not take",
    "amortise {model}:measured --observed y --out /dev/null/run": "/dev/null",
    "amortise {model}:measured --observed y --out {out}/stopped": "that was stopped; add --resume",
    "amortise {model}:measured --observed y --out {out}/stopped --resume": "another model",
    "amortise {model}:measured --observed y --weather": "--weather",
    "amortise {model}:discrete --observed y --data {out}/other.json --out {out}/run": "does not take",
    "infer {out}/nothing {out}/data.json": "cannot be read",
    "infer {out} {model}": "is not JSON",
    "infer {out}/nothing {out}/other.json": "holds no amortised model",
    "infer {out}/nothing {out}/empty.json": "dictionary by site",
    "infer {out}/nothing {out}/words.json": "numbers or arrays of numbers",
    "infer {out}/nothing {out}/unlike.json": "the same names",
    "infer {out}/nothing {out}/other.json -n 0": "-n",
    "infer {out}/nothing {out}/other.json -n 10000000000000": "-n",
    "infer {out}/nothing {out}/other.json --out draws.csv": ".npz",
    "infer {out}/nothing {out}/other.json --seed x": "--seed",
    "infer {out}/nothing": "FILE",
    "infer": "run",
}


@pytest.fixture
def folder(tmp_path):
    for name, held in {
        "other": {"x": [1.0]},
        "empty": [],
        "words": {"y": ["a"]},
        "unlike": [{"y": 1}, {"z": 1}],
    }.items():
        (tmp_path / f"{name}.json").write_text(json.dumps(held))
    (tmp_path / "stopped").mkdir()
    (tmp_path / "stopped" / "fit.json").write_text(json.dumps({"model": "another.py:model"}))
    return tmp_path


@pytest.mark.parametrize("line", LINES)
def test_mistakes_get_one_sentence(folder, capsys, line):
    assert cli.main(line.format(model=MODEL, out=folder).split()) == 2
    said = capsys.readouterr().err.strip()
    assert LINES[line] in said
    assert "Traceback" not in said


def test_nothing_is_left_of_a_training_that_could_not_begin(folder):
    line = "amortise {model}:measured --observed z --out {out}/run"
    assert cli.main(line.format(model=MODEL, out=folder).split()) == 2
    assert not (folder / "run" / "fit.json").exists()


@pytest.mark.slow
def test_a_training_that_was_stopped_goes_on(folder, capsys, monkeypatch):
    words = f"amortise {MODEL}:measured --observed y --out {folder}/run --budget 4 --quiet".split()

    def stopped(*args, **kwargs):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(
            importlib.import_module("understudy.amortising.amortise"), "fit_novelty", stopped
        )
        assert cli.main(words) != 0
    assert "--resume" in capsys.readouterr().err
    assert cli.main(words) == 2
    assert cli.main([*words, "--resume"]) == 0
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["simulations"] > 0
    assert not (folder / "run" / "training").exists()
    assert cli.main([*words, "--resume"]) == 0
