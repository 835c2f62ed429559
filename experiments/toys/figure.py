"""The picture of the toys: exact draws above, those of the students below."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from understudy.report.figures import EXACT, QUIET, STUDENT

WILD = "#bc4c00"
BOX = "forty gaussians"


def toys_figure(
    summaries: Sequence[dict[str, Any]], draws: Mapping[str, np.ndarray], exact: Mapping[str, Any]
) -> Figure:
    """A column for each target: exact draws, the explicit student's and the wild one's; then Ising.

    Args:
        summaries: rows of kind "summary".
        draws: by the rows' names; for "ising, discrete" exact and learnt probabilities in two columns.
        exact: exact draws by the targets' names.
    """
    rows = {row["name"]: row for row in summaries}
    figure = Figure(figsize=(2.6 * len(exact), 8.2), layout="constrained")
    panels = figure.subplots(3, len(exact), squeeze=False)
    for column, (name, points) in zip(panels.T, exact.items(), strict=True):
        limits = _limits(points)
        _scatter(column[0], points, EXACT, limits, f"{name}\nexact draws")
        kinds = (
            (("box", STUDENT), (None, "")) if name == BOX else (("explicit", STUDENT), ("wild", WILD))
        )
        for axes, (kind, colour) in zip(column[1:], kinds, strict=True):
            if kind is not None:
                row = rows[f"{name}, {kind}"]
                _scatter(axes, draws[row["name"]], colour, limits, _title(row))
    _ising(panels[2, -1], draws["ising, discrete"], rows["ising, discrete"]["total_variation"])
    return figure


def _limits(points: Any) -> np.ndarray:
    low, high = np.quantile(np.asarray(points), [0.0005, 0.9995], axis=0)
    margin = 0.08 * (high - low)
    return np.stack([low - margin, high + margin])


def _scatter(axes: Axes, points: Any, colour: str, limits: np.ndarray, title: str) -> None:
    shown = np.asarray(points)[:5000]
    axes.scatter(*shown.T, s=2.5, alpha=0.3, color=colour, linewidths=0, rasterized=True)
    axes.set(xlim=limits[:, 0], ylim=limits[:, 1], xticks=[], yticks=[])
    axes.set_title(title, fontsize=9)
    axes.spines[:].set_color("#d0d7de")


def _title(row: dict[str, Any]) -> str:
    student = {"wild": "wild student", "explicit": "64 Gaussians", "box": "256 Gaussians"}
    distance = f"W1 {row['w1'] / row['w1_floor']:.2f}, MMD {row['mmd'] / row['mmd_floor']:.2f} x exact"
    if row["composition"] == "box":
        distance = f"{row['modes']} of {row['modes_total']} modes, weights {row['weight_tv']:.3f} off"
    return f"{student[row['composition']]}\n{distance}"


def _ising(axes: Axes, probabilities: np.ndarray, apart: float) -> None:
    exact, learnt = probabilities.T
    ends = [exact.min() / 2, exact.max() * 2]
    axes.plot(ends, ends, color=QUIET, linewidth=1)
    axes.scatter(exact, learnt, s=5, color=STUDENT, alpha=0.5, linewidths=0)
    axes.set(xscale="log", yscale="log", xlim=ends, ylim=ends, xlabel="exact probability")
    axes.set_ylabel("learnt")
    axes.set_title(f"Ising 3 x 3, 512 states\ntotal variation {apart:.3f}", fontsize=9)
    axes.spines[["top", "right"]].set_visible(False)
