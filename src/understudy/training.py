"""Fit a student: compiled chunks of updates, and callbacks between them."""

import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from understudy.callbacks import Callback, Chunk, ProgressBar, Recorder, StopTraining, watch
from understudy.checks import function, number, shown, whole
from understudy.core import Condition, Feedback, IngredientError, Student, Target, Teacher
from understudy.learning import State
from understudy.preparation import Training, prepare


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
    _check_hooks(updates, chunk, folder, checkpoint_seconds, callbacks)
    training = prepare(
        target, student, teacher, feedback, data, batch_size, seed=seed, repeats=repeats, **settings
    )
    recorder = Recorder(folder, checkpoint_seconds, seed)
    state = recorder.start(training.learner, training.state, resume)
    hooks = [watch, recorder, ProgressBar(_step(state), updates, progress), *callbacks]
    return _train(training, state, updates, chunk, hooks, recorder)


def train(
    training: Training,
    state: State,
    updates: int,
    *,
    chunk: int = 200,
    callbacks: Sequence[Callback] = (),
) -> Fit:
    """Run what was prepared, from any state of its structure, and write nothing."""
    recorder = Recorder(None, 0.0, 0)
    return _train(training, state, updates, chunk, [watch, recorder, *callbacks], recorder)


def _train(training: Training, state: State, updates, size, hooks, recorder) -> Fit:
    training.compile()
    step, seconds = _step(state), recorder.seconds
    result = partial(_result, recorder, training)
    try:
        while step < updates:
            count = 1 if step == 0 else min(size - step % size, updates - step)
            started = time.perf_counter()
            state, info = training.advance(state, count)
            seconds += time.perf_counter() - started
            step += count
            row = {"step": step, "seconds": seconds, **info._asdict()}
            state = _call(hooks, Chunk(row, state, training.learner, last=step >= updates))
    except StopTraining:
        pass
    except KeyboardInterrupt:
        message = recorder.interrupted(state, step)
        raise Interrupted(message, result(state, seconds)) from None
    finally:
        for hook in hooks:
            getattr(hook, "close", lambda: None)()
    return result(state, seconds)


def _call(hooks: Sequence[Callback], chunk: Chunk) -> State:
    for hook in hooks:
        returned = hook(chunk)
        if isinstance(returned, State):
            chunk = Chunk(chunk.row, returned, chunk.learner, chunk.last)
    return chunk.state


def _step(state: State) -> int:
    return int(np.asarray(state.step).flat[0])


def _result(recorder: Recorder, training: Training, state: State, seconds: float) -> Fit:
    rows = recorder.rows
    history = {name: np.asarray([row[name] for row in rows]) for name in (rows[0] if rows else ())}
    student = state.student if state.average is None else state.average
    return Fit(student, state, history, seconds, training.compile_seconds, training.repeats)


def _check_hooks(updates: Any, chunk: Any, folder: Any, checkpoint_seconds: Any, callbacks: Any) -> None:
    whole("updates", updates)
    whole("chunk", chunk)
    if not isinstance(folder, str | Path | None):
        raise IngredientError(f"folder is a path or None; {shown(folder)} came.")
    if number("checkpoint_seconds", checkpoint_seconds) < 0:
        raise IngredientError(f"checkpoint_seconds is 0 or more; {checkpoint_seconds} came.")
    if not isinstance(callbacks, Sequence):
        raise IngredientError(f"callbacks is a list of functions of a Chunk; {shown(callbacks)} came.")
    for callback in callbacks:
        function("every callback", callback)
