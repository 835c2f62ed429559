"""What happens between two chunks of updates: watching, recording, showing progress."""

import contextlib
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import equinox as eqx
import jax
import numpy as np

from understudy import files
from understudy.core import CannotMoveError, IngredientError
from understudy.files import fingerprint
from understudy.progress import Progress
from understudy.training.update import Learner, State


class Chunk(NamedTuple):
    """The state of a training after a chunk of updates.

    Attributes:
        row: ``step``, ``seconds`` and the means of every field of ``Info`` over the chunk, arrays
            over repeats where there are several.
        state: everything that has been learnt so far.
        learner: the choices of this training.
        last: whether this was the last chunk.
    """

    row: dict[str, Any]
    state: State
    learner: Learner
    last: bool


Callback = Callable[[Chunk], State | None]
"""Called after every chunk; what it returns, if it is a State, replaces the state."""


class StopTraining(Exception):  # noqa: N818
    """Raised by a callback to end the training early, without an error."""


class Recorder:
    """Keeps the history and, in a folder, metrics as JSON lines and checkpoints.

    Args:
        folder: where to write, or None.
        every: least number of seconds between two checkpoints.
        seed: of the training, to recognise it.
        first: whether this process is the one that writes, of those that train together.
    """

    def __init__(self, folder: str | Path | None, every: float, seed: int, first: bool = True):
        self.folder = None if folder is None else Path(folder)
        self.first = first
        self.every = every
        self.seed = seed
        self.rows: list[dict[str, Any]] = []
        self.settings = ""
        self.saved = time.monotonic()

    @property
    def writes(self) -> bool:
        """Whether there is a folder, and this process is the one that writes into it."""
        return self.folder is not None and self.first

    @property
    def seconds(self) -> float:
        """Run time recorded so far."""
        return float(self.rows[-1]["seconds"]) if self.rows else 0.0

    @property
    def history(self) -> dict[str, np.ndarray]:
        """Every column over the chunks recorded so far."""
        names = self.rows[0] if self.rows else ()
        return {name: np.asarray([row[name] for row in self.rows]) for name in names}

    def locked(self) -> contextlib.AbstractContextManager:
        """Hold the folder, so that no process of another run writes into it."""
        if self.folder is None or not self.first:
            return contextlib.nullcontext()
        return files.locked(self.folder)

    def start(self, choices: Any, state: State, resume: bool) -> State:
        """Where training starts: the given state, or the newest checkpoint of the same run.

        Args:
            choices: what does not change during the training; it must be as it was to resume.
            state: before the first update.
            resume: whether to go on from a checkpoint.
        """
        if self.folder is None:
            if resume:
                raise IngredientError(
                    "resume=True needs the folder of the run to resume; folder=None came."
                )
            return state
        self.settings = fingerprint((choices, state.teacher), structure=(state.target, state.student))
        found = files.read_checkpoint(self.folder, state)
        if found is None:
            if self.writes:
                files.truncate_rows(self.folder / "metrics.jsonl", 0)
            return state
        return self._resumed(*found, resume)

    def _resumed(self, step: int, state: State, description: dict[str, Any], resume: bool) -> State:
        if not resume:
            raise IngredientError(
                f"{self.folder} holds a run at update {step}; pass resume=True to go on with it, "
                "or choose another folder."
            )
        if description != self._description():
            raise IngredientError(
                f"{self.folder} holds a run with other settings or another seed; "
                "resume it with the settings it had, or choose another folder."
            )
        metrics = Path(self.folder or ".") / "metrics.jsonl"
        if self.writes:
            files.truncate_rows(metrics, step)
        self.rows = [
            {k: np.nan if v is None else np.asarray(v, float) for k, v in row.items()}
            for row in files.read_rows(metrics)
            if row.get("step", 0) <= step
        ]
        return state

    def __call__(self, chunk: Chunk) -> None:
        """Keep one row; write it, and a checkpoint when one is due."""
        # Copies: a view would keep the buffers of the device, ten times as large.
        self.rows.append({name: np.array(value) for name, value in chunk.row.items()})
        if self.folder is None or not self.writes:
            return
        files.append_row(self.folder / "metrics.jsonl", chunk.row)
        if chunk.last or time.monotonic() - self.saved > self.every:
            self._save(chunk.state, chunk.row["step"])

    def interrupted(self, state: State, step: int) -> str:
        """Save what has been learnt and say how to go on."""
        if self.folder is None:
            return (
                f"Interrupted at update {step}; the exception's `result` holds the student so far. "
                "Pass folder=... next time and the run can be resumed."
            )
        if self.writes:
            self._save(state, step)
        return f"Interrupted at update {step}; saved in {self.folder}. Resume with resume=True."

    def _save(self, state: State, step: int) -> None:
        files.write_checkpoint(Path(self.folder or "."), step, state, self._description())
        self.saved = time.monotonic()

    def _description(self) -> dict[str, Any]:
        return {"seed": self.seed, "settings": self.settings}


