"""Tables with a binary label: what they hold, how they are scaled, and how they are split."""

import csv
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from understudy.checks import whole
from understudy.core import IngredientError


@dataclass(frozen=True)
class Table:
    """Rows of numbers and a label in {0, 1}.

    Attributes:
        name: of the data set.
        features: as measured, unscaled.
        labels: 0 or 1.
        names: of the columns of ``features``.
        label: what label 1 means.
        source: who made the data, and where they are.
        licence: on which terms.
        logs: whether the features are intensities, of which to take logarithms first.
    """

    name: str
    features: Float[np.ndarray, "n d"]
    labels: Int[np.ndarray, " n"]
    names: tuple[str, ...]
    label: str = ""
    source: str = ""
    licence: str = ""
    logs: bool = False

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def inputs(self) -> Float[np.ndarray, "n d"]:
        """The features as a model should see them before scaling: logarithms of intensities."""
        return np.log(self.features) if self.logs else self.features

    def predicting(self, column: str) -> "Table":
        """The same rows with a two-valued column as the label, and the label among the features."""
        if column not in self.names:
            raise IngredientError(f"column is one of {', '.join(self.names)}; {column!r} came.")
        at = self.names.index(column)
        values = self.features[:, at]
        if set(np.unique(values)) != {0.0, 1.0}:
            raise IngredientError(f"A label is 0 or 1; column {column} of {self.name} has other values.")
        rest = np.delete(self.features, at, axis=1)
        return replace(
            self,
            name=f"{self.name}, {column}",
            features=np.column_stack([rest, self.labels.astype(float)]),
            labels=values.astype(int),
            names=(*self.names[:at], *self.names[at + 1 :], "y"),
            label=f"{column} = 1",
        )


class Splits(NamedTuple):
    """Rows for training and for testing, one row of indices per split."""

    train: Int[np.ndarray, "s n"]
    test: Int[np.ndarray, "s m"]


def splits(rows: int, count: int = 20, share: float = 0.1, seed: int = 0) -> Splits:
    """Random splits, fixed by the seed: ``share`` of the rows for testing, the rest for training."""
    held = round(whole("rows", rows, least=2) * share)
    if not 0 < held < rows:
        raise IngredientError(
            f"share leaves rows on both sides; {share} of {rows} rows holds out {held}."
        )
    random = np.random.default_rng(seed)
    order = np.stack([random.permutation(rows) for _ in range(whole("count", count))])
    return Splits(order[:, held:], order[:, :held])


def standardise(
    train: Float[np.ndarray, "n d"], *others: Float[np.ndarray, "m d"]
) -> tuple[Float[np.ndarray, "..."], ...]:
    """Subtract the training mean and divide by the training deviation; constant columns become zero."""
    mean, deviation = train.mean(0), train.std(0)
    varies = deviation > 1e-12 * np.maximum(np.abs(mean), 1)
    scale = np.where(varies, deviation, 1.0)
    return tuple(np.where(varies, (rows - mean) / scale, 0.0) for rows in (train, *others))


def read_csv(path: str | Path, label: str = "y") -> Table:
    """A table from a file with a header; ``label`` names its column of zeros and ones."""
    path = Path(path)
    try:
        with path.open(newline="") as file:
            return parse(path.stem, file, label)
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise IngredientError(f"{path} cannot be read as a table: {error}") from error


def parse(name: str, lines: Iterable[str], label: str = "y") -> Table:
    """A table from the lines of a CSV with a header."""
    header, *rows = [row for row in csv.reader(lines) if row] or [[]]
    if not rows:
        raise IngredientError(f"{name} should have a line of names and lines of numbers below it.")
    if label not in header:
        raise IngredientError(
            f"{name} has no column {label!r} for the label; it has {', '.join(header)[:80]}."
        )
    try:
        values = np.array(rows, dtype=float)
    except ValueError as error:
        raise IngredientError(f"Every cell of {name} is a number; {error}.") from error
    at = header.index(label)
    labels = values[:, at]
    if not np.isin(labels, (0.0, 1.0)).all() or not np.isfinite(values).all():
        raise IngredientError(
            f"Labels of {name} are 0 or 1 and its numbers finite; drop or recode other rows."
        )
    names = tuple(header[:at] + header[at + 1 :])
    return Table(name, np.delete(values, at, axis=1), labels.astype(int), names, f"{label} = 1")
