"""One program for all splits: train, and look at the predictions at a few marks on the way."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float, PyTree

from experiments.bnn.problems import Problems
from understudy.core import Feedback, IngredientError, Key, Student, Teacher, numbered
from understudy.targets import BayesianNetwork
from understudy.training import Learner

HIDDEN, AVERAGE = 50, 0.98


@dataclass(frozen=True)
class Course:
    """How one method trains.

    Args:
        student: from a key, the target and what to start from.
        teacher: from the setting that is tuned, the number of rows and what to start from.
        feedback: how it learns.
        particles: draws per update.
        marks: numbers of updates at which predictions are made.
        draws: draws of the student per prediction.
        batch: rows of a minibatch, None for all.
        learns: whether the setting is Adam's learning rate (else it is the teacher's).
        together: problems trained in lockstep; the others wait.
        temperature: T of the target p(z)^(1/T).
        guard: whether a gradient that is not finite is left out; without it ``follow`` sees such a one.
    """

    student: Callable[[Key, BayesianNetwork, Any], Student]
    teacher: Callable[[Any, int, Any], Teacher]
    feedback: Feedback
    particles: int
    marks: tuple[int, ...]
    draws: int
    batch: int | None = 32
    learns: bool = True
    together: int = 20
    temperature: float = 1.0
    guard: bool = True


class Outcome(NamedTuple):
    """What came of a course on several problems.

    Attributes:
        probabilities: of label 1, for every problem, mark, draw and row.
        students: at every mark.
        seconds: of CPU for all problems together, without compiling.
    """

    probabilities: Float[np.ndarray, "s e k m"]
    students: PyTree
    seconds: float

    @property
    def mean(self) -> Float[np.ndarray, "s e m"]:
        """The mean prediction at every mark."""
        return self.probabilities.mean(2)


def follow(
    course: Course, key: Key, problems: Problems, settings: Any, starts: PyTree = None
) -> Outcome:
    """Train on all problems, each with its own setting and start."""
    arrays, rest = eqx.partition(starts, eqx.is_array)
    keys = jax.random.split(key, problems.labels.shape[0])
    given = (keys, problems, jnp.asarray(settings, float), arrays)
    compiled = jax.jit(partial(_all, course, rest)).lower(*given).compile()
    started = time.process_time()
    probabilities, students = jax.block_until_ready(compiled(*given))
    seconds = time.process_time() - started
    _check_finite(probabilities, settings)
    return Outcome(
        np.asarray(probabilities), eqx.combine(students, _static(course, given, rest)), seconds
    )


def _check_finite(probabilities: Float[Array, "s e k m"], settings: Any) -> None:
    lost = ~np.isfinite(probabilities).all((1, 2, 3))
    if lost.any():
        rates = sorted({float(setting) for setting in np.asarray(settings)[lost]})
        raise IngredientError(
            f"{lost.sum()} of {lost.size} trainings ended without finite predictions, with settings "
            f"{rates}: smaller learning rates or steps are needed."
        )


def _static(course: Course, given: PyTree, rest: PyTree) -> PyTree:
    """What of a student is not an array, which a compiled program cannot return."""

    def student():
        key, problem, setting, start = _first(given)
        return _begin(course, key, problem, setting, eqx.combine(start, rest))[2]

    made = eqx.filter_eval_shape(student)
    return eqx.filter(made, lambda leaf: isinstance(leaf, jax.ShapeDtypeStruct), inverse=True)


def _first(tree: PyTree) -> PyTree:
    return jax.tree.map(lambda leaf: leaf[0], tree)


def _all(course: Course, rest: PyTree, keys, problems, settings, starts):
    def one(given):
        key, problem, setting, start = given
        return _course(course, key, problem, setting, eqx.combine(start, rest))

    # Few problems at a time stay in the cache of a core; one at a time is a plain loop.
    size = min(course.together, keys.shape[0])
    given = (keys, problems, settings, starts)
    return jax.lax.map(one, given, batch_size=None if size == 1 else size)


def _begin(course: Course, key: Key, problem: Problems, setting: Any, start: PyTree):
    target = network(problem).tempered(course.temperature)
    begin, first = jax.random.split(key)
    student = course.student(begin, target, start)
    rate = setting if course.learns else 1e-3
    learner = Learner(
        course.feedback,
        particles=course.particles,
        optimiser=optax.adam(rate),
        average=AVERAGE if course.learns else None,
        guard=course.guard,
    )
    teacher = course.teacher(setting, problem.labels.shape[-1], start)
    rows = _rows(course, target, first)
    return learner, learner.init(first, target, student, teacher, rows), student


def network(problem: Problems) -> BayesianNetwork:
    """The posterior of the experiment's network."""
    return BayesianNetwork(problem.features, problem.labels, (HIDDEN,))


def _rows(course: Course, target: BayesianNetwork, key: Key) -> Any:
    return None if course.batch is None else target.minibatches(course.batch)(key)


def _course(course: Course, key: Key, problem: Problems, setting: Any, start: PyTree):
    key, draw = jax.random.split(key)
    learner, state, _ = _begin(course, key, problem, setting, start)
    arrays, rest = eqx.partition(state, eqx.is_array)

    def update(_, arrays):
        state = eqx.combine(arrays, rest)
        learn, choose = jax.random.split(numbered(key, state.step))
        state, _ = learner.update(learn, state, _rows(course, state.target, choose))
        return eqx.filter(state, eqx.is_array)

    def stretch(arrays, count):
        arrays = jax.lax.fori_loop(0, count, update, arrays)
        state = eqx.combine(arrays, rest)
        student = state.student if state.average is None else state.average
        draws = student.sample(draw, None, course.draws)
        probabilities = predictions(state.target, draws, problem.new_features)
        return arrays, (probabilities, eqx.filter(student, eqx.is_array))

    return jax.lax.scan(stretch, arrays, jnp.diff(jnp.asarray((0, *course.marks))))[1]


def predictions(
    target: BayesianNetwork, draws: Float[Array, "k d"], features: Float[Array, "m p"]
) -> Float[Array, "k m"]:
    """The probability of label 1 by every draw for every row."""
    return jax.nn.sigmoid(jax.vmap(lambda z: target.outputs(z, features)[:, 0])(draws))
