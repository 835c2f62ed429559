"""Going on to learn at the data that really came, from the teacher.

At a real data set the student proposes, the teacher offers it its own draws (independence moves, which
pick by weight) and moves them by the gradient of the likelihood; the student learns where they end. It
takes turns with fresh simulated pairs, so that nothing is forgotten.
"""

import time
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from understudy.amortising.budget import Length, share_of
from understudy.amortising.finishing import FEWEST, LARGEST_K, unfinished
from understudy.amortising.learning import Learning, Simulated, pace, paced_adam
from understudy.amortising.observations import DataSet
from understudy.amortising.simulators import Simulator
from understudy.batches import Minibatches
from understudy.feedbacks import InclusiveKL
from understudy.teachers import Compose, IndependenceMetropolis, hmc
from understudy.teachers.preconditioned import Preconditioned
from understudy.training import Learner, State, Training
from understudy.training.update import paced

_OFFERS, _MOVES, _PARTICLES, _DATA_SETS = 16, 3, 8, 32
_RATE = 3e-4
_TURN = 5


class Taught(NamedTuple):
    """What teaching at real data sets came to.

    Attributes:
        student: after it.
        seconds: run time, without compilation.
        compile_seconds: time spent compiling.
        gradients: evaluations of the log density's gradient.
        evaluations: evaluations of the log density.
        simulations: pairs that were drawn beside.
        note: what changed, in words.
    """

    student: Any
    seconds: float
    compile_seconds: float
    gradients: int
    evaluations: int
    simulations: int
    note: str


def teach(
    simulator: Simulator, student: Any, real: DataSet, held: Simulated, length: Length, seed: int
) -> Taught:
    """Learn from the teacher at real data sets and from simulated pairs, by turns.

    Args:
        simulator: weighs draws, and draws the pairs.
        student: who goes on learning.
        real: data sets that came, one a row.
        held: simulated pairs that are never learnt from.
        length: how long, in seconds without compilation or in updates at real data sets.
        seed: of everything random.
    """
    started = time.perf_counter()
    pairs = Learning(simulator, student, held, seed + 1)
    moves = hmc(0.3, 5, steps=_MOVES, target_acceptance=0.8, largest_step=1.0, jitter=0.5)
    teacher = Compose(IndependenceMetropolis(_OFFERS), Preconditioned(moves, draws=64))
    learner = Learner(InclusiveKL(), particles=_PARTICLES, optimiser=paced_adam())
    data = Minibatches(jax.tree.map(jnp.asarray, real), _DATA_SETS)
    lessons = Training(learner, simulator.target, student, teacher, data, seed=seed + 2).compile()
    before = _served(simulator, student, real)
    compiled, begun = time.perf_counter() - started, time.perf_counter()
    state, other = lessons.state, pairs.state
    while (share := share_of(length, time.perf_counter() - begun, int(state.step))) < 1:
        rate = pace(_RATE, share)
        state, _ = lessons.advance(paced(state, rate), _TURN)
        other, _ = pairs.training.advance(paced(_handed(state, other), rate), _TURN)
        state = _handed(other, state)
    after = _served(simulator, state.student, real)
    updates, draws = int(state.step), _DATA_SETS * _PARTICLES
    note = (
        f"{updates:,} updates at {len(jax.tree.leaves(real)[0]):,} data sets; without chains "
        f"{100 * before[0]:.0f} % before and {100 * after[0]:.0f} % after, median effective share "
        f"{before[1]:.2f} before and {after[1]:.2f} after"
    )
    return Taught(
        state.student,
        time.perf_counter() - begun,
        compiled,
        updates * draws * _MOVES * 5,
        updates * draws * (_OFFERS + 1),
        int(other.step) * pairs.conditions.size,
        note,
    )


def _handed(giver: State, taker: State) -> State:
    """The taker with the student of the giver and the memory of its optimiser.

    The one wraps the student to be told truths and the other does not; the arrays are the same.
    """

    def copied(new: Any, old: Any) -> Any:
        arrays, _ = eqx.partition(new, eqx.is_array)
        _, rest = eqx.partition(old, eqx.is_array)
        structure = jax.tree.structure(eqx.filter(old, eqx.is_array))
        return eqx.combine(jax.tree.unflatten(structure, jax.tree.leaves(arrays)), rest)

    where = lambda s: (s.student, s.memory["student"])  # noqa: E731
    new = tuple(copied(a, b) for a, b in zip(where(giver), where(taker), strict=True))
    return eqx.tree_at(where, taker, new)


def _served(simulator: Simulator, student: Any, data: DataSet) -> tuple[float, float]:
    """The share of data sets whose weights can be relied upon, and their median effective share."""
    done = unfinished(jax.random.key(0), student, simulator.target, data, FEWEST)
    return float(np.mean(done.pareto_k < LARGEST_K)), float(np.median(done.share))
