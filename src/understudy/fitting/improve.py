"""Student and chains improve each other: the student proposes where it is good, else the chains go on.

Every round the flow learns from the newest draws of most chains and is measured on the others, which it
never sees; then it offers its draws to all chains by independence moves, which carry them between modes
and through narrow places, and the chains go on with Hamiltonian moves.
"""

from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from understudy.coordinates import Coordinates, Walls, fit_coordinates
from understudy.fitting.budget import Budget
from understudy.fitting.chains import COMPARED, Agreement, Chains, agreement, thinned
from understudy.fitting.judge import Columns, told
from understudy.fitting.learning import FLOWS, Candidate, Learning, Pupil
from understudy.fitting.modes import Candidates, find_modes, mixture
from understudy.fitting.region import Region, copula, every, refitted
from understudy.fitting.transport import FlowCoordinates

_ROUNDS, _SPREADS = 100, 8
# The share of the budget after which no round begins, and the rounds without gain after which the
# student learns no more.
_UNTIL, _STALLED = 0.7, 3
# Acceptance of offers above which they are kept, and above which more are made.
_TAKEN, _OFTEN = 0.05, 0.3
# Rounds that are made in any case, and the drift of means, in deviations, above which more are: what
# the chains alone did not reach (the neck of a funnel) comes in with the student, round by round.
_FIRST, _STEADY = 4, 0.03
_UPDATES = 400
# Of the chains when they begin to move in a flow's noise.
_STEP = 0.5
_RATE = 3e-3
# Offers before moves, many of them and few moves where they are often taken (more of
# those in a flow's noise, which go where its draws do not); every so many offers are wide.
_OFFERS, _MANY, _FEW, _FEWEST, _SELDOM = 16, 32, 6, 2, 3
_NUMBERS = 40_000_000
_GAIN = 0.01
# One chain in so many is kept from the student, to measure it on.
_HELD = 8


class Improved(NamedTuple):
    """What the rounds came to.

    Attributes:
        candidate: the best on draws it has not seen.
        region: draws of the chains since the student helps them, and their agreement.
        acceptance: of independence moves with the student.
    """

    candidate: Candidate
    region: Region
    acceptance: float


class Offered(NamedTuple):
    """What became of a student's draws that were offered to the chains.

    Attributes:
        acceptance: the mean over all offers.
        z: where the chains were after each offer.
    """

    acceptance: float
    z: Float[np.ndarray, "t m d"]


def offer(
    chains: Chains,
    student: Candidate | Candidates,
    seed: int,
    offers: int = _OFFERS,
    wide: bool = False,
) -> Offered:
    """Offer every chain some draws of the student, one after the other, by independence moves.

    Wide draws have longer tails than the student's own.

    Reference: Tierney, "Markov chains for exploring posterior distributions", 1994.
    """
    z, count = chains.z, chains.count
    candidates, log_q = student.draw(seed, offers * count, wide)
    log_p, _ = chains.evaluate(candidates)
    weight = (np.where(np.isfinite(log_p), log_p, -np.inf) - log_q).reshape(offers, count)
    candidates = candidates.reshape(offers, count, -1)
    now = chains.evaluate(z)[0] - student.log_prob(z, wide)
    generator, rates, states = np.random.default_rng(seed + 1), [], []
    for i in range(offers):
        chance = np.exp(np.minimum(np.nan_to_num(weight[i] - now, nan=-np.inf), 0.0))
        accept = generator.uniform(size=count) < chance
        z = np.where(accept[:, None], candidates[i], z)
        now = np.where(accept, weight[i], now)
        rates.append(chance.mean())
        states.append(z)
    chains.place(z)
    return Offered(float(np.mean(rates)), np.stack(states))


def spread(
    chains: Chains, found: Region, walls: Walls | None, budget: Budget, seed: int
) -> tuple[Candidates, Region] | None:
    """Where chains sit in modes that they do not leave, rounds of offers of a mixture; else None."""
    u, _ = chains.coordinates.whiten(found.z.reshape(-1, found.z.shape[-1]))
    modes = find_modes(u.reshape(found.z.shape))
    if modes.max() == 0:
        return None
    flat, labels = found.z.reshape(-1, found.z.shape[-1]), np.tile(modes, len(found.z))
    student, traces, z = mixture(flat, labels, walls, found.coordinates), [], found.z
    for i in range(_SPREADS):
        z = _sweeps(chains, student, seed + 5000 + 100 * i, 6, 6).z
        traces = [*traces, z] if i > 1 else [z]
        z = np.concatenate(traces)
        flat = z.reshape(-1, z.shape[-1])
        student = mixture(flat, np.argmax(student.log_probs(flat), 1), walls, found.coordinates)
        if budget.share > 0.7:
            break
    agreed = _agreed(chains.home, z)
    fitted = fit_coordinates(flat, walls, float(np.median(agreed.effective)))
    return student._replace(coordinates=fitted), Region(z, fitted, agreed)


