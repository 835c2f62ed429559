"""Lines of the documents about amortising, from their rows."""

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.sbi import METHODS, ROWS
from benchmarks.sbi_tasks import TASKS
from understudy import files
from understudy.amortising.amortised import ROUTES

Row = Mapping[str, Any]

RIVALS = ("sbi NPE", "bayesflow FM")
C2ST = ("task", "observations", "student", "finished", "worst", *RIVALS)
"""Header of the classifier's accuracies."""
COSTS = ("task", *ROUTES, "trusted", "training, s", "simulations", "likelihoods", "gradients")
"""Header of how the draws came about, and of what they cost."""
FAULTS = ("planted", "flagged", "warned only", "tests that fail")
"""Header of what the check of an amortised model sees."""
STRANGERS = (
    "model",
    "simulations",
    "routes",
    "trusted",
    "worst mean",
    "worst sd",
    "check",
    "a posterior, ms",
)
"""Header of models that nothing was built with."""
WORKFLOW = ("figure", "measured")
"""Header of one model of the workflow."""


def accuracies(results: Path) -> list[list[str]]:
    """Mean C2ST over observations by task and method; the worst of the finished draws."""
    found = _by_task(results)
    return [
        [
            task,
            str(len({row["observation"] for row in rows if row["method"] == METHODS[1]})),
            *(_mean(rows, method) for method in METHODS),
            _shown(max((r["c2st"] for r in rows if r["method"] == METHODS[1]), default=None)),
            *(_mean(rows, method) for method in RIVALS),
        ]
        for task, rows in found.items()
    ]


def costs(results: Path) -> list[list[str]]:
    """Routes and costs of the finished draws, a task a line; evaluations of one data set."""
    lines = []
    for task, rows in _by_task(results).items():
        finished = [row for row in rows if row["method"] == METHODS[1]]
        if not finished:
            continue
        routes = Counter(row["route"] for row in finished)
        trusted = f"{sum(row['trusted'] for row in finished)} of {len(finished)}"
        figures = (finished[0]["train_seconds"], finished[0]["simulations"])
        each = (np.median([row[name] for row in finished]) for name in ("likelihoods", "gradients"))
        numbers = [f"{figure:,.0f}" for figure in (*figures, *each)]
        lines.append([task, *(str(routes[route]) for route in ROUTES), trusted, *numbers])
    return lines


def faults(results: Path) -> list[list[str]]:
    """How often every planted fault was flagged, and by which tests."""
    rows = files.read_rows(results / "faults.jsonl")
    return [
        [
            row["name"],
            f"{row['flagged']} of {row['seeds']}",
            str(row["warned"]),
            ", ".join(f"{test} {count}" for test, count in row["tests"].items()),
        ]
        for row in rows
    ]


def strangers(results: Path) -> list[list[str]]:
    """How far from NUTS the draws of every model are at worst, and what its check says."""
    return [_stranger(row) for row in files.read_rows(results / "strangers.jsonl")]


def _stranger(row: Row) -> list[str]:
    sets = row["data_sets"]
    routes = ", ".join(f"{count} {route}" for route, count in Counter(s["route"] for s in sets).items())
    failed = [test for test, verdict in row["verdicts"].items() if verdict == "fail"]
    warned = sum(verdict == "warn" for verdict in row["verdicts"].values())
    check = f"fails {', '.join(failed)}" if failed else f"{warned} warnings" if warned else "all ok"
    served = float(np.median([one["milliseconds"] for one in sets]))
    off = (f"{row['worst_mean']:.2f} sd", f"{100 * row['worst_sd']:.0f} %")
    trusted = f"{row['trusted']} of {row['compared']}"
    return [row["name"], f"{row['simulations']:,}", routes, trusted, *off, check, f"{served:.0f}"]


def workflow(results: Path, model: str) -> list[list[str]]:
    """The figures of one model of the workflow: served, right, trusted, and what that cost."""
    rows = files.read_rows(results / "many_data_sets.jsonl")
    (row,) = (one for one in rows if one["kind"] == "model" and one["model"] == model)
    count, shifted = row["data_sets"], row["data_sets"] // 5
    shares = (row["shifted_without_chains"], row["shifted_without_chains_taught"])
    return [
        ["data sets, of which shifted", f"{count}, {shifted}"],
        ["unshifted ones served without chains; trusted", _both(row["without_chains"], row["trusted"])],
        ["truths inside the central 90 % of the draws", f"{100 * row['coverage']:.0f} %"],
        [
            "within .1 sd and 10 % of NUTS, of those unshifted on which NUTS converged",
            f"{100 * row['near']:.0f} %",
        ],
        ["worst mean, worst standard deviation of these", _worst(row)],
        [
            "trusted but wrong (mean by .2 sd or sd by 20 %)",
            f"{row['trusted_but_wrong']} of {row['trusted_compared']}",
        ],
        ["shifted ones served without chains, before and after `teach`", _both(*shares)],
        [
            "their median effective share, before and after",
            f"{row['shifted_share']:.2f}, {row['shifted_share_taught']:.2f}",
        ],
        ["simulations, seconds of training", f"{row['simulations']:,}, {row['train_seconds']:.0f}"],
        ["1,000 draws for all data sets in one call, seconds", f"{row['sample_seconds']:.1f}"],
        ["the same over NUTS's time for them", f"{row['over_nuts']:.2f}"],
        ["pays from so many data sets on", f"{row['break_even']:,.0f}"],
    ]


def _both(one: float, other: float) -> str:
    return f"{100 * one:.0f} %, {100 * other:.0f} %"


def _worst(row: Row) -> str:
    return f"{row['worst_mean_error']:.2f} sd, {100 * row['worst_sd']:.0f} %"


def _by_task(results: Path) -> dict[str, Sequence[Row]]:
    rows = files.read_rows(results / ROWS)
    found: dict[str, Sequence[Row]] = {
        task: [row for row in rows if row["task"] == task] for task in TASKS
    }
    return {task: rows for task, rows in found.items() if rows}


def _mean(rows: Sequence[Row], method: str) -> str:
    values = [row["c2st"] for row in rows if row["method"] == method]
    return _shown(float(np.mean(values)) if values else None)


def _shown(value: float | None) -> str:
    return "" if value is None else f"{value:.3f}"
