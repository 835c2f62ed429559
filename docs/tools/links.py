"""Whether every link of the built pages leads to a file, and to a heading where it names one."""

from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

_WHERE = {"a": "href", "img": "src", "link": "href", "script": "src", "source": "src"}
# What a page loads must be in the site; what it links to may be elsewhere.
_LOADED = {"img", "link", "script", "source"}


class _Page(HTMLParser):
    def __init__(self, text: str):
        super().__init__()
        self.places: set[str] = set()
        self.links: list[tuple[str, str]] = []
        self.silent: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        self.places |= {found[name] or "" for name in ("id", "name") if name in found}
        if (
            tag in _WHERE
            and found.get(_WHERE[tag])
            and found.get("rel") not in ("canonical", "preconnect")
        ):
            self.links.append((tag, found[_WHERE[tag]] or ""))
        if tag == "img" and not found.get("alt") and "twemoji" not in (found.get("class") or ""):
            self.silent.append(found.get("src") or "")


def faults(site: Path) -> list[str]:
    """A sentence for every dead link, foreign file that is loaded and picture without words."""
    pages = {path: _Page(path.read_text()) for path in sorted(site.rglob("*.html"))}
    found = []
    for path, page in pages.items():
        name = path.relative_to(site)
        found += [f"{name}: the picture {src} has no words in its place" for src in page.silent]
        for tag, link in page.links:
            fault = _fault(site, path, tag, link, pages)
            found += [f"{name}: {fault}"] if fault and name != Path("404.html") else []
    return found


def _fault(site: Path, path: Path, tag: str, link: str, pages: dict[Path, _Page]) -> str | None:
    parts = urlsplit(link)
    if parts.scheme == "data" or parts.scheme == "mailto":
        return None
    if parts.scheme or parts.netloc:
        return f"loads {link} from elsewhere" if tag in _LOADED else None
    there = (path.parent / unquote(parts.path)).resolve() if parts.path else path
    there = there / "index.html" if there.is_dir() else there
    if not there.exists():
        return f"{link} is not there"
    wanted = unquote(parts.fragment)
    if tag == "a" and wanted and there in pages and wanted not in pages[there].places:
        return f"{link} names a heading that is not there"
    return None
