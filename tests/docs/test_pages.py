"""The code of every page runs as it stands, one block after the other, with fits that are short."""

import re
import sys
import types
import warnings
from pathlib import Path

import pytest

import understudy
from understudy.fitting import fit

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
# Pages with a test of their own.
ELSEWHERE = {"howto/tables.md", "howto/images.md", "quickstart/posterior.md", "quickstart/many.md"}
# Always run; the others with the slow tests.
QUICK = {"concepts/trust.md"}


def blocks(page: Path) -> list[str]:
    """Blocks of Python, those inside tabs too."""
    found = re.findall(r"^( *)```python\n(.*?)^ *```", page.read_text(), re.DOTALL | re.MULTILINE)
    return [re.sub(rf"^{indent}", "", code, flags=re.MULTILINE) for indent, code in found]


PAGES = [page for page in sorted(DOCS.rglob("*.md")) if blocks(page)]
CASES = [
    pytest.param(page, id=name, marks=() if name in QUICK else pytest.mark.slow)
    for page in PAGES
    if (name := page.relative_to(DOCS).as_posix()) not in ELSEWHERE
]


def short(target, **settings):
    settings.pop("verbose", None)
    return fit(target, flows=False, cache=False, verbose=False, **settings)


@pytest.mark.filterwarnings("ignore:The student is not trusted")
@pytest.mark.parametrize("page", CASES)
def test_the_code_of_a_page_runs(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(understudy, "fit", short, raising=False)
    module = types.ModuleType("page")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    for block in blocks(page):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # code of a page is a user's own
            exec(compile(block, page.name, "exec"), vars(module))


def test_there_is_code_on_many_pages():
    assert len(PAGES) >= 15
