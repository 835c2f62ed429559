"""Stages two and three: a Gaussian by its moments, then a flow on the Gaussian's whitening."""

import math
import time
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import optax

from understudy.core import Key, Student, Target
from understudy.feedbacks import InclusiveKL, MomentProjection
from understudy.students import FullGaussian
from understudy.teachers import Compose, IndependenceMetropolis, Preconditioned, hmc
from understudy.training import Learner, Training
from understudy.training.recording import Callback, Chunk, StopTraining
from understudy.training.update import State

PARTICLES = 64
GAUSSIAN_LEAPFROGS = 3
FLOW_LEAPFROGS = 2

# The updates run for a few seconds only, so XLA should not spend as long on making them faster.
QUICK = {"xla_backend_optimization_level": 1}

Steps = Callable[[Any], Any]


class Budget:
    """What a fit may spend: wall time from now on, gradient evaluations, or both.

    Args:
        seconds: of wall time.
        gradients: evaluations of the log density's gradient.
    """

    def __init__(self, seconds: float = math.inf, gradients: float | int = math.inf):
        self.deadline = time.perf_counter() + seconds
        self.gradients = gradients
        self.spent = 0

    @property
    def left(self) -> bool:
        """Whether new work may be begun."""
        return self.spent < self.gradients and time.perf_counter() < self.deadline


def gaussian_training(target: Target, seed: int, repeats: int | None) -> Training:
    """A full Gaussian that follows the moments of the teacher's draws, averaged over updates."""
    local = hmc(0.5, GAUSSIAN_LEAPFROGS, target_acceptance=0.8, jitter=0.5, largest_step=math.pi / 6)
    learner = Learner(MomentProjection(0.1), particles=PARTICLES, average=0.98)
    gaussian, teacher = FullGaussian(target.dim), Preconditioned(local)
    return Training(learner, target, gaussian, teacher, seed=seed, repeats=repeats)


def flow_training(
    target: Target, flow: Callable[[Key], Student], seed: int, repeats: int | None
) -> Training:
    """A flow taught by local moves and then one independence move, by the inclusive KL."""
    local = hmc(0.5, FLOW_LEAPFROGS, target_acceptance=0.8, jitter=0.7, largest_step=math.pi / 4)
    optimiser = optax.inject_hyperparams(_flat_adam)(learning_rate=0.0)
    learner = Learner(InclusiveKL(), particles=PARTICLES, optimiser=optimiser)
    teacher = Compose(local, IndependenceMetropolis())
    return Training(learner, target, flow, teacher, seed=seed, repeats=repeats)


def _flat_adam(learning_rate: Any) -> optax.GradientTransformation:
    return optax.flatten(optax.adam(learning_rate))


def gaussian_steps(state: Any) -> Any:
    """T of the Gaussian's teacher."""
    return state.teacher.teacher.steps


def flow_steps(state: Any) -> Any:
    """T of the local moves of the flow's teacher."""
    return state.teacher.teachers[0].steps


def flow_rate(state: Any) -> Any:
    """The learning rate of the flow's optimiser."""
    return state.memory["student"].hyperparams["learning_rate"]


def set_number(where: Callable[[Any], Any], state: State, value: float | int) -> State:
    """The state with every entry of one array leaf set to a value; nothing is compiled again."""
    leaf = where(state)
    return eqx.tree_at(where, state, jnp.full_like(leaf, value))


def spending(budget: Budget, steps: Steps, leapfrogs: int, begin: int = 0) -> Callback:
    """Count gradient evaluations after the update ``begin`` and stop where the budget is spent."""
    before = begin

    def count(chunk: Chunk) -> None:
        nonlocal before
        transitions = jnp.atleast_1d(steps(chunk.state))
        each = int(jnp.sum(transitions * leapfrogs + 1)) * PARTICLES
        budget.spent += (chunk.row["step"] - before) * each
        before = chunk.row["step"]
        if not budget.left:
            raise StopTraining

    return count


def growing(steps: Steps, far: float = 1.2, most: int = 8) -> Callback:
    """One transition more after each chunk, until draws move as far as fresh ones almost would.

    Independent draws are sqrt(2) = 1.41 standard deviations apart.
    """

    def grow(chunk: Chunk) -> State | None:
        now = int(jnp.max(steps(chunk.state)))
        if now < most and float(jnp.min(chunk.row["move"])) < far:
            return set_number(steps, chunk.state, now + 1)
        return None

    return grow


def cooling(begin: int, updates: int, rate: float, most: int = 3) -> Callback:
    """A cosine from ``rate`` to zero over the updates after ``begin``, while T grows from one."""

    def cool(chunk: Chunk) -> State:
        return paced(chunk.state, (chunk.row["step"] - begin) / updates, rate, most)

    return cool


def paced(state: State, progress: float, rate: float, most: int = 3) -> State:
    """The state with the rate and T that belong to this progress between zero and one."""
    state = set_number(flow_rate, state, 0.5 * rate * (1 + math.cos(math.pi * progress)))
    return set_number(flow_steps, state, min(most, 1 + int(most * progress)))


def keep_scale(chunk: Chunk) -> None:
    """Stop where a Gaussian in whitened coordinates runs away: acceptance would not show it."""
    largest = float(jnp.exp(chunk.state.student.log_diagonal).max())
    if not largest < 1e3:
        raise StopTraining


def unstack(student: Any, repeats: int | None) -> list[Any]:
    """The students of all repeats, one by one."""
    if repeats is None:
        return [student]
    arrays, rest = eqx.partition(student, eqx.is_array)
    leaves, structure = jax.tree.flatten(arrays)
    rows = [jax.tree.unflatten(structure, [leaf[i] for leaf in leaves]) for i in range(repeats)]
    return [eqx.combine(row, rest) for row in rows]
