"""One self-contained HTML page for a run: figures, pictures, settings and notes."""

import base64
import hashlib
import html
import itertools
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from understudy import files
from understudy.checks import first_line, shown
from understudy.files import StoreError, read_file
from understudy.report.figures import CURVES, picture_bytes, training_curves

Record = Mapping[str, Any]

_PNG = b"\x89PNG\r\n\x1a\n"
# Bytes of a picture or of a description.
_LARGEST = 2**26
_LISTS = {"figures": ("name", "value"), "pictures": ("file",)}

# Sorts a table by the column whose head is clicked; numbers by size, other words by the alphabet.
_SCRIPT = """
document.querySelectorAll("table.sortable th").forEach(function (head) {
  head.tabIndex = 0;
  function sort() {
    var rows = Array.from(head.closest("table").tBodies[0].rows), place = head.cellIndex;
    var sign = head.dataset.sign === "1" ? -1 : 1;
    function key(row) { return row.cells[place].textContent.replace(/,/g, ""); }
    rows.sort(function (a, b) {
      var x = key(a), y = key(b), numbers = Number(x) - Number(y);
      return sign * (isNaN(numbers) ? x.localeCompare(y) : numbers);
    });
    rows.forEach(function (row) { row.parentNode.appendChild(row); });
    head.dataset.sign = String(sign);
  }
  head.addEventListener("click", sort);
  head.addEventListener("keydown", function (event) { if (event.key === "Enter") sort(); });
});
"""
_HASH = base64.b64encode(hashlib.sha256(_SCRIPT.encode()).digest()).decode()
# Nothing is fetched, and nothing runs but the script above, whatever a name or a description may hold.
POLICY = f"default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'sha256-{_HASH}'"
_VERDICTS = ("ok", "warn", "fail")
_LONG = 16
_STYLE = """
:root { color-scheme: light dark; --ink: #1f2328; --soft: #59636e; --line: #d1d9e0; --paper: #fff;
  --link: #0969da; --ok: #1a7f37; --warn: #8a5a00; --fail: #cf222e; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e6edf3; --soft: #9198a1; --line: #3d444d; --paper: #15191f;
    --link: #58a6ff; --ok: #4ac26b; --warn: #d4a72c; --fail: #ff7b72; }
}
body { margin: 0 auto; max-width: 50rem; padding: 2.5rem 1.25rem 4rem; color: var(--ink);
  background: var(--paper); font: 1rem/1.55 system-ui, -apple-system, "Segoe UI", sans-serif; }
h1 { font-size: 1.8rem; line-height: 1.2; margin: 0 0 .5rem; }
h2 { font-size: 1.15rem; margin: 2.25rem 0 .6rem; }
.lead { font-size: 1.1rem; color: var(--soft); margin: 0; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th, td { text-align: left; vertical-align: top; padding: .4rem .75rem .4rem 0;
  border-bottom: 1px solid var(--line); }
th { font-weight: 600; color: var(--soft); font-size: .85rem; }
td.number { text-align: right; white-space: nowrap; }
th.number { text-align: right; }
td.meaning { color: var(--soft); font-size: .92rem; min-width: 11rem; }
figure { margin: 1.5rem 0 0; }
img { display: block; width: 100%; height: auto; background: #fff; border-radius: 6px; }
@media screen and (max-width: 36rem) { figure img { width: 34rem; max-width: none; }
  table.sortable td:last-child:not(.number) { min-width: 13rem; } }
figcaption { color: var(--soft); font-size: .92rem; margin-top: .5rem; }
figcaption b { color: var(--ink); }
nav { margin: 1rem 0 0; font-size: .92rem; } nav a { margin-right: 1rem; white-space: nowrap; }
a { color: var(--link); }
.scroll { overflow-x: auto; }
.verdict { border-left: 4px solid; padding: .5rem 0 .5rem 1rem; margin: 1.25rem 0; font-weight: 600; }
.ok { color: var(--ok); } .warn { color: var(--warn); } .fail { color: var(--fail); }
table.sortable th { cursor: pointer; } table.sortable th:hover { color: var(--ink); }
summary { cursor: pointer; margin: .75rem 0; }
pre { overflow-x: auto; padding: .75rem 1rem; border: 1px solid var(--line); border-radius: 6px; }
@media print {
  body { max-width: none; padding: 0; font-size: 10pt; } nav { display: none; }
  figure, tr { break-inside: avoid; } h2 { break-after: avoid; }
  details::details-content { content-visibility: visible; block-size: auto; }
}
"""

