import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_example_of_the_readme_runs_and_is_right(tmp_path):
    (code,) = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    assert len([line for line in code.splitlines() if line.strip()]) <= 15
    ran = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    assert abs(float(ran.stdout.split()[-1]) - 0.8) < 0.03


def test_every_file_the_documents_name_is_there():
    for page in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")]:
        for link in re.findall(r"\]\(([^)#:]+)\)", page.read_text()):
            assert _is_there(page.parent / link), f"{page.name} links to {link}"


def _is_there(path):
    """A page of the gallery is made of its program when the site is built."""
    made = path.resolve().parent == ROOT / "docs" / "gallery" and path.suffix == ".md"
    program = path.with_suffix(".py")
    return path.exists() or (made and (path.name == "index.md" or program.exists()))
