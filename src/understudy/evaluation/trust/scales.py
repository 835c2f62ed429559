"""Mass at other scales around a peak that the student knows: a spike inside it, or a wide skirt.

A draw z is proposed at c + f (z - c), near and far from a centre c. As moves with these factors leave
the target as it is, right draws take as many by f as by 1/f; where mass is missing at another scale,
far more go there than come back. Local moves of a teacher never get that far.
"""

import numpy as np
from jaxtyping import Float
from scipy.stats import norm

from understudy.evaluation.trust.findings import Finding
from understudy.evaluation.trust.moves import Claim, Moved, densities

_FACTORS = 10.0 ** np.arange(0.5, 2.6, 0.5)
# A difference of acceptances that is seen at all, and one that is too large.
_SEEN, _MATERIAL = 0.01, 0.05


def scale_check(claim: Claim, draws: Moved, n: int, level: float) -> Finding:
    """Whether draws pulled towards a centre and pushed away from it are taken equally often.

    The centres are the median of the draws and the likeliest of them.

    Args:
        claim: what is tested.
        draws: of the student, with their log densities.
        n: rows that the program for densities was compiled for.
        level: probability with which a right student is warned of.
    """
    z, log_p = draws.before, draws.log_p[0]
    centres = np.stack([np.median(z, 0), z[np.argmax(log_p)]])
    flows = np.array([[_flow(claim, c, z, log_p, f, n) for f in _FACTORS] for c in centres])
    size, error = flows[..., 0], flows[..., 1]
    beyond = np.abs(size) - norm.isf(level / 2 / size.size) * error
    worst = np.unravel_index(np.argmax(beyond), size.shape)
    factor, seen = _FACTORS[worst[1]], float(size[worst])
    where = f"{factor:.3g} times as {'wide' if seen > 0 else 'narrow'}"
    if beyond.max() > _MATERIAL:
        words = f"the target has mass {where} around the draws that they lack: fit with a larger budget"
        return Finding("scales", "fail", abs(seen), words)
    if beyond.max() > _SEEN:
        return Finding("scales", "warn", abs(seen), f"the target has a little more mass {where}")
    return Finding("scales", "ok", float(np.abs(size).max()), "no mass is missing at other scales")


def _flow(
    claim: Claim,
    centre: Float[np.ndarray, " d"],
    z: Float[np.ndarray, "n d"],
    log_p: Float[np.ndarray, " n"],
    factor: float,
    n: int,
) -> tuple[float, float]:
    """How many more draws are taken outwards than inwards by a factor, as a share, and its error."""
    chances = []
    for log_factor in (np.log(factor), -np.log(factor)):
        there = densities(claim, centre + np.exp(log_factor) * (z - centre), n).target
        gain = np.where(np.isfinite(there), there, -np.inf) - log_p + z.shape[1] * log_factor
        chances.append(np.exp(np.minimum(gain, 0.0)))
    apart = chances[0] - chances[1]
    # Where hardly any is taken the spread of those seen says too little.
    return float(apart.mean()), float(np.sqrt(apart.var() + 1.0 / len(apart)) / np.sqrt(len(apart)))