_CURVES_CAPTION = (
    "Means over chunks of updates. A loss that levels off and a move that settles say that the student "
    "has caught up with its teacher; chains are lost where the log density is not finite. Where several "
    "repeats ran, thin lines are repeats and the thick one is their median."
)


def describe_run(
    folder: str | Path,
    title: str,
    lead: str,
    settings: Mapping[str, Any],
    figures: Sequence[Record],
    pictures: Sequence[Record] = (),
    notes: Sequence[str] = (),
) -> Path:
    """Write ``report.json``, from which :func:`write_report` makes the page.

    Args:
        folder: of the run.
        title: of the page.
        lead: one or two sentences under it.
        settings: by name.
        figures: the results, each with ``name``, ``value``, ``meaning`` and perhaps ``goal``.
        pictures: PNG files of the folder, each with ``file``, ``title`` and ``caption``.
        notes: sentences at the end.
    """
    path = _folder(folder) / "report.json"
    described = {"title": title, "lead": lead, "settings": dict(settings), "figures": list(figures)}
    described |= {"pictures": list(pictures), "notes": list(notes)}
    text = json.dumps(files.plain(described), indent=1, allow_nan=False)
    files.replace_file(path, [text.encode()])
    return path


def write_report(folder: str | Path) -> Path:
    """Make ``report.html`` of a run's folder from its ``report.json``, ``metrics.jsonl`` or both."""
    folder = _folder(folder)
    if not folder.is_dir():
        raise StoreError(f"{folder} is not a folder; give the folder of a run, runs/demo say.")
    rows = _rows(folder / "metrics.jsonl")
    description = _read(folder / "report.json")
    if description is None and not rows:
        raise StoreError(
            f"{folder} holds neither report.json nor metrics.jsonl with a row, so there is nothing to "
            "report; give the folder of a run, runs/demo say."
        )
    page = _page(_summary(folder, rows) if description is None else description, folder, rows)
    files.replace_file(folder / "report.html", [as_bytes(page)])
    return folder / "report.html"


def as_bytes(page: str) -> bytes:
    """A page for a file; what no encoding can write (half of a character) becomes a question mark."""
    return page.encode(errors="replace")


def _folder(folder: Any) -> Path:
    if not isinstance(folder, str | Path) or not str(folder).strip() or "\0" in str(folder):
        raise StoreError(f"folder is the name of a folder, such as 'runs/demo'; {shown(folder)} came.")
    return Path(folder)


def _rows(path: Path) -> list[dict[str, Any]]:
    rows = files.read_rows(path)
    if not all(isinstance(row, dict) for row in rows):
        raise StoreError(f"{path} does not hold rows of a training; remove the lines that are not.")
    return rows


def _read(path: Path) -> dict[str, Any] | None:
    if not path.exists():
        return None
    try:
        described = json.loads(read_file(path, _LARGEST))
    except StoreError:
        raise
    except (ValueError, RecursionError) as error:
        raise StoreError(f"{path} cannot be read as JSON ({error}); make the run again.") from error
    if not isinstance(described, dict) or not isinstance(described.get("settings", {}), dict):
        raise StoreError(f"{path} is not the description of a run; write it with describe_run.")
    for name, keys in _LISTS.items():
        items = described.get(name, [])
        whole = isinstance(items, list) and all(isinstance(i, dict) and {*keys} <= {*i} for i in items)
        if not whole:
            raise StoreError(
                f"{path} is not the description of a run: {name} is a list of entries with "
                f"{' and '.join(keys)}; write it with describe_run."
            )
    return described


