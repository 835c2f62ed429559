"""Training one method in its stages, each within a budget of CPU time, resumable."""

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import UInt8
from tqdm import tqdm

from experiments.mnist.live import Live
from experiments.mnist.methods import Method, Stage, make_model, make_student
from understudy import files
from understudy.batches import Binarised
from understudy.core import Student
from understudy.feedbacks import ExclusiveKL
from understudy.students import ChainTable, GaussianEncoder
from understudy.targets import LatentVariableModel, OfIndexed
from understudy.teachers import Identity
from understudy.training import train
from understudy.training.recording import Chunk, StopTraining
from understudy.training.update import State

WARM_UP = 0.03
FLOOR = 0.02
SETTLING = 2000
WATCHED = 100
NO_LIMIT = 10**9
Part = tuple[float, float]
WHOLE: Part = (0.0, 1.0)


@dataclass(frozen=True)
class Plan:
    """What all methods of a run have in common.

    Attributes:
        core_seconds: CPU time of a method's training, all stages together, without compilation.
        updates: of a method instead, whatever they cost; then the run is the same bit for bit.
        batch: images in a batch.
        reading: of the paper's eta.
        seed: of the training.
        chunk: updates between two looks at the clock.
    """

    core_seconds: float
    updates: int | None
    batch: int
    reading: str
    seed: int
    chunk: int


@dataclass(frozen=True)
class Trained:
    """A decoder and an encoder (None for chains without one), and what they cost."""

    model: LatentVariableModel
    student: Student | None
    core_seconds: float
    wall_seconds: float
    updates: int


class Budget:
    """Stops a training when its share of CPU time (or updates) is spent, and steers the learning rates.

    The rates follow :func:`factor`. CPU time is the process's, from the first update on.

    Args:
        path: where to keep what was spent, for a resumed run.
        core_seconds: how much there is.
        updates: how many there are instead, or None.
        rates: peaks of the learning rates, by the names in ``State.memory``.
        part: of the method's whole training.
    """

    def __init__(
        self,
        path: Path,
        core_seconds: float,
        updates: int | None,
        rates: Mapping[str, float],
        part: Part = WHOLE,
    ):
        self.path, self.core_seconds, self.updates = path, core_seconds, updates
        self.rates, self.part = rates, part
        self.core = self.wall = 0.0
        self.clocks: tuple[float, float] | None = None

    def __call__(self, chunk: Chunk) -> State:
        """Count what was spent; the state with the rates of the next chunk."""
        step, now = int(chunk.row["step"]), _clocks()
        if self.clocks is None:
            self._recall(step)
        else:
            self.core += now[0] - self.clocks[0]
            self.wall += now[1] - self.clocks[1]
        self.clocks = now
        row = {"step": step, "core_seconds": self.core, "wall_seconds": self.wall}
        files.append_row(self.path, row)
        share = self.share(step)
        if share >= 1:
            raise StopTraining
        if self.updates is not None:
            return chunk.state
        fraction = float(factor(share, self.part))
        return with_rates(chunk.state, {name: peak * fraction for name, peak in self.rates.items()})

    def share(self, step: int) -> float:
        """Of the budget that is spent."""
        return self.core / self.core_seconds if self.updates is None else step / self.updates

    @contextmanager
    def paused(self) -> Iterator[None]:
        """What is done inside does not count."""
        before = _clocks()
        yield
        if self.clocks is not None:
            core, wall = (now - then for now, then in zip(_clocks(), before, strict=True))
            self.clocks = self.clocks[0] + core, self.clocks[1] + wall

    def _recall(self, step: int) -> None:
        files.truncate_rows(self.path, step - 1)
        rows = files.read_rows(self.path)
        if rows:
            self.core, self.wall = rows[-1]["core_seconds"], rows[-1]["wall_seconds"]


def _clocks() -> tuple[float, float]:
    """CPU time of the process, and wall time."""
    return time.process_time(), time.perf_counter()


def factor(share: Any, part: Part = WHOLE) -> Any:
    """Of the learning rate's peak when a share of a stage's budget is spent.

    It falls as one cosine over all stages, and rises for a short while at the start of each, so that a
    new feedback does not break what was learnt.
    """
    rise = jnp.minimum(1.0, share / WARM_UP + FLOOR)
    spent = part[0] + part[1] * share
    return rise * (FLOOR + (1 - FLOOR) * 0.5 * (1 + jnp.cos(jnp.pi * spent)))


def with_rates(state: State, rates: Mapping[str, float]) -> State:
    """The state with other learning rates."""
    for name, rate in rates.items():
        if name in state.memory:
            where = lambda s, name=name: s.memory[name].hyperparams["learning_rate"]  # noqa: E731
            state = eqx.tree_at(where, state, jnp.asarray(rate, jnp.float32))
    return state


