"""Lines of the documents about amortising, from their rows."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
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
FAULTS = ("planted", "flagged", "with a warning", "tests that fail")
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


def workflow(results: Path) -> tuple[list[str], list[list[str]]]:
    """Header and lines of the workflow's models: served, right, trusted, and what that cost."""
    rows = files.read_rows(results / "many_data_sets.jsonl")
    models = [row for row in rows if row["kind"] == "model"]
    lines = [[figure, *(show(row) for row in models)] for figure, show in _WORKFLOW.items()]
    return ["figure", *(row["model"] for row in models)], lines


def _shares(*names: str) -> Callable[[Row], str]:
    return lambda row: ", ".join(f"{100 * row[name]:.0f} %" for name in names)


def _numbers(*names: str, form: str = ",.0f") -> Callable[[Row], str]:
    """Numbers side by side; none that a model has not, or that an earlier row did not measure."""

    def show(row: Row) -> str:
        found = [row.get(name) for name in names]
        return "" if None in found else ", ".join(f"{number:{form}}" for number in found)

    return show


_SHIFTED = "shifted_without_chains", "shifted_without_chains_taught"
_WORKFLOW: Mapping[str, Callable[[Row], str]] = {
    "parameters; data sets, of which shifted": lambda row: (
        f"{row['dim']}; {row['data_sets']:,}, {row['data_sets'] // 5}"
    ),
    "unshifted ones served without chains; trusted": _shares("without_chains", "trusted"),
    "truths inside the central 90 % of the draws": _shares("coverage"),
    "compared with NUTS, which converged": _numbers("compared"),
    "unshifted ones of these within .1 sd and 10 % of NUTS": _shares("near"),
    "worst mean, worst standard deviation of these": lambda row: (
        f"{row['worst_mean_error']:.2f} sd, {100 * row['worst_sd']:.0f} %"
    ),
    "trusted but wrong (mean by .2 sd or sd by 20 %)": lambda row: (
        f"{row['trusted_but_wrong']} of {row['trusted_compared']}"
    ),
    "shifted ones served without chains, before and after `teach`": _shares(*_SHIFTED),
    "their median effective share, before and after": _numbers(
        "shifted_share", "shifted_share_taught", form=".2f"
    ),
    "draws move, rows in another order, by so many sd": _numbers("permuted", form=".0e"),
    "simulations, seconds of training": _numbers("simulations", "train_seconds"),
    "1,000 draws for all data sets in one call, seconds": _numbers("sample_seconds", form=",.1f"),
    "the same over NUTS's time for them": _numbers("over_nuts", form=".3f"),
    "one posterior and 1,000 draws of it, milliseconds": _numbers("milliseconds"),
    "pays from so many data sets on": _numbers("break_even"),
}


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
