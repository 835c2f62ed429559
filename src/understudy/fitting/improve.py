"""Student and chains improve each other: the student proposes where it is good, else the chains go on.

Every round the flow learns from the newest draws of most chains and is measured on the others, which it
never sees; then it offers its draws to all chains by independence moves, which carry them between modes
and through narrow places, and the chains go on with Hamiltonian moves.
"""

from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from understudy.coordinates import Walls, fit_coordinates
from understudy.fitting import judge
from understudy.fitting.budget import Budget
from understudy.fitting.chains import CHAINS, GROUPS, Agreement, Chains, agreement
from understudy.fitting.learning import Candidate, Learning, Pupil
from understudy.fitting.modes import Candidates, find_modes, mixture
from understudy.fitting.region import Region, every, refitted

_ROUNDS, _SPREADS = 12, 8
_UPDATES = 400
_RATE = 3e-3
_OFFERS = 16
_GAIN = 0.01
# One chain in so many is kept from the student, to measure it on.
_HELD = 8


class Improved(NamedTuple):
    """What the rounds came to.

    Attributes:
        candidate: the best on draws it has not seen.
        region: draws of the chains since the student helps them, and their agreement.
        acceptance: of independence moves with the student.
        scores: held-out log densities of the Gaussian and of the student.
    """

    candidate: Candidate
    region: Region
    acceptance: float
    scores: tuple[float, float]


def offer(chains: Chains, student: Candidate | Candidates, seed: int, offers: int = _OFFERS) -> float:
    """Offer every chain some draws of the student, one after the other; the mean acceptance.

    Reference: Tierney, "Markov chains for exploring posterior distributions", 1994.
    """
    z = chains.z
    candidates, log_q = student.draw(seed, offers * CHAINS)
    log_p, _ = chains.evaluate(candidates)
    weight = (np.where(np.isfinite(log_p), log_p, -np.inf) - log_q).reshape(offers, CHAINS)
    candidates = candidates.reshape(offers, CHAINS, -1)
    now = chains.evaluate(z)[0] - student.log_prob(z)
    generator, rates = np.random.default_rng(seed + 1), []
    for i in range(offers):
        chance = np.exp(np.minimum(np.nan_to_num(weight[i] - now, nan=-np.inf), 0.0))
        accept = generator.uniform(size=CHAINS) < chance
        z = np.where(accept[:, None], candidates[i], z)
        now = np.where(accept, weight[i], now)
        rates.append(chance.mean())
    chains.place(z)
    return float(np.mean(rates))


def spread(
    chains: Chains, found: Region, walls: Walls | None, budget: Budget, seed: int
) -> tuple[Candidates, Region] | None:
    """Where chains sit in modes that they do not leave, rounds of offers of a mixture; else None."""
    u, _ = chains.coordinates.whiten(found.z.reshape(-1, found.z.shape[-1]))
    modes = find_modes(u.reshape(found.z.shape))
    if modes.max() == 0:
        return None
    flat, labels = found.z.reshape(-1, found.z.shape[-1]), np.tile(modes, len(found.z))
    student, traces = mixture(flat, labels, walls, found.coordinates), []
    for i in range(_SPREADS):
        z = _sweeps(chains, student, seed + 5000 + 100 * i, 6, 6)
        traces = [*traces, z] if i > 1 else [z]
        z = np.concatenate(traces)
        flat = z.reshape(-1, z.shape[-1])
        student = mixture(flat, np.argmax(student.log_probs(flat), 1), walls, found.coordinates)
        if budget.share > 0.7:
            break
    agreed = _agreed(chains, z)
    fitted = fit_coordinates(flat, walls, float(np.median(agreed.effective)))
    return student._replace(coordinates=fitted), Region(z, fitted, agreed)


def _sweeps(chains: Chains, student: Any, seed: int, sweeps: int, length: int) -> np.ndarray:
    """Offers and Hamiltonian moves in turn; the draws after each move."""
    parts = []
    for k in range(sweeps):
        offer(chains, student, seed + 10 * k)
        parts.append(chains.colour(chains.run(length)).reshape(length, CHAINS, -1))
    return np.concatenate(parts)


