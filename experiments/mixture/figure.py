"""The picture of the mixture experiment."""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from understudy.core import Target

GRID = np.linspace(-8, 8, 401)


def mixture_figure(
    curves: Sequence[dict[str, Any]], draws: dict[str, np.ndarray], target: Target, floor: float
) -> Figure:
    """Fitted densities over the true one, and KSD against updates and run time.

    Args:
        curves: rows of kind "curve": ``name``, ``step``, ``training_seconds``, ``ksd_quartiles``.
        draws: draws of one repeat for each name to show.
        target: a normalised density in one dimension.
        floor: the KSD of exact draws.
    """
    figure = Figure(figsize=(13, 7.5), layout="constrained")
    panels = figure.subplots(2, 3)
    for axes, title, wanted in (
        (panels[0, 0], "the paper's students, T = 1", ("program, T=1", "perceptron, T=1")),
        (panels[1, 0], "ours", ("program, energy distance", "gated, tempered", "mixture, independence")),
    ):
        _densities(axes, {name: draws[name] for name in wanted if name in draws}, target)
        axes.set_title(title)
    for column, axis in ((1, "step"), (2, "training_seconds")):
        paper = [row for row in curves if row["name"].startswith("perceptron, T=")]
        _ksd(panels[0, column], paper, axis, floor, "perceptron, the paper's chains")
        ours = [row for row in curves if not row["from_paper"]]
        _ksd(panels[1, column], ours, axis, floor, "ours")
    return figure


def _densities(axes: Axes, draws: dict[str, np.ndarray], target: Target) -> None:
    exact = jnp.exp(jax.vmap(target.log_density)(jnp.asarray(GRID)[:, None]))
    axes.plot(GRID, exact, "k", linewidth=1.5, label="exact")
    for name, z in draws.items():
        axes.hist(
            z.ravel(), GRID[::4].tolist(), density=True, histtype="step", linewidth=1.4, label=name
        )
    axes.set(xlabel="z", ylabel="density", ylim=(0, 1.5 * axes.get_ylim()[1]))
    axes.legend(frameon=False, fontsize=8)


def _ksd(axes: Axes, rows: Sequence[dict[str, Any]], axis: str, floor: float, title: str) -> None:
    for row in rows:
        low, middle, high = np.asarray(row["ksd_quartiles"])
        (line,) = axes.plot(row[axis], middle, label=row["name"], linewidth=1.4)
        axes.fill_between(row[axis], low, high, color=line.get_color(), alpha=0.15, linewidth=0)
    axes.axhline(floor, color="grey", linestyle=":", label="exact draws")
    names = {"step": "updates", "training_seconds": "seconds, all repeats side by side"}
    axes.set(xlabel=names[axis], ylabel="KSD", yscale="log", title=title)
    axes.legend(frameon=False, fontsize=8)