def _sweeps(
    chains: Chains, student: Any, seed: int, sweeps: int, length: int, many: int = _MANY
) -> Offered:
    """Offers and Hamiltonian moves in turn; where the chains were after each.

    A student whose draws are often taken offers many of them and leaves less to the moves.
    """
    parts, rates, offers = [], [], _OFFERS
    for k in range(sweeps):
        offered = offer(chains, student, seed + 10 * k, offers, wide=k % _SELDOM == 0)
        moved = chains.traced(chains.run(length, every(chains, length)))
        # Offers that are seldom taken leave the chains where they were: nothing to keep.
        parts += [offered.z, moved] if offered.acceptance > _TAKEN else [moved]
        rates.append(offered.acceptance)
        if offered.acceptance > _OFTEN:
            few = _FEW if isinstance(chains.coordinates, FlowCoordinates) else _FEWEST
            offers, length = many, min(length, few)
    return Offered(float(np.mean(rates)), np.concatenate(parts))


def _bounded(traces: list[np.ndarray]) -> list[np.ndarray]:
    """Traces that fit in memory, every second draw of each left out while they do not."""
    while sum(trace.size for trace in traces) > _NUMBERS:
        traces = [trace[::2] for trace in traces]
    return traces


def prolong(
    chains: Chains,
    found: Region,
    student: Candidate,
    walls: Walls | None,
    budget: Budget,
    columns: Columns,
    seed: int,
) -> Region:
    """Chains that go on, helped by a student that learns no more, until they tell enough."""
    traces, agreed = [found.z], found.agreement
    z, step = found.z, chains.step_size
    _move_in(chains, student)
    for i in range(_ROUNDS):
        if told(student, z, agreed, columns, chains) or budget.share > _UNTIL:
            break
        for k in range(max(1, i // 3)):
            traces.append(_sweeps(chains, student, seed + 1000 * i + 100 * k, 6, 8, 4 * _MANY).z)
        traces = _bounded(traces)
        z = np.concatenate(traces)
        agreed = _agreed(found.coordinates, z)
    _move_back(chains, step)
    return refitted(Region(z, found.coordinates, agreed), walls)


def improve(
    chains: Chains,
    found: Region,
    learning: Learning,
    walls: Walls | None,
    budget: Budget,
    columns: Columns,
    seed: int,
) -> Improved:
    """Rounds of learning, offering and going on, until neither gains and the chains tell enough."""
    gaussian = copula(found)
    learner = _better(learning, found, *_split(found.z))
    best = _likelier([gaussian, learner.candidate], _split(found.z)[1])
    traces, stalled, step = [found.z], 0, chains.step_size
    z, agreed, acceptance = found.z, found.agreement, float("nan")
    for i in range(_ROUNDS):
        _move_in(chains, best)
        length = max(1, min(8, len(found.z) // 6))
        for k in range(max(1, i // 6)):
            many = _MANY if stalled <= _STALLED else 4 * _MANY
            offered = _sweeps(chains, best, seed + 1000 * i + 100 * k, 6, length, many)
            acceptance = offered.acceptance
            traces.append(offered.z)
        traces = _bounded(traces)
        # What was drawn before the student helped is forgotten.
        late = traces[1 + len(traces) // 2 :] if len(traces) > 3 else traces[1:]
        z = np.concatenate(late)
        agreed = _agreed(found.coordinates, z)
        if stalled <= _STALLED:
            seen, held = _split(np.concatenate(traces[-4:]))
            learner.learn(seen, held, 2 * _UPDATES, _RATE, _RATE / 20)
            score, before = (float(one.log_prob(held).mean()) for one in (learner.candidate, best))
            chains.seen |= {"R-hat": agreed.r_hat, "held-out log q": max(score, before)}
            stalled = 0 if score > before + _GAIN else stalled + 1
            best = learner.candidate if score > before else best
        steady = i > _FIRST and stalled and agreed.drift < _STEADY and agreed.settled
        if budget.share > _UNTIL or (steady and told(best, z, agreed, columns, chains)):
            break
    _move_back(chains, step)
    region = refitted(Region(z, found.coordinates, agreed), walls)
    return Improved(_last(learning, learner, best, region), region, acceptance)


def _last(learning: Learning, learner: Pupil, best: Candidate, found: Region) -> Candidate:
    """The best of the Gaussian, the flow so far and a new one in coordinates that fit all draws."""
    seen, held = _split(found.z)
    fresh = learning.begin(found.coordinates, seen, learner.name)
    fresh.learn(seen, held, 3 * _UPDATES, _RATE)
    gaussian = copula(found)
    return _likelier([gaussian, best, fresh.candidate], held)


def _likelier(students: list[Candidate], held: np.ndarray) -> Candidate:
    """The one that makes draws it has not seen likeliest."""
    return max(students, key=lambda one: float(one.log_prob(held).mean()))


def _better(learning: Learning, found: Region, seen: np.ndarray, held: np.ndarray) -> Pupil:
    """The kind of flow that makes draws it has not seen likeliest."""
    learners = [learning.begin(found.coordinates, seen, name) for name in FLOWS]
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


def _move_in(chains: Chains, student: Candidate) -> None:
    """Let the chains go on in the noise of a flow."""
    if student.flow is not None:
        step = chains.step_size if isinstance(chains.coordinates, FlowCoordinates) else _STEP
        chains.change(FlowCoordinates(student.flow, student.coordinates))
        chains.pace(step)


def _move_back(chains: Chains, step: float) -> None:
    """Let the chains go on where and how they did before."""
    chains.change(chains.home)
    chains.pace(step)


def _agreed(coordinates: Coordinates, z: Float[np.ndarray, "t m d"]) -> Agreement:
    z = thinned(z, COMPARED)
    u, _ = coordinates.whiten(z.reshape(-1, z.shape[-1]))
    return agreement(u.reshape(z.shape))
