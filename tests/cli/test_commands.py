"""The commands about a posterior: one real small fit, then every way to use and to misuse it."""

import json
import os
import shutil
from pathlib import Path

import jax
import numpy as np
import pytest
import xarray

import understudy
from understudy import cli
from understudy.cli.models import load_model
from understudy.students import FullGaussian

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
    assert figures["trusted"] is True
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
    code, printed = run(f"report {folder}/run --trust-code", capsys)
    assert (code, printed.out.strip()) == (0, str(folder / "run" / "report.html"))
    assert "Trust" in (folder / "run" / "report.html").read_text()


@pytest.mark.parametrize("command", ["check", "report"])
def test_code_that_only_a_folder_names_is_not_run(fitted, capsys, command, tmp_path):
    folder, _ = fitted
    received = tmp_path / "received"
    shutil.copytree(folder / "run", received)
    (received / "report.html").unlink(missing_ok=True)
    (tmp_path / "evil.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\n\ndef normal(y): ...\n")
    note = json.loads((received / "fit.json").read_text()) | {"model": f"{tmp_path}/evil.py:normal"}
    (received / "fit.json").write_text(json.dumps(note))
    code, printed = run(f"{command} {received}", capsys)
    assert code == 2
    assert "--trust-code" in printed.err
    assert "--model" in printed.err
    assert printed.err.count("\n") == 1
    assert not (tmp_path / "ran").exists()
    assert not (received / "report.html").exists()


def test_more_draws_than_memory_holds_are_refused_before_they_are_made(fitted, capsys):
    folder, _ = fitted
    code, printed = run(f"sample {folder}/run -n 10000000000000 --out {folder}/many.npz", capsys)
    assert code == 2
    assert "draw fewer at a time" in printed.err
    assert not (folder / "many.npz").exists()


def test_a_folder_that_cannot_be_written_is_found_before_the_fit(fitted, capsys, monkeypatch, tmp_path):
    _, words = fitted
    monkeypatch.setattr("understudy.fitting.fit", lambda *_, **__: pytest.fail("it was begun"))
    (tmp_path / "file").write_text("")
    assert cli.main([*words, "--out", str(tmp_path / "file" / "run")]) == 2
    assert "cannot be written to" in capsys.readouterr().err


def test_a_fit_that_was_stopped_is_gone_on_with(fitted, capsys, monkeypatch, tmp_path):
    _, words = fitted
    asked = []

    def stopped(*_, **settings):
        asked.append(settings)
        raise KeyboardInterrupt

    monkeypatch.setattr("understudy.fitting.fit", stopped)
    line = [*words, "--out", str(tmp_path), "--quiet"]
    assert cli.main(line) == 130
    assert "--resume" in capsys.readouterr().err
    assert cli.main(line) == 2
    assert "a fit that was stopped; add --resume" in capsys.readouterr().err
    assert cli.main([*line, "--seed", "3", "--resume"]) == 2
    assert "another seed" in capsys.readouterr().err
    assert cli.main([*line, "--resume"]) == 130
    assert [(one["folder"], one["resume"]) for one in asked] == [(tmp_path, False), (tmp_path, True)]


def test_a_fit_that_failed_leaves_no_word_of_itself(fitted, monkeypatch, tmp_path):
    _, words = fitted

    def failed(*_, **__):
        raise understudy.IngredientError("It cannot be.")

    monkeypatch.setattr("understudy.fitting.fit", failed)
    for _ in range(2):
        assert cli.main([*words, "--out", str(tmp_path / "run")]) == 2
    assert not list((tmp_path / "run").iterdir())


def test_a_fit_that_failed_after_a_stage_can_be_gone_on_with(fitted, capsys, monkeypatch, tmp_path):
    _, words = fitted

    def failed(*_, folder, **__):
        (folder / "stage.safetensors").write_bytes(b"a stage")
        raise understudy.StoreError("The disk is full.")

    monkeypatch.setattr("understudy.fitting.fit", failed)
    line = [*words, "--out", str(tmp_path / "run")]
    assert cli.main(line) == 2
    assert sorted(file.name for file in (tmp_path / "run").iterdir()) == [
        "fit.json",
        "stage.safetensors",
    ]
    capsys.readouterr()
    assert cli.main(line) == 2
    assert "a fit that was stopped; add --resume" in capsys.readouterr().err


