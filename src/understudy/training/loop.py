"""The loop: a training put together, its update compiled once and run in chunks."""

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float, Int

from understudy.backend import backend, plain_algebra
from understudy.batches import Conditions, Reader, Stream, Window, conditions_of, window
from understudy.checks import calling, drawn, fits, random_key, whole
from understudy.core import Condition, Feedback, Key, Student, Target, Teacher, batch_size, numbered
from understudy.devices import (
    Devices,
    everywhere,
    here,
    is_first,
    mesh_of,
    mesh_of_cores,
    on_each,
    platform,
    with_others,
)
from understudy.display import entries, table_of_draws, varying
from understudy.report.draws import marginals
from understudy.report.figures import Picture, training_curves
from understudy.surroundings import enough_memory
from understudy.training import border
from understudy.training.recording import Callback, Chunk, ProgressBar, Recorder, StopTraining, watch
from understudy.training.summary import explained
from understudy.training.update import Info, Learner, State

if TYPE_CHECKING:
    import pandas


_COUNT = np.int32
# Operations of an update past which cores gain more by sharing its conditions than by threads.
_SHARED = 3e8


class Trained(eqx.Module):
    """A trained student and how it got there.

    Attributes:
        student: the trained student; the averaged copy where an average was asked for.
        state: everything at the end of training, the raw student and the critic included.
        history: arrays over chunks of updates: ``step`` and every field of :class:`Info`.
        seconds: run time of the updates, without compilation.
        compile_seconds: time spent compiling.
        repeats: trainings side by side, None for one alone.

    Examples:
        >>> import jax.numpy as jnp, understudy
        >>> from understudy import methods
        >>> from understudy.students import FullGaussian
        >>> target = understudy.LogDensity(lambda z: -0.5 * jnp.sum((z - 1) ** 2), dim=2)
        >>> trained = methods.vi(target, FullGaussian(2), updates=50, progress=False)
        >>> trained.history["loss"].shape == trained.history["step"].shape
        True
    """

    student: Student
    state: State
    history: dict[str, np.ndarray]
    seconds: float
    compile_seconds: float
    repeats: int | None = None

    def sample(self, key: Key | int, n: int, x: Condition = None) -> Float[Array, "*r n d"]:
        """Draw ``n`` particles from the student (from every repeat, where there are several)."""
        key, n = random_key(key), fits("n", whole("n", n), self.student.dim * (self.repeats or 1))
        draw = eqx.filter_jit(lambda student, key: drawn(student, key, x, n))
        if self.repeats is None:
            return draw(self.student, key)
        return eqx.filter_vmap(draw)(self.student, jax.random.split(key, self.repeats))

    def summary(self, key: Key | int = 0, n: int = 4096, x: Condition = None) -> "pandas.DataFrame":
        """A table of the student's draws: mean, sd, quantiles and standard error of every coordinate.

        Args:
            key: random key.
            n: how many draws.
            x: the condition, if any.
        """
        draws = np.asarray(self.sample(key, whole("n", n, least=2), x), float)
        return table_of_draws({"z": np.moveaxis(draws, -2, 0)})

    def plot_training(self) -> Picture:
        """Loss, acceptance, move and lost chains over the updates."""
        rows = range(len(self.history["step"]))
        return training_curves([{name: v[i] for name, v in self.history.items()} for i in rows])

    def plot_marginals(self, key: Key | int = 0, n: int = 4096, x: Condition = None) -> Picture:
        """A histogram of every coordinate of the student's draws; arguments as for :meth:`summary`."""
        draws = np.asarray(self.sample(key, whole("n", n, least=2), x), float)
        return marginals(varying(entries({"z": np.moveaxis(draws, -2, 0)})))

    def __str__(self) -> str:
        return str(explained(self))

    def _repr_html_(self) -> str:
        return explained(self).html()

    def __repr__(self) -> str:
        kind = type(self.student).__name__
        return f"<Trained {kind} of {self.student.dim} dimensions; print() explains it>"


class Interrupted(KeyboardInterrupt):
    """Training was interrupted; ``result`` holds what was learnt until then."""

    def __init__(self, message: str, result: Any):
        super().__init__(message)
        self.result = result


