"""A target network and replay, borrowed from deep Q-learning: the paper's perceptron with and without.

All rows keep averaged weights and are measured on them; what differs is who starts the chains, the
student or its average, and whether an update learns from the lesson of now or from one of the last 20.
"""

from typing import Any

import numpy as np

from experiments import mixture
from experiments.appendix.sizes import Sizes
from experiments.mixture.rows import PAPER_FEEDBACK, PAPER_LEARNING, Row, perceptron
from understudy.teachers import mala

CHOICES: dict[str, dict[str, Any]] = {
    "neither": {},
    "target network": {"proposer": "average"},
    "replay": {"replay": 20},
    "both": {"proposer": "average", "replay": 20},
}


def rows(sizes: Sizes) -> list[dict[str, Any]]:
    """Every choice, T x eta = 1."""
    return [_row(name, choice, sizes) for name, choice in CHOICES.items()]


def _row(name: str, choice: dict[str, Any], sizes: Sizes) -> dict[str, Any]:
    learning = {**PAPER_LEARNING, "average": 0.99, **choice}
    row = Row(name, perceptron, mala(0.2, steps=5), PAPER_FEEDBACK, learning)
    settings = mixture.Settings(updates=sizes.updates, repeats=sizes.repeats, seed=sizes.seed)
    trained = mixture.train_row(row, settings, False)
    summary, seen = trained.summary, trained.progress["ksd"]
    late = seen[len(seen) // 2 :]
    kept = ("ksd", "w1", "weight_error", "both_modes", "repeats")
    return {
        "name": name,
        **{figure: summary[figure] for figure in kept},
        "ksd_late": float(np.median(late)),
        "ksd_swing": float(np.median(late.std(0))),
        "training_seconds": trained.result.seconds,
    }
