"""Whether a log density falls off far out: lines and rays along which it does not show it improper.

If a density has a finite integral, so has almost every line through it in any one direction, and
almost every ray from a point against the surface that it stands for. So lines along which it falls no
faster than 1/r, or rays along which it falls no faster than r^-d, show that there is no integral.
"""

import numpy as np
from jaxtyping import Bool, Float

from understudy.core import IngredientError
from understudy.fitting.discrete import ADVICE
from understudy.fitting.evaluations import Evaluations

# Distances in deviations of the chains. What overflows before the third of them shows nothing.
_LADDER = 30.0 * 10 ** np.arange(0.0, 6.5, 0.5)
_LEAST = 3
# How much a slope may be below that of a density without end, and how far the density may lie below
# that of the draws: deeper down, no chain would ever come.
SLACK, DEEP = 0.02, 15.0
_POINTS, _RAYS = 4, 64
# Lines that are followed at once.
_TOGETHER = 16
# Beyond so many dimensions, curvatures are not looked at.
_CURVED = 128
_STEP = 1e-4
# Where no chain comes that has somewhere to stay.
_AWAY = 1e100


def check_ends(evaluate: Evaluations, z: Float[np.ndarray, "n d"]) -> None:
    """Refuse a density that does not fall off.

    Args:
        evaluate: its values.
        z: places in the mass.
    """
    if not (np.abs(z) < _AWAY).all():
        raise IngredientError(_sentence(None))
    scale = np.maximum(z.std(0), 1e-12 * np.abs(z).max(0) + 1e-300)
    points = z[np.linspace(0, len(z) - 1, min(len(z), _POINTS)).astype(int)]
    for lines in (_axes(evaluate, points[0], scale), _flattest(evaluate, points[0], scale)):
        for i in range(0, len(lines), _TOGETHER):
            some = lines[i : i + _TOGETHER]
            both = _endless(evaluate, points, np.concatenate([-some, some]), 1)
            shown = both.reshape(2, len(some), -1).all(2).any(0)
            if shown.any():
                raise IngredientError(_sentence(some[np.argmax(shown)] / scale))
    directions = np.random.default_rng(0).normal(size=(_RAYS, len(scale)))
    directions *= scale / np.sqrt((directions**2).mean(1, keepdims=True))
    if _endless(evaluate, points[:1], directions, len(scale)).all():
        raise IngredientError(_sentence(None))


def _axes(evaluate: Evaluations, point: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """The coordinates along which the density is still high at the first distance."""
    steps = np.diag(scale)
    far = point + _LADDER[0] * np.concatenate([-steps, steps])
    here, there = evaluate(point[None])[0], evaluate(far)[0]
    high = (there > here - DEEP).reshape(2, -1).any(0)
    return steps[high]


def _flattest(evaluate: Evaluations, point: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """The two directions in which the density curves least, in units of the deviations."""
    if not 1 < len(scale) <= _CURVED:
        return np.zeros((0, len(scale)))
    steps = _STEP * np.diag(scale)
    _, slopes = evaluate(np.concatenate([point + steps, point - steps]))
    ahead, behind = np.split(slopes * scale, 2)
    curvature = (ahead - behind) / (2 * _STEP)
    if not np.isfinite(curvature).all():
        return np.zeros((0, len(scale)))
    values, vectors = np.linalg.eigh((curvature + curvature.T) / 2)
    return (vectors[:, np.argsort(np.abs(values))[:2]] * scale[:, None]).T


def _endless(
    evaluate: Evaluations,
    points: Float[np.ndarray, "p d"],
    lines: Float[np.ndarray, "k d"],
    power: int,
) -> Bool[np.ndarray, "k p"]:
    """Whether the density falls no faster than r^-power, along every line from every point."""
    rows = points[:, None] + _LADDER[:, None] * lines[:, None, None]
    log_p = evaluate(rows.reshape(-1, rows.shape[-1]))[0].reshape(rows.shape[:-1])
    here = evaluate(points)[0]
    finite = np.isfinite(log_p)
    known = np.cumprod(finite, -1).sum(-1)
    with np.errstate(invalid="ignore"):
        slopes = np.diff(log_p, axis=-1) / np.diff(np.log(_LADDER))
    slow = (slopes > -power - SLACK) | ~finite[..., 1:]
    return (known >= _LEAST) & slow.all(-1) & (log_p[..., 0] > here - power * DEEP)


def _sentence(line: np.ndarray | None) -> str:
    if line is None:
        return improper("far out in every direction")
    size = np.abs(line)
    most = np.flatnonzero(size > 0.1 * size.max())[:4]
    return improper(f"along coordinate{'s' * (len(most) > 1)} {', '.join(map(str, most))}")


def improper(where: str) -> str:
    """What is said of a density that does not fall off somewhere."""
    return (
        f"The posterior is improper: its density does not fall off {where}. Give every parameter a "
        f"proper prior; {ADVICE}."
    )
