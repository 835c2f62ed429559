"""Appendix A: dropout and truncated chains as students of a network's weights, on the crabs.

Neither has a density, so both learn from a teacher's draws, by the paper's energy matching or by the
energy distance, of the weights or of what they predict; a mean-field Gaussian by the exclusive KL
stands beside them. One rate for all, no tuning: a row says what the student is capable of, not what is
best.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import paramax
from jaxtyping import Array, Float

from experiments.appendix.sizes import Sizes
from experiments.bnn import problems as parts
from experiments.bnn.course import Course, follow
from experiments.bnn.recipes import gaussian
from experiments.rows import mean_and_error
from understudy.core import Feedback, Key, Student, Teacher
from understudy.feedbacks import EnergyDistance, EnergyMatching, ExclusiveKL, Viewed
from understudy.students import DiagonalGaussian, Dropout, TruncatedChain
from understudy.targets import BayesianNetwork
from understudy.teachers import Identity, minibatch_mala

DATASET, RATE, PARTICLES, DRAWS = "crabs", 0.01, 10, 100
DROPPED, STEPS, NEARBY = 0.1, 5, 0.3


def rows(sizes: Sizes) -> list[dict[str, Any]]:
    """Every student on the same splits, and what it gains over the mean-field one."""
    table = parts.outer(parts.load(DATASET), sizes.splits, sizes.seed)
    found = {name: _predict(make, feedback, table, sizes) for name, (make, feedback) in ROWS.items()}
    base = next(iter(found.values()))["test_ll"]
    return [
        {
            "name": name,
            "dataset": DATASET,
            "chain_at_prediction": "chain" in name,
            **mean_and_error("test_ll", figures["test_ll"]),
            **mean_and_error("test_error", figures["test_error"]),
            **mean_and_error("gain", np.asarray(figures["test_ll"]) - base),
            "training_seconds": figures["seconds"],
        }
        for name, figures in found.items()
    ]


def _predict(make: Callable, feedback: Feedback, table: parts.Problems, sizes: Sizes) -> dict[str, Any]:
    teacher = _nobody if isinstance(feedback, ExclusiveKL) else _langevin
    course = Course(make, teacher, feedback, PARTICLES, (sizes.updates,), DRAWS, together=5)
    outcome = follow(course, jax.random.key(sizes.seed), table, np.full(len(table.labels), RATE))
    labels = np.asarray(table.new_labels)
    mean = outcome.mean[:, -1]
    return {
        "test_ll": parts.log_likelihood(mean, labels),
        "test_error": parts.error(mean, labels),
        "seconds": outcome.seconds / len(labels),
    }


def dropout(key: Key, target: BayesianNetwork, start: Any) -> Student:
    """A network whose inputs and units are dropped at random."""
    del start
    return Dropout(key, [(outputs, inputs) for inputs, outputs in target.shapes], rate=DROPPED)


def chain(key: Key, target: BayesianNetwork, start: Any) -> Student:
    """A Gaussian whose draws are moved by a few learnt Langevin steps."""
    del start
    base = DiagonalGaussian(target.dim, target.start(key, 1)[0], 0.05)
    return TruncatedChain(base, target, STEPS, step_size=1e-4)


def predictions(target: BayesianNetwork, z: Float[Array, " d"], x: Any) -> Float[Array, " n"]:
    """What a network says of the training rows, and of the same rows a little way off."""
    del x
    rows = paramax.unwrap(target).features
    near = rows + NEARBY * jax.random.normal(jax.random.key(0), rows.shape)
    return target.outputs(z, jnp.concatenate([rows, near]))[:, 0]


def _nobody(*_: Any) -> Teacher:
    return Identity()


def _langevin(_: Any, count: int, start: Any) -> Teacher:
    del start
    return minibatch_mala(0.05 / count, steps=5, target_acceptance=0.9, rate=0.01)


IN_PREDICTIONS = Viewed(EnergyDistance(), predictions)
ROWS: dict[str, tuple[Callable, Feedback]] = {
    "mean-field Gaussian, exclusive KL": (gaussian(0.05), ExclusiveKL()),
    "mean-field Gaussian, energy distance of predictions": (gaussian(0.05), IN_PREDICTIONS),
    "dropout, energy matching": (dropout, EnergyMatching()),
    "dropout, energy distance of weights": (dropout, EnergyDistance()),
    "dropout, energy distance of predictions": (dropout, IN_PREDICTIONS),
    "truncated chain, energy matching": (chain, EnergyMatching()),
    "truncated chain, energy distance of predictions": (chain, IN_PREDICTIONS),
}
