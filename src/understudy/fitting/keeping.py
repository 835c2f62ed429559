"""What a fit keeps in a folder, so that one that was cut off can go on."""

from typing import Any

import numpy as np

from understudy import files
from understudy.core import Target
from understudy.files import StoreError
from understudy.files.keeping import KeptWork

STAGE = "stage.safetensors"
"""The file in the folder of a fit that holds its newest stage."""


class Kept(KeptWork):
    """The newest stage of a fit; see :class:`~understudy.files.keeping.KeptWork`."""

    def __init__(self, folder: Any, resume: Any, target: Target, seed: int, writes: bool = True):
        super().__init__("fit", folder, resume, STAGE, seed, {"target": target}, writes)
        self._dim = target.dim

    def read(self) -> np.ndarray | None:
        """Draws of the chains at the newest stage, if it belongs to this fit."""
        path = None if self.folder is None else self.folder / STAGE
        if path is None or not self.resume or not path.exists():
            return None
        arrays, inside = files.read(path)
        self.check_same(inside)
        z = arrays.get("z", np.zeros(()))
        if z.ndim != 2 or z.shape[1] != self._dim or not len(z) or not np.isfinite(z).all():
            raise StoreError(f"{path} does not hold the draws of a stage; remove it.")
        return z

    def write(self, z: np.ndarray) -> None:
        """Keep draws of the chains."""
        if self.folder is not None and self.writes:
            files.write(self.folder / STAGE, {"z": z}, self.marks)