class ProgressBar:
    """The live line of a training: loss, acceptance, move and time left; compiling shown as such."""

    def __init__(self, updates: int, show: bool | None):
        self._shown: dict[str, str] = {}
        self._line = Progress(updates, show, "compiling", "updates", lambda: self._shown)
        self._compiling, self._updates, self._tenths = True, updates, 0

    def go_on_from(self, done: int) -> None:
        """So many updates were made before."""
        self._line.to(done)

    def __call__(self, chunk: Chunk) -> None:
        """Advance to the chunk's step; the clock starts after compilation."""
        if not (self._line.drawn or self._line.said):
            return
        if self._compiling:
            self._line.begin_clock()
            self._line.stage("training")
            self._compiling = False
        medians = {
            name: float(np.nanmedian(chunk.row[name]))
            for name in ("loss", "acceptance", "move")
            if np.isfinite(chunk.row[name]).any()
        }
        self._shown = {name: f"{value:.3g}" for name, value in medians.items()}
        step = int(chunk.row["step"])
        self._line.to(step)
        if 10 * step // self._updates > self._tenths:
            self._tenths = 10 * step // self._updates
            figures = ", ".join(f"{name} {value}" for name, value in self._shown.items())
            self._line.say(f"{step}/{self._updates} updates, {figures}")

    def close(self) -> None:
        """Leave the terminal tidy."""
        self._line.close()


def watch(chunk: Chunk) -> None:
    """Stop when nothing can be learnt, and say why; warn where something was left out."""
    if np.all(np.asarray(chunk.row["lost"]) == 1):
        raise CannotMoveError(_lost_sentence(chunk.state))
    skipped = np.asarray(chunk.row["skipped"])
    for stage, share in zip(("student", "critic", "model"), np.moveaxis(skipped, -1, 0), strict=True):
        if np.all(share == 1):
            raise CannotMoveError(
                f"The {stage}'s gradient is not finite in any update up to {chunk.row['step']}; "
                "its last good parameters are kept. Lower its learning rate, or check its gradient."
            )
    if np.all(np.asarray(chunk.row["moved"]) == 0) and not np.all(np.isnan(chunk.row["acceptance"])):
        _stuck(chunk)


def _stuck(chunk: Chunk) -> None:
    sentence = (
        f"No chain of {type(chunk.state.teacher).__name__} moved up to update {chunk.row['step']}: "
        f"every proposal on {type(chunk.state.target).__name__} was rejected. Use a smaller step_size, "
        "or let it adapt (target_acceptance=0.6)."
    )
    if int(chunk.row["step"]) > 1000:
        raise CannotMoveError(sentence)
    warnings.warn(sentence, stacklevel=3)


def _lost_sentence(state: State) -> str:
    if np.asarray(state.step).ndim:
        state = jax.tree.map(lambda leaf: leaf[0] if eqx.is_array(leaf) else leaf, state)
    names = f"{type(state.student).__name__}'s draws under {type(state.target).__name__}"
    remedy = (
        "Start the student where the log density is finite (its mean and scale), or correct the log "
        "density there (a logarithm of zero, a division by zero, data that are not finite)."
    )
    return (
        f"No chain can move: the log density is not finite at any of {names}{_example(state)}. {remedy}"
    )


def _example(state: State) -> str:
    try:
        draw = state.student.sample(state.key, None, 1)[0]
        value = float(state.target.log_density(draw, None))
    except Exception:  # a conditional target has no example without its data
        return ""
    return f" (at {np.round(np.asarray(draw[:4]), 3).tolist()} it is {value})"
