"""The table and the picture of the Bayesian networks, from their rows."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from experiments.bnn.predictions import Arrays, predictions_of

Row = Mapping[str, Any]

METHODS = (
    "VI (paper)",
    "AMC (paper)",
    "MALA-100 (paper)",
    "MALA-10 (paper)",
    "VI",
    "VI calibrated",
    "AMC",
    "MALA-100",
    "MALA-10",
    "VI mixture",
    "finished",
    "taught mixture",
    "HMC",
)
MATCHING = ("AMC (paper)", "AMC")
# Students whose own draws predict; a student whose draws chains move before they predict; students whose
# loss uses the draws of a teacher.
AMORTISED = (*MATCHING, "taught mixture")
REFINED = ("finished",)
TAUGHT = AMORTISED
OURS = "finished"
BINS = 15
COLOURS = {
    "VI": "#8c959f",
    "VI mixture": "#d4a72c",
    "AMC": "#bc4c00",
    "MALA-100": "#8250df",
    "MALA-10": "#c297ff",
    "finished": "#1f6feb",
    "taught mixture": "#1a7f37",
    "HMC": "#24292f",
}
PAPER = {
    "australian-A1": (-0.633, 0.008, -0.666, 0.015, -0.636, 0.010),
    "breast": (-0.096, 0.010, -0.091, 0.008, -0.094, 0.010),
    "colon": (-0.799, 0.246, -0.491, 0.104, -0.420, 0.027),
    "crabs": (-0.221, 0.012, -0.115, 0.011, -0.179, 0.010),
    "ionosphere": (-0.241, 0.019, -0.230, 0.031, -0.179, 0.013),
    "pima": (-0.503, 0.010, -0.506, 0.013, -0.498, 0.012),
    "sonar": (-0.389, 0.025, -0.347, 0.030, -0.366, 0.021),
}


def values(rows: Sequence[Row], dataset: str, method: str, name: str) -> np.ndarray:
    """One number for every split, in their order; empty where the method did not run."""
    found = {r["split"]: r[name] for r in rows if r["dataset"] == dataset and r["method"] == method}
    return np.asarray([found[split] for split in sorted(found)], float)


def datasets(rows: Sequence[Row]) -> list[str]:
    """The sets with rows, by name."""
    return sorted({row["dataset"] for row in rows})


def standard_error(numbers: np.ndarray) -> float:
    """Of the mean."""
    return float(numbers.std(ddof=1) / len(numbers) ** 0.5) if len(numbers) > 1 else float("nan")


def paired(a: np.ndarray, b: np.ndarray) -> tuple[float, float]:
    """The mean difference over splits, and its standard error."""
    return float((a - b).mean()), standard_error(a - b)


def summaries(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """Means over splits for every set and method."""
    names = ("test_ll", "test_error", "ece", "train_seconds")
    made = []
    for dataset in datasets(rows):
        for method in METHODS:
            columns = {name: values(rows, dataset, method, name) for name in names}
            if len(columns["test_ll"]):
                means = {name: float(column.mean()) for name, column in columns.items()}
                made.append({"dataset": dataset, "method": method} | means)
    return made


def cells(rows: Sequence[Row], dataset: str, name: str, methods: Sequence[str], best) -> list[str]:
    """Mean and standard error of every method; bold for the best and what ties with it.

    A method ties if its paired difference to the best is within two standard errors.
    """
    columns = {method: values(rows, dataset, method, name) for method in methods}
    there = {method: column for method, column in columns.items() if len(column)}
    if not there:
        return [""] * len(methods)
    leader = best(there, key=lambda method: there[method].mean())
    made = []
    for method, column in columns.items():
        if not len(column):
            made.append("")
            continue
        apart, error = paired(column, there[leader])
        text = f"{column.mean():.3f} ± {standard_error(column):.3f}"
        tied = method == leader or abs(apart) <= 2 * error
        made.append(f"**{text}**" if tied else text)
    return made


def goals(rows: Sequence[Row]) -> dict[str, Any]:
    """What the experiment was set out to reach, counted over the sets that ran."""
    one = [_of_set(rows, dataset) for dataset in datasets(rows)]
    proper = [found for found in one if found["dataset"] != "australian-A1"]

    def count(name: str, among: Sequence[dict]) -> int:
        return sum(bool(found[name]) for found in among if found.get(name) is not None)

    return {
        "sets": len(proper),
        "paper_reached": count("paper_reached", one),
        "paper_reached_by_amortised": count("paper_reached_by_amortised", one),
        "paper_reached_by_energy_matching": count("paper_reached_by_energy_matching", one),
        "better_than_vi": count("better_than_vi", proper),
        "worse_than_vi": count("worse_than_vi", proper),
        "worse_than_mala": count("worse_than_mala", proper),
        "largest_time_over_mala": max((f.get("time_over_mala") or 0 for f in proper), default=0),
        "largest_gap_to_hmc": max((f.get("gap_to_hmc", -9.0) for f in proper), default=None),
        "calibrated_like_vi": count("calibrated_like_vi", proper),
    }


def _of_set(rows: Sequence[Row], dataset: str) -> dict[str, Any]:
    got = {method: values(rows, dataset, method, "test_ll") for method in METHODS}
    found: dict[str, Any] = {"dataset": dataset}
    if dataset in PAPER:
        mean, error = PAPER[dataset][2:4]
        reached = {m for m in METHODS if len(got[m]) and got[m].mean() >= mean - error}
        found["paper_reached"] = bool(reached & {*AMORTISED, *REFINED})
        found["paper_reached_by_amortised"] = bool(reached & {*AMORTISED})
        found["paper_reached_by_energy_matching"] = bool(reached & {*MATCHING})
    ours = got[OURS]
    if len(ours) and len(got["VI"]):
        apart, error = paired(ours, got["VI"])
        found["better_than_vi"], found["worse_than_vi"] = apart > 2 * error, apart < -2 * error
        found["calibrated_like_vi"] = mean_ece(rows, dataset, OURS) <= mean_ece(rows, dataset, "VI")
    if len(ours) and len(got["MALA-100"]):
        apart, error = paired(ours, got["MALA-100"])
        found["worse_than_mala"] = apart < -error
        times = [values(rows, dataset, m, "train_seconds").mean() for m in (OURS, "MALA-100")]
        found["time_over_mala"] = float(times[0] / times[1])
    if len(ours) and len(got["HMC"]):
        found["gap_to_hmc"] = float(got["HMC"].mean() - ours.mean())
    return found


def goal_line(rows: Sequence[Row], arrays: Arrays, dataset: str) -> list[str]:
    """One set: the paper's figure, the best of each kind of ours, and ours less others'."""
    got = {method: values(rows, dataset, method, "test_ll") for method in METHODS}
    ours = got[OURS]
    times = [values(rows, dataset, m, "train_seconds") for m in (OURS, "MALA-100")]
    hats = [row["rhat_median"] for row in rows if row["dataset"] == dataset and row["method"] == "HMC"]
    paper = PAPER.get(dataset)
    return [
        f"{paper[2]:.3f} ± {paper[3]:.3f}" if paper else "",
        *(_best(got, kind) for kind in (MATCHING, AMORTISED, REFINED)),
        *(_difference(ours, got[other]) for other in ("VI", "VI calibrated", "MALA-100")),
        f"{times[0].mean() / times[1].mean():.2f}" if len(times[0]) and len(times[1]) else "",
        _difference(ours, got["HMC"]),
        f"{np.median(hats):.2f}" if hats else "",
        " / ".join(f"{mean_ece(rows, dataset, m):.3f}" for m in (OURS, "VI") if len(got[m])),
        " / ".join(f"{pooled_ece(rows, arrays, dataset, m):.3f}" for m in (OURS, "VI") if len(got[m])),
    ]


def _best(got: Mapping[str, np.ndarray], methods: Sequence[str]) -> str:
    means = [got[method].mean() for method in methods if len(got[method])]
    return f"{max(means):.3f}" if means else ""


def _difference(a: np.ndarray, b: np.ndarray) -> str:
    if not len(a) or len(a) != len(b):
        return ""
    apart, error = paired(a, b)
    return f"{apart:+.3f} ± {error:.3f}"


def mean_ece(rows: Sequence[Row], dataset: str, method: str) -> float:
    """The mean over splits of the expected calibration error."""
    return float(values(rows, dataset, method, "ece").mean())


def calibration_error(mean: Any, labels: Any, bins: int = BINS) -> float:
    """Expected calibration error: sum over bins of |mean probability - share of ones| by their size.

    Reference: Guo et al., "On calibration of modern neural networks", 2017 (for class 1).
    """
    mean, labels = np.ravel(np.asarray(mean, np.float64)), np.ravel(np.asarray(labels, np.float64))
    which = np.minimum((mean * bins).astype(int), bins - 1)
    gaps = np.bincount(which, mean, bins) - np.bincount(which, labels, bins)
    return float(np.abs(gaps).sum() / len(mean))


def pooled_ece(rows: Sequence[Row], arrays: Arrays, dataset: str, method: str) -> float:
    """The expected calibration error of all splits' predictions together."""
    mine = [row for row in rows if row["dataset"] == dataset and row["method"] == method]
    told, truth = zip(*(predictions_of(arrays, row) for row in mine), strict=True)
    return calibration_error(np.concatenate(told), np.concatenate(truth))


