"""Walls: bounds of coordinates outside which a log density is not finite."""

import numpy as np
from jaxtyping import Float

from understudy.coordinates import Walls
from understudy.fitting.evaluations import Evaluations

_REACH = 10.0 ** np.arange(-3.0, 5.0)
_HALVINGS = 60


def find_walls(evaluate: Evaluations, z: Float[np.ndarray, "n d"], finite: np.ndarray) -> Walls | None:
    """The bounds of the support along every coordinate, where several starts agree on them.

    Args:
        evaluate: the target's log density.
        z: starts near zero.
        finite: which of them have a finite log density; where all have, there is nothing to find.
    """
    inside = z[finite]
    if finite.all() or len(inside) < 2:
        return None
    d = z.shape[1]
    points = inside[np.linspace(0, len(inside) - 1, min(len(inside), 6 if d <= 200 else 2)).astype(int)]
    lower, upper = (_wall(evaluate, points, sign) for sign in (-1.0, 1.0))
    if not (np.isfinite(lower).any() or np.isfinite(upper).any()):
        return None
    return Walls(lower, upper)


def _wall(evaluate: Evaluations, points: np.ndarray, sign: float) -> np.ndarray:
    """Where every coordinate meets its wall in one direction; infinite where it does not."""
    n, d = points.shape

    def outside(reach: np.ndarray) -> np.ndarray:
        rows = np.repeat(points, d, 0)
        rows[np.arange(n * d), np.tile(np.arange(d), n)] += sign * reach.ravel()
        return ~np.isfinite(evaluate(rows)[0]).reshape(n, d)

    low, high = np.zeros((n, d)), np.full((n, d), np.inf)
    for reach in _REACH:
        out = outside(np.full((n, d), reach))
        high = np.where(np.isinf(high) & out, reach, high)
        low = np.where(np.isinf(high), reach, low)
    met = np.isfinite(high).all(0)
    if not met.any():
        return np.full(d, sign * np.inf)
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + np.where(np.isfinite(high), high, low))
        out = outside(middle)
        high, low = np.where(out, middle, high), np.where(out, low, middle)
    places = points + sign * np.where(np.isfinite(high), high, 0.0)
    same = np.ptp(places, axis=0) <= 1e-6 * (1 + np.abs(places).max(0))
    return np.where(met & same, np.median(places, 0), sign * np.inf)
