"""What an amortising training keeps in a folder, so that one that was cut off can go on."""

import contextlib
import time
from types import TracebackType
from typing import Any, NamedTuple

import numpy as np

from understudy import checks, files
from understudy.amortising.learning import Learning, paced
from understudy.amortising.simulators import Simulator
from understudy.core import IngredientError
from understudy.files import StoreError
from understudy.training import State

SECONDS = 10.0
"""Least time between two checkpoints."""


class Place(NamedTuple):
    """Where a training stands.

    Attributes:
        round: the number of the round it is in.
        spent: seconds of that round.
        before: the held-out log density after the round before.
    """

    round: int = 0
    spent: float = 0.0
    before: float = -np.inf


class Kept:
    """The newest state of a training in a folder that this process holds; nothing without one.

    Args:
        folder: where, or None.
        resume: whether to begin with what the folder holds.
        simulator: of the training, to recognise it.
        seed: of the training, to recognise it.
        writes: whether this process is the one that does, of those that train together.
    """

    def __init__(self, folder: Any, resume: Any, simulator: Simulator, seed: int, writes: bool = True):
        self.folder, self.writes = checks.folder(folder), writes
        self.resume = checks.flag("resume", resume)
        if self.folder is None and resume:
            raise IngredientError("resume=True needs the folder of the training; folder=None came.")
        self._inside = {"seed": seed, "simulator": files.fingerprint(simulator)}
        self._saved, self._held = time.monotonic(), contextlib.ExitStack()

    def __enter__(self) -> "Kept":
        if self.folder is None:
            return self
        if self.writes:
            self._held.enter_context(files.locked(self.folder))
        if not self.resume and any(self.folder.glob("checkpoint-*.safetensors")):
            self._held.close()
            raise IngredientError(
                f"{self.folder} holds a training already; pass resume=True to go on with it, or choose "
                "another folder."
            )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        self._held.close()

    def read(self, learning: Learning) -> Place:
        """Put a training where an earlier one was cut off; its place, the beginning if there is none."""
        found = None if self.folder is None else files.read_checkpoint(self.folder, learning.state)
        if found is None:
            return Place()
        _, state, told = found
        if {name: told.get(name) for name in self._inside} != self._inside:
            raise IngredientError(
                f"{self.folder} holds a training of another model or seed; resume it with those it had, "
                "or choose another folder."
            )
        learning.state, learning.best = state, (-np.inf, state)
        try:
            curve = [(float(s), int(u), float(score)) for s, u, score in told["curve"]]
            learning.curve, learning.seconds = curve, float(told["seconds"])
            learning.lost = float(told["lost"])
            before = -np.inf if told["before"] is None else float(told["before"])
            return Place(int(told["round"]), float(told["spent"]), before)
        except (KeyError, TypeError, ValueError) as error:
            raise StoreError(
                f"{self.folder} does not say where its training stands; remove it."
            ) from error

    def write(self, learning: Learning, state: State, place: Place, now: bool = False) -> None:
        """Keep a state where one is due, or asked for."""
        if (
            self.folder is None
            or not self.writes
            or not (now or time.monotonic() - self._saved > SECONDS)
        ):
            return
        told = {"round": place.round, "spent": place.spent, "seconds": learning.seconds}
        told |= {"lost": learning.lost, "curve": [list(row) for row in learning.curve]}
        told["before"] = place.before if np.isfinite(place.before) else None
        # The rate follows the time of the round, so none is kept.
        files.write_checkpoint(self.folder, int(state.step), paced(state, 0.0), {**self._inside, **told})
        self._saved = time.monotonic()
