"""Whether a log density is one of discrete numbers, whose gradient leads nowhere."""

import numpy as np
from jaxtyping import Float

from understudy.core import IngredientError
from understudy.fitting.evaluations import Evaluations

_CORNERS = 64
# Slopes below it are rounding.
_FLAT = 1e-10
ADVICE = (
    "if its numbers are discrete, sum them out, or call train with a discrete student such as "
    "Autoregressive"
)


def check_steps(
    evaluate: Evaluations,
    z: Float[np.ndarray, "n d"],
    log_p: Float[np.ndarray, " n"],
    slope: Float[np.ndarray, "n d"],
) -> None:
    """Refuse a density that changes in steps, or is finite at whole numbers alone.

    Args:
        evaluate: its values.
        z: places near zero.
        log_p: its values there, minus infinity where it is not finite.
        slope: its gradients there.
    """
    finite = np.isfinite(log_p)
    if finite.sum() < 2:
        corners = np.random.default_rng(0).integers(0, 2, (_CORNERS, z.shape[1])).astype(float)
        if np.isfinite(evaluate(corners)[0]).all():
            raise IngredientError(
                "The log density is finite at vectors of zeros and ones and nowhere between them, and "
                f"fit follows gradients: {ADVICE}."
            )
        return
    inside, flat = z[finite], np.flatnonzero((np.abs(slope[finite]) < _FLAT).all(0))
    if len(flat) == 0:
        return
    moved = inside.copy()
    moved[:, flat] = np.roll(inside[:, flat], 1, axis=0)
    here, there = log_p[finite], evaluate(moved)[0]
    known = np.isfinite(there)
    if (np.abs(there - here)[known] > 1e-6 * (1 + np.abs(here[known]))).any():
        which = f"coordinate{'s' * (len(flat) > 1)} {', '.join(map(str, flat[:4]))}"
        raise IngredientError(
            f"The log density changes in steps along {which}, so that its gradient is zero, and fit "
            f"follows gradients: {ADVICE}."
        )
