"""The page about files lists what a run leaves in its folder."""

import re
from pathlib import Path

import jax.numpy as jnp

import understudy
from understudy.cli import runs
from understudy.feedbacks import InclusiveKL
from understudy.files import read_rows
from understudy.fitting.keeping import STAGE
from understudy.students import FullGaussian
from understudy.teachers import mala

PAGE = (Path(__file__).parents[2] / "docs" / "howto" / "ship.md").read_text()
TABLE = PAGE.partition("## What is in a run's folder")[2].partition("\n## ")[0]
LISTED = re.sub(r"\d{8}", "NUMBER", TABLE)


def test_what_train_leaves_is_listed(tmp_path):
    target = understudy.LogDensity(lambda z: -0.5 * jnp.sum(z**2), dim=2)
    made = {"updates": 20, "folder": tmp_path, "progress": False}
    understudy.train(target, FullGaussian(2), mala(0.3), InclusiveKL(), **made)
    names = {re.sub(r"\d{8}", "NUMBER", path.name) for path in tmp_path.iterdir()}
    assert len(names) == 2
    assert all(f"`{name}`" in LISTED for name in names), names
    (line,) = (line for line in TABLE.splitlines() if line.startswith("| `metrics.jsonl`"))
    shown = set(re.findall(r"\w+", line.partition("updates:")[2]))
    assert shown <= set(read_rows(tmp_path / "metrics.jsonl")[0])


def test_what_the_commands_leave_is_listed():
    for name in (STAGE, runs.POSTERIOR, runs.AMORTISED, runs.NOTE, runs.TRAINING):
        assert f"`{name}`" in LISTED, name
