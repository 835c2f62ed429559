"""Tables with a binary label: what they hold, how they are scaled, and how they are split."""

import csv
import io
import os
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int

from understudy import checks
from understudy.checks import can_name_a_file, fraction, one_of, shown, whole
from understudy.core import IngredientError
from understudy.files import read_file
from understudy.files.errors import reason

_MOST_INDICES = 10**9
# Bytes of a table; as lists of words, which the reader makes of it, it takes many times as much.
_LARGEST = 2**30


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
        one_of("column", self.names, column)
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
    """Random splits, fixed by the seed: ``share`` of the rows for testing, the rest for training.

    Examples:
        >>> from understudy import data
        >>> split = data.splits(200, count=5)
        >>> split.train.shape, split.test.shape
        ((5, 180), (5, 20))
    """
    whole("rows", rows, least=2, most=_MOST_INDICES)
    whole("count", count, most=_MOST_INDICES // rows)
    held = round(rows * float(fraction("share", share)))
    if not 0 < held < rows:
        raise IngredientError(
            f"share leaves rows on both sides; {share} of {rows} rows holds out {held}."
        )
    random = np.random.default_rng(checks.seed("seed", seed))
    order = np.stack([random.permutation(rows) for _ in range(count)])
    return Splits(order[:, held:], order[:, :held])


def standardise(
    train: Float[np.ndarray, "n d"], *others: Float[np.ndarray, "m d"]
) -> tuple[Float[np.ndarray, "..."], ...]:
    """Subtract the training mean and divide by the training deviation; constant columns become zero.

    Examples:
        >>> import numpy as np
        >>> from understudy import data
        >>> train, test = data.standardise(np.array([[0.0], [2.0]]), np.array([[4.0]]))
        >>> train[:, 0].tolist()
        [-1.0, 1.0]
    """
    train, others = _numbers(train), tuple(_numbers(rows) for rows in others)
    if any(rows.shape[1] != train.shape[1] for rows in others):
        raise IngredientError(
            f"Every set of rows has the {train.shape[1]} columns of the first; others have "
            f"{', '.join(str(rows.shape[1]) for rows in others)}."
        )
    mean, deviation = train.mean(0), train.std(0)
    varies = deviation > 1e-12 * np.maximum(np.abs(mean), 1)
    scale = np.where(varies, deviation, 1.0)
    return tuple(np.where(varies, (rows - mean) / scale, 0.0) for rows in (train, *others))


def _numbers(rows: Any) -> Float[np.ndarray, "n d"]:
    try:
        array = np.asarray(rows, float)
    except Exception as error:
        raise IngredientError(f"Rows to scale are numbers; {shown(rows)} came.") from error
    if array.ndim != 2 or not len(array) or not np.isfinite(array).all():
        raise IngredientError(
            "Rows to scale are a table of finite numbers, of shape (rows, columns); shape "
            f"{array.shape} came, or a value that is not finite."
        )
    return array


def read_csv(path: str | Path, label: str = "y") -> Table:
    """A table from a file with a header; ``label`` names its column of zeros and ones."""
    path = existing("a table", path)
    raw = read_file(path, _LARGEST)
    try:
        # Spreadsheets begin a file with a mark of its encoding.
        return parse(path.stem, io.StringIO(raw.decode("utf-8-sig"), newline=""), label)
    except (UnicodeDecodeError, csv.Error) as error:
        raise IngredientError(
            f"{path} cannot be read as a table ({error}); write it as CSV with a header, in UTF-8."
        ) from error


def existing(what: str, path: Any) -> Path:
    """The path of a file or folder that is there."""
    named = isinstance(path, str | os.PathLike) and str(path) and can_name_a_file(str(path))
    if not named:
        raise IngredientError(f"The path of {what} is a name such as 'mine/data'; {shown(path)} came.")
    path = Path(path)
    try:
        path.stat()
    except OSError as error:
        raise IngredientError(
            f"{path} cannot be read ({reason(error)}); give the path of {what}."
        ) from error
    if not (path.is_file() or path.is_dir()):  # a pipe would be waited for, a device has no end
        raise IngredientError(f"{path} is neither a file nor a folder; give the path of {what}.")
    return path


def parse(name: str, lines: Iterable[str], label: str = "y") -> Table:
    """A table from the lines of a CSV with a header."""
    header, *rows = [row for row in csv.reader(lines) if row] or [[]]
    if not rows:
        raise IngredientError(
            f"{name} should have a line of names and lines of numbers below it; none came."
        )
    if not isinstance(label, str) or label not in header:
        raise IngredientError(
            f"{name} has no column {shown(label)} for the label; it has {', '.join(header)[:80]}."
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
