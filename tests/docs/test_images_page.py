"""The page on generative models runs as it stands."""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
AFTER = """
assert found.log_evidence.mean() > -30, found
assert pictures.shape == (16, 8, 8)
assert (steps[:, :4] == x[0, :4]).all()
"""


def test_the_page_for_images_runs_and_learns(tmp_path):
    blocks = re.findall(
        r"```python\n(.*?)```", (ROOT / "docs" / "howto" / "images.md").read_text(), re.DOTALL
    )
    code = "\n".join(blocks) + AFTER
    ran = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    assert (tmp_path / "digits.safetensors").exists()
