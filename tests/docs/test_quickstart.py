"""Every block of the quickstart runs, in order, with a fit that is shorter than a user's."""

import dataclasses
import re
import subprocess
import sys
import types
from pathlib import Path

import pytest

import understudy
from understudy.fitting import fit
from understudy.posterior import cost

PAGE = (Path(__file__).parents[2] / "docs" / "quickstart" / "posterior.md").read_text()
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)

BLOCK_IMPORTS = """
import sys
class Block:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {"understudy", "equinox", "flowjax", "numpyro", "paramax", "blackjax"}:
            raise ImportError(name)
sys.meta_path.insert(0, Block())
"""


def short(target):
    return fit(target, flows=False, cache=False, verbose=False)


def shorter(target):
    """Without its verdict the student's own draws are given, which cost no moves."""
    made = fit(target, budget=3.0, flows=False, cache=False, verbose=False)
    return dataclasses.replace(made, verdict=None)


def test_the_first_block_has_fifteen_lines_at_most():
    assert len([line for line in BLOCKS[0].splitlines() if line.strip()]) <= 15


@pytest.mark.filterwarnings("ignore:The student is not trusted")
@pytest.mark.parametrize(
    "fitted", [shorter, pytest.param(short, marks=pytest.mark.slow)], ids=["shorter", "short"]
)
def test_every_block_runs(fitted, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(understudy, "fit", fitted, raising=False)
    monkeypatch.setattr(cost, "measure_nuts", lambda *_: cost.NutsCost(1.0, 100.0))
    page = types.ModuleType("quickstart_page")
    monkeypatch.setitem(sys.modules, page.__name__, page)
    names = vars(page)
    for block in BLOCKS[:-1]:
        exec(compile(block, "quickstart", "exec"), names)
    printed = capsys.readouterr().out
    assert float(printed.split()[0]) > 0
    assert "teacher gap" in printed
    assert "'posterior_predictive'" in printed
    # Weights repair most of what the short fit left.
    assert names["corrected"].draws["mu"].mean() == pytest.approx(4.41, abs=0.4)
    assert names["whole"].target.dim == 10
    bare = [sys.executable, "-I", "-c", BLOCK_IMPORTS + BLOCKS[-1]]
    ran = subprocess.run(bare, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    assert "'theta': (16384, 8)" in ran.stdout


@pytest.mark.slow
def test_a_fit_without_settings_is_right(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names: dict = {}
    exec(compile(BLOCKS[0], "quickstart", "exec"), names)
    assert names["draws"]["tau"].mean() == pytest.approx(3.6, abs=0.25)
    assert names["draws"]["mu"].mean() == pytest.approx(4.41, abs=0.25)
