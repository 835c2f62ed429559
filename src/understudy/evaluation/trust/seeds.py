"""Do students trained with other seeds draw the same?"""

from collections.abc import Sequence
from itertools import combinations

import numpy as np
from jaxtyping import Float

from understudy.evaluation.trust.findings import Effects, Finding, joined

SMALL, LARGE = 0.05, 0.1


def disagreement(
    sets: Sequence[Float[np.ndarray, "n d"]], names: Sequence[str], level: float
) -> Finding:
    """The largest difference of means between two seeds, in standard deviations."""
    deviation = np.maximum(np.mean([z.std(0) for z in sets], 0), 1e-300)
    means = np.stack([z.mean(0) / deviation for z in sets])
    logs = np.log(np.stack([np.maximum(z.std(0), 1e-300) for z in sets]))
    pairs = list(combinations(range(len(sets)), 2))
    place = np.stack([means[i] - means[j] for i, j in pairs])
    spread = np.stack([logs[i] - logs[j] for i, j in pairs])
    n = min(map(len, sets))
    effects = joined(*(_effects(e, error) for e, error in ((place, (2 / n) ** 0.5), (spread, n**-0.5))))
    verdict = "ok"
    if effects._replace(tolerance=effects.tolerance / LARGE * SMALL).material(level).any():
        verdict = "warn"
    if effects.material(level).any():
        verdict = "fail"
    far = float(np.abs(place).max())
    where = names[int(np.abs(place).max(0).argmax())]
    words = f"means of {len(sets)} seeds differ by {far:.3f} sd at most ({where})"
    rest = {"ok": "", "warn": "; train longer", "fail": "; at least one of them is wrong: train longer"}
    return Finding("seeds", verdict, far, words + rest[verdict], {"means": means - means.mean(0)})


def _effects(size: Float[np.ndarray, "p d"], error: float) -> Effects:
    flat = size.ravel()
    return Effects(flat, np.full_like(flat, error), np.full_like(flat, LARGE))
