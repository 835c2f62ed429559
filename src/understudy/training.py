"""Fit a student: compiled chunks of updates, and callbacks between them."""

import inspect
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray, PyTree

from understudy.callbacks import Callback, Chunk, ProgressBar, Recorder, StopTraining, watch
from understudy.checks import function, number, shown, whole
from understudy.core import Condition, Feedback, IngredientError, Student, Target, Teacher, numbered
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


class Fit(eqx.Module):
    """A trained student and how it got there.

    Attributes:
        student: the trained student; the averaged copy where an average was asked for.
        state: everything at the end of training, the raw student and the critic included.
        history: arrays over chunks of updates: ``step`` and every field of :class:`Info`.
        seconds: run time of the updates, without compilation.
        compile_seconds: time spent compiling.
    """

    student: Student
    state: State
    history: dict[str, np.ndarray]
    seconds: float
    compile_seconds: float
    repeats: int | None = None

    def sample(self, key: PRNGKeyArray, n: int, x: Condition = None) -> Float[Array, "*r n d"]:
        """Draw ``n`` particles from the student (from every repeat, where there are several)."""
        draw = eqx.filter_jit(lambda student, key: student.sample(key, x, n))
        if self.repeats is None:
            return draw(self.student, key)
        return eqx.filter_vmap(draw)(self.student, jax.random.split(key, self.repeats))


class Interrupted(KeyboardInterrupt):
    """Training was interrupted; ``result`` holds what was learnt until then."""

    def __init__(self, message: str, result: Fit):
        super().__init__(message)
        self.result = result


def fit(
    target: Target,
    student: Student | Callable[[PRNGKeyArray], Student],
    teacher: Teacher,
    feedback: Feedback,
    data: Any = None,
    *,
    updates: int = 10_000,
    batch_size: int = 64,
    seed: int = 0,
    repeats: int | None = None,
    folder: str | Path | None = None,
    resume: bool = False,
    progress: bool | None = None,
    chunk: int = 200,
    checkpoint_seconds: float = 10.0,
    callbacks: Sequence[Callback] = (),
    **settings: Any,
) -> Fit:
    """Train a student to stand in for a teacher.

    Args:
        target: what we want draws from.
        student: the sampler to train, or a function of a key that makes one (so that repeats start
            at different places).
        teacher: the Markov kernel that improves its draws.
        feedback: the divergence, or projection, by which it learns.
        data: None for a target without conditions; arrays with one row per condition; or a function
            of a key that gives a batch of conditions.
        updates: number of updates.
        batch_size: conditions per update, where ``data`` holds arrays.
        seed: of everything random.
        repeats: trainings from different seeds, run side by side as one program.
        folder: where to keep metrics (``metrics.jsonl``) and checkpoints; nothing is written if None.
        resume: go on from the newest checkpoint in ``folder``, bit for bit.
        progress: show a progress bar; None shows one in a terminal only.
        chunk: updates between two looks at the host.
        checkpoint_seconds: least time between two checkpoints.
        callbacks: functions of a :class:`Chunk`, called after every chunk of updates.
        **settings: see :class:`understudy.learning.Learner`: particles, optimiser, average, ...

    Returns:
        The trained student with its history.
    """
    _check(target, teacher, updates, chunk, seed, repeats)
    _check_hooks(folder, checkpoint_seconds, callbacks)
    learner = _learner(feedback, settings)
    conditions = _conditions(data, batch_size)
    state = _init(learner, conditions, target, student, teacher, seed, repeats)
    recorder = Recorder(folder, checkpoint_seconds, seed)
    state = recorder.start(learner, state, resume)
    hooks = [watch, recorder, ProgressBar(_step(state), updates, progress), *callbacks]
    return _train(learner, conditions, state, updates, chunk, hooks, recorder, repeats)


def _train(learner, conditions, state, updates, size, hooks, recorder, repeats) -> Fit:
    run = _run if repeats is None else eqx.filter_vmap(_run, in_axes=(None, None, eqx.if_array(0), None))
    started = time.perf_counter()
    program: Any = eqx.filter_jit(run)
    compiled = program.lower(learner, conditions, state, jnp.array(1)).compile()
    compiling = time.perf_counter() - started
    step, seconds = _step(state), recorder.seconds
    try:
        while step < updates:
            count = 1 if step == 0 else min(size - step % size, updates - step)
            started = time.perf_counter()
            learnt = jax.block_until_ready(compiled(learner, conditions, state, jnp.array(count)))
            seconds += time.perf_counter() - started
            state, info = learnt
            step += count
            row = {"step": step, "seconds": seconds, **info._asdict()}
            state = _call(hooks, Chunk(row, state, learner, last=step >= updates))
    except StopTraining:
        pass
    except KeyboardInterrupt:
        message = recorder.interrupted(state, step)
        raise Interrupted(message, _result(state, recorder, seconds, compiling, repeats)) from None
    finally:
        for hook in hooks:
            getattr(hook, "close", lambda: None)()
    return _result(state, recorder, seconds, compiling, repeats)


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


def _call(hooks: Sequence[Callback], chunk: Chunk) -> State:
    for hook in hooks:
        returned = hook(chunk)
        if isinstance(returned, State):
            chunk = Chunk(chunk.row, returned, chunk.learner, chunk.last)
    return chunk.state


def _step(state: State) -> int:
    return int(np.asarray(state.step).flat[0])


def _result(state: State, recorder: Recorder, seconds, compiling, repeats) -> Fit:
    rows = recorder.rows
    history = {name: np.asarray([row[name] for row in rows]) for name in (rows[0] if rows else ())}
    student = state.student if state.average is None else state.average
    return Fit(student, state, history, seconds, compiling, repeats)


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


def _check(target: Any, teacher: Any, updates: Any, chunk: Any, seed: Any, repeats: Any) -> None:
    for allowed, expected, came in (
        (isinstance(target, Target), "target is a Target such as LogDensity(function, dim)", target),
        (isinstance(teacher, Teacher), "teacher is a Teacher such as mala(step_size=0.1)", teacher),
    ):
        if not allowed:
            raise IngredientError(f"{expected}; a {type(came).__name__} came.")
    whole("updates", updates)
    whole("chunk", chunk)
    whole("seed", seed, least=0)
    if repeats is not None:
        whole("repeats", repeats)


def _check_hooks(folder: Any, checkpoint_seconds: Any, callbacks: Any) -> None:
    if not isinstance(folder, str | Path | None):
        raise IngredientError(f"folder is a path or None; {shown(folder)} came.")
    if number("checkpoint_seconds", checkpoint_seconds) < 0:
        raise IngredientError(f"checkpoint_seconds is 0 or more; {checkpoint_seconds} came.")
    if not isinstance(callbacks, Sequence):
        raise IngredientError(f"callbacks is a list of functions of a Chunk; {shown(callbacks)} came.")
    for callback in callbacks:
        function("every callback", callback)


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
        draws = jax.eval_shape(lambda: student.sample(key, one, particles))
        doing = f"The log density ({type(target).__name__}) fails at a draw of size {target.dim}{given}"
        jax.eval_shape(lambda z: target.log_density(z[0], one), draws)
    except IngredientError:
        raise
    except Exception as error:
        reason = shown(str(error).partition("\n")[0])
        raise IngredientError(
            f"{doing}: {reason}. Check their shapes, and that data are passed where x is used."
        ) from error


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
