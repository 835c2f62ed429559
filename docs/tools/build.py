"""Build the site into `site`: `python -m docs.tools.build`.

Pages link to pictures in `results` and to files at the top of the checkout, as they are read beside the
code too. So all pages are gathered in `build/pages` first, what they link to outside beside them; the
gallery's pages are written; Zensical builds them strictly; then every link of what it built is followed.
Nothing is downloaded.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from docs.tools import gallery, links, notebooks

ROOT = Path(__file__).parents[2]
PAGES = ROOT / "build" / "pages"
SITE = ROOT / "site"
_LINK = re.compile(r"(\]\()([^)\s#]+)((?:#[^)]*)?\))")
_TOP = {"CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md", "README.md": "index.md"}


def main() -> int:
    """Gather, build, check; the number of faults."""
    gather()
    shutil.rmtree(SITE, ignore_errors=True)
    built = subprocess.run(
        [_zensical(), "build", "--strict", "--config-file", str(ROOT / "mkdocs.yml")], cwd=ROOT
    )
    if built.returncode:
        return 1
    faults = links.faults(SITE)
    print("\n".join(faults) or f"{len(list(SITE.rglob('*.html')))} pages, every link leads somewhere.")
    return len(faults)


def gather() -> None:
    """All pages under one folder, with links that stay inside it."""
    shutil.rmtree(PAGES, ignore_errors=True)
    shutil.copytree(ROOT / "docs", PAGES, ignore=shutil.ignore_patterns("tools", "__pycache__"))
    for name in ("CONTRIBUTING.md", "CHANGELOG.md"):
        shutil.copy(ROOT / name, PAGES / _TOP[name])
    gallery.write_pages(PAGES)
    notebooks.write(PAGES / "notebooks")
    for page in PAGES.rglob("*.md"):
        _settle(page)


def _settle(page: Path) -> None:
    top = page.parent == PAGES and page.name in _TOP.values() and page.name != "index.md"
    source = ROOT if top else ROOT / "docs" / page.parent.relative_to(PAGES)

    def inside(found: re.Match) -> str:
        path = found[2]
        if "://" in path or path.startswith("mailto:") or (page.parent / path).exists():
            return found[0]
        there = (source / path).resolve()
        if not there.exists():
            raise SystemExit(f"{page.relative_to(PAGES)} links to {path}, which is not there.")
        return found[1] + Path(os.path.relpath(_home_of(there), page.parent)).as_posix() + found[3]

    # A figure and its error stay on one line.
    page.write_text(_LINK.sub(inside, page.read_text()).replace(" ± ", "\u00a0±\u00a0"))


def _home_of(path: Path) -> Path:
    """Where a file of the checkout is in the gathered pages; copied there if it is none of them."""
    if path.is_relative_to(ROOT / "docs"):
        return PAGES / path.relative_to(ROOT / "docs")
    if path.name in _TOP and path.parent == ROOT:
        return PAGES / _TOP[path.name]
    home = PAGES / "files" / path.relative_to(ROOT)
    home.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(path, home)
    return home


def _zensical() -> str:
    beside = Path(sys.executable).parent / "zensical"
    return str(beside) if beside.exists() else "zensical"


if __name__ == "__main__":
    sys.exit(main())
