"""Putting a training together: its ingredients checked at the border, its update compiled."""

import inspect
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Int, PRNGKeyArray, PyTree

from understudy.checks import shown, whole
from understudy.core import (
    CONDITIONS,
    Condition,
    Feedback,
    IngredientError,
    Student,
    Target,
    Teacher,
    numbered,
)
from understudy.learning import Info, Learner, State


class Minibatches(eqx.Module):
    """Conditions drawn from a data set, ``size`` rows at a time, on the device.

    Args:
        data: arrays with one row per condition.
        size: rows in a batch.
        together: True makes the whole minibatch one condition (a minibatch posterior), False makes
            every row a condition of its own (amortised inference).
    """

    data: PyTree
    size: int = eqx.field(static=True)
    together: bool = eqx.field(static=True, default=False)

    def __call__(self, key: PRNGKeyArray) -> Condition:
        """One batch, rows drawn with replacement."""
        rows = jax.random.randint(key, (self.size,), 0, jax.tree.leaves(self.data)[0].shape[0])
        batch = jax.tree.map(lambda leaf: leaf[rows], self.data)
        return jax.tree.map(lambda leaf: leaf[None], batch) if self.together else batch


class NoConditions(eqx.Module):
    """The target has no condition."""

    def __call__(self, key: PRNGKeyArray) -> Condition:
        """None."""
        del key


class Training:
    """The ingredients of one training, checked and put together but not yet run.

    Attributes:
        learner: the choices.
        conditions: gives a batch of conditions for a key.
        state: everything that changes, as it is before the first update.
        repeats: trainings side by side, None for one alone.
        compile_seconds: time spent compiling, zero until :meth:`compile` was called.
    """

    def __init__(self, learner: Learner, conditions: Callable, state: State, repeats: int | None):
        self.learner = learner
        self.conditions = conditions
        self.state = state
        self.repeats = repeats
        self.compile_seconds = 0.0
        self._compiled: Any = None

    def compile(self, options: dict[str, Any] | None = None) -> "Training":
        """Trace and compile the update, unless that was done before.

        Args:
            options: of XLA, such as ``{"xla_backend_optimization_level": 1}``.
        """
        if self._compiled is None:
            started = time.perf_counter()
            fixed, rest = eqx.partition((self.learner, self.conditions), eqx.is_array)
            arrays, still = eqx.partition(self.state, eqx.is_array)

            def run(fixed, arrays, count):
                advance = partial(_run, *eqx.combine(fixed, rest))
                if self.repeats is not None:
                    advance = eqx.filter_vmap(advance, in_axes=(eqx.if_array(0), None))
                state, info = advance(eqx.combine(arrays, still), count)
                return eqx.filter(state, eqx.is_array), info

            lowered = jax.jit(run).lower(fixed, arrays, jnp.array(1))
            self._compiled = partial(lowered.compile(options), fixed)
            self.compile_seconds = time.perf_counter() - started
        return self

    def advance(self, state: State, count: int) -> tuple[State, Info]:
        """Run ``count`` updates; the state has the structure of the one that was compiled."""
        arrays, rest = eqx.partition(state, eqx.is_array)
        arrays, info = jax.block_until_ready(self._compiled(arrays, jnp.array(count)))
        return eqx.combine(arrays, rest), info


def prepare(
    target: Target,
    student: Student | Callable[[PRNGKeyArray], Student],
    teacher: Teacher,
    feedback: Feedback,
    data: Any = None,
    batch_size: int = 64,
    *,
    seed: int = 0,
    repeats: int | None = None,
    **settings: Any,
) -> Training:
    """Check the ingredients of a training and put them together; see :func:`fit`."""
    _check(target, teacher, seed, repeats)
    learner = _learner(feedback, settings)
    conditions = _conditions(data, batch_size)
    state = _init(learner, conditions, target, student, teacher, seed, repeats)
    return Training(learner, conditions, state, repeats)


def _run(
    learner: Learner, conditions: Callable, state: State, count: Int[Array, ""]
) -> tuple[State, Info]:
    arrays, rest = eqx.partition(state, eqx.is_array)

    def body(_, carry):
        arrays, sums, finite = carry
        state = eqx.combine(arrays, rest)
        draw, learn = jax.random.split(numbered(state.key, state.step))
        state, info = learner.update(learn, state, conditions(draw))
        sums = jax.tree.map(lambda total, v: total + jnp.where(jnp.isfinite(v), v, 0.0), sums, info)
        finite = jax.tree.map(lambda total, v: total + jnp.isfinite(v), finite, info)
        return eqx.filter(state, eqx.is_array), sums, finite

    none = Info(*[jnp.zeros(())] * 7, skipped=jnp.zeros(3))
    arrays, sums, finite = jax.lax.fori_loop(0, count, body, (arrays, none, none))
    return eqx.combine(arrays, rest), jax.tree.map(jnp.divide, sums, finite)


