"""What an amortising training keeps in a folder, so that one that was cut off can go on."""

import time
from typing import Any, NamedTuple

import numpy as np

from understudy import files
from understudy.amortising.learning import Learning
from understudy.amortising.simulators import Simulator
from understudy.files import StoreError
from understudy.files.keeping import KeptWork
from understudy.training import State
from understudy.training.update import paced

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


class Kept(KeptWork):
    """The newest state of a training; see :class:`~understudy.files.keeping.KeptWork`."""

    def __init__(self, folder: Any, resume: Any, simulator: Simulator, seed: int, writes: bool = True):
        traces = "checkpoint-*.safetensors"
        super().__init__("training", folder, resume, traces, seed, {"model": simulator}, writes)
        self._saved = time.monotonic()

    def read(self, learning: Learning) -> Place:
        """Put a training where an earlier one was cut off; its place, the beginning if there is none."""
        found = None if self.folder is None else files.read_checkpoint(self.folder, learning.state)
        if found is None:
            return Place()
        _, state, told = found
        self.check_same(told)
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
        if self.folder is None or not self.writes:
            return
        if not (now or time.monotonic() - self._saved > SECONDS):
            return
        told = {"round": place.round, "spent": place.spent, "seconds": learning.seconds}
        told |= {"lost": learning.lost, "curve": [list(row) for row in learning.curve]}
        told["before"] = place.before if np.isfinite(place.before) else None
        # The rate follows the time of the round, so none is kept.
        files.write_checkpoint(self.folder, int(state.step), paced(state, 0.0), {**self.marks, **told})
        self._saved = time.monotonic()
