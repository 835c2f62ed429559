"""Predictions for every test row, in one compressed file beside the rows of figures.

An array holds all splits that one method made of a data set with one seed, in ten-thousandths.
"""

import hashlib
import io
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from understudy import files

FILE = "bnn_predictions.npz"
LABELS = "labels"
UNIT = 10_000

Arrays = Mapping[str, np.ndarray]


def load_predictions(folder: Path) -> Arrays:
    """All arrays of a folder's file; none where there is no file."""
    path = folder / FILE
    if not path.exists():
        return {}
    with np.load(path) as arrays:
        return dict(arrays)


def keep_predictions(
    folder: Path,
    settings: Mapping[str, Any],
    dataset: str,
    means: Mapping[str, Float[np.ndarray, "s m"]],
    labels: Int[np.ndarray, "s m"],
) -> None:
    """Add what methods predict for the test rows of every split, and the labels of these rows."""
    arrays = dict(load_predictions(folder))
    arrays[_key(settings, dataset, LABELS)] = np.asarray(labels, np.uint8)
    for method, mean in means.items():
        arrays[_key(settings, dataset, method)] = np.round(UNIT * np.asarray(mean)).astype(np.uint16)
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **arrays)
    files.replace_file(folder / FILE, [buffer.getvalue()])


def predictions_of(
    arrays: Arrays, row: Mapping[str, Any]
) -> tuple[Float[np.ndarray, " m"], Int[np.ndarray, " m"]]:
    """The probability of label 1 for the test rows of one split by one method, and their labels."""
    settings, dataset = row["settings"], row["dataset"]
    split = row["split"] % settings["splits"]
    told, truth = (arrays[_key(settings, dataset, name)][split] for name in (row["method"], LABELS))
    return told / UNIT, truth.astype(int)


def _key(settings: Mapping[str, Any], dataset: str, name: str) -> str:
    lengths = json.dumps(dict(settings), sort_keys=True).encode()
    return f"{dataset}, {name}, {hashlib.sha256(lengths).hexdigest()[:8]}"
