"""The teacher gap: do teacher moves change the distribution of a student's draws?

Draws of the target stay draws of the target under the teacher, so any change is a fault of the student.
Every pair (draw, moved draw) gives a difference of features; differences are independent over pairs and
have mean zero if the student is right. Features are bounded functions of ranks, so that heavy tails
cannot spoil the level, and each has unit variance, so that no effect can exceed the standard deviation
of the importance weights.
"""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float
from scipy.special import ndtri
from scipy.stats import rankdata

from understudy.evaluation.trust.findings import Effects, Finding, joined
from understudy.evaluation.trust.moves import Moved
from understudy.numerics import AffineMap, whitening

TOLERANCE = 0.06
LOOSE = 0.15
_SHAPES = ("place", "scale", "skew", "tails")


def legendre(u: Float[np.ndarray, "..."]) -> Float[np.ndarray, "4 ..."]:
    """Four polynomials that are orthonormal for uniform numbers.

    Reference: Neyman, "Smooth test for goodness of fit", 1937.
    """
    t = 2 * u - 1
    return np.stack(
        [
            np.sqrt(3) * t,
            np.sqrt(5) / 2 * (3 * t**2 - 1),
            np.sqrt(7) / 2 * (5 * t**3 - 3 * t),
            3 / 8 * (35 * t**4 - 30 * t**2 + 3),
        ]
    )


def columns_of(z: Float[np.ndarray, "n d"], scale: AffineMap) -> Float[np.ndarray, "n c"]:
    """Coordinates and whitened coordinates."""
    return z if z.shape[1] == 1 else np.concatenate([z, scale.whiten(z)], 1)


def uniform_ranks(z: Float[np.ndarray, "n c"]) -> Float[np.ndarray, "n c"]:
    """Ranks within each column, between zero and one."""
    return (rankdata(z, axis=0) - 0.5) / len(z)


def gap_effects(moved: Moved) -> Effects:
    """Shapes of every column, of the log density, and products of whitened coordinates."""
    n, d = moved.before.shape
    both = np.concatenate([moved.before, moved.after])
    # Whitened by all draws: coordinates fitted to one half would tell it from the other.
    columns = columns_of(both, whitening(both))
    u = uniform_ranks(np.c_[columns, moved.log_p.ravel()])
    shapes = legendre(u)
    difference = shapes[:, n:] - shapes[:, :n]
    size, error = difference.mean(1), difference.std(1) / np.sqrt(n)
    tolerance = np.full_like(size, TOLERANCE)
    tolerance[:, -1] = LOOSE
    effects = Effects(size.ravel(), error.ravel(), tolerance.ravel())
    return effects if d == 1 else joined(effects, _products(ndtri(u[:, d:-1])))


def _products(scores: Float[np.ndarray, "m d"]) -> Effects:
    n, d = len(scores) // 2, scores.shape[1]
    b, a = scores[:n], scores[n:]
    above = np.triu_indices(d, 1)
    size = ((a.T @ a - b.T @ b) / n)[above]
    square = ((a**2).T @ a**2 - 2 * (a * b).T @ (a * b) + (b**2).T @ b**2)[above] / n
    error = np.sqrt(np.maximum(square - size**2, 0) / n)
    return Effects(size, error, np.full_like(size, TOLERANCE))


def teacher_gap(moved: Moved, names: Sequence[str], level: float) -> Finding:
    """Paired tests of features before and after the teacher's moves."""
    effects = gap_effects(moved)
    verdict, worst = effects.verdict(level), effects.worst
    what = _feature(worst, names)
    figure = float(abs(effects.size[worst]))
    words = {
        "ok": "teacher moves leave the draws as they are",
        "warn": f"teacher moves change {what} a little, by {figure:.3f} sd; harmless for most uses, "
        "refine() removes it",
        "fail": f"teacher moves change {what} by {figure:.2f} sd; refine the draws or train longer",
    }[verdict]
    pictures = {"t": effects.t[: 4 * (2 * len(names) + 1)], "largest_t": np.abs(effects.t).max()[None]}
    return Finding("teacher gap", verdict, figure, words, pictures)


def _feature(index: int, names: Sequence[str]) -> str:
    d = len(names)
    columns = [*names, *(f"whitened {name}" for name in names), "the log density"]
    if d == 1:
        columns = [names[0], "the log density"]
    shape, column = divmod(index, len(columns))
    if shape < len(_SHAPES):
        return f"the {_SHAPES[shape]} of {columns[column]}"
    i, j = (int(k[index - len(_SHAPES) * len(columns)]) for k in np.triu_indices(d, 1))
    return f"the dependence of {names[i]} and {names[j]}"


def drift(moved: Moved, names: Sequence[str], level: float, tolerance: float = 0.05) -> Finding:
    """How far means and standard deviations move, in standard deviations."""
    n = len(moved.before)
    deviation = np.maximum(moved.after.std(0), 1e-300)
    centre = moved.after.mean(0)
    a, b = ((z - centre) / deviation for z in (moved.after, moved.before))
    mean = Effects(*_paired(a - b, n), np.full(len(names), tolerance))
    squares = Effects(*_paired(a**2 - (b - b.mean(0)) ** 2, n), np.full(len(names), tolerance))
    ratio = 1 / np.maximum(b.std(0), 1e-12)
    spread = Effects(np.log(ratio), squares.error / 2 * np.maximum(ratio, 1) ** 2, squares.tolerance)
    effects = joined(mean, spread)
    verdict, worst = effects.verdict(level), effects.worst
    kind, column = divmod(worst, len(names))
    far = float(np.abs(mean.size).max())
    said = (
        f"the mean of {names[column]} moves by {mean.size[column]:+.3f} sd"
        if kind == 0
        else f"the sd of {names[column]} is multiplied by {ratio[column]:.3f}"
    )
    words = {
        "ok": f"means move by {far:.3f} sd at most, sds are multiplied by {ratio.min():.2f} to "
        f"{ratio.max():.2f}",
        "warn": f"{said}, small but not chance",
        "fail": f"{said}; use refine() or train longer",
    }[verdict]
    pictures = {"mean": mean.size, "mean_error": mean.error, "sd_ratio": ratio}
    return Finding("drift", verdict, far, words, pictures)


def _paired(difference: Float[np.ndarray, "n c"], n: int) -> tuple[np.ndarray, np.ndarray]:
    return difference.mean(0), difference.std(0) / np.sqrt(n)
