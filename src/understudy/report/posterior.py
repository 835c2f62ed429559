"""One self-contained page about a posterior: stages, costs, trust, marginals and pairs."""

import html
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from understudy import files
from understudy.report.figures import (
    EXACT,
    QUIET,
    STUDENT,
    blank_panels,
    picture_bytes,
    plain_text,
)
from understudy.report.page import as_bytes, document, figures_table, inlined, show

Arrays = Mapping[str, np.ndarray]

_COLOURS = {"ok": "#1a7f37", "warn": "#9a6700", "fail": "#cf222e"}
_MOST_MARGINALS, _MOST_PAIRS = 24, 5


def write_posterior_report(
    path: str | Path, result: Any, trust: Any, even: Any, columns: Arrays
) -> Path:
    """Write the page.

    Args:
        path: of the page.
        result: a posterior, for its stages and costs.
        trust: what its check found.
        even: its break-even against NUTS.
        columns: draws to show, one row a draw, by name.
    """
    parts = [
        trust_table(trust),
        *(finding_picture(finding) for finding in trust.findings),
        stages_table(result.stages),
        figures_table(_costs(result, even)),
        f"<p>{html.escape(str(even))}</p>",
        "<h2>Draws</h2>",
        _summary(columns),
        inlined(picture_bytes(marginals(columns)), "Marginals", _first(columns, _MOST_MARGINALS)),
    ]
    if len(columns) > 1:
        parts.append(inlined(picture_bytes(pairs(columns)), "Pairs", _first(columns, _MOST_PAIRS)))
    word = "can be trusted as far as these tests see" if trust.trusted else "should not be trusted"
    lead = f"{result.target.dim} unconstrained dimensions. The draws {word}."
    page = document("Posterior", lead, [part for part in parts if part])
    files.replace_file(path, [as_bytes(page)])
    return Path(path)


