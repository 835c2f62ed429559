"""Every block of the page about amortising runs, in order, with a training that is shorter."""

import functools
import re
import sys
import types
from pathlib import Path

import pytest

import understudy
from understudy.amortising import Amortised, amortise
from understudy.students import SplineFlow

PAGE = (Path(__file__).parents[2] / "docs" / "quickstart" / "many.md").read_text()
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


def small_flow(key, dim, summary):
    return SplineFlow(key, dim, summary, layers=4, width=32, bins=6)


def test_the_first_block_has_twenty_lines_at_most():
    assert len([line for line in BLOCKS[0].splitlines() if line.strip()]) <= 20


@pytest.mark.slow
def test_every_block_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    less = {"budget": understudy.Updates(600), "student": small_flow, "progress": False}
    monkeypatch.setattr(understudy, "amortise", functools.partial(amortise, **less), raising=False)
    teach = functools.partialmethod(Amortised.teach, budget=understudy.Updates(60))
    monkeypatch.setattr(Amortised, "teach", teach)
    page = types.ModuleType("amortise_page")
    monkeypatch.setitem(sys.modules, page.__name__, page)
    for block in BLOCKS:
        exec(compile(block.replace(", budget=60", ""), "amortise", "exec"), vars(page))
    printed = capsys.readouterr().out
    assert "50 data sets" in printed
    assert "calibration" in printed
    assert vars(page)["again"].student.dim == 3
