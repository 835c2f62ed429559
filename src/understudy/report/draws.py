"""Pictures of draws by name: marginals, pairs, predictions beside data."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType

import numpy as np
from matplotlib.axes import Axes

from understudy.core import IngredientError
from understudy.report.figures import EXACT, QUIET, STUDENT, Picture, blank_panels, plain_text

Arrays = Mapping[str, np.ndarray]

MOST_MARGINALS, MOST_PAIRS = 24, 5
_NOTHING: Mapping[str, Arrays] = MappingProxyType({})
_LINES = {"prior": (QUIET, "--"), "NUTS": (EXACT, "-")}


def marginals(columns: Arrays, others: Mapping[str, Arrays] = _NOTHING) -> Picture:
    """A histogram of every column, as far as there is room.

    Args:
        columns: draws by name.
        others: further draws of the same columns, drawn as lines: "prior", "NUTS".
    """
    shown = list(columns.items())[:MOST_MARGINALS]
    across = min(4, len(shown))
    down = -(-len(shown) // across)
    figure = Picture(figsize=(2.4 * across, 1.75 * down + 0.3), layout="constrained")
    places = list(figure.subplots(down, across, squeeze=False).flat)
    for axes in places[len(shown) :]:
        axes.set_axis_off()
    for axes, (name, column) in zip(places, shown, strict=False):
        middle = _middle(column)
        axes.hist(middle, bins=60, density=True, color=STUDENT, alpha=0.55, label="student")
        for other, drawn in others.items():
            _outline(axes, drawn.get(name), other)
        axes.set_title(plain_text(name), fontsize=9)
        axes.set_yticks([])
        axes.tick_params(labelsize=7)
        axes.spines[["top", "right", "left"]].set_visible(False)
    if others:
        handles, labels = places[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside upper right", ncols=3, frameon=False, fontsize=8)
    return figure


def _outline(axes: Axes, column: np.ndarray | None, name: str) -> None:
    """A histogram's outline within the limits of the picture, scaled to all its draws."""
    if column is None or not np.isfinite(column).any():
        return
    low, high = axes.get_xlim()
    edges = np.linspace(low, high, 41)
    counts = np.histogram(column, edges)[0] / len(column) / (edges[1] - edges[0])
    colour, style = _LINES.get(name, (EXACT, ":"))
    axes.stairs(counts, edges, color=colour, linestyle=style, linewidth=1.1, label=name)
    axes.set_xlim(low, high)


def pairs(columns: Arrays) -> Picture:
    """Scatters of the first few columns against each other."""
    names = list(columns)[:MOST_PAIRS]
    figure = Picture(figsize=(1.7 * len(names), 1.7 * len(names)), layout="constrained")
    grid = figure.subplots(len(names), len(names), squeeze=False)
    for (i, j), axes in np.ndenumerate(grid):
        axes.tick_params(labelsize=6)
        axes.spines[["top", "right"]].set_visible(False)
        if i == j:
            axes.hist(_middle(columns[names[i]]), bins=50, color=STUDENT, alpha=0.6)
            axes.set_yticks([])
        elif i > j:
            points = columns[names[j]][:2000], columns[names[i]][:2000]
            axes.scatter(*points, s=2, alpha=0.3, color=STUDENT, linewidths=0, rasterized=True)
        else:
            axes.set_axis_off()
        if i == len(names) - 1:
            axes.set_xlabel(plain_text(names[j], 20), fontsize=8)
        if j == 0 and i > 0:
            axes.set_ylabel(plain_text(names[i], 20), fontsize=8)
    return figure


def predictions(predicted: Arrays, observed: Arrays) -> Picture:
    """Data beside the range of predictions, in the order of the data; one panel a site.

    Args:
        predicted: new data of every site, one row a draw.
        observed: the data by the same names.
    """
    names = [name for name in observed if name in predicted]
    if not names:
        raise IngredientError(
            "A picture of predictions needs data of a site that is predicted; none came."
        )
    figure, panels = blank_panels(len(names), (7.2, 2.6 * len(names)), upright=True, linked=False)
    for axes, name in zip(panels, names, strict=True):
        _range(axes, np.asarray(predicted[name], float), np.asarray(observed[name], float))
        axes.set_title(plain_text(name), loc="left", fontsize=10)
    figure.legend(
        *panels[0].get_legend_handles_labels(),
        loc="outside upper right",
        ncols=2,
        frameon=False,
        fontsize=8,
    )
    panels[-1].set_xlabel("datum, in order of its predicted mean")
    return figure


def _range(axes: Axes, predicted: np.ndarray, observed: np.ndarray) -> None:
    predicted, observed = predicted.reshape(len(predicted), -1), observed.reshape(-1)
    order = np.argsort(predicted.mean(0), kind="stable")
    order = order[np.linspace(0, len(order) - 1, min(len(order), 300)).astype(int)]
    low, middle, high = np.nanquantile(predicted[:, order], [0.05, 0.5, 0.95], axis=0)
    places = np.arange(len(order))
    axes.vlines(
        places,
        low,
        high,
        color=STUDENT,
        alpha=0.35,
        linewidth=min(8, max(1, 240 / len(order))),
        label="90 % of the predictions",
    )
    axes.plot(places, middle, "_", color=STUDENT)
    axes.plot(places, observed[order], ".", color=EXACT, markersize=5, label="data")
    few = len(order) <= MOST_MARGINALS  # a datum is known by its number then
    axes.set_xticks(places if few else [], order if few else [])


def first_of(columns: Sequence[str] | Arrays, most: int) -> str:
    """What part of the columns a picture shows."""
    return f"The first {most} of {len(columns):,} columns." if len(columns) > most else "All columns."


def _middle(column: np.ndarray) -> np.ndarray:
    column = column[np.isfinite(column)]
    low, high = np.quantile(column, [0.0005, 0.9995]) if len(column) else (0, 0)
    return column[(column >= low) & (column <= high)]