def train(
    target: Target,
    student: Student | Callable[[Any], Student],
    teacher: Teacher,
    feedback: Feedback,
    data: Any = None,
    *,
    updates: int = 10_000,
    batch_size: int = 64,
    particles: int = 64,
    optimiser: optax.GradientTransformation | None = None,
    critic_optimiser: optax.GradientTransformation | None = None,
    model_optimiser: optax.GradientTransformation | None = None,
    model_every: int = 1,
    average: float | None = None,
    proposer: Literal["student", "average"] = "student",
    pairing: Literal["paired", "fresh"] = "paired",
    refresh: float = 1.0,
    replay: int = 0,
    guard: bool = True,
    seed: int = 0,
    repeats: int | None = None,
    devices: Devices = None,
    folder: str | Path | None = None,
    resume: bool = False,
    progress: bool | None = None,
    chunk: int = 200,
    checkpoint_seconds: float = 10.0,
    callbacks: Sequence[Callback] = (),
) -> Trained:
    """Train a student to stand in for a teacher, every ingredient chosen by you.

    Args:
        target: what we want draws from.
        student: the sampler to train, or a function of a key that makes one (so that repeats start
            at different places).
        teacher: the Markov kernel that improves its draws.
        feedback: the divergence, or projection, by which it learns.
        data: None for a target without conditions; arrays with one row per condition; a function of a
            key that gives a batch of conditions; or a :class:`~understudy.Stream` from the host.
        updates: number of updates.
        batch_size: conditions per update, where ``data`` holds arrays.
        particles: draws per condition, K in the paper.
        optimiser: for the student's parameters, Adam at 0.001 by default.
        critic_optimiser: for the critic's, Adam at 0.001 with b1 = 0.5 by default.
        model_optimiser: for the target's parameters theta; None leaves the target as it is.
        model_every: updates of student and critic per update of theta (stochastic EM).
        average: decay of an averaged copy of the student's weights, 0.999 say; None keeps none.
        proposer: who starts the chains, the "student" or its "average" (a target network).
        pairing: "paired" compares the improved draws with those they came from; "fresh" compares
            them with new draws of the student.
        refresh: share of the chains that start at the student's draws; the others go on from where
            the last update left them (persistent chains). 1 restarts all.
        replay: past lessons kept; each update learns from one of them drawn at random. 0 keeps none.
        guard: whether what is not finite is left out: chains of the lesson, gradients of the update;
            False saves the comparisons, and a training that is not finite ends at its next chunk.
        seed: of everything random.
        repeats: trainings from different seeds, run side by side as one program.
        devices: over which conditions are spread (draws, where there are none): how many, a list of
            ``jax.devices()``, or a mesh with one axis; None runs on one, or on all cores of a CPU
            where an update is large enough to gain by it. The numbers are the same up to the order of
            sums, and a run may be resumed on more or fewer.
        folder: where to keep metrics (``metrics.jsonl``) and checkpoints; nothing is written if None.
        resume: go on from the newest checkpoint in ``folder``, bit for bit.
        progress: show a live line in a terminal or notebook, and a line for every tenth of the updates
            elsewhere; None shows the live line only.
        chunk: updates between two looks at the host.
        checkpoint_seconds: least time between two checkpoints.
        callbacks: functions of a :class:`Chunk`, called after every chunk of updates.

    Returns:
        The trained student with its history.

    Examples:
        >>> import jax.numpy as jnp, understudy
        >>> from understudy.feedbacks import InclusiveKL
        >>> from understudy.students import FullGaussian
        >>> from understudy.teachers import mala
        >>> target = understudy.LogDensity(lambda z: -0.5 * jnp.sum((z - 1) ** 2), dim=2)
        >>> ingredients = FullGaussian(2), mala(0.3), InclusiveKL()
        >>> trained = understudy.train(target, *ingredients, updates=200, progress=False)
        >>> trained.sample(0, 5).shape
        (5, 2)
    """
    border.check_run(updates, chunk, folder, resume, checkpoint_seconds, callbacks, progress)
    updates, chunk, mesh = int(updates), int(chunk), mesh_of(devices)
    bar = ProgressBar(updates, progress if is_first(mesh) else False)
    with enough_memory(), contextlib.closing(bar):
        learner = Learner(
            feedback,
            particles=particles,
            optimiser=optimiser,
            critic_optimiser=critic_optimiser,
            model_optimiser=model_optimiser,
            model_every=model_every,
            average=average,
            proposer=proposer,
            pairing=pairing,
            refresh=refresh,
            replay=replay,
            guard=guard,
        )
        parts = learner, target, student, teacher, data, batch_size
        alone = devices is None
        training = Training(*parts, seed=seed, repeats=repeats, devices=mesh, split=alone)
        recorder = Recorder(folder, checkpoint_seconds, int(seed), is_first(mesh))
        with recorder.locked():
            state = recorder.start((learner, training.conditions), training.state, resume)
            bar.go_on_from(_step(state))
            return training.run(state, updates, chunk, [watch, recorder, bar, *callbacks], recorder)