def _init(learner, conditions, target, student, teacher, seed, repeats) -> State:
    def init(key):
        make, draw, start = jax.random.split(key, 3)
        one, x = _made(student, make), conditions(draw)
        _check_student(target, one)
        _rehearse(target, one, x, learner.classroom.particles)
        return learner.init(start, target, one, teacher, x)

    key = jax.random.key(seed)
    if repeats is None:
        return init(key)
    return eqx.filter_vmap(init)(jax.random.split(key, repeats))


def _conditions(data: Any, size: int) -> Callable[[PRNGKeyArray], Condition]:
    if data is None:
        return NoConditions()
    if callable(data):
        return data
    arrays = _arrays(data)
    leaves = jax.tree.leaves(arrays)
    rows = {leaf.shape[:1] for leaf in leaves}
    if len(rows) != 1 or rows == {()} or rows == {(0,)}:
        shapes = ", ".join(str(leaf.shape) for leaf in leaves) or "nothing"
        raise IngredientError(
            f"data holds arrays with one row per condition, all as long; {shapes} came."
        )
    if not all(bool(jnp.isfinite(leaf).all()) for leaf in leaves):
        raise IngredientError("data holds numbers that are not finite; drop or impute those rows first.")
    return Minibatches(arrays, whole("batch_size", size))


def _arrays(data: Any) -> PyTree:
    try:
        return jax.tree.map(jnp.asarray, data)
    except (TypeError, ValueError) as error:
        raise IngredientError(
            f"data holds arrays of numbers with one row per condition; {shown(data)} came."
        ) from error


def _learner(feedback: Feedback, settings: dict[str, Any]) -> Learner:
    allowed = set(inspect.signature(Learner).parameters) - {"feedback"}
    unknown = sorted(set(settings) - allowed)
    if unknown:
        raise IngredientError(
            f"Unknown setting {unknown[0]!r}; beyond its own arguments fit takes "
            f"{', '.join(sorted(allowed))}."
        )
    return Learner(feedback, **settings)


def _check(target: Any, teacher: Any, seed: Any, repeats: Any) -> None:
    for allowed, expected, came in (
        (isinstance(target, Target), "target is a Target such as LogDensity(function, dim)", target),
        (isinstance(teacher, Teacher), "teacher is a Teacher such as mala(step_size=0.1)", teacher),
    ):
        if not allowed:
            raise IngredientError(f"{expected}; a {type(came).__name__} came.")
    whole("seed", seed, least=0)
    if repeats is not None:
        whole("repeats", repeats)


def _made(student: Any, key: PRNGKeyArray) -> Any:
    """The student, made with the key if it is a function of one."""
    if isinstance(student, Student) or not callable(student):
        return student
    try:
        inspect.signature(student).bind(key)
    except TypeError as error:
        raise IngredientError(
            "student is a Student, or a function of a key that makes one, such as "
            f"lambda key: Implicit(key, 2); {shown(student)} takes other arguments."
        ) from error
    return student(key)


def _rehearse(target: Target, student: Student, x: Condition, particles: int) -> None:
    """Trace the student and the log density on one condition, to name what does not fit."""
    one = jax.tree.map(lambda leaf: leaf[0], x)
    given = "" if x is None else f" given x of shape {[leaf.shape for leaf in jax.tree.leaves(one)]}"
    key = jax.random.key(0)
    doing = f"The student ({type(student).__name__}) cannot draw{given}"
    try:
        draws = jax.eval_shape(lambda x: _first_draws(student, key, x, particles), x)
        doing = f"The log density ({type(target).__name__}) fails at a draw of size {target.dim}{given}"
        jax.eval_shape(lambda z: target.log_density(z[0], one), draws)
    except IngredientError:
        raise
    except Exception as error:
        reason = shown(str(error).partition("\n")[0])
        raise IngredientError(
            f"{doing}: {reason}. Check their shapes, and that data are passed where x is used."
        ) from error


def _first_draws(student: Student, key: PRNGKeyArray, x: Condition, particles: int) -> Array:
    if x is None:
        return student.sample(key, x, particles)
    draw = jax.vmap(lambda one: student.sample(key, one, particles), axis_name=CONDITIONS)
    return draw(x)[0]


def _check_student(target: Target, student: Any) -> None:
    if not isinstance(student, Student):
        raise IngredientError(
            "student is a Student, or a function of a key that makes one; "
            f"a {type(student).__name__} came."
        )
    if student.dim != target.dim:
        raise IngredientError(
            f"The student draws vectors of size {student.dim}, but the target's have size {target.dim}; "
            f"build the student with dim={target.dim}."
        )