def test_what_a_model_prints_stays_out_of_the_output(capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    Path("loud.py").write_text("print('noise')\n\ndef normal(): ...\n")
    load_model("loud.py:normal")
    printed = capsys.readouterr()
    assert (printed.out, printed.err) == ("", "noise\n")


MODELS = {
    "exits": "import sys\nsys.exit(0)",
    "quits": "raise SystemExit",
    "leaves": "import os\nos._exit(0)",
    "becomes": "import os\nos.execvp('true', ['true'])",
    "leaves_late": "import os\ndef normal(y): os._exit(0)",
    "broken": "1 / 0",
    "syntax": "def normal(:",
    "odd": "raise GeneratorExit",
    "path": "import sys\nsys.path.clear()\nraise ValueError('a\\nb')",
    "recursion": "def f(): f()\nf()",
    "late": "import sys\ndef normal(y): sys.exit(0)",
    "raises": "def normal(y): raise RuntimeError('no\\nway')",
    "yields": "def normal(y):\n    yield y",
    "awaits": "async def normal(y): ...",
    "zeros": "\0",
    "positional": "def normal(y, /): ...",
    "twice": "import numpyro\nfrom numpyro import distributions as dist\ndef normal(y):\n"
    "    for _ in range(2):\n        numpyro.sample('z', dist.Normal(0, 1))",
    "a_class": "class normal: ...",
    "latin": "letter = '\xe9'",
    "instance": "class Model:\n    def __call__(self, y): ...\nnormal = Model()",
    "starred": "def normal(*y): ...",
    "gives": "def normal(y): return 3",
    "samples_numpy": "import numpy as np\ndef normal(y): np.random.normal(size=-1)",
    "threads": "import threading as t\nt.Thread(target=lambda: None).start()\nraise OSError(5, 'no')",
    "aborts": "raise MemoryError",
    "nested": "def normal(y):\n    def inner(): yield 1\n    return next(inner()) / 0",
    "moves": "import os\nos.chdir('/')\ndef normal(y): return undefined",
}


GOOD = {"y": Y}
DEEP = '{"y": ' + "[" * 100_000 + "]" * 100_000 + "}"
BAD = [
    ("fit", {}, ["model", "required"]),
    ("fit M", {}, ["A model is named file.py:function"]),
    ("fit nowhere.py:normal", {}, ["nowhere.py does not exist"]),
    ("fit no_such_package:normal", {}, ["no_such_package cannot be imported", "ModuleNotFoundError"]),
    ("fit broken.py:normal", {}, ["broken.py cannot be imported", "ZeroDivisionError"]),
    ("fit syntax.py:normal", {}, ["syntax.py cannot be imported", "SyntaxError"]),
    ("fit exits.py:normal", {}, ["exits.py ended the program", "exit with 0"]),
    ("fit quits.py:normal", {}, ["quits.py ended the program"]),
    ("fit leaves.py:normal", {}, ["leaves.py ended the program", "exit with 0"]),
    ("fit becomes.py:normal", {}, ["becomes.py ended the program"]),
    ("fit leaves_late.py:normal --data D", GOOD, ["ended the program"]),
    ("fit odd.py:normal", {}, ["odd.py cannot be imported", "GeneratorExit"]),
    ("fit path.py:normal", {}, ["path.py cannot be imported", "ValueError: a)"]),
    ("fit recursion.py:normal", {}, ["recursion.py cannot be imported", "RecursionError"]),
    ("fit late.py:normal --data D", GOOD, ["ended the program"]),
    ("fit raises.py:normal --data D", GOOD, ["normal"]),
    ("fit moves.py:normal --data D", GOOD, ["normal"]),
    ("fit a\0b.py:normal", {}, ["does not exist"]),
    ("fit :normal", {}, ["A model is named file.py:function"]),
    ("fit M:", {}, ["A model is named file.py:function"]),
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
    ("fit M:normal --data D", DEEP, ["lists within lists"]),
    ("fit M:normal --data D", '{"y": ' + "[" * 80 + "1" + "]" * 80 + "}", ["nested too deeply"]),
    ("fit M:normal --data D", '{"y": ' + "9" * 5000 + "}", ["is not JSON"]),
    ("fit M:normal --data D", {"y": 10**400}, ["'y' are numbers or arrays of numbers"]),
    ("fit M:normal --data D", {"": [1.0]}, ["hold ''", "it takes y"]),
    ("fit M:normal --data D", "\ud800", ["is not JSON"]),
    ("fit M:normal --data .", {}, [". cannot be read"]),
    ("fit M:normal --data D --out D", GOOD, ["D cannot be written to", "choose another path"]),
    ("fit M:normal --data D --out D/a", GOOD, ["D/a cannot be written to", "choose another path"]),
    ("fit M:normal --data D --out /proc/none", GOOD, ["/proc/none cannot be written to"]),
    ("fit M:normal --data D --out=", GOOD, ["--out", "the name of a file or folder"]),
    ("fit M:normal --data D --seeds 0", GOOD, ["--seeds", "from 1 to 1000"]),
    ("fit M:normal --data D --seeds 1000000000", GOOD, ["--seeds", "from 1 to 1000"]),
    ("fit M:normal --data D --budget soon", GOOD, ["--budget", "a number"]),
    ("fit M:normal --data D --budget -1", GOOD, ["--budget", "a positive number"]),
    ("fit M:normal --data D --budget nan", GOOD, ["--budget", "a positive number"]),
    ("fit M:normal --data D --budget inf", GOOD, ["--budget", "a positive number"]),
    ("fit M:normal --data D --budget 0g", GOOD, ["--budget", "from 1 to"]),
    ("fit M:normal --data D --budget g", GOOD, ["--budget", "a whole number"]),
    ("fit M:normal --data D --budget 1e5g", GOOD, ["--budget", "a whole number"]),
    ("fit M:normal --data D --seed 12345678901234567890123", GOOD, ["--seed", "a whole number from 0"]),
    ("fit M:normal --data D --seed x", GOOD, ["--seed", "whole number"]),
    ("fit M:normal --data D --seed -1", GOOD, ["--seed", "a whole number from 0"]),
    ("fit M:normal --dta D", GOOD, ["'--dta' is not an option", "did you mean --data?"]),
    ("sample", {}, ["run", "required"]),
    ("sample nowhere", {}, ["nowhere holds no fitted posterior"]),
    ("sample nowhere --out draws.txt", {}, ["--out ends in .nc, .npz, .csv"]),
    ("sample nowhere -n many", {}, ["-n", "whole number"]),
    ("sample nowhere -n 0", {}, ["-n", "from 1 to"]),
    ("sample nowhere -n -5", {}, ["-n", "from 1 to"]),
    ("sample nowhere -n 1e3", {}, ["-n", "whole number"]),
    ("sample nowhere --seed -1", {}, ["--seed", "a whole number from 0"]),
    ("sample nowhere --seed 12345678901234567890123", {}, ["--seed", "a whole number from 0"]),
    ("sample damaged", {}, ["not written by understudy"]),
    ("sample damaged --out folder.nc", {}, ["is a folder"]),
    ("sample damaged --out=", {}, ["--out", "the name of a file or folder"]),
    ("check nowhere --seed 12345678901234567890123", {}, ["--seed", "a whole number from 0"]),
    ("check D", {}, ["D holds no fitted posterior"]),
    ("report damaged", {}, ["not written by understudy"]),
    ("check nowhere", {}, ["nowhere holds no fitted posterior"]),
    ("check damaged --model M:normal", {}, ["not written by understudy"]),
    ("check damaged", {}, ["not written by understudy"]),
    ("fit M:normal M:normal --data D", GOOD, ["model_file.py:normal' is not an option"]),
    ("fit M:normal --data", GOOD, ["--data: expected one argument"]),
    ("fit M:normal --data D", "", ["is not JSON"]),
    ("fit M:normal --data D", '{"y": [1e400]}', ["'y' hold a value that is not finite"]),
    ("fit M:normal --data D", {"y": [2**64]}, ["'y' are numbers or arrays of numbers"]),
    ("fit M:normal:x --data D", GOOD, ["cannot be imported", "ModuleNotFoundError"]),
    ("fit yields.py:normal --data D", GOOD, ["a generator or a coroutine"]),
    ("fit awaits.py:normal --data D", GOOD, ["a generator or a coroutine"]),
    ("fit zeros.py:normal --data D", GOOD, ["zeros.py cannot be imported", "null bytes"]),
    ("fit positional.py:normal --data D", GOOD, ["which normal does not take"]),
    ("fit twice.py:normal --data D", GOOD, ["cannot be run", "duplicated"]),
    ("fit a_class.py:normal --data D", GOOD, ["is a type", "name a function"]),
    ("fit latin.py:normal --data D", GOOD, ["latin.py cannot be imported", "SyntaxError"]),
    ("fit instance.py:normal --data D", GOOD, ["is a Model", "name a function"]),
    ("fit starred.py:normal --data D", GOOD, ["normal"]),
    ("fit gives.py:normal --data D", GOOD, ["has no latent variable"]),
    ("fit samples_numpy.py:normal --data D", GOOD, ["normal"]),
    ("fit threads.py:normal --data D", GOOD, ["threads.py cannot be imported", "OSError"]),
    ("fit aborts.py:normal --data D", GOOD, ["aborts.py cannot be imported", "MemoryError"]),
    ("fit nested.py:normal --data D", GOOD, ["normal", "division by zero"]),
    ("fit damaged:normal --data D", GOOD, ["damaged has no function 'normal'"]),
    ("fit M:normal --data D --out D/../D", GOOD, ["D cannot be written to"]),
    ("fit M:normal --data D", "null", ["holds a NoneType"]),
    ("fit M:normal --data D", "3", ["holds a int"]),
    ("fit M:normal --data D", '"y"', ["holds a str"]),
    ("fit M:normal --data D", '{"y": [1, 2,]}', ["is not JSON"]),
    ("fit M:normal --data D", '{"y": [1]} {"y": [2]}', ["is not JSON"]),
    ("fit M:normal --data D", '{"y": NaN}', ["'y' hold a value that is not finite"]),
    ("fit M:normal --data D", '{"y": -Infinity}', ["'y' hold a value that is not finite"]),
    ("fit M:normal --data D", {"y": [[[1, 2], [3]]]}, ["'y' have rows of different lengths"]),
    ("fit M:normal --data D --budget 1e400", GOOD, ["--budget", "a positive number"]),
    ("fit M:normal --data D --budget 99999999999999999999g", GOOD, ["--budget", "from 1 to"]),
    ("fit M:normal --data D --budget=", GOOD, ["--budget", "a number"]),
    ("fit M:normal --data D --seed=", GOOD, ["--seed", "a whole number"]),
    ("fit M:normal --data D --seed 1.0", GOOD, ["--seed", "a whole number"]),
    ("fit M:normal --data D --seeds 9999999999999999999999", GOOD, ["--seeds", "from 1 to 1000"]),
    ("fit --data D", GOOD, ["required: model"]),
    ("fit -", GOOD, ["A model is named"]),
    ("fit --help=yes", {}, ["--help", "ignored explicit argument"]),
    ("sample student", {}, ["holds a FullGaussian, not a Posterior"]),
    ("check student --model M:normal", {}, ["holds a FullGaussian, not a Posterior"]),
    ("report student --model M:normal", {}, ["holds a FullGaussian, not a Posterior"]),
    ("infer taught D --model M:normal", GOOD, ["cannot be loaded", "which it does not name"]),
    ("sample student -n 99999999999999999999", {}, ["-n", "from 1 to"]),
    ("sample student --out .nc", {}, ["--out ends in"]),
    ("sample student --out draws.NC", {}, ["--out ends in"]),
    ("sample student --out draws.nc.gz", {}, ["--out ends in"]),
    ("sample student/posterior.safetensors", {}, ["holds no fitted posterior"]),
    ("infer taught D -n 1.5", GOOD, ["-n", "whole number"]),
    ("infer taught D", '{"y": 1' + "0" * 400 + "}", ["'y' are numbers"]),
    ("infer taught D", '{"y": {"a": 1}}', ["'y' are numbers"]),
    ("infer taught D", "[[1]]", ["a dictionary by site"]),
    ("infer taught D", "[" * 100_000, ["is not JSON"]),
    ("amortise M:measured", {}, ["required", "--observed"]),
    ("amortise M:measured --observed", {}, ["--observed: expected one argument"]),
    ("amortise M:measured --observed y --sizes 5", {}, ["--sizes"]),
    ("amortise M:measured --observed y --sizes 0 5", {}, ["--sizes", "from 1 to"]),
    ("amortise M:measured --observed y --sizes 9 5 --out a", {}, ["sizes"]),
    ("amortise M:measured --observed y,y --out a", {}, ["y"]),
    ("amortise M:measured --observed , --out a", {}, ["observed"]),
    ("amortise leaves.py:normal --observed y --out a", {}, ["ended the program"]),
    ("check student --trust-code", {}, ["holds a FullGaussian"]),
    ("fit os:getcwd --data D", GOOD, ["name a function"]),
    ("fit ..:x --data D", GOOD, [".. cannot be imported"]),
    ("fit M:normal --data D --out noted", GOOD, ["noted holds a fit that was stopped", "--resume"]),
    ("fit M:normal --data D --out noted --resume", GOOD, ["noted/fit.json cannot be read"]),
    ("fit M:normal --data D --out listed --resume", GOOD, ["is not the note of a fit"]),
    ("fit M:normal --data D --out other --resume", GOOD, ["other holds a fit with another model"]),
    ("fit M:normal --data D --out staged", GOOD, ["staged holds a fit that was stopped"]),
    ("fit M:normal --data D --out damaged", GOOD, ["damaged holds a finished fit"]),
    ("fit M:normal --data D --resume=yes", GOOD, ["--resume", "'yes'"]),
    ("fit M:normal --data D --seeds 1.5", GOOD, ["--seeds: a whole number"]),
    ("fit M:normal --data D --seed 0x10", GOOD, ["--seed: a whole number"]),
    ("fit M:normal --data D --budget 5gg", GOOD, ["--budget: a whole number"]),
    ("sample damaged extra", {}, ["'extra' is not an option of understudy sample"]),
    ("sample --out a.nc", {}, ["required: run"]),
    ("sample D", {}, ["D holds no fitted posterior"]),
    ("sample damaged --seeds 3", {}, ["did you mean --seed?"]),
    ("sample damaged --model M:normal", {}, ["'--model' is not an option"]),
    ("check damaged --model", {}, ["--model: expected one argument"]),
    ("check damaged --trust-code=1", {}, ["--trust-code", "'1'"]),
    ("report rows", {}, ["line 1 is not a row"]),
    ("report page", {}, ["report.json is not the description of a run"]),
    ("report secret", {}, ["lies outside its run"]),
    ("report D", {}, ["D is not a folder"]),
    ("fit M:normal --data D", '{"y": [1], "y": [2]}', ["is not JSON", "'y' comes twice"]),
    ("fit M:normal --data pipe", {}, ["is not JSON"]),
    ("fit M:normal --data /dev/zero", {}, ["holds more than"]),
    ("fit M:normal --data circle", {}, ["circle cannot be read"]),
    ("fit pipe.py:normal", {}, ["pipe.py does not exist"]),
    ("fit circle.py:normal", {}, ["circle.py does not exist"]),
    ("fit M:normal --data D --out circle", GOOD, ["circle cannot be written to"]),
    ("amortise M:normal --observed y --data D --out circle", GOOD, ["circle cannot be written to"]),
    ("sample circle", {}, ["circle holds no fitted posterior"]),
    ("report circle", {}, ["circle is not a folder"]),
    ("sample piped", {}, ["it is not a file"]),
    ("infer pipes pipe --model M:normal", {}, ["pipe is not JSON"]),
]
FOLDERS = {
    "noted/fit.json": "not json",
    "listed/fit.json": "[]",
    "other/fit.json": "{}",
    "staged/stage.safetensors": "half a stage",
    "rows/metrics.jsonl": "5\n",
    "page/report.json": "5",
    "secret/report.json": json.dumps(
        {
            **{"title": "t", "lead": "l", "settings": {}, "figures": [], "notes": []},
            "pictures": [{"file": "../../etc/passwd", "title": "t", "caption": "c"}],
        }
    ),
}


@pytest.mark.parametrize(
    ("line", "data", "expected"), BAD, ids=[f"{b[0]} {str(b[1])[:40]}" for b in BAD]
)
def test_bad_input_gets_one_sentence(line, data, expected, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    raw = data if isinstance(data, str) else json.dumps(data)
    Path("D").write_bytes(raw.encode(errors="surrogatepass"))
    for name, text in MODELS.items():
        Path(f"{name}.py").write_bytes(text.encode("latin-1"))
    for name, text in FOLDERS.items():
        Path(name).parent.mkdir()
        Path(name).write_text(text)
    for name in ("damaged", "folder.nc", "piped", "pipes"):
        Path(name).mkdir()
    for name in ("pipe", "pipe.py", "piped/posterior.safetensors", "pipes/amortised.safetensors"):
        os.mkfifo(name)
    for name in ("circle", "circle.py"):
        Path(name).symlink_to(name)
    Path("damaged/posterior.safetensors").write_bytes(b"nothing of ours")
    for path in ("student/posterior.safetensors", "taught/amortised.safetensors"):
        understudy.save(path, FullGaussian(2))
    words = [word.replace("M:", f"{MODEL}:") if word.startswith("M:") else word for word in line.split()]
    assert cli.main(words) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("understudy: ")
    assert printed.err.count("\n") == 1
    for words in expected:
        assert words in printed.err
    assert Path.cwd() == tmp_path
    assert not Path("runs").exists() or not list(Path("runs/posterior").iterdir())
