"""The picture of the mixture experiment."""

from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from understudy.core import Target

GRID = np.linspace(-8, 8, 401)
EDGES = GRID[::4]
GROUPS = {
    "program": "the paper's program",
    "perceptron": "the paper's perceptron",
    "held": "what holds the perceptron (T=1, eta=0.1)",
    "ours": "ours",
}
COLOURS = {1: "#bc4c00", 5: "#8250df", 10: "#1f6feb"}
AXES = {"step": "updates", "training_seconds": "seconds, all repeats side by side"}

Row = Mapping[str, Any]


def mixture_figure(curves: Sequence[Row], target: Target, floor: float) -> Figure:
    """Fitted densities over the true one, and KSD against updates and run time, a group a line.

    Args:
        curves: rows of kind "curve": ``name``, ``group``, ``step``, ``training_seconds``,
            ``ksd_quartiles`` over repeats, ``transitions`` and ``step_size``, and ``histogram`` over
            :data:`EDGES`, if there is one.
        target: a normalised density in one dimension.
        floor: the KSD of exact draws.
    """
    there = [group for group in GROUPS if any(row["group"] == group for row in curves)]
    figure = Figure(figsize=(14, 3.8 * max(len(there), 1)), layout="constrained")
    panels = figure.subplots(max(len(there), 1), 3, squeeze=False)
    for line, group in zip(panels, there, strict=False):
        rows = [row for row in curves if row["group"] == group]
        _densities(line[0], [row for row in rows if row["transitions"] in (None, 10)], target)
        for axes, axis in zip(line[1:], AXES, strict=True):
            _ksd(axes, rows, axis, floor)
        line[0].set_title(GROUPS[group])
    return figure


def _densities(axes: Axes, rows: Sequence[Row], target: Target) -> None:
    exact = jnp.exp(jax.vmap(target.log_density)(jnp.asarray(GRID)[:, None]))
    axes.plot(GRID, exact, "k", linewidth=1.5, label="exact")
    for row in rows:
        if "histogram" in row:
            axes.stairs(row["histogram"], EDGES, linewidth=1.2, label=row["name"])
    axes.set(xlabel="z", ylabel="density", ylim=(0, 0.45))
    axes.legend(frameon=False, fontsize=7)


def _ksd(axes: Axes, rows: Sequence[Row], axis: str, floor: float) -> None:
    for row in rows:
        low, middle, high = np.asarray(row["ksd_quartiles"])
        (line,) = axes.plot(row[axis], middle, label=row["name"], linewidth=1.3, **_style(row))
        axes.fill_between(row[axis], low, high, color=line.get_color(), alpha=0.1, linewidth=0)
    axes.axhline(floor, color="grey", linestyle=":", label="exact draws")
    axes.set(xlabel=AXES[axis], ylabel="KSD, median and quartiles", yscale="log")
    axes.legend(frameon=False, fontsize=7)


def _style(row: Row) -> dict[str, Any]:
    """The paper's rows: a colour for every T, dashes where T x eta is small."""
    if row["transitions"] is None:
        return {}
    far = row["transitions"] * row["step_size"] > 0.5
    return {"color": COLOURS[row["transitions"]], "linestyle": "-" if far else "--"}
