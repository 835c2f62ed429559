"""Importance weights of an explicit student: their tail, and what reweighting would change."""

import numpy as np
from jaxtyping import Float
from scipy.special import logsumexp, ndtri

from understudy.evaluation.trust.findings import Effects, Finding, joined
from understudy.evaluation.trust.gap import TOLERANCE, columns_of, legendre, uniform_ranks
from understudy.evaluation.trust.moves import Moved
from understudy.numerics import independence_acceptance

TAIL_OK, TAIL_BAD = 0.5, 0.7
# Only where hardly any draw would be turned down may a few extreme ones have any weight.
HARMLESS = 0.95


def pareto_smoothed(log_weights: Float[np.ndarray, " n"]) -> tuple[Float[np.ndarray, " n"], float]:
    """Normalised log weights with a smoothed tail, and the tail's shape k.

    Reference: Vehtari et al., "Pareto Smoothed Importance Sampling", 2024.
    """
    # ArviZ takes a second to import; wild students do not need it.
    from arviz_stats.base import array_stats

    usable = np.isfinite(log_weights)
    floor = log_weights[usable].min() - 50 if usable.any() else 0.0
    filled = np.where(usable, log_weights, floor)
    if np.ptp(filled) < 1e-3:
        return np.full(len(filled), -np.log(len(filled))), 0.0
    try:
        with np.errstate(all="ignore"):
            smooth, k = array_stats.psislw(-filled)  # it takes minus the log weights, as for loo
    except ValueError:
        smooth, k = filled, np.nan
    if np.isfinite(k) and np.isfinite(smooth).all():
        return np.asarray(smooth, float), float(k)
    # Weights that are equal in the tail, to rounding, have no tail to fit.
    return filled - logsumexp(filled), 0.0


def effective_share(log_weights: Float[np.ndarray, " n"]) -> float:
    """Effective draws of importance sampling as a share, (E w)^2 / E w^2."""
    w = np.exp(log_weights - log_weights.max())
    return float(w.mean() ** 2 / (w**2).mean())


def reweighting_effects(moved: Moved, weights: Float[np.ndarray, " n"]) -> Effects:
    """How weights of mean one change the features of the student's draws."""
    u = uniform_ranks(columns_of(moved.before, moved.scale))
    excess = (weights - 1)[:, None]
    n, d = moved.before.shape
    parts = excess * legendre(u)
    size, error = parts.mean(1).ravel(), parts.std(1).ravel() / np.sqrt(n)
    effects = Effects(size, error, np.full_like(size, TOLERANCE))
    if d == 1:
        return effects
    scores, above = ndtri(u[:, d:]), np.triu_indices(d, 1)
    size = (scores.T @ (excess * scores) / n)[above]
    square = ((scores**2).T @ (excess**2 * scores**2) / n)[above]
    error = np.sqrt(np.maximum(square - size**2, 0) / n)
    return joined(effects, Effects(size, error, np.full_like(size, TOLERANCE)))


def importance(moved: Moved, level: float) -> Finding:
    """Pareto k, effective draws, independence acceptance, and whether reweighting changes the draws."""
    assert moved.log_q is not None
    log_weights = moved.log_p[0] - moved.log_q
    log_weights = np.where(np.isfinite(log_weights), log_weights, -np.inf)
    if not np.isfinite(log_weights).any():
        words = "the student's own log density is not finite at its draws; mend log_prob"
        return Finding("importance weights", "fail", np.inf, words)
    smooth, k = pareto_smoothed(log_weights)
    acceptance, share = independence_acceptance(log_weights), effective_share(smooth)
    effects = reweighting_effects(moved, np.exp(smooth) * len(smooth))
    measured = (
        f"Pareto k {k:.2f}, {100 * share:.0f} % effective, independence acceptance {acceptance:.3f}"
    )
    change = float(np.abs(effects.size).max())
    if k < TAIL_BAD and effects.material(level).any():
        verdict, rest = "fail", f"; weights change the draws by {change:.2f} sd: use resample()"
    elif k >= TAIL_BAD and acceptance < HARMLESS:
        verdict, rest = "fail", "; the student misses tails or other mass of the target"
    elif k >= TAIL_OK:
        verdict, rest = "warn", "; heavy weights: the draws may be right, reweighting them is not safe"
    elif effects._replace(tolerance=effects.tolerance / 3).material(level).any():
        verdict, rest = "warn", f"; weights change the draws by {change:.3f} sd, a little"
    else:
        verdict, rest = "ok", ""
    ordered = np.sort(log_weights)[::-1]
    picked = np.unique(np.geomspace(1, len(ordered), 200).astype(int)) - 1
    pictures = {"rank": picked + 1, "log_weight": ordered[picked] - np.log(np.exp(smooth).sum())}
    pictures |= {"acceptance": np.array([acceptance]), "effective_share": np.array([share])}
    return Finding("importance weights", verdict, k, measured + rest, pictures)
