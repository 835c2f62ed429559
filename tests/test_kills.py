"""Work that is killed at any moment goes on, and leaves whole files and no litter."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs a system that forks")
@pytest.mark.parametrize(
    "name",
    ["save", *(pytest.param(name, marks=pytest.mark.slow) for name in ("train", "fit", "amortise"))],
)
def test_what_is_killed_goes_on(tmp_path, name):
    asked = dict.fromkeys(("train", "fit", "save", "amortise"), 0) | {name: 3}
    words = [word for one, many in asked.items() for word in (f"--{one}", str(many))]
    ran = subprocess.run(
        [sys.executable, "-m", "benchmarks.kills", *words, "--out", str(tmp_path / "kills.jsonl")],
        capture_output=True,
        text=True,
        check=False,
        cwd=Path(__file__).parents[1],
    )
    assert ran.returncode == 0, ran.stderr[-2000:]
    counts = json.loads(ran.stdout.splitlines()[-1])[name]
    assert counts["kills"] == counts["resumed"] == counts["whole"] == 3
    assert counts["litter"] == 0