def marginals(columns: Arrays) -> Figure:
    """A histogram of every column, as far as there is room."""
    shown = list(columns.items())[:_MOST_MARGINALS]
    across = min(4, len(shown))
    figure = Figure(figsize=(2.4 * across, 1.7 * -(-len(shown) // across)), layout="constrained")
    places = list(figure.subplots(-(-len(shown) // across), across, squeeze=False).flat)
    for axes in places[len(shown) :]:
        axes.set_axis_off()
    for axes, (name, column) in zip(places, shown, strict=False):
        axes.hist(_middle(column), bins=60, density=True, color=STUDENT, alpha=0.7)
        axes.set_title(plain_text(name), fontsize=9)
        axes.set_yticks([])
        axes.tick_params(labelsize=7)
    return figure


def pairs(columns: Arrays) -> Figure:
    """Scatters of the first few columns against each other."""
    names = list(columns)[:_MOST_PAIRS]
    figure = Figure(figsize=(1.9 * len(names), 1.9 * len(names)), layout="constrained")
    grid = figure.subplots(len(names), len(names), squeeze=False)
    for (i, j), axes in np.ndenumerate(grid):
        axes.tick_params(labelsize=6)
        if i == j:
            axes.hist(_middle(columns[names[i]]), bins=50, color=STUDENT, alpha=0.7)
            axes.set_yticks([])
        elif i > j:
            points = columns[names[j]][:2000], columns[names[i]][:2000]
            axes.scatter(*points, s=2, alpha=0.3, color=STUDENT, linewidths=0, rasterized=True)
        else:
            axes.set_axis_off()
        if i == len(names) - 1:
            axes.set_xlabel(plain_text(names[j]), fontsize=8)
        if j == 0:
            axes.set_ylabel(plain_text(names[i]), fontsize=8)
    return figure


def _middle(column: np.ndarray) -> np.ndarray:
    column = column[np.isfinite(column)]
    low, high = np.quantile(column, [0.0005, 0.9995]) if len(column) else (0, 0)
    return column[(column >= low) & (column <= high)]


def _first(columns: Arrays, most: int) -> str:
    return f"The first {most} of {len(columns)} columns." if len(columns) > most else "All columns."


def _summary(columns: Arrays) -> str:
    heads = ("site", "mean", "sd", "5 %", "median", "95 %")
    lines = []
    for name, column in list(columns.items())[:60]:
        figures = (column.mean(), column.std(), *np.quantile(column, [0.05, 0.5, 0.95]))
        lines.append([name, *(f"{value:.4g}" for value in figures)])
    return _table(heads, lines)


def _table(heads: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """A table of plain text; a verdict is shown in its colour."""
    top = "".join(f"<th>{html.escape(head)}</th>" for head in heads)
    rows = ["".join(f"<td>{_cell(text)}</td>" for text in line) for line in lines]
    body = "\n".join(f"<tr>{row}</tr>" for row in rows)
    return f'<div class="scroll"><table><tr>{top}</tr>\n{body}</table></div>'


def _cell(text: str) -> str:
    colour = _COLOURS.get(text)
    return f'<b style="color:{colour}">{text}</b>' if colour else html.escape(text)


def trust_table(trust: Any) -> str:
    """Every test with its figure, its verdict and what it means."""
    lines = [(f.name, show(float(f.figure)), f.verdict, f.words) for f in trust.findings]
    return "<h2>Trust</h2>\n" + _table(("test", "figure", "verdict", "meaning"), lines)


def stages_table(stages: Sequence[Any]) -> str:
    """What every stage did and cost."""
    if not stages:
        return ""
    heads = ("stage", "what it did", "acceptance", "gradients", "run s", "compile s", "kept")
    lines = [
        (
            stage.name,
            stage.note,
            "" if math.isnan(stage.acceptance) else f"{stage.acceptance:.3f}",
            f"{stage.gradients:,}",
            f"{stage.seconds:.1f}",
            f"{stage.compile_seconds:.1f}",
            "yes" if stage.kept else "",
        )
        for stage in stages
    ]
    return "<h2>Stages</h2>\n" + _table(heads, lines)


def _costs(result: Any, even: Any) -> list[dict[str, Any]]:
    rows = (
        ("gradients", result.gradients, "gradient evaluations of the log density spent on the fit"),
        ("evaluations", result.evaluations, "evaluations without a gradient spent on the fit"),
        ("run seconds", float(result.seconds), "run time of the fit, without compilation"),
        ("compile seconds", float(result.compile_seconds), "spent compiling"),
        ("draws per second", float(even.draws_per_second), "named draws, measured"),
        ("break-even draws", float(even.draws), "effective draws from which the fit pays against NUTS"),
    )
    return [{"name": name, "value": value, "meaning": meaning} for name, value, meaning in rows]


def finding_picture(finding: Any) -> str:
    """The picture of a test, empty where there is none."""
    draw = _PICTURES.get(finding.name)
    if draw is None or not finding.pictures:
        return ""
    figure, (axes,) = blank_panels(1, (7.2, 2.6))
    try:
        caption = draw(axes, finding.pictures)
    except KeyError:  # a test that ended early has fewer arrays
        return ""
    return inlined(picture_bytes(figure), finding.name.capitalize(), caption)


def _gap(axes: Axes, pictures: Arrays) -> str:
    t = np.abs(pictures["t"]).ravel()
    axes.bar(np.arange(len(t)), t, color=STUDENT)
    axes.set(xlabel="feature", ylabel="|t|")
    return "How far the teacher moves each feature of the draws, in standard errors."


def _drift(axes: Axes, pictures: Arrays) -> str:
    mean, error = pictures["mean"], pictures["mean_error"]
    axes.errorbar(np.arange(len(mean)), mean, yerr=2 * error, fmt="o", color=STUDENT, markersize=3)
    axes.axhline(0, color=QUIET, linewidth=0.8)
    axes.set(xlabel="coordinate", ylabel="move of the mean (sd)")
    return "How far the teacher moves the mean of each coordinate, with two standard errors."


def _weights(axes: Axes, pictures: Arrays) -> str:
    axes.plot(pictures["rank"], pictures["log_weight"], color=STUDENT)
    axes.set(xlabel="rank", ylabel="log weight", xscale="log")
    return "Log importance weights from the largest on; a steep start means few draws carry all weight."


def _classifier(axes: Axes, pictures: Arrays) -> str:
    for name, colour in (("student", STUDENT), ("refined", EXACT)):
        axes.stairs(pictures[name], pictures["edges"], color=colour, label=name)
    axes.legend(frameon=False)
    axes.set(xlabel="score of the classifier", ylabel="draws")
    return "Where the two histograms agree the classifier cannot tell student from refined draws."


def _modes(axes: Axes, pictures: Arrays) -> str:
    if "mass" in pictures:
        places = np.arange(len(pictures["mass"]))
        axes.bar(places - 0.2, pictures["mass"], 0.4, color=EXACT, label="mass of the target")
        axes.bar(places + 0.2, pictures["share"], 0.4, color=STUDENT, label="share of the draws")
        axes.legend(frameon=False)
        axes.set(xlabel="peak", ylabel="share")
        return "What each peak holds of the target and of the student's draws."
    ends, own = pictures["ends"], pictures["own"].astype(bool)
    second = ends[:, 1] if ends.shape[1] > 1 else pictures["values"]
    axes.scatter(ends[own, 0], second[own], s=14, color=STUDENT, label="from the student's draws")
    axes.scatter(ends[~own, 0], second[~own], s=6, color=EXACT, label="from elsewhere")
    for low, high, set_limits in ((*axes.get_xlim(), axes.set_xlim), (*axes.get_ylim(), axes.set_ylim)):
        # Climbs to one peak end within rounding of each other, which is nothing to look at.
        set_limits(low - 0.05 * (1 + abs(low)), high + 0.05 * (1 + abs(high)))
    axes.legend(frameon=False)
    return "Where climbs end, in the first two coordinates (in one dimension: and log density)."


def _seeds(axes: Axes, pictures: Arrays) -> str:
    for i, row in enumerate(np.atleast_2d(pictures["means"])):
        axes.plot(np.arange(len(row)), row, ".", label=f"seed {i}")
    axes.axhline(0, color=QUIET, linewidth=0.8)
    axes.set(xlabel="coordinate", ylabel="mean, about their average")
    return "Means of the fits of different seeds."


def _calibration(axes: Axes, pictures: Arrays) -> str:
    for counts in np.atleast_2d(pictures["counts"]):
        axes.stairs(counts, pictures["edges"], color=STUDENT, alpha=0.5)
    axes.set(xlabel="rank of the true value", ylabel="simulations")
    return "Ranks of true values among draws; flat where the student is calibrated."


def _shares(axes: Axes, pictures: Arrays) -> str:
    axes.stairs(pictures["counts"], pictures["edges"], color=STUDENT)
    axes.axhline(pictures["counts"].mean(), color=QUIET, linewidth=0.8)
    axes.set(xlabel="share of the draws", ylabel="simulations")
    return "Shares of draws over simulated data sets; flat where the student is right."


def _recovery(axes: Axes, pictures: Arrays) -> str:
    truth, mean = pictures["truth"], pictures["mean"]
    for i in range(min(truth.shape[1], _MOST_PAIRS)):
        axes.scatter(truth[:, i], mean[:, i], s=4, alpha=0.5, linewidths=0)
    axes.set(xlabel="truth, unconstrained", ylabel="posterior mean")
    return "Posterior means against the truths that made the data; the first few coordinates."


def _scores(axes: Axes, pictures: Arrays) -> str:
    axes.hist(pictures["z"].ravel(), bins=60, density=True, color=STUDENT, alpha=0.7)
    grid = np.linspace(-4, 4, 200)
    axes.plot(grid, np.exp(-(grid**2) / 2) / np.sqrt(2 * np.pi), color=EXACT)
    axes.set(xlabel="posterior z", ylabel="density")
    return "How far truths lie from posterior means, in deviations; about the curve where all is right."


def _tails(axes: Axes, pictures: Arrays) -> str:
    axes.hist(np.clip(pictures["pareto_k"], -0.5, 2), bins=50, color=STUDENT, alpha=0.7)
    axes.axvline(0.7, color=QUIET, linewidth=0.8)
    axes.set(xlabel="Pareto k", ylabel="simulations")
    return "Tails of the weights over simulated data sets; those right of the line need chains."


_PICTURES: dict[str, Callable[[Axes, Arrays], str]] = {
    "teacher gap": _gap,
    "drift": _drift,
    "importance weights": _weights,
    "classifier": _classifier,
    "modes": _modes,
    "seeds": _seeds,
    "calibration": _calibration,
    "expected coverage": _shares,
    "TARP": _shares,
    "likelihood of the truth": _shares,
    "recovery": _recovery,
    "posterior z": _scores,
    "weights over data sets": _tails,
}
