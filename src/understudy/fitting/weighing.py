"""What importance weights tell of a student that is nearly right: more than as many draws of chains.

The weights p / q of independent draws say how far the share of the target's mass below a quantile of
the student is from the share it should be, with an error that falls with the spread of the weights.
They are blind to mass where the student never goes; chains that were there see it, since E_p[q / p]
times the mean weight is the share of the mass that the student covers.

Reference: Vehtari et al., "Pareto Smoothed Importance Sampling", 2024; Meng and Wong, "Simulating
ratios of normalizing constants via a simple identity", 1996.
"""

from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float
from scipy.special import logsumexp

from understudy.evaluation.trust import pareto_smoothed
from understudy.evaluation.trust.weights import TAIL_BAD, effective_share
from understudy.fitting.chains import thinned
from understudy.fitting.evaluations import Evaluations
from understudy.fitting.learning import Candidate

# Numbers of chains' draws that are looked at, and how well the covered share has to be known; a tail
# that looks heavy does no harm where weights spread little and hardly any mass can be missed.
_LOOKED, _KNOWN, _SPREAD, _LITTLE = 1_000_000, 0.05, 0.3, 0.01
# Draws of either that are looked at.
_ROWS, _FEW = 16_384, 2048
# Numbers that are drawn to match margins, and how far scores may be off that chains and weights tell.
_DRAWN, _BY_CHAINS, _BY_WEIGHTS = 4_000_000, 0.015, 0.002
# The spread of weights beyond which too few of them count.
_UNEVEN = 2.0
# The share of draws that count where weights are nearly even.
_EVEN = 0.7

Trace = Float[np.ndarray, "t m d"]


class Weighed(NamedTuple):
    """Draws of a student with weights.

    Attributes:
        z: the draws.
        weights: of mean one, their tail smoothed.
        outside: share of the draws where the log density is not finite.
        missed: share of the mass that the student does not cover, or covers where chains never were,
            beyond two standard errors.
        usable: whether the tail of the weights is light enough, and the covered share known.
    """

    z: Float[np.ndarray, "n d"]
    weights: Float[np.ndarray, " n"]
    outside: float
    missed: float
    usable: bool


def weigh(seed: int, student: Any, evaluate: Evaluations, trace: Trace, n: int) -> Weighed:
    """Draw from a student and weigh what it drew; the chains say what it misses.

    Args:
        seed: of the draws.
        student: draws z and has a density.
        evaluate: the target's log density.
        trace: draws of chains.
        n: how many to draw; fewer where gradients are dear.
    """
    z, log_q = student.draw(seed, min(n, evaluate.most))
    log_p, _ = evaluate(z)
    log_weights = np.where(np.isfinite(log_p), log_p - log_q, -np.inf)
    outside = float(1 - np.isfinite(log_p).mean())
    if not np.isfinite(log_weights).any():
        return Weighed(z, np.ones(len(z)), outside, 1.0, False)
    smooth, k = pareto_smoothed(log_weights)
    weights = np.exp(smooth) * len(z)
    # The shape of a tail says nothing of its size: nearly even weights may end in a few odd ones.
    spread, light = weights.std(), k < TAIL_BAD
    if spread > _SPREAD and not (light and spread < _UNEVEN):
        return Weighed(z, np.ones(len(z)), outside, 0.0, False)
    log_mean = float(logsumexp(log_weights) - np.log(len(z)))
    missed, error = _missed(student, evaluate, trace, log_mean, weights)
    beyond = max(abs(missed) - 2 * error, 0.0)
    usable = 2 * error < _KNOWN and (light or beyond + 2 * error < _LITTLE)
    return Weighed(z, weights, outside, beyond, usable)


def nearly_right(evaluate: Evaluations, student: Any, trace: Trace) -> bool:
    """Whether most draws of a student would be taken as they are."""
    weighed = weigh(0, student, evaluate, trace, _FEW)
    return weighed.usable and effective_share(np.log(np.maximum(weighed.weights, 1e-300))) > _EVEN


def with_margins(seed: int, student: Candidate, evaluate: Evaluations, trace: Trace) -> Candidate:
    """The student with the margins of its weighed draws where weights tell, else those of the chains.

    The margins of a Gaussian copula are those of the chains already.
    """
    d = student.coordinates.dim
    n = int(np.clip(_DRAWN // d, _ROWS, 16 * _ROWS))
    own = student.draw_standard(seed, n)
    weighed = weigh(seed, student, evaluate, trace, n) if n <= evaluate.most else None
    if weighed is None or not weighed.usable:
        by_chains = trace.reshape(-1, d)
        return student if student.flow is None else student.matched(own, by_chains, _BY_CHAINS)
    # One random number for all picks keeps every row's count next to its weight, and the rows are those
    # of its own draws, so that margins differ by what weights say and by nothing else.
    places = (np.arange(n) + np.random.default_rng(seed).uniform()) / n
    shares = np.cumsum(weighed.weights) / weighed.weights.sum()
    picked = weighed.z[np.minimum(np.searchsorted(shares, places), n - 1)]
    return student.matched(own, picked, _BY_WEIGHTS)


def _missed(
    student: Any,
    evaluate: Evaluations,
    trace: Trace,
    log_mean: float,
    weights: np.ndarray,
) -> tuple[float, float]:
    """The share of the mass that is not covered, and its standard error."""
    _, m, d = trace.shape
    most = max(4, min(_LOOKED // d, evaluate.most, _ROWS) // m)
    some = thinned(trace, most)
    rows = some.reshape(-1, d)
    with np.errstate(over="ignore"):
        covered = np.exp(student.log_prob(rows) - evaluate(rows)[0] + log_mean)
    by_chain = covered.reshape(len(some), m).mean(0)
    error = np.hypot(by_chain.std(ddof=1) / np.sqrt(m), weights.std() / np.sqrt(len(weights)))
    return (1 - float(by_chain.mean()), float(error)) if np.isfinite(by_chain).all() else (1.0, 0.0)
