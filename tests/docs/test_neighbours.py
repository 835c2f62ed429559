"""The quickstart runs whatever the user set in JAX, in threads, after a fork, and without a warning."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parent / "run_quickstart.py"
FIRST = "fork after import, the first block"
WORDS = {FIRST: ["fork after import", "first"]}
CASES = [
    (FIRST, ()),
    ("x64", ()),
    ("strict promotion", ()),
    ("debug_nans", ()),
    ("threads", ()),
    ("fork after import", ()),
    ("plain", ("-W", "error")),
]


@pytest.mark.parametrize(
    ("surroundings", "options"),
    [pytest.param(*c, marks=() if c[0] == FIRST else pytest.mark.slow, id=c[0]) for c in CASES],
)
def test_the_quickstart_passes(surroundings, options):
    if "fork" in surroundings and not hasattr(os, "fork"):
        pytest.skip("needs a system that forks")
    ran = subprocess.run(
        [sys.executable, *options, str(SCRIPT), *WORDS.get(surroundings, [surroundings])],
        capture_output=True,
        text=True,
        check=False,
        timeout=900,
    )
    assert ran.returncode == 0, ran.stderr[-3000:]