def _summary(folder: Path, rows: Sequence[Record]) -> dict[str, Any]:
    last = rows[-1]
    figures: list[dict[str, Any]] = [
        {"name": "updates", "value": last.get("step"), "meaning": "updates of the student so far"},
        {"name": "seconds", "value": last.get("seconds"), "meaning": "run time, without compilation"},
    ]
    for name, meaning in CURVES.items():
        meaning += ", in the last chunk of updates"
        figures.append({"name": name, "value": last.get(name), "meaning": meaning})
    name = folder.resolve().name
    return {"title": f"Training run {name}", "lead": "How the training went.", "figures": figures}


def _page(description: Record, folder: Path, rows: Sequence[Record]) -> str:
    title = str(description.get("title", folder.resolve().name))
    pictures = [_picture(folder, picture) for picture in description.get("pictures", [])]
    if rows:
        pictures.append(_curves(folder, rows))
    parts = [
        "".join(["<h2>Pictures</h2>", *pictures]) if pictures else "",
        figures_table(description.get("figures", [])),
        _settings(description.get("settings", {})),
        _notes(description.get("notes", [])),
    ]
    return document(title, str(description.get("lead", "")), parts)


def document(title: str, lead: str, parts: Sequence[str], verdict: tuple[str, str] | None = None) -> str:
    """A whole page.

    Args:
        title: of the page.
        lead: a sentence or two.
        parts: HTML already.
        verdict: "ok", "warn" or "fail" and a sentence, for the top.
    """
    title = html.escape(title)
    box = "" if verdict is None else f'<p class="verdict {verdict[0]}">{html.escape(verdict[1])}</p>'
    parts = [f"<h1>{title}</h1>", f'<p class="lead">{html.escape(lead)}</p>', box, _CONTENTS, *parts]
    if any('class="sortable"' in part for part in parts):
        parts.append(f"<script>{_SCRIPT}</script>")
    head = (
        '<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
        f"<title>{title}</title><style>{_STYLE}</style>"
    )
    body = _with_contents("\n".join(part for part in parts if part))
    return f'<!doctype html>\n<html lang="en"><head>{head}</head>\n<body>\n{body}\n</body></html>\n'


_CONTENTS = "<!-- contents -->"
_HEAD = re.compile(r"<h2>(.*?)</h2>")


def _with_contents(body: str) -> str:
    """The body with an anchor at every head, and links to them where the contents belong."""
    heads = _HEAD.findall(body)
    links = " ".join(f'<a href="#part-{i}">{head}</a>' for i, head in enumerate(heads))
    numbers = itertools.count()
    body = _HEAD.sub(lambda head: f'<h2 id="part-{next(numbers)}">{head[1]}</h2>', body)
    return body.replace(_CONTENTS, f'<nav aria-label="contents">{links}</nav>' if heads else "", 1)


def table(heads: Sequence[str], lines: Sequence[Sequence[str]], name: str) -> str:
    """A table of plain text that can be sorted; folded away under its name where it is long.

    Args:
        heads: of the columns.
        lines: cells; one that is a verdict is shown in its colour.
        name: what the lines are.
    """
    number = [bool(lines) and all(_is_number(line[i]) for line in lines) for i in range(len(heads))]
    kinds = [' class="number"' if one else "" for one in number]
    top = "".join(f"<th{k}>{html.escape(head)}</th>" for k, head in zip(kinds, heads, strict=True))
    rows = ["".join(_cell(text, k) for k, text in zip(kinds, line, strict=True)) for line in lines]
    body = "\n".join(f"<tr>{row}</tr>" for row in rows)
    made = (
        f'<div class="scroll"><table class="sortable"><thead><tr>{top}</tr></thead>'
        f"<tbody>\n{body}</tbody></table></div>"
    )
    if len(lines) <= _LONG:
        return made
    return f"<details><summary>{html.escape(name)}: {len(lines):,} rows</summary>{made}</details>"


