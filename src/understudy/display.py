"""How results show themselves: a verdict, a table, how they were made and what to do next."""

import textwrap
from collections.abc import Mapping
from html import escape
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from understudy.core import HasSites, Target

if TYPE_CHECKING:
    import pandas

LEVELS = (0.05, 0.5, 0.95)
"""The quantiles that tables of draws show."""

_ROWS = 12
_WIDTH = 96


def entries(draws: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """Every real entry of every site as its own column: ``mu`` of two entries as mu[0] and mu[1]."""
    made: dict[str, np.ndarray] = {}
    for name, value in draws.items():
        rows = np.asarray(value)
        if np.iscomplexobj(rows):  # no quantiles
            continue
        for place in np.ndindex(rows.shape[1:]):
            label = name + (f"[{','.join(map(str, place))}]" if place else "")
            while label in made:
                label += "'"
            made[label] = rows[(slice(None), *place)]
    return made


def coordinate_names(target: Target) -> list[str]:
    """A name for every number of a flat draw, by the site it fills; z[0], z[1], ... without sites."""
    sites = target.sites if isinstance(target, HasSites) else ()
    names = [name for site in sites for name in entries({site.name: np.zeros((1, *site.shape))})]
    return names if len(names) == target.dim else [f"z[{i}]" for i in range(target.dim)]


def varying(columns: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The columns that are not constant but for rounding; all of them where every one is."""
    return {name: column for name, column in columns.items() if _varies(column)} or dict(columns)


def _varies(column: np.ndarray) -> bool:
    values = np.asarray(column, float)
    if not np.isfinite(values).all():
        return bool((column != column[:1]).any())
    return bool(np.ptp(values) > 1e-12 * np.abs(values).max(initial=0.0)) if len(values) else False


def table_of_draws(draws: Mapping[str, Any], error: float = 0.0) -> "pandas.DataFrame":
    """Mean, deviation, quantiles and the mean's standard error of every number that varies.

    Args:
        draws: by site, one row a draw, independent of each other.
        error: of the means beside that of so many draws, in deviations.
    """
    import pandas

    columns = varying(entries(draws))
    made = {}
    with np.errstate(over="ignore", invalid="ignore"):
        for name, column in columns.items():
            numbers = np.asarray(column, float)
            deviation = numbers.std()
            mcse = deviation * np.sqrt(1 / len(numbers) + error**2)
            made[name] = [numbers.mean(), deviation, *np.quantile(numbers, LEVELS), mcse]
    heads = ["mean", "sd", *(f"{100 * level:.0f}%" for level in LEVELS), "mcse"]
    return pandas.DataFrame.from_dict(made, orient="index", columns=heads)


class Explained(NamedTuple):
    """A result in words, short enough for a terminal.

    Attributes:
        title: what it is.
        verdict: whether to rely on it, in a sentence.
        table: a table of it.
        made: how it was made, a sentence.
        advice: what to do next, a sentence.
        more: what shows the rows that a long table leaves out.
    """

    title: str
    verdict: str
    table: "pandas.DataFrame"
    made: str
    advice: str
    more: str = "summary()"

    def __str__(self) -> str:
        words = [textwrap.fill(text, _WIDTH) for text in (self.verdict, self.made, self.advice)]
        table = [*_lines(self._shown()), *self._rest()]
        return "\n".join([self.title, words[0], "", *table, "", *words[1:]])

    def html(self) -> str:
        """The same for a notebook."""
        head, *rows = _cells(self._shown())
        top = "".join(f"<th>{escape(cell)}</th>" for cell in head)
        body = "".join(f"<tr>{''.join(f'<td>{escape(c)}</td>' for c in row)}</tr>" for row in rows)
        after = "".join(f"<p>{escape(text)}</p>" for text in (*self._rest(), self.made, self.advice))
        before = f"<p><b>{escape(self.title)}</b><br>{escape(self.verdict)}</p>"
        return f"<div>{before}<table><tr>{top}</tr>{body}</table>{after}</div>"

    def _shown(self) -> "pandas.DataFrame":
        return self.table if len(self.table) <= _ROWS + 2 else self.table.iloc[:_ROWS]

    def _rest(self) -> list[str]:
        left = len(self.table) - len(self._shown())
        return [f"... and {left:,} more rows; {self.more} gives all."] if left else []


def _cells(table: "pandas.DataFrame") -> list[list[str]]:
    rows = [[_short(str(name)), *(f"{v:.3g}" for v in row)] for name, row in _rows(table)]
    return [["", *map(str, table.columns)], *rows]


def _rows(table: "pandas.DataFrame") -> list[tuple[Any, np.ndarray]]:
    return list(zip(table.index, table.to_numpy(float), strict=True))


def _lines(table: "pandas.DataFrame") -> list[str]:
    cells = _cells(table)
    widths = [max(len(row[i]) for row in cells) for i in range(len(cells[0]))]
    return [
        "  ".join(
            [row[0].ljust(widths[0]), *(c.rjust(w) for c, w in zip(row[1:], widths[1:], strict=True))]
        )
        for row in cells
    ]


def _short(name: str, most: int = 32) -> str:
    name = "".join(c if c.isprintable() else "?" for c in name)
    return name if len(name) <= most else f"{name[: most - 3]}..."
