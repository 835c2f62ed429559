"""How long the parts of the appendix run, and how their figures are given."""

from typing import Any, NamedTuple

import numpy as np


class Sizes(NamedTuple):
    """How long everything runs.

    Attributes:
        updates: of every training.
        repeats: trainings side by side.
        chains: whose law is measured by a histogram.
        splits: of the data set.
        seed: of everything random.
    """

    updates: int
    repeats: int
    chains: int
    splits: int
    seed: int


def mean_and_error(name: str, values: Any) -> dict[str, float]:
    """The mean under its name, and its standard error beside it."""
    values = np.asarray(values, float)
    return {
        name: float(values.mean()),
        f"{name}_se": float(values.std(ddof=1) / len(values) ** 0.5)
        if len(values) > 1
        else float("nan"),
    }
