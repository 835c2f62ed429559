"""The commands about a posterior: one real small fit, then every way to use and to misuse it."""

import json
import shutil
from pathlib import Path

import jax
import numpy as np
import pytest
import xarray

import understudy
from understudy import cli

MODEL = Path(__file__).parent / "model_file.py"
Y = [1.0, 0.5, -0.2, 0.9]


def run(line, capsys):
    code = cli.main(line.split())
    return code, capsys.readouterr()


@pytest.fixture(scope="module")
def fitted(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    shutil.copy(MODEL, folder / "model_of_user.py")
    (folder / "data.json").write_text(json.dumps({"y": Y}))
    words = ["fit", f"{folder}/model_of_user.py:normal", "--data", str(folder / "data.json")]
    assert cli.main([*words, "--out", str(folder / "run"), "--seed", "1", "--quiet"]) == 0
    return folder, words


def test_a_fit_ends_in_figures_and_is_right(fitted, capsys):
    folder, words = fitted
    line = [*words, "--out", str(folder / "run"), "--seed", "1", "--resume"]
    assert cli.main(line) == 0
    figures = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert figures["acceptance"] > 0.9
    assert figures["gradients"] > 0
    draws = understudy.load(folder / "run" / "posterior.safetensors").sample(jax.random.key(0), 20_000)
    # Conjugate: precision 1 + 4.
    assert draws["mu"].mean() == pytest.approx(sum(Y) / 5, abs=0.02)
    assert draws["mu"].std() == pytest.approx(1 / np.sqrt(5), rel=0.03)


def test_a_finished_fit_is_not_overwritten(fitted, capsys):
    folder, words = fitted
    assert cli.main([*words, "--out", str(folder / "run"), "--seed", "1"]) == 2
    assert "add --resume" in capsys.readouterr().err
    assert cli.main([*words, "--out", str(folder / "run"), "--seed", "2", "--resume"]) == 2
    assert "another seed" in capsys.readouterr().err


@pytest.mark.parametrize("suffix", ["nc", "npz", "csv"])
def test_draws_go_to_files_of_three_kinds(fitted, capsys, suffix):
    folder, _ = fitted
    out = folder / f"draws.{suffix}"
    code, printed = run(f"sample {folder}/run -n 50 --out {out} --seed 3", capsys)
    assert (code, printed.out.strip()) == (0, str(out))
    wanted = understudy.load(folder / "run" / "posterior.safetensors").sample(jax.random.key(3), 50)[
        "mu"
    ]
    if suffix == "nc":
        with xarray.open_dataset(out, engine="scipy") as draws:
            assert draws["mu"].dims == ("chain", "draw")
            found = draws["mu"].values[0]
    elif suffix == "npz":
        with np.load(out) as draws:
            found = draws["mu"]
    else:
        assert out.read_text().splitlines()[0] == "mu"
        found = np.loadtxt(out, skiprows=1)
    np.testing.assert_allclose(found, wanted, rtol=1e-5)


def test_a_check_finds_the_model_again_even_if_it_has_moved(fitted, capsys):
    folder, _ = fitted
    (folder / "moved.py").write_bytes((folder / "model_of_user.py").read_bytes())
    code, printed = run(f"check {folder}/run --model {folder}/moved.py:normal", capsys)
    assert code == 0, printed.err
    assert "teacher gap" in printed.out
    last = json.loads(printed.out.splitlines()[-1])
    assert last["trusted"] is True
    assert last["verdicts"]["drift"] == "ok"


@pytest.mark.slow
def test_a_report_of_a_run(fitted, capsys):
    folder, _ = fitted
    code, printed = run(f"report {folder}/run", capsys)
    assert (code, printed.out.strip()) == (0, str(folder / "run" / "report.html"))
    assert "Trust" in (folder / "run" / "report.html").read_text()


GOOD = {"y": Y}
BAD = [
    ("fit", {}, ["model", "required"]),
    ("fit M", {}, ["A model is named file.py:function"]),
    ("fit nowhere.py:normal", {}, ["nowhere.py does not exist"]),
    ("fit no_such_package:normal", {}, ["no_such_package cannot be imported", "ModuleNotFoundError"]),
    ("fit broken.py:normal", {}, ["broken.py cannot be imported", "ZeroDivisionError"]),
    ("fit syntax.py:normal", {}, ["syntax.py cannot be imported", "SyntaxError"]),
    ("fit M:norml --data D", GOOD, ["no function 'norml'", "did you mean normal?"]),
    ("fit M:zzz --data D", GOOD, ["no function 'zzz'", "it has schools, normal, discrete"]),
    ("fit M:NUMBER --data D", GOOD, ["is a int", "name a function"]),
    ("fit M:dist --data D", GOOD, ["is a module", "name a function"]),
    ("fit M:normal", {}, ["normal needs 'y'", "hold nothing"]),
    ("fit M:normal --data nowhere.json", {}, ["nowhere.json cannot be read"]),
    ("fit M:normal --data D", "not json", ["is not JSON"]),
    ("fit M:normal --data D", [1, 2], ["holds a list", "a dictionary of the model's arguments"]),
    ("fit M:normal --data D", {"y": Y, "x": 1}, ["hold 'x'", "normal does not take", "it takes y"]),
    ("fit M:schools --data D", {"y": Y}, ["schools needs 'sigma'", "they hold y"]),
    ("fit M:normal --data D", {"y": [1.0, float("nan")]}, ["'y' hold a value that is not finite"]),
    ("fit M:normal --data D", {"y": [1.0, float("inf")]}, ["'y' hold a value that is not finite"]),
    ("fit M:normal --data D", {"y": [[1.0], [1.0, 2.0]]}, ["'y' have rows of different lengths"]),
    ("fit M:normal --data D", {"y": ["a"]}, ["'y' are numbers or arrays of numbers"]),
    ("fit M:normal --data D", {"y": None}, ["'y' are numbers or arrays of numbers"]),
    ("fit M:normal --data D", {"y": [1.0, None]}, ["'y' are numbers or arrays of numbers"]),
    ("fit M:normal --data D", {"y": {"a": 1}}, ["'y' are numbers or arrays of numbers"]),
    ("fit M:discrete --data D", GOOD, ["Site 'k' is discrete"]),
    ("fit M:nothing --data D", GOOD, ["has no latent variable"]),
    ("fit M:outside --data D", {"y": [-1, 2]}, ["not finite at any"]),
    ("fit M:schools --data D", {"y": Y, "sigma": [1.0, 2.0]}, ["cannot be run with these arguments"]),
    ("fit M:normal --data D --budget soon", GOOD, ["--budget", "a number"]),
    ("fit M:normal --data D --budget -1", GOOD, ["budget must be positive"]),
    ("fit M:normal --data D --seed x", GOOD, ["--seed", "whole number"]),
    ("fit M:normal --data D --seed -1", GOOD, ["seed is a whole number"]),
    ("fit M:normal --dta D", GOOD, ["'--dta' is not an option", "did you mean --data?"]),
    ("sample", {}, ["run", "required"]),
    ("sample nowhere", {}, ["nowhere holds no fitted posterior"]),
    ("sample nowhere --out draws.txt", {}, ["--out ends in .nc, .npz, .csv"]),
    ("sample nowhere -n many", {}, ["-n", "whole number"]),
    ("sample nowhere --seed -1", {}, ["--seed is a whole number of at least 0"]),
    ("check nowhere", {}, ["nowhere holds no fitted posterior"]),
    ("check damaged --model M:normal", {}, ["not written by understudy"]),
    ("check damaged", {}, ["not written by understudy"]),
]


@pytest.mark.parametrize(("line", "data", "expected"), BAD, ids=[f"{b[0]} {b[1]}" for b in BAD])
def test_bad_input_gets_one_sentence(line, data, expected, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("D").write_text(data if isinstance(data, str) else json.dumps(data))
    Path("broken.py").write_text("1 / 0")
    Path("syntax.py").write_text("def normal(:")
    Path("damaged").mkdir()
    Path("damaged/posterior.safetensors").write_bytes(b"nothing of ours")
    words = [word.replace("M:", f"{MODEL}:") if word.startswith("M:") else word for word in line.split()]
    assert cli.main(words) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("understudy: ")
    assert printed.err.count("\n") == 1
    for words in expected:
        assert words in printed.err
