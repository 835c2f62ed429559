"""Draws corrected by the ratio of the target's density to the student's."""

from functools import partial
from typing import NamedTuple

import jax
import numpy as np
from jaxtyping import Float

from understudy.core import ExplicitStudent, IngredientError, Key, Target
from understudy.evaluation.trust.weights import pareto_smoothed
from understudy.numerics import in_blocks, independence_acceptance, log_densities
from understudy.posterior.draws import named_rows
from understudy.posterior.refine import run_all
from understudy.teachers import IndependenceMetropolis


class Resampled(NamedTuple):
    """Draws corrected by the ratio of the target's density to the student's.

    Attributes:
        draws: named sites.
        z: the same as flat vectors.
        pareto_k: shape of the tail of the weights; above 0.7 do not rely on the draws.
        ess: effective draws among the candidates (weights), or the number of chains (Metropolis).
        acceptance: of independence moves.
    """

    draws: dict[str, np.ndarray]
    z: Float[np.ndarray, "n d"]
    pareto_k: float
    ess: float
    acceptance: float


def importance_resample(
    key: Key, target: Target, student: ExplicitStudent, z: Float[np.ndarray, "m d"], n: int
) -> Resampled:
    """Pick ``n`` of the candidates with Pareto-smoothed importance weights, evenly (systematic).

    Reference: Vehtari, Simpson, Gelman, Yao and Gabry, "Pareto Smoothed Importance Sampling", 2024.
    """
    log_weights = _log_weights(target, student, z)
    log_smooth, k = pareto_smoothed(log_weights)
    weights = np.exp(log_smooth - log_smooth.max())
    weights /= weights.sum()
    generator = np.random.default_rng(np.asarray(jax.random.key_data(key)).ravel())
    points = (np.arange(n) + generator.uniform()) / n
    picked = z[generator.permutation(np.searchsorted(np.cumsum(weights)[:-1], points))]
    ess, acceptance = float(1 / (weights**2).sum()), independence_acceptance(log_weights)
    return Resampled(named_rows(target, picked), picked, k, ess, acceptance)


def independence_resample(
    key: Key, target: Target, student: ExplicitStudent, z: Float[np.ndarray, "n d"], moves: int
) -> Resampled:
    """Run a chain of independence Metropolis moves from every draw, the student proposing.

    Reference: Tierney, "Markov chains for exploring posterior distributions", 1994.
    """
    _, k = pareto_smoothed(_log_weights(target, student, z))
    n, teacher = len(z), IndependenceMetropolis(moves)
    runs = run_all(key, target, student, teacher, z, 1, lambda run: run)
    end = np.concatenate([one.trace[-1] for one in runs])[:n]
    rate = float(np.mean([one.acceptance for one in runs]))
    return Resampled(named_rows(target, end), end, k, float(n), rate)


def _log_weights(target: Target, student: ExplicitStudent, z: np.ndarray) -> np.ndarray:
    log_p, log_q = in_blocks(partial(log_densities, target, student), z)
    assert log_q is not None
    weights = np.where(np.isfinite(log_p) & np.isfinite(log_q), log_p - log_q, -np.inf).astype(float)
    if not np.isfinite(weights).any():
        raise IngredientError(
            "The log density is not finite at any draw of the student, so nothing can be resampled; "
            "fit the student again."
        )
    return weights