def improve(
    chains: Chains, found: Region, learning: Learning, walls: Walls | None, budget: Budget, seed: int
) -> Improved:
    """Rounds of learning, offering and going on, until neither gains."""
    seen, held = _split(found.z)
    gaussian = Candidate(None, found.coordinates, "Gaussian copula")
    base = float(gaussian.log_prob(held).mean())
    learner = _better(learning, found, seen, held)
    best, best_score = learner.candidate, float(learner.candidate.log_prob(held).mean())
    if base > best_score:
        best, best_score = gaussian, base
    traces, agreed, rate, stalled = [found.z], found.agreement, 0.0, 0
    for i in range(_ROUNDS):
        sweeps, length = 6, max(1, min(8, len(found.z) // 6))
        parts, rates = [], []
        for k in range(sweeps):
            rates.append(offer(chains, best, seed + 1000 * i + 10 * k))
            parts.append(chains.colour(chains.run(length, every(chains.u.shape[1], length))))
        rate = float(np.mean(rates))
        traces.append(np.concatenate(parts).reshape(-1, *found.z.shape[1:]))
        # What was drawn before the student helped is forgotten.
        late = traces[1 + len(traces) // 3 :] if len(traces) > 3 else traces[1:]
        z = np.concatenate(late)
        agreed = _agreed(chains, z)
        seen, held = _split(np.concatenate(traces[-4:]))
        learner.learn(seen, held, _UPDATES, _RATE, _RATE / 3)
        score, before = (float(one.log_prob(held).mean()) for one in (learner.candidate, best))
        chains.seen |= {"R-hat": agreed.r_hat, "held-out log q": max(score, before)}
        stalled = 0 if score > before + _GAIN else stalled + 1
        best = learner.candidate if score > before else best
        last = z.reshape(-1, z.shape[-1])
        known = judge.imprecision(last, float(np.quantile(agreed.effective, 0.1))) < judge.PRECISION
        done = agreed.settled and agreed.error < 0.03 and i > 1 and known
        if (done and stalled > 0) or (stalled > 3 and i > 7) or budget.share > 0.7:
            break
    region = refitted(Region(z, chains.coordinates, agreed), walls)
    student, score, base = _last(learning, learner, best, region)
    return Improved(student, region, rate, (base, score))


def _last(
    learning: Learning, learner: Pupil, best: Candidate, found: Region
) -> tuple[Candidate, float, float]:
    """The best of the Gaussian, the flow so far and a new one in coordinates that fit all draws."""
    seen, held = _split(found.z)
    fresh = learning.begin(found.coordinates, "axes" in learner.name)
    fresh.learn(seen, held, 3 * _UPDATES, _RATE)
    gaussian = Candidate(None, found.coordinates, "Gaussian copula")
    students = [gaussian, best, fresh.candidate]
    scores = [float(one.log_prob(held).mean()) for one in students]
    chosen = students[int(np.argmax(scores))]
    flat = found.z.reshape(-1, found.z.shape[-1])
    return chosen.matched(flat), max(scores), scores[0]


def _better(learning: Learning, found: Region, seen: np.ndarray, held: np.ndarray) -> Pupil:
    """The flow along the axes or on white draws, whichever makes draws it has not seen likelier."""
    learners = [learning.begin(found.coordinates, along) for along in (True, False)]
    for learner in learners:
        learner.learn(seen, held, _UPDATES, _RATE, _RATE / 3)
    return max(learners, key=lambda one: float(one.candidate.log_prob(held).mean()))


def _split(z: Float[np.ndarray, "t m d"]) -> tuple[np.ndarray, np.ndarray]:
    """Draws of the chains that the student sees, and of those it does not."""
    hidden = np.arange(z.shape[1]) % _HELD == _HELD - 1
    seen, held = z[:, ~hidden], z[:, hidden]
    flat = held.reshape(-1, z.shape[-1])
    return seen.reshape(-1, z.shape[-1]), flat[
        np.linspace(0, len(flat) - 1, min(len(flat), 2048)).astype(int)
    ]


def _agreed(chains: Chains, z: Float[np.ndarray, "t m d"]) -> Agreement:
    u, _ = chains.coordinates.whiten(z.reshape(-1, z.shape[-1]))
    return agreement(u.reshape(z.shape), GROUPS)
