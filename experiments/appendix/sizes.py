"""How long the parts of the appendix run, and how their figures are given."""

from typing import NamedTuple


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