def _cell(text: str, kind: str) -> str:
    if text in _VERDICTS:
        return f'<td{kind}><b class="{text}">{text}</b></td>'
    return f"<td{kind}>{html.escape(text)}</td>"


def _is_number(text: str) -> bool:
    try:
        float(text.replace(",", "") or "nan")
    except ValueError:
        return False
    return True


def figures_table(figures: Sequence[Record], title: str = "Figures") -> str:
    """A table of figures with ``name``, ``value``, ``meaning`` and perhaps ``goal``."""
    if not figures:
        return ""
    goals = any(figure.get("goal") is not None for figure in figures)
    goal = '<th class="number">goal</th>' if goals else ""
    lines = []
    for figure in figures:
        cells = [f"<td>{html.escape(str(figure['name']))}</td>", _number_cell(figure["value"])]
        cells += [_number_cell(figure.get("goal", ""))] if goals else []
        cells.append(f'<td class="meaning">{html.escape(str(figure.get("meaning", "")))}</td>')
        lines.append(f"<tr>{''.join(cells)}</tr>")
    heads = f'<tr><th>figure</th><th class="number">value</th>{goal}<th>meaning</th></tr>'
    rows = "\n".join([heads, *lines])
    return f'<h2>{html.escape(title)}</h2>\n<div class="scroll"><table>{rows}</table></div>'


def _number_cell(value: Any) -> str:
    return f'<td class="number">{html.escape(show(value))}</td>'


def _settings(settings: Mapping[str, Any]) -> str:
    if not settings:
        return ""
    lines = [
        f"<tr><td>{html.escape(str(name))}</td><td>{html.escape(show(value))}</td></tr>"
        for name, value in settings.items()
    ]
    return f'<h2>Settings</h2>\n<div class="scroll"><table>{chr(10).join(lines)}</table></div>'


def _notes(notes: Sequence[str]) -> str:
    items = "".join(f"<li>{html.escape(str(note))}</li>" for note in notes)
    return f"<h2>Notes</h2>\n<ul>{items}</ul>" if items else ""


def _picture(folder: Path, picture: Record) -> str:
    path = folder / str(picture["file"])
    if not path.resolve().is_relative_to(folder.resolve()):
        raise StoreError(f"The picture {path} lies outside its run; keep pictures in the run's folder.")
    raw = read_file(path, _LARGEST)
    if not raw.startswith(_PNG):
        raise StoreError(f"The picture {path} is not a PNG file; write it with write_picture.")
    return inlined(raw, str(picture.get("title", path.stem)), str(picture.get("caption", "")))


def _curves(folder: Path, rows: Sequence[Record]) -> str:
    try:
        figure: Figure = training_curves(rows)
    except Exception as error:  # whatever stands in the rows
        path = folder / "metrics.jsonl"
        raise StoreError(
            f"{path} does not hold rows of a training ({first_line(error)}); remove the others."
        ) from error
    return inlined(picture_bytes(figure), "Training", _CURVES_CAPTION)


def inlined(raw: bytes, title: str, caption: str) -> str:
    """A PNG inside the page, with a title and a caption."""
    title, caption = html.escape(title), html.escape(caption)
    data = base64.b64encode(raw).decode()
    image = f'<img alt="{title}" src="data:image/png;base64,{data}">'
    words = f"<figcaption><b>{title}.</b> {caption}</figcaption>"
    return f'<figure><div class="scroll">{image}</div>{words}</figure>\n'


def show(value: Any) -> str:
    """A value for people: four significant digits, thousands apart, a dash for nothing."""
    if value is None:
        return "\u2013"
    if isinstance(value, bool | str):
        return str(value)
    if isinstance(value, dict):
        return ", ".join(f"{name} {show(item)}" for name, item in value.items())
    if isinstance(value, list | tuple | np.ndarray):
        return ", ".join(show(item) for item in value)
    if isinstance(value, float | np.floating):
        whole = abs(value) >= 1000 and np.isfinite(value)
        return f"{value:,.0f}" if whole else f"{value:.4g}"
    return f"{value:,}" if isinstance(value, int | np.integer) else str(value)
