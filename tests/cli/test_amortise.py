"""The commands about many data sets: train once, then draw for what came."""

import json
from pathlib import Path

import numpy as np
import pytest

from understudy import cli

MODEL = Path(__file__).parent / "model_file.py"


@pytest.mark.slow
def test_amortise_and_then_infer(tmp_path, capsys):
    words = ["amortise", f"{MODEL}:measured", "--observed", "y", "--out", str(tmp_path / "run")]
    assert cli.main([*words, "--budget", "5", "--quiet"]) == 0
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["simulations"] > 0
    assert cli.main([*words, "--quiet"]) == 2
    assert "already" in capsys.readouterr().err
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


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("amortise {model}:measured", "--observed"),
        ("amortise {model}:measured --observed z --out {out}/run", "no site 'z'"),
        ("infer {out}/nothing {out}/data.json", "cannot be read"),
        ("infer {out} {model}", "is not JSON"),
    ],
)
def test_mistakes_get_one_sentence(tmp_path, capsys, line, words):
    assert cli.main(line.format(model=MODEL, out=tmp_path).split()) == 2
    assert words in capsys.readouterr().err
