"""The problems of the experiment: 20 splits of a data set, and the folds inside their training parts."""

from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from understudy import data
from understudy.data import Table

FLOOR = 1e-6


class Problems(NamedTuple):
    """Data sets of one size, stacked: rows to learn from and rows to be judged on."""

    features: Float[Array, "s n p"]
    labels: Float[Array, "s n"]
    new_features: Float[Array, "s m p"]
    new_labels: Float[Array, "s m"]

    def repeat(self, times: int) -> "Problems":
        """The problems again and again, the first axis ``times`` as long."""
        return Problems(*(jnp.concatenate([leaf] * times) for leaf in self))


def load(name: str) -> Table:
    """A data set by name; ``australian-A1`` has the column A1 as its label."""
    base, _, column = name.partition("-")
    table = data.load(base)
    return table.predicting(column) if column else table


def outer(table: Table, count: int, seed: int) -> Problems:
    """Random splits, nine tenths to learn from, scaled by what is learnt from."""
    rows = data.splits(len(table), count, seed=seed)
    return _stack([_problem(table.inputs, table.labels, *pair) for pair in zip(*rows, strict=True)])


def inner(problems: Problems, folds: int, seed: int, share: float = 0.2) -> Problems:
    """``folds`` disjoint validation parts inside every training part, side by side (split by split)."""
    made = []
    for features, labels in zip(*map(np.asarray, problems[:2]), strict=True):
        n = len(labels)
        held = round(n * share)
        order = np.random.default_rng((seed, len(made))).permutation(n)
        for fold in range(folds):
            chosen = order[fold * held : (fold + 1) * held]
            rest = np.setdiff1d(np.arange(n), chosen)
            made.append((features[rest], labels[rest], features[chosen], labels[chosen]))
    return _stack(made)


def _problem(inputs, labels, train, test):
    scaled, new = data.standardise(inputs[train], inputs[test])
    if scaled.shape[1] > scaled.shape[0]:
        scaled, new = reduced(scaled, new)
    return scaled, labels[train], new, labels[test]


def reduced(
    train: Float[np.ndarray, "n p"], new: Float[np.ndarray, "m p"]
) -> tuple[Float[np.ndarray, "n q"], Float[np.ndarray, "m q"]]:
    """Wide tables in the n directions that their rows span, and one for all that lies outside.

    With the same Gaussian prior on every weight the posterior of a network, and its prediction for any
    one row, stay what they were: the weights outside the span never leave their prior, and a row sees
    of them one Gaussian number scaled by the length of its part outside.
    """
    _, _, basis = np.linalg.svd(train, full_matrices=False)
    outside = np.linalg.norm(new - new @ basis.T @ basis, axis=1)
    return (
        np.column_stack([train @ basis.T, np.zeros(len(train))]),
        np.column_stack([new @ basis.T, outside]),
    )


def _stack(made) -> Problems:
    return Problems(*(jnp.asarray(np.stack(parts), jnp.float32) for parts in zip(*made, strict=True)))


def chance(mean: Any, labels: Any) -> Any:
    """The probability that was given to every label, within a small distance of 0 and 1."""
    p = np.clip(np.asarray(mean, np.float64), FLOOR, 1 - FLOOR)
    return np.where(np.asarray(labels) > 0.5, p, 1 - p)


def log_likelihood(mean: Any, labels: Any) -> Any:
    """Mean log probability of the labels, over the last axis."""
    return np.log(chance(mean, labels)).mean(-1)


def error(mean: Any, labels: Any) -> Any:
    """Share of wrong decisions, over the last axis."""
    return ((np.asarray(mean) > 0.5) != (np.asarray(labels) > 0.5)).mean(-1)
