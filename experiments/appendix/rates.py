"""Energy matching on networks of section 5.2 over learning rates, until its curves are flat or not.

Three of its sets, those whose networks are small. The rate is not chosen here: every rate has a curve on
test rows, so that one sees what any choice could have come to.
"""

from typing import Any

import numpy as np

from experiments.appendix.sizes import Sizes
from experiments.bnn import problems as parts
from experiments.bnn import recipes
from experiments.bnn.course import follow
from experiments.bnn.report import PAPER
from experiments.rows import mean_and_error

DATASETS = ("crabs", "breast", "pima")
RATES = (0.001, 0.003, 0.01, 0.03, 0.1)


def rows(sizes: Sizes) -> list[dict[str, Any]]:
    """Every rate on every set, half of the splits."""
    return [row for dataset in DATASETS for row in rows_of(dataset, sizes)]


def rows_of(dataset: str, sizes: Sizes) -> list[dict[str, Any]]:
    """Every rate on one set, all in one program."""
    lengths = recipes.Sizes(*(sizes.updates,) * 3, warm=1, kept=4, folds=1, seed=sizes.seed)
    course = recipes.energy_matching(lengths)
    table = parts.outer(parts.load(dataset), max(sizes.splits // 2, 2), sizes.seed)
    splits = len(table.labels)
    each = np.repeat(RATES, splits)
    outcome = follow(course, lengths.key("rates"), table.repeat(len(RATES)), each)
    labels = np.asarray(table.new_labels)[None, :, None]
    shape = (len(RATES), splits, len(course.marks))
    values = parts.log_likelihood(outcome.mean.reshape(*shape, -1), labels)
    seconds = outcome.seconds / len(each)
    return [
        _row(dataset, rate, course.marks, curve, seconds)
        for rate, curve in zip(RATES, values, strict=True)
    ]


def _row(
    dataset: str, rate: float, marks: tuple[int, ...], curve: Any, seconds: float
) -> dict[str, Any]:
    """One curve: means over splits, and what the last doubling of the updates gained."""
    return {
        "name": f"{dataset}, rate {rate:g}",
        "dataset": dataset,
        "rate": rate,
        "updates": list(marks),
        "curve_ll": [float(value) for value in curve.mean(0)],
        **mean_and_error("test_ll", curve[:, -1]),
        **mean_and_error("last_gain", curve[:, -1] - curve[:, -2]),
        "paper": PAPER[dataset][2],
        "paper_se": PAPER[dataset][3],
        "training_seconds": seconds,
    }
