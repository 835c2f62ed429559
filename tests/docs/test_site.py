"""The site: every page is in its contents, it builds strictly, its links lead somewhere."""

import importlib.util
import json
import re
import subprocess
import sys
from pathlib import Path

import jax
import numpy as np
import pytest

from docs.tools import browse, gallery, links, notebooks
from tests.report.test_posterior import write
from understudy.files import append_row
from understudy.report import describe_run, student_against_density, write_picture, write_report
from understudy.targets import two_gaussians

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
CONTENTS = (ROOT / "mkdocs.yml").read_text()


def test_every_page_is_in_the_contents():
    listed = set(re.findall(r"[\w/-]+\.md", CONTENTS))
    pages = {page.relative_to(DOCS).as_posix() for page in DOCS.rglob("*.md")}
    assert pages <= listed
    made = {"contributing.md", "changelog.md", "gallery/index.md"}
    assert {page for page in listed - pages if f"add {page} here" not in CONTENTS} == made


def test_the_gallery_shows_what_its_programs_drew():
    examples = gallery.examples()
    assert len(examples) >= 12
    for example in examples:
        title, words, code = gallery.title_and_words(example)
        assert title
        assert words
        assert code.startswith("import") or code.startswith("from")
        kept = example.with_suffix(".txt").read_text()
        assert kept.split("\n")[0] == gallery.digest(example), f"{example.name} changed: make gallery"
        assert 2_000 < example.with_suffix(".png").stat().st_size < 400_000


def test_notebooks_are_those_of_the_quickstarts():
    for page in (DOCS / "quickstart").glob("*.md"):
        kept = DOCS / "notebooks" / f"{page.stem}.ipynb"
        assert kept.read_text() == notebooks.notebook(page.read_text()), "run make notebooks"


def test_a_notebook_holds_words_and_code():
    whole = json.loads(notebooks.notebook("# Title\n\n```python\na = 1\nb = 2\n```\n\nMore.\n"))
    assert [cell["cell_type"] for cell in whole["cells"]] == ["markdown", "code", "markdown"]
    assert "".join(whole["cells"][1]["source"]) == "a = 1\nb = 2"
    assert whole["nbformat"] == 4


def test_dead_links_foreign_files_and_silent_pictures_are_seen(tmp_path):
    (tmp_path / "b.html").write_text('<h1 id="there">b</h1>')
    fine = (
        '<a href="b.html#there">b</a><img src="p.png" alt="a picture"><a href="https://jax.dev">jax</a>'
    )
    (tmp_path / "p.png").write_bytes(b"")
    (tmp_path / "a.html").write_text(fine)
    assert links.faults(tmp_path) == []
    bad = '<a href="c.html">c</a><a href="b.html#no">b</a><img src="p.png"><script src="https://x.y"></script>'
    (tmp_path / "a.html").write_text(bad)
    assert len(links.faults(tmp_path)) == 4


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("zensical") is None, reason="needs the extra docs")
def test_the_site_builds():
    ran = subprocess.run(
        [sys.executable, "-m", "docs.tools.build"], cwd=ROOT, capture_output=True, text=True
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr


def reports(folder):
    """A page of every kind: of a described run, of a bare training, of a posterior."""
    described, bare = folder / "described", folder / "bare"
    draws = two_gaussians().sample(jax.random.key(0), 2000)
    write_picture(student_against_density(draws, two_gaussians()), described / "density.png")
    picture = [{"file": "density.png", "title": "Density", "caption": "Bars follow the line."}]
    describe_run(
        described, "A run", "What it shows.", {"seed": 3}, [{"name": "KSD", "value": 0.04}], picture
    )
    for step in (1, 200):
        append_row(bare / "metrics.jsonl", {"step": step, "seconds": 0.1, "loss": 1 / step})
    values = np.random.default_rng(0)
    write(folder / "posterior.html", {f"mu[{i}]": values.normal(size=(500,)) for i in range(30)})
    return [write_report(described), write_report(bare), folder / "posterior.html"]


@pytest.mark.slow
@pytest.mark.skipif(browse.chromium() is None, reason="no chromium on this machine")
def test_reports_are_fine_in_a_browser(tmp_path):
    with browse.Browser(browse.chromium()) as browser:
        for i, page in enumerate(reports(tmp_path)):
            assert browse.look_at(browser, page.as_uri(), f"report-{i}", tmp_path / "shots") == []
        broken = tmp_path / "broken.html"
        broken.write_text("<script>undefined_name()</script><p style='width:3000px'>wide</p>")
        assert len(browser.look(broken.as_uri(), 400).faults) >= 2
    assert len(list((tmp_path / "shots").glob("*.png"))) == 12


@pytest.mark.slow
@pytest.mark.skipif(browse.chromium() is None, reason="no chromium on this machine")
@pytest.mark.skipif(not (ROOT / "site" / "index.html").exists(), reason="no site yet: make docs")
def test_the_site_is_fine_in_a_browser(tmp_path):
    with browse.Browser(browse.chromium()) as browser, browse.served(browse.SITE) as address:
        for name in ("index.html", "howto/right.html", "reference/students.html", "gallery/index.html"):
            assert browse.look_at(browser, f"{address}/{name}", name, tmp_path) == []