def bnn_figure(rows: Sequence[Row]) -> Figure:
    """Negative test log-likelihood and error against CPU time, on a log axis, for every set."""
    names = datasets(rows)
    figure = Figure(figsize=(3.0 * max(len(names), 1), 6.0), layout="constrained")
    panels = figure.subplots(2, max(len(names), 1), squeeze=False)
    for column, dataset in zip(panels.T, names, strict=False):
        for axes, (curve, last, sign, label) in zip(
            column,
            (
                ("curve_ll", "test_ll", -1, "negative test log-likelihood"),
                ("curve_error", "test_error", 1, "test error"),
            ),
            strict=True,
        ):
            for method, colour in COLOURS.items():
                _line(axes, [r for r in rows if r["dataset"] == dataset and r["method"] == method],
                      (curve, last, sign), method, colour)  # fmt: skip
            axes.set_xscale("log")
            axes.set_xlabel("CPU seconds a split", fontsize=8)
            axes.set_ylabel(label, fontsize=8)
            axes.spines[["top", "right"]].set_visible(False)
        column[0].set_title(dataset, fontsize=10)
    if names:
        panels[0, 0].legend(frameon=False, fontsize=7)
    return figure


def _line(axes, rows: Sequence[Row], what: tuple[str, str, int], method: str, colour: str) -> None:
    curve, last, sign = what
    if not rows:
        return
    if rows[0].get(curve) is not None:
        seconds = np.mean([row["curve_seconds"] for row in rows], axis=0)
        heights = sign * np.asarray([row[curve] for row in rows])
        mean, error = heights.mean(0), heights.std(0) / len(rows) ** 0.5
        axes.plot(seconds, mean, color=colour, linewidth=1.2, label=method)
        axes.fill_between(seconds, mean - error, mean + error, color=colour, alpha=0.15, linewidth=0)
        return
    at = np.mean([row["train_seconds"] for row in rows])
    axes.plot(at, sign * np.mean([row[last] for row in rows]), "o", color=colour, label=method)
