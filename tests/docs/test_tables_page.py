"""The page for users runs as it stands, on a table of one's own."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from understudy import data

ROOT = Path(__file__).parents[2]


def write(path, table, rows):
    lines = [",".join((*table.names, "sick"))]
    for features, label in zip(table.features[rows], table.labels[rows], strict=True):
        lines.append(",".join(map(str, (*features, label))))
    path.write_text("\n".join(lines) + "\n")


@pytest.mark.slow
def test_the_page_for_tables_runs_and_predicts(tmp_path):
    (code,) = re.findall(
        r"```python\n(.*?)```", (ROOT / "docs" / "howto" / "tables.md").read_text(), re.DOTALL
    )
    body = [line for line in code.splitlines() if line.strip() and "import" not in line]
    assert len(body) <= 20
    table, split = data.load("crabs"), data.splits(200)
    write(tmp_path / "patients.csv", table, split.train[0])
    write(tmp_path / "new.csv", table, split.test[0])
    ran = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    *rows, last = ran.stdout.strip().splitlines()
    assert len([row for row in rows if "unsure" in row]) == 20
    assert float(last.split()[-1]) > -0.3
    assert (tmp_path / "network.us").exists()
