"""Every figure in the documents comes from a row in results."""

import re
from pathlib import Path

import pytest

from experiments.tables import filled
from understudy import files

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
ROWS = sorted((ROOT / "results").rglob("*.jsonl"))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_tables_are_what_the_rows_say(page):
    assert filled(page.read_text(), ROOT / "results") == page.read_text(), "run make tables"


@pytest.mark.parametrize("path", ROWS, ids=lambda path: str(path.relative_to(ROOT)))
def test_rows_carry_their_provenance(path):
    rows = files.read_rows(path)
    assert rows
    for row in rows:
        assert {"settings", "seed", "commit", "versions", "seconds"} <= set(row)
        assert re.fullmatch(r"[0-9a-f]{7,12}\+?", row["commit"])


def test_mixture_summaries_have_the_names_others_rely_on():
    rows = [
        row for row in files.read_rows(ROOT / "results" / "mixture.jsonl") if row["kind"] == "summary"
    ]
    wanted = {
        *("name", "student", "feedback", "wild", "learnt_weights", "repeats"),
        *("both_modes", "ksd", "w1", "weight_error", "mode_variance"),
    }
    assert rows
    for row in rows:
        assert wanted <= set(row)
