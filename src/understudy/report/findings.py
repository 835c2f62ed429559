"""Pictures of what a check of trust found."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from understudy.report.draws import MOST_PAIRS
from understudy.report.figures import EXACT, QUIET, STUDENT, Picture, blank_panels, plain_text

Arrays = Mapping[str, np.ndarray]

# More names than that cannot be read on an axis.
_NAMED = 24
_SHAPES = (
    ("place", "o", STUDENT, -0.24),
    ("scale", "s", EXACT, -0.08),
    ("skew", "D", QUIET, 0.08),
    ("tails", "^", "#bc4c00", 0.24),
)


def finding_picture(finding: Any, names: Sequence[str] = ()) -> tuple[Picture, str] | None:
    """A picture of one finding and its caption; None where there is nothing to draw.

    Args:
        finding: of a check.
        names: of the coordinates, for axes over them.
    """
    draw = _PICTURES.get(finding.name)
    if draw is None or not finding.pictures:
        return None
    figure, (axes,) = blank_panels(1, (7.2, 2.6))
    try:
        caption = draw(axes, finding.pictures)
    except KeyError:  # a test that ended early has fewer arrays
        return None
    _name_coordinates(axes, names)
    return figure, caption


def _name_coordinates(axes: Axes, names: Sequence[str]) -> None:
    """Names where a picture says "coordinate", or "coordinate 0"."""
    known = {f"coordinate {i}": plain_text(name, 24) for i, name in enumerate(names)}
    axes.set_xlabel(known.get(axes.get_xlabel(), axes.get_xlabel()))
    axes.set_ylabel(known.get(axes.get_ylabel(), axes.get_ylabel()))
    legend = axes.get_legend()
    for text in legend.get_texts() if legend else ():
        text.set_text(known.get(text.get_text(), text.get_text()))
    ticks = [text.get_text() for text in axes.get_xticklabels()]
    if known.keys() & set(ticks):
        axes.set_xticks(axes.get_xticks(), [known.get(tick, tick) for tick in ticks])
    if axes.get_xlabel() == "coordinate" and 0 < len(names) <= _NAMED:
        axes.set_xticks(range(len(names)), [plain_text(name, 16) for name in names], fontsize=8)
        axes.tick_params(axis="x", rotation=0 if len(names) < 9 else 60)


def trust_picture(findings: Sequence[Any], names: Sequence[str] = ()) -> Picture:
    """Every finding that can be drawn, one under the other, with its verdict."""
    drawn = [finding for finding in findings if finding_picture(finding) is not None]
    count = max(len(drawn), 1)
    figure, panels = blank_panels(count, (7.2, 2.3 * count), upright=True, linked=False)
    for axes, finding in zip(panels, drawn, strict=False):
        _PICTURES[finding.name](axes, finding.pictures)
        _name_coordinates(axes, names)
        axes.set_title(f"{finding.name}: {finding.verdict}", loc="left", fontsize=10)
    if not drawn:
        panels[0].set_axis_off()
    return figure


def _gap(axes: Axes, pictures: Arrays) -> str:
    shapes = np.abs(pictures["t"]).reshape(4, -1)
    columns = np.arange(shapes.shape[1])
    dim = max(len(columns) // 2, 1)  # one coordinate is not whitened
    for (shape, marker, colour, aside), t in zip(_SHAPES, shapes, strict=True):
        axes.plot(columns + aside, t, marker, color=colour, markersize=4, label=shape)
    axes.legend(
        frameon=False, ncols=4, fontsize=8, loc="lower right", bbox_to_anchor=(1, 1), borderaxespad=0
    )
    for edge in {dim, len(columns) - 1}:
        axes.axvline(edge - 0.5, color=QUIET, linewidth=0.8)
    coordinates = [f"coordinate {i}" for i in range(dim)]
    if len(columns) <= _NAMED:
        axes.set_xticks(columns, [*(2 * coordinates)[: len(columns) - 1], "log density"], fontsize=8)
    else:
        axes.set_xticks([(dim - 1) / 2, 2 * dim], ["coordinates", "log density"])
    axes.tick_params(axis="x", rotation=60 if 10 < len(columns) <= _NAMED else 0)
    axes.set(ylabel="standard errors", ylim=(0, 1.15 * axes.get_ylim()[1]))
    if dim > 1:
        place = (1.5 * dim - 0.5, 0.98)
        axes.text(*place, "whitened", transform=axes.get_xaxis_transform(), ha="center", va="top")
    return (
        "How far the teacher moves the draws, in standard errors: place, scale, skew and tails of every "
        "coordinate, of every whitened one (correlations taken out) and of the log density."
    )


def _drift(axes: Axes, pictures: Arrays) -> str:
    mean, error = pictures["mean"], pictures["mean_error"]
    axes.errorbar(np.arange(len(mean)), mean, yerr=2 * error, fmt="o", color=STUDENT, markersize=3)
    axes.axhline(0, color=QUIET, linewidth=0.8)
    axes.set(xlabel="coordinate", ylabel="move of the mean (sd)")
    return "How far the teacher moves the mean of each coordinate, with two standard errors."


def _weights(axes: Axes, pictures: Arrays) -> str:
    weights = pictures["log_weight"] - np.median(pictures["log_weight"])
    axes.plot(pictures["rank"], weights, color=STUDENT)
    axes.set(xlabel="rank", ylabel="log weight, less the median's", xscale="log")
    # The least weights go to minus infinity, and would flatten those that count.
    axes.set_ylim(bottom=max(weights.min(), -12) - 1)
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
        axes.set(xlabel="peak", ylabel="share", xticks=places, xlim=(-1, len(places)))
        return "What each peak holds of the target and of the student's draws."
    ends, own = pictures["ends"], pictures["own"].astype(bool)
    second = ends[:, 1] if ends.shape[1] > 1 else pictures["values"]
    axes.scatter(
        ends[own, 0], second[own], s=40, color=STUDENT, zorder=3, label="from the student's draws"
    )
    axes.scatter(ends[~own, 0], second[~own], s=6, color=EXACT, label="from elsewhere")
    for low, high, set_limits in ((*axes.get_xlim(), axes.set_xlim), (*axes.get_ylim(), axes.set_ylim)):
        # Climbs to one peak end within rounding of each other, which is nothing to look at.
        set_limits(low - 0.05 * (1 + abs(low)), high + 0.05 * (1 + abs(high)))
    axes.legend(frameon=False)
    flat = ends.shape[1] < 2
    axes.set(xlabel="coordinate 0", ylabel="log density" if flat else "coordinate 1")
    return "Where climbs end, unconstrained, in the first two coordinates."


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
    for i in range(min(truth.shape[1], MOST_PAIRS)):
        axes.scatter(truth[:, i], mean[:, i], s=4, alpha=0.5, linewidths=0, label=f"coordinate {i}")
    axes.legend(frameon=False, markerscale=3, fontsize=8)
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
