"""Tables of the suite of posteriors, from its rows."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from understudy import files

Row = dict[str, Any]

GOALS = ("figure", "open part", "held out")
FAMILIES = (
    "kind",
    "posteriors",
    "right and trusted",
    "right by default",
    "wrong and trusted",
    "median s",
)
EACH = (
    *("posterior", "d", "held out", "trusted", "own draws", "by default", "W1, own", "gradients"),
    *("s", "processor s"),
)
LEAVE_ONE_OUT = ("figure", "fit", "NUTS")


def rows_of(results: Path) -> list[Row]:
    """The rows of the suite."""
    return files.read_rows(results / "posteriors.jsonl")


def goals(results: Path) -> list[tuple[str, ...]]:
    """What was asked for, on the part that was looked at and on the part that was not."""
    rows = rows_of(results)
    parts = [[row for row in rows if row["held_out"] is held] for held in (False, True)]
    lines = [
        ("proper posteriors refused", lambda part: _of(part, lambda r: r["refused"] is not None)),
        ("wrong and trusted", lambda part: _of(part, _wrong_and_trusted)),
        ("right and trusted, the student's own draws", lambda part: _of(part, _right_and_trusted)),
        ("right draws by default", lambda part: _of(part, _right_by_default)),
        ("improper posteriors called so", _improper),
        ("median seconds of a fit, compilation included", _seconds),
        ("processor seconds of a fit over those of NUTS, median", _over_nuts),
    ]
    found = [(name, *(figure(part) for part in parts)) for name, figure in lines]
    return [line for line in found if any(line[1:])]


def families(results: Path) -> list[tuple[str, ...]]:
    """The same by the kind of model."""
    rows = [row for row in rows_of(results) if not row["improper"]]
    kinds = list(dict.fromkeys(row["family"] for row in rows))
    parts = {kind: [row for row in rows if row["family"] == kind] for kind in kinds}
    return [
        (
            kind,
            str(len(part)),
            *(str(_count(part, f)) for f in (_right_and_trusted, _right_by_default, _wrong_and_trusted)),
            _seconds(part),
        )
        for kind, part in parts.items()
    ]


def each(results: Path) -> list[tuple[str, ...]]:
    """One line a posterior."""
    return [_line(row) for row in rows_of(results)]


def _line(row: Row) -> tuple[str, ...]:
    held = "yes" if row["held_out"] else ""
    if row["refused"] is not None or row["improper"]:
        verdict = "called improper" if row["refused"] else "not called improper"
        return (row["name"], str(row["dim"]), held, verdict, *[""] * 4, f"{row['fit_seconds']:.0f}", "")
    right = ["right" if row[which]["right"] else "wrong" for which in ("own", "given")]
    trusted = "yes" if row["trusted"] else "no"
    figures = (f"{row['own']['w1']:.3f}", f"{row['gradients']:,}")
    seconds = (f"{row[name]:.0f}" for name in ("fit_seconds", "processor_seconds"))
    return (row["name"], str(row["dim"]), held, trusted, *right, *figures, *seconds)


def leave_one_out(results: Path) -> list[tuple[str, ...]]:
    """LOO of eight schools with draws of a fit and of NUTS, medians over seeds of the draws."""
    (row,) = files.read_rows(results / "leave_one_out.jsonl")
    pairs = (("largest Pareto k", "k", ".2f"), ("expected log predictive density", "elpd", ".1f"))
    return [
        (what, *(f"{row[f'{of}_{name}']:{form}}" for of in ("fit", "nuts")))
        for what, name, form in pairs
    ]


def _right_and_trusted(row: Row) -> bool:
    return row["refused"] is None and row["trusted"] and bool(row["own"]["right"])


def _wrong_and_trusted(row: Row) -> bool:
    return row["refused"] is None and row["trusted"] and not row["own"]["right"]


def _right_by_default(row: Row) -> bool:
    return row["refused"] is None and bool(row["given"]["right"])


def _count(rows: Iterable[Row], holds: Any) -> int:
    return sum(bool(holds(row)) for row in rows)


def _of(rows: list[Row], holds: Any) -> str:
    proper = [row for row in rows if not row["improper"]]
    return f"{_count(proper, holds)} of {len(proper)}"


def _improper(rows: list[Row]) -> str:
    improper = [row for row in rows if row["improper"]]
    return f"{_count(improper, lambda r: r['refused'] is not None)} of {len(improper)}"


def _seconds(rows: list[Row]) -> str:
    proper = [row["fit_seconds"] for row in rows if not row["improper"]]
    return f"{np.median(proper):.0f}" if proper else ""


def _over_nuts(rows: list[Row]) -> str:
    """NUTS with four chains of 1,000 adapting steps and 1,000 draws, compilation included in both."""
    ratios = [row["processor_seconds"] / row["nuts_seconds"] for row in rows if "nuts_seconds" in row]
    return f"{np.median(ratios):.2f}" if ratios else ""
