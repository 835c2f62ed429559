"""Whether a student's draws can be given as they are: figures that live in any dimension.

The chains are the measure, and are measured first: they must have forgotten where they began. Then the
student's draws are held against theirs, in every quantity a user sees and in how those depend on each
other, each with the error of both sets of draws taken off.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float
from scipy.stats import norm

from understudy.fitting.chains import Agreement, Chains, thinned
from understudy.fitting.weighing import Weighed, weigh
from understudy.posterior.verdict import CHAIN_ERROR, Figure, Verdict

LEVELS = (0.05, 0.25, 0.5, 0.75, 0.95)
# What a quantile may be off, in interquartile ranges, and a mean, in deviations.
TOLERANCE = 0.06
PRECISION = 0.05
_DEPENDENCE = 0.15
_OUTSIDE = 0.005
_MISSED = 0.03
# Weights do better than chains where these know a quantile at least so well.
_ROUGHLY = 0.25
# What is known enough is known better than it must be, since the judge looks anew.
_AIM, _MEANS = 0.7, 0.02
_BOUNDLESS = 1e60
QUANTILE_ERROR = "error of their quantiles"
_JUDGED, _MOST_JUDGED = 4096, 131_072
# Numbers of the chains that are compared, and the step of a slope between quantiles.
_COMPARED, _NEAR = 4_000_000, 0.03
_PAIRED = 64

Columns = Callable[[np.ndarray], np.ndarray]


def judge(
    seed: int,
    candidate: Any,
    z: Float[np.ndarray, "t m d"],
    found: Agreement,
    columns: Columns,
    chains: Chains,
) -> Verdict:
    """Hold a candidate's draws against those of the chains.

    Args:
        seed: of the candidate's draws.
        candidate: draws z and has a density.
        z: draws of the chains.
        found: how far the chains agree.
        columns: from draws to all the numbers that a user sees.
        chains: know the log density.
    """
    effective = float(np.median(found.effective))
    kept = compared(z)
    rows = kept.reshape(-1, z.shape[-1])
    enough = _enough(columns(rows), z.shape[-1])
    weighed = weigh(seed, candidate, chains.evaluate, z, enough)
    drawn = weighed.z if len(weighed.z) == enough else candidate.draw(seed, enough)[0]
    gaps = _gaps(weighed, drawn, kept, columns)
    few = rows[np.linspace(0, len(rows) - 1, min(len(rows), _JUDGED)).astype(int)]
    own, theirs = (candidate.coordinates.scores(part)[0] for part in (drawn[:_JUDGED], few))
    return Verdict(
        (
            *chain_figures(found),
            Figure(QUANTILE_ERROR, gaps.error, PRECISION, "precision"),
            Figure("quantiles of the student", gaps.size, TOLERANCE),
            Figure("dependence", dependence_gap(own, theirs, effective), _DEPENDENCE),
            Figure("mass the student misses", weighed.missed if weighed.usable else 0.0, _MISSED),
            Figure("draws outside the support", weighed.outside, _OUTSIDE),
        )
    )


class _Gaps(NamedTuple):
    """How well the target's quantiles are known, and how far a student's are from them, at worst."""

    error: float
    size: float


def _gaps(
    weighed: Weighed, drawn: Float[np.ndarray, "n d"], kept: Float[np.ndarray, "s m d"], columns: Columns
) -> _Gaps:
    """Quantiles of a student's draws against the chains', and against its own draws weighed."""
    both = columns(np.concatenate([drawn, kept.reshape(-1, kept.shape[-1])]))
    a, b = both[: len(drawn)], both[len(drawn) :].reshape(*kept.shape[:2], -1)
    error, size = quantile_errors(b), quantile_gaps(a, b)
    if weighed.usable:
        moved, unsure = weighed_gaps(a[: len(weighed.z)], weighed.weights)
        error = np.where(error < _ROUGHLY, np.minimum(error, unsure), error)
        size = np.maximum(size, np.maximum(moved - 2 * unsure, 0))
    return _Gaps(float(error.max()), float(size.max()))


def told(
    candidate: Any, z: Float[np.ndarray, "t m d"], found: Agreement, columns: Columns, chains: Chains
) -> bool:
    """Whether chains, or weights of a student that is nearly right, tell enough to judge it by."""
    kept = compared(z)
    own = columns(kept.reshape(-1, z.shape[-1]))
    known = float(quantile_errors(own.reshape(*kept.shape[:2], -1)).max())
    if known < _AIM * PRECISION or found.error > 2 * _MEANS or known > _ROUGHLY:
        return known < _AIM * PRECISION and found.error < _MEANS
    weighed = weigh(len(z), candidate, chains.evaluate, z, _enough(own, z.shape[-1]))
    return weighed.usable and _gaps(weighed, weighed.z, kept, columns).error < _AIM * PRECISION


def weighed_gaps(
    a: Float[np.ndarray, "n c"], weights: Float[np.ndarray, " n"]
) -> tuple[Float[np.ndarray, "5 c"], Float[np.ndarray, "5 c"]]:
    """How far weights of mean one move the quantiles of draws, and the standard errors of that.

    In interquartile ranges; by how much weight lies below every quantile, and the slope there.
    """
    at, slope, _ = _quantiles(a)
    low, high = (np.quantile(a, np.array(LEVELS) + s * _NEAR, axis=0) for s in (-1, 1))
    moved, errors = [], []
    for level, one, below, above in zip(LEVELS, at, low, high, strict=True):
        apart = (a <= one) - level
        near = (a >= below) & (a <= above)
        # The quantile is known from the same draws: its own chance counts by the weight that lies there.
        there = (weights @ near) / np.maximum(near.sum(0), 1)
        moved.append(weights @ apart / len(a))
        errors.append(((weights[:, None] - there) * apart).std(0) / np.sqrt(len(a)))
    return np.abs(np.stack(moved)) * slope, np.stack(errors) * slope


def _enough(rows: Float[np.ndarray, "n c"], dim: int) -> int:
    """Draws of the student that tell its quantiles to a part of what they may be off."""
    levels = np.array(LEVELS)[:, None]
    wanted = (levels * (1 - levels) * (_quantiles(rows)[1] / (0.3 * TOLERANCE)) ** 2).max()
    return int(np.clip(wanted, _JUDGED, max(_JUDGED, min(_MOST_JUDGED, _COMPARED // dim))))


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


def compared(z: Float[np.ndarray, "t m d"]) -> Float[np.ndarray, "s m d"]:
    """As many transitions as are compared."""
    return thinned(z, max(8, _COMPARED // (z.shape[1] * z.shape[2])))


def quantile_errors(b: Float[np.ndarray, "t m c"]) -> Float[np.ndarray, "5 c"]:
    """Standard errors of the quantiles of chains, in interquartile ranges.

    The share of its draws below a quantile differs from chain to chain; that tells how well the
    chains know the share, and the slope of the quantiles carries it over. Nothing is assumed of how
    draws of a chain hang together. Far out in heavy tails it takes very many draws.
    """
    t, m, _ = b.shape
    at, slope, _ = _quantiles(b.reshape(t * m, -1))
    levels = np.array(LEVELS)[:, None]
    shares = np.stack([(b <= one).mean(0) for one in at])
    error = np.maximum(shares.std(1, ddof=1) / np.sqrt(m), np.sqrt(levels * (1 - levels) / (t * m)))
    return error * slope


def quantile_gaps(
    a: Float[np.ndarray, "n c"], b: Float[np.ndarray, "t m c"]
) -> Float[np.ndarray, "5 c"]:
    """Distances of quantiles of independent draws from those of chains, beyond two standard errors.

    In interquartile ranges of the chains.
    """
    at, slope, width = _quantiles(b.reshape(-1, b.shape[-1]))
    levels = np.array(LEVELS)[:, None]
    error = np.hypot(quantile_errors(b), np.sqrt(levels * (1 - levels) / len(a)) * slope)
    return np.maximum(np.abs(np.quantile(a, LEVELS, axis=0) - at) / width - 2 * error, 0)


def _quantiles(rows: Float[np.ndarray, "n c"]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Quantiles, their slopes in interquartile ranges, and these ranges."""
    levels = np.array(LEVELS)
    found = np.quantile(rows, np.r_[levels, levels - _NEAR, levels + _NEAR], axis=0)
    at, below, above = np.split(found, 3)
    width = np.maximum(at[3] - at[1], 1e-300 + 1e-13 * np.abs(at[2]))
    return at, (above - below) / (2 * _NEAR) / width, width


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
