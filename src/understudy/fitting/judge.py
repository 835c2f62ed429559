"""Whether a student's draws can be given as they are: figures that live in any dimension.

The chains are the measure, and are measured first: they must have forgotten where they began. Then the
student's draws are held against theirs, in every quantity a user sees and in how those depend on each
other, each with the error of both sets of draws taken off.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from jaxtyping import Float
from scipy.stats import norm

from understudy.fitting.chains import Agreement, Chains
from understudy.posterior.verdict import CHAIN_ERROR, Figure, Verdict

LEVELS = (0.05, 0.25, 0.5, 0.75, 0.95)
# What a quantile may be off, in interquartile ranges, and a mean, in deviations.
TOLERANCE = 0.06
PRECISION = 0.05
_DEPENDENCE = 0.15
_OUTSIDE = 0.005
_BOUNDLESS = 1e60
QUANTILE_ERROR = "error of their quantiles"
_JUDGED = 4096
_PAIRED = 64


def judge(
    seed: int,
    candidate: Any,
    z: Float[np.ndarray, "t m d"],
    found: Agreement,
    columns: Callable[[np.ndarray], np.ndarray],
    chains: Chains,
) -> Verdict:
    """Hold a candidate's draws against those of the chains.

    Args:
        seed: of the candidate's draws.
        candidate: draws z.
        z: draws of the chains.
        found: how far the chains agree.
        columns: from draws to all the numbers that a user sees.
        chains: know where the log density is finite.
    """
    flat = z.reshape(-1, z.shape[-1])
    effective, least = float(np.median(found.effective)), float(np.quantile(found.effective, 0.1))
    drawn, _ = candidate.draw(seed, _JUDGED)
    rows = flat[np.linspace(0, len(flat) - 1, min(len(flat), _JUDGED)).astype(int)]
    outside = 1 - np.isfinite(chains.evaluate(drawn[:1024])[0]).mean()
    both = columns(np.concatenate([drawn, rows]))
    a, b = both[: len(drawn)], both[len(drawn) :]
    _, beyond = margin_gap(a, b, min(effective, float(len(rows))))
    scores = [candidate.coordinates.scores(part)[0] for part in (drawn, rows)]
    return Verdict(
        (
            *chain_figures(found),
            Figure(QUANTILE_ERROR, imprecision(b, least), PRECISION, "precision"),
            Figure("quantiles of the student", float(beyond.max()), TOLERANCE),
            Figure("dependence", dependence_gap(*scores, effective), _DEPENDENCE),
            Figure("draws outside the support", float(outside), _OUTSIDE),
        )
    )


def imprecise(verdict: Verdict) -> bool:
    """Whether nothing is wrong but that the chains' quantiles are not known well enough."""
    failed = [figure.name for figure in verdict.figures if not figure.fine]
    return failed == [QUANTILE_ERROR]


def boundless(verdict: Verdict) -> bool:
    """Whether a quantile lies so far from the others that numbers themselves are the only bound."""
    return any(f.name == QUANTILE_ERROR and f.value > _BOUNDLESS for f in verdict.figures)


def chain_figures(found: Agreement) -> list[Figure]:
    """Whether the chains agree, and how precisely they tell."""
    return [
        Figure("nested R-hat", found.r_hat, 1.1, "chains"),
        Figure("groups of chains apart", found.excess, 0.1, "chains"),
        Figure("drift of the chains", found.drift, 0.1, "chains"),
        Figure(CHAIN_ERROR, found.error, 0.06, "precision"),
    ]


def margin_gap(
    a: Float[np.ndarray, "n c"], b: Float[np.ndarray, "m c"], effective: float
) -> tuple[Float[np.ndarray, " c"], Float[np.ndarray, " c"]]:
    """Largest distance of quantiles in every column, in quartile ranges of ``b``, and beyond chance.

    Args:
        a: independent draws.
        b: draws of chains.
        effective: independent draws that ``b`` is worth.
    """
    levels = np.array(LEVELS)
    near = np.clip(np.r_[levels - 0.02, levels + 0.02], 0.005, 0.995)
    qa, qb = np.quantile(a, levels, axis=0), np.quantile(b, levels, axis=0)
    sides = np.quantile(b, near, axis=0)
    width = np.maximum(qb[3] - qb[1], 1e-300 + 1e-13 * np.abs(qb[2]))
    per_level = (sides[len(levels) :] - sides[: len(levels)]) / 0.04 / width
    spread = np.sqrt(levels * (1 - levels) * (1 / len(a) + 1 / effective))[:, None]
    gap = np.abs(qa - qb) / width
    return gap.max(0), np.maximum(gap - 2 * spread * per_level, 0).max(0)


def imprecision(b: Float[np.ndarray, "m c"], effective: float) -> float:
    """Largest standard error of a quantile of draws of chains, in interquartile ranges.

    Far out in heavy tails it stays large however good the chains are; the student is then not trusted.
    """
    levels = np.array(LEVELS)
    sides = np.quantile(b, np.r_[levels - 0.03, levels + 0.03, 0.25, 0.75], axis=0)
    width = np.maximum(sides[-1] - sides[-2], 1e-300 + 1e-13 * np.abs(sides[-1]))
    per_level = (sides[len(levels) : -2] - sides[: len(levels)]) / 0.06 / width
    return float((np.sqrt(levels * (1 - levels) / effective)[:, None] * per_level).max())


def dependence_gap(
    a: Float[np.ndarray, "n c"], b: Float[np.ndarray, "m c"], effective: float, seed: int = 0
) -> float:
    """Largest change of a correlation of scores and of their sizes, beyond chance."""
    columns = a.shape[1]
    if columns == 1:
        return 0.0
    if columns > _PAIRED:
        chosen = np.random.default_rng(seed).choice(columns, _PAIRED, replace=False)
        a, b = a[:, chosen], b[:, chosen]
    a, b = np.clip(a, -6, 6), np.clip(b, -6, 6)
    difference = _correlations(a) - _correlations(b)
    c = difference.size
    chance = norm.isf(0.005 / c) * np.sqrt(1 / len(a) + 1 / effective) * 1.5
    return float(np.maximum(np.abs(difference) - chance, 0).max())


def _correlations(w: np.ndarray) -> np.ndarray:
    first = (w - w.mean(0)) / np.maximum(w.std(0), 1e-12)
    size = np.abs(first)
    second = (size - size.mean(0)) / np.maximum(size.std(0), 1e-12)
    plain, mixed, sizes = (
        a.T @ b / len(w) for a, b in ((first, first), (first, second), (second, second))
    )
    np.fill_diagonal(mixed, 0.0)
    return np.stack([plain, mixed, sizes])
