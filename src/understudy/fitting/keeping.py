"""What a fit keeps in a folder, so that one that was cut off can go on."""

import contextlib
from types import TracebackType
from typing import Any

import numpy as np

from understudy import checks, files
from understudy.core import IngredientError, Target
from understudy.files import StoreError

STAGE = "stage.safetensors"
"""The file in the folder of a fit that holds its newest stage."""


class Kept:
    """The newest stage of a fit in a folder that this process holds; nothing is written without one.

    Args:
        folder: where, or None.
        resume: whether to begin with what the folder holds.
        target: of the fit, to recognise it.
        seed: of the fit, to recognise it.
        writes: whether this process is the one that does, of those that fit together.
    """

    def __init__(self, folder: Any, resume: Any, target: Target, seed: int, writes: bool = True):
        place, self.writes = checks.folder(folder), writes
        self.path = None if place is None else place / STAGE
        self.resume = checks.flag("resume", resume)
        if self.path is None and resume:
            raise IngredientError("resume=True needs the folder of the fit; folder=None came.")
        self._dim, self._inside = target.dim, {"seed": seed, "target": files.fingerprint(target)}
        self._held = contextlib.ExitStack()

    def __enter__(self) -> "Kept":
        if self.path is None:
            return self
        if self.writes:
            self._held.enter_context(files.locked(self.path.parent))
        if self.path.exists() and not self.resume:
            self._held.close()
            raise IngredientError(
                f"{self.path.parent} holds a fit already; pass resume=True to go on with it, or choose "
                "another folder."
            )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        self._held.close()

    def read(self) -> np.ndarray | None:
        """Draws of the chains at the newest stage, if it belongs to this fit."""
        if self.path is None or not self.resume or not self.path.exists():
            return None
        arrays, inside = files.read(self.path)
        if inside != self._inside:
            raise IngredientError(
                f"{self.path.parent} holds a fit of another target or seed; resume it with the target "
                "and seed it had, or choose another folder."
            )
        z = arrays.get("z", np.zeros(()))
        if z.ndim != 2 or z.shape[1] != self._dim or not len(z) or not np.isfinite(z).all():
            raise StoreError(f"{self.path} does not hold the draws of a stage; remove it.")
        return z

    def write(self, z: np.ndarray) -> None:
        """Keep draws of the chains."""
        if self.path is not None and self.writes:
            files.write(self.path, {"z": z}, self._inside)