def train_method(
    folder: Path,
    method: Method,
    pixels: UInt8[np.ndarray, "n h w"],
    plan: Plan,
    bar: tqdm | None = None,
) -> Trained:
    """Train a method's stages, or read what was trained before; the bar shows how it goes."""
    model_key, student_key = jax.random.split(jax.random.key(plan.seed))
    now = Trained(make_model(model_key), None, 0.0, 0.0, 0)
    kind, begun = None, 0.0
    for stage, place in zip(method.stages, stage_folders(folder, method), strict=True):
        file = place / "model.safetensors"
        if file.exists():
            now = Trained(**files.load(file))
        else:
            start = now.student if stage.encoder == kind else None
            start = start or make_student(stage.encoder, student_key, len(pixels), now.student)
            now = _train_stage(place, stage, (begun, stage.share), now, start, pixels, plan, bar)
            files.save(file, {name: getattr(now, name) for name in now.__dataclass_fields__})
            for checkpoint in place.glob("checkpoint-*"):
                checkpoint.unlink()
        kind, begun = stage.encoder, begun + stage.share
    return now


def load_trained(folder: Path, method: Method) -> Trained:
    """What :func:`train` made of a method in this folder."""
    return Trained(**files.load(stage_folders(folder, method)[-1] / "model.safetensors"))


def stage_folders(folder: Path, method: Method) -> list[Path]:
    """Where every stage of a method is kept, each inside the one before."""
    names = [f"{stage.name}, {stage.share:g}" for stage in method.stages]
    return [folder.joinpath(*names[: i + 1]) for i in range(len(names))]


def _train_stage(
    folder: Path,
    stage: Stage,
    part: Part,
    before: Trained,
    student: Student,
    pixels: Any,
    plan: Plan,
    bar: tqdm | None,
) -> Trained:
    table = stage.encoder == "table"
    updates = None if plan.updates is None else max(1, round(stage.share * plan.updates))
    budget = Budget(
        folder / "spent.jsonl",
        stage.share * plan.core_seconds,
        updates,
        {"student": stage.rate, "model": stage.rate, "critic": stage.critic_rate},
        part,
    )
    watched = Binarised(pixels, WATCHED, indexed=table)(jax.random.key(0))
    live = Live(folder, budget, watched, before.updates, bar)
    fitted = train(
        OfIndexed(before.model) if table else before.model,
        student,
        stage.teacher(plan.reading),
        stage.feedback(),
        Binarised(pixels, plan.batch, indexed=table),
        updates=updates or NO_LIMIT,
        seed=_stage_seed(plan.seed, part),
        particles=1,
        folder=folder,
        resume=True,
        progress=False,
        chunk=plan.chunk,
        checkpoint_seconds=60.0,
        callbacks=[live, budget],
        optimiser=adam(stage.rate, updates, part),
        model_optimiser=adam(stage.rate, updates, part) if stage.theta else None,
        critic_optimiser=adam(stage.critic_rate, updates, part, b1=0.5),
    )
    live.look(fitted.state, fitted.history["acceptance"][-1])
    target: Any = fitted.state.target
    model = target.target if table else target
    core, wall = before.core_seconds + budget.core, before.wall_seconds + budget.wall
    done = before.updates + int(fitted.state.step)
    return Trained(model, _usable(fitted.student, pixels), core, wall, done)


def _stage_seed(seed: int, part: Part) -> int:
    """Other images and other noise in every stage."""
    return int(np.random.default_rng((seed, round(1e6 * part[0]))).integers(2**31))


def train_proposal(
    folder: Path, trained: Trained, pixels: UInt8[np.ndarray, "n h w"], plan: Plan
) -> GaussianEncoder:
    """A Gaussian encoder trained by variational inference on a decoder that stays as it is."""
    file = folder / "proposal.safetensors"
    if not file.exists():
        fresh = make_student("gaussian", jax.random.key(plan.seed), len(pixels))
        rates = {"student": 2e-3}
        fitted = train(
            trained.model,
            fresh,
            Identity(),
            ExclusiveKL(),
            Binarised(pixels, plan.batch),
            updates=plan.updates or NO_LIMIT,
            seed=plan.seed,
            particles=1,
            folder=folder / "proposal",
            resume=True,
            progress=False,
            chunk=plan.chunk,
            checkpoint_seconds=60.0,
            callbacks=[
                Budget(folder / "proposal" / "spent.jsonl", plan.core_seconds, plan.updates, rates)
            ],
            optimiser=adam(2e-3, plan.updates),
        )
        files.save(file, fitted.student)
    return files.load(file)


def _usable(student: Any, pixels: np.ndarray) -> Student | None:
    """The encoder with the statistics of its normalisation stored; no table of chains."""
    if hasattr(student, "settled"):
        x = Binarised(pixels, min(SETTLING, len(pixels)))(jax.random.key(0))
        return eqx.filter_jit(lambda student, x: student.settled(x))(student, x)
    return None if isinstance(student, ChainTable) else student


def adam(
    rate: float, updates: int | None, part: Part = WHOLE, b1: float = 0.9
) -> optax.GradientTransformation:
    """Adam whose rate follows :func:`factor`: by the count of updates, or else steered by a Budget."""
    if updates is None:
        return optax.inject_hyperparams(optax.adam)(learning_rate=FLOOR * rate, b1=b1)
    return optax.adam(lambda count: rate * factor(count / updates, part), b1=b1)