class Training:
    """The ingredients of one training, checked and put together; compiled and run when asked to.

    Args:
        learner: the choices.
        target: what we want draws from.
        student: the sampler to train, or a function of a key that makes one.
        teacher: the Markov kernel that improves its draws.
        data: see :func:`train`.
        batch_size: conditions per update, where ``data`` holds arrays.
        seed: of everything random.
        repeats: trainings side by side, None for one alone.
        devices: see :func:`train`.
        split: whether the cores of a CPU may share updates that are large enough.

    Attributes:
        conditions: gives a batch of conditions for a key.
        state: everything that changes, as it is before the first update.
        compile_seconds: time spent compiling, zero until :meth:`compile` was called.
    """

    def __init__(
        self,
        learner: Learner,
        target: Target,
        student: Student | Callable[[Key], Student],
        teacher: Teacher,
        data: Any = None,
        batch_size: int = 64,
        *,
        seed: int = 0,
        repeats: int | None = None,
        devices: Devices = None,
        split: bool = False,
    ):
        border.check_ingredients(target, teacher, seed, repeats)
        seed, repeats = int(seed), None if repeats is None else int(repeats)
        self.learner = learner
        self.conditions = conditions_of(data, batch_size)
        self.stream = data if isinstance(data, Stream) else None
        self.repeats = repeats
        self.mesh, self._split = mesh_of(devices), split
        self.state = _first_state(learner, self.conditions, target, student, teacher, seed, repeats)
        border.check_outside(self.state)
        self.compile_seconds = 0.0
        self._compiled: Any = None

    def compile(self, options: dict[str, Any] | None = None) -> "Training":
        """Trace and compile the update, unless that was done before.

        Args:
            options: of XLA; None takes those that suit the machine.
        """
        if self._compiled is None:
            started = time.perf_counter()
            fixed, rest = eqx.partition((self.learner, self.conditions), eqx.is_array)
            arrays, still = eqx.partition(self.state, eqx.is_array)

            def run(fixed, arrays, count):
                advance = partial(_updates, *eqx.combine(fixed, rest))
                if self.repeats is not None:
                    advance = eqx.filter_vmap(advance, in_axes=(eqx.if_array(0), None))
                state, info = advance(eqx.combine(arrays, still), count)
                return eqx.filter(state, eqx.is_array), info

            def lowered():
                with self._on_mesh() as placed, calling("Student, teacher and feedback make one update"):
                    return jax.jit(run, **placed).lower(fixed, arrays, np.asarray(1, _COUNT))

            program = lowered()
            if self._split and _operations(program) > _SHARED:
                self.mesh = mesh_of_cores(self._rows())
                program = program if self.mesh is None else lowered()
            with self._on_mesh():
                if self.mesh is not None:
                    fixed = everywhere(fixed, self.mesh)
                    options = options or backend(platform(self.mesh)).split
                self._compiled, self._fixed = program.compile(options), fixed
            self.compile_seconds = time.perf_counter() - started
        return self

    def _rows(self) -> int:
        """What is spread over devices: conditions, or draws where there are none."""
        x = jax.eval_shape(self.conditions, jax.random.key(0))
        return self.learner.classroom.particles if x is None else batch_size(x)

    @contextlib.contextmanager
    def _on_mesh(self) -> Iterator[dict[str, Any]]:
        """Where arrays go, while the mesh is set; nothing is said for one device."""
        if self.mesh is None:
            yield {}
        else:
            with jax.set_mesh(self.mesh):
                yield {"in_shardings": on_each(self.mesh), "out_shardings": on_each(self.mesh)}

    @property
    def program(self) -> str:
        """What the compiler made of the updates, in its own words."""
        return self.compile()._compiled.as_text()

    def advance(self, state: State, count: int) -> tuple[State, Info]:
        """Run ``count`` updates; the state has the structure of the one that was compiled."""
        arrays, rest = eqx.partition(state, eqx.is_array)
        if self.mesh is not None:
            arrays = everywhere(arrays, self.mesh)
        with with_others(self.mesh), plain_algebra():
            done = self._compiled(self._fixed, arrays, np.asarray(count, _COUNT))
            arrays, info = jax.block_until_ready(done)
        return eqx.combine(arrays, rest), info

    def run(
        self,
        state: State,
        updates: int,
        chunk: int = 200,
        hooks: Sequence[Callback] = (watch,),
        recorder: Recorder | None = None,
    ) -> Trained:
        """Go on from a state until ``updates`` are done, with hooks between the chunks.

        Args:
            state: where to start, of the structure of :attr:`state`.
            updates: number of updates, those behind the state included.
            chunk: updates between two looks at the host.
            hooks: functions of a :class:`Chunk`; one that returns a state replaces it.
            recorder: keeps the history, among the hooks; None makes one that writes nothing.
        """
        if recorder is None:
            recorder = Recorder(None, 0.0, 0)
            hooks = [recorder, *hooks]
        step, seconds = _step(state), recorder.seconds
        reader = self._reader(step, chunk)
        try:
            self.compile()
            while step < updates:
                count = 1 if step == 0 else min(chunk - step % chunk, updates - step)
                started = time.perf_counter()
                if reader is not None:
                    fixed = eqx.filter((self.learner, reader.window(count, chunk)), eqx.is_array)
                    self._fixed = fixed if self.mesh is None else everywhere(fixed, self.mesh)
                state, info = self.advance(state, count)
                seconds += time.perf_counter() - started
                step += count
                row = {"step": step, "seconds": seconds, **info._asdict()}
                state = _call(hooks, Chunk(row, state, self.learner, last=step >= updates))
        except StopTraining:
            pass
        except KeyboardInterrupt:
            message = recorder.interrupted(state, step)
            raise Interrupted(message, self._result(recorder, state, seconds)) from None
        finally:
            if reader is not None:
                reader.close()
        return self._result(recorder, state, seconds)

    def _reader(self, step: int, chunk: int) -> Reader | None:
        """Batches of the stream, if there is one, from this update on; with room for a chunk of them."""
        if self.stream is None:
            return None
        if self._compiled is None:
            self.conditions = window([self.stream.first], 0, chunk)
        return Reader(self.stream, step)

    def _result(self, recorder: Recorder, state: State, seconds: float) -> Trained:
        state = here(state)
        student = state.student if state.average is None else state.average
        return Trained(student, state, recorder.history, seconds, self.compile_seconds, self.repeats)


