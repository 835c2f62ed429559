"""Lines of the documents about the tasks of simulation-based inference, from their rows."""

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
