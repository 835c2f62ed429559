"""The page on generative models runs as it stands."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
AFTER = """
assert pictures.shape == (16, 8, 8)
assert (steps[:, :4] == x[0, :4]).all()
"""
LEARNT = "assert found.log_evidence.mean() > -30, found\n"
# Smaller networks and one update: what is left is the page's own code.
SHORT = {"updates=400": "updates=1", "(32,), (4, 8)": "(8,), (2, 2)", "steps=20": "steps=2"} | {
    "channels=(4, 8)": "channels=(2, 2)",
    "noise=4": "noise=1",
    "chains=8, rungs=30": "chains=2, rungs=4",
}


@pytest.mark.parametrize(
    "short", [pytest.param(True, id="short"), pytest.param(False, id="whole", marks=pytest.mark.slow)]
)
def test_the_page_for_images_runs_and_learns(short, tmp_path):
    blocks = re.findall(
        r"```python\n(.*?)```", (ROOT / "docs" / "howto" / "images.md").read_text(), re.DOTALL
    )
    code = "\n".join(blocks) + AFTER
    for there, instead in SHORT.items() if short else ():
        assert there in code
        code = code.replace(there, instead)
    code += "" if short else LEARNT
    ran = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    assert (tmp_path / "digits.safetensors").exists()
