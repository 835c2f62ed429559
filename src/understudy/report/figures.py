"""Pictures of students and of trainings, as matplotlib figures without global state."""

import io
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from understudy import files
from understudy.core import Condition, IngredientError, Target

STUDENT, EXACT, QUIET = "#1f6feb", "#24292f", "#8c959f"

CURVES = {
    "loss": "the student's loss",
    "acceptance": "acceptance of the teacher",
    "move": "move in an update (standard deviations)",
    "lost": "share of chains lost",
}

Draws = Float[Array, "n d"] | Float[np.ndarray, "n d"]


class Picture(Figure):
    """A figure that a notebook shows without further words."""

    def _repr_png_(self) -> bytes:
        return picture_bytes(self)


def student_against_density(
    draws: Draws, target: Target, x: Condition = None, name: str = "student's draws"
) -> Picture:
    """The histogram of a student's draws over the exact density, in one dimension.

    Args:
        draws: the student's.
        target: in one dimension; a density up to a constant is normalised on the picture's grid.
        x: the condition, if any.
        name: what the histogram is called.
    """
    values = _columns(draws, 1)[:, 0]
    low, high = np.quantile(values, [0.001, 0.999])
    margin = 0.12 * (high - low) + 1e-3
    grid = np.linspace(low - margin, high + margin, 1001)
    log_density = jax.jit(jax.vmap(lambda z: target.log_density(z, x)))
    density = np.asarray(jnp.exp(log_density(jnp.asarray(grid)[:, None])), float)
    density /= np.trapezoid(density, grid)
    figure, (axes,) = blank_panels(1, (7.2, 3.6))
    axes.hist(
        values, bins=grid[::8].tolist(), density=True, color=STUDENT, alpha=0.45, label=plain_text(name)
    )
    axes.plot(grid, density, color=EXACT, linewidth=1.8, label="exact density")
    axes.set(xlabel="z", ylabel="density", xlim=(grid[0], grid[-1]))
    axes.legend(frameon=False)
    return figure


def draws_beside_exact(draws: Draws, exact: Draws, name: str = "student") -> Picture:
    """Two scatters on the same axes' limits: the student's draws and exact ones, in the plane."""
    student, exact = _columns(draws, 2), _columns(exact, 2)
    low, high = np.quantile(exact, 0.001, axis=0), np.quantile(exact, 0.999, axis=0)
    margin = 0.15 * (high - low) + 1e-3
    box = np.stack([low - margin, high + margin])
    figure, panels = blank_panels(2, (8.4, 4.2))
    titles = (name, student, STUDENT), ("exact", exact, EXACT)
    for axes, (title, points, colour) in zip(panels, titles, strict=True):
        axes.scatter(*points[:5000, :2].T, s=3, alpha=0.35, color=colour, linewidths=0, rasterized=True)
        axes.set(title=plain_text(title), xlabel="z1", ylabel="z2")
        axes.set(**{f"{axis}lim": limits for axis, limits in zip("xy", box.T, strict=True)})
    return figure


def training_curves(
    rows: Sequence[Mapping[str, Any]], curves: Mapping[str, str] = MappingProxyType(CURVES)
) -> Picture:
    """Loss, acceptance, move and lost chains over the updates; the median of repeats, each one thin.

    Args:
        rows: of ``metrics.jsonl``, or a history turned into rows.
        curves: what to show of them, and its title.
    """
    names = [name for name in curves if np.isfinite(_series(rows, name)).any()]
    if not names:
        raise IngredientError(f"Rows of a training hold {', '.join(curves)} over step; none came.")
    steps = _series(rows, "step")[:, 0]
    figure, panels = blank_panels(len(names), (7.2, 1.9 * len(names)), upright=True)
    for axes, name in zip(panels, names, strict=True):
        _curve(axes, steps, _series(rows, name))
        axes.set_title(plain_text(curves[name], 80), loc="left", fontsize=10)
    panels[-1].set_xlabel("updates")
    return figure


def write_picture(figure: Figure, path: str | Path) -> Path:
    """Write a figure as a PNG file."""
    files.replace_file(Path(path), [picture_bytes(figure)])
    return Path(path)


def picture_bytes(figure: Figure) -> bytes:
    """A figure as the bytes of a PNG."""
    buffer = io.BytesIO()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph", UserWarning)  # a name in a script the font lacks
        figure.savefig(buffer, format="png", dpi=150, facecolor="white", metadata={"Software": None})
    return buffer.getvalue()


def plain_text(text: str, most: int = 40) -> str:
    """A name for a picture as it is, and short: matplotlib would read dollars as mathematics."""
    text = " ".join(str(text).encode(errors="replace").decode().split())
    text = "".join(character if character.isprintable() else "?" for character in text)
    return (text if len(text) <= most else f"{text[: most - 3]}...").replace("$", r"\$")


def _curve(axes: Axes, steps: np.ndarray, values: np.ndarray) -> None:
    seen = np.isfinite(values).any(1)
    if values.shape[1] > 1:
        axes.plot(steps[seen], values[seen], color=QUIET, linewidth=0.6, alpha=0.6)
    median = np.nanmedian(values[seen], axis=1)
    # A single row still shows, as a dot.
    axes.plot(steps[seen], median, color=STUDENT, linewidth=1.6, marker="." if seen.sum() < 3 else "")
    if not values[seen].any():
        axes.set_ylim(0, 1)  # nothing all along, which no negative axis should tell


def _series(rows: Sequence[Mapping[str, Any]], name: str) -> np.ndarray:
    """One row per chunk, one column per repeat; nan where nothing was recorded."""
    values = [np.asarray(row.get(name), float).reshape(-1) for row in rows]
    width = max((value.size for value in values), default=1)
    table = [np.broadcast_to(v if v.size == width else np.nan, (width,)) for v in values]
    return np.stack(table) if table else np.full((1, width), np.nan)


def blank_panels(
    count: int, size: tuple[float, float], upright: bool = False, linked: bool = True
) -> tuple[Picture, list[Axes]]:
    """Empty panels in the style of all pictures, side by side or upright (and then on one axis x)."""
    figure = Picture(figsize=size, layout="constrained")
    shape = (count, 1) if upright else (1, count)
    panels = list(figure.subplots(*shape, squeeze=False, sharex=upright and linked).flat)
    for axes in panels:
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(color="#d0d7de", linewidth=0.5, alpha=0.6)
        axes.set_axisbelow(True)
    return figure, panels


def _columns(draws: Draws, least: int) -> np.ndarray:
    rows = np.asarray(draws, float)
    if rows.ndim != 2 or rows.shape[1] < least or (least == 1 and rows.shape[1] != 1):
        raise IngredientError(f"The picture needs draws of shape (n, {least}); shape {rows.shape} came.")
    rows = rows[np.isfinite(rows).all(1)]
    if not len(rows):
        raise IngredientError("This picture needs draws that are finite; none came.")
    return rows