def _operations(program: jax.stages.Lowered) -> float:
    """Arithmetic of one update, as the compiler counts it."""
    counted = program.cost_analysis()
    return float((counted or {}).get("flops", 0.0))


def _updates(
    learner: Learner, conditions: Conditions, state: State, count: Int[Array, ""]
) -> tuple[State, Info]:
    arrays, rest = eqx.partition(state, eqx.is_array)

    def body(_, carry):
        arrays, sums, finite = carry
        state = eqx.combine(arrays, rest)
        draw, learn = jax.random.split(numbered(state.key, state.step))
        x = conditions.at(state.step) if isinstance(conditions, Window) else conditions(draw)
        state, info = learner.update(learn, state, x)
        sums = jax.tree.map(lambda total, v: total + jnp.where(jnp.isfinite(v), v, 0.0), sums, info)
        finite = jax.tree.map(lambda total, v: total + jnp.isfinite(v), finite, info)
        return eqx.filter(state, eqx.is_array), sums, finite

    none = Info.zeros()
    arrays, sums, finite = jax.lax.fori_loop(0, count, body, (arrays, none, none))
    return eqx.combine(arrays, rest), jax.tree.map(jnp.divide, sums, finite)


def _first_state(
    learner: Learner,
    conditions: Conditions,
    target: Target,
    student: Student | Callable,
    teacher: Teacher,
    seed: int,
    repeats: int | None,
) -> State:
    def init(key):
        make, draw, start = jax.random.split(key, 3)
        one, x = border.made(student, make), conditions(draw)
        border.check_student(target, one)
        border.rehearse(target, one, x, learner.classroom.particles)
        return learner.init(start, target, one, teacher, x)

    key = jax.random.key(seed)
    if repeats is None:
        return init(key)
    return eqx.filter_vmap(init)(jax.random.split(key, repeats))


def _call(hooks: Sequence[Callback], chunk: Chunk) -> State:
    for hook in hooks:
        returned = hook(chunk)
        if isinstance(returned, State):
            chunk = chunk._replace(state=returned)
    return chunk.state


def _step(state: State) -> int:
    return int(np.asarray(state.step).flat[0])
