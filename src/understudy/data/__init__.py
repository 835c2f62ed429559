"""Data sets by name: five come with the package, the others are found, or downloaded and checked.

``load("pima")`` gives features, labels, names, source and licence. Files are looked for in the folder
that the variable ``UNDERSTUDY_DATA`` names, then in the user's cache folder, then downloaded.
"""

import hashlib
import io
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from importlib import resources
from typing import Literal, overload

import numpy as np

from understudy.checks import shown
from understudy.core import IngredientError
from understudy.data import files
from understudy.data.images import Images, mnist, read_images
from understudy.data.tabular import Splits, Table, parse, read_csv, splits, standardise

__all__ = [
    "NAMES",
    "Images",
    "Splits",
    "Table",
    "load",
    "local",
    "read_csv",
    "read_images",
    "splits",
    "standardise",
]

_UCI = "https://archive.ics.uci.edu/dataset"
_CC = "CC BY 4.0"


@dataclass(frozen=True)
class _Set:
    label: str
    source: str
    licence: str
    sha256: str
    address: str = ""
    download: Callable[[], bytes] | None = None
    logs: bool = False


def _australian() -> bytes:
    zipped = files.fetch(
        "https://archive.ics.uci.edu/static/public/143/statlog+australian+credit+approval.zip"
    )
    rows = files.unzip(zipped, "australian.dat").decode().split("\n")
    names = [*(f"A{i}" for i in range(1, 15)), "y"]
    return _csv(names, [row.split() for row in rows if row.strip()])


_PRINCETON = "https://genomics-pubs.princeton.edu/oncology/affydata"


def _colon() -> bytes:
    page = files.fetch(f"{_PRINCETON}/I2000.html").decode("latin-1")
    intensities = np.array(re.findall(r"\d+\.\d+[eE][+-]?\d+", page), float).reshape(2000, 62).T
    tissues = re.sub(r"<[^>]*>", " ", files.fetch(f"{_PRINCETON}/tissues.html").decode("latin-1"))
    signs = re.findall(r"(?<![\w.])(-?)\d+(?![\w.])", tissues)[-62:]
    rows = [
        [*map(repr, row.tolist()), "1" if sign else "0"]
        for row, sign in zip(intensities, signs, strict=True)
    ]
    return _csv([*(f"g{i}" for i in range(1, 2001)), "y"], rows)


def _csv(names: list[str], rows: list[list[str]]) -> bytes:
    return "".join(",".join(row) + "\n" for row in [names, *rows]).encode()


_SETS = {
    "australian": _Set(
        "credit granted",
        "Quinlan, Statlog Australian credit approval, UCI data set 143",
        _CC,
        "8f0e39cf6a7e383d35f372b7e5f4b1f77c142262d55b903129a6207a5290cab9",
        f"{_UCI}/143/statlog+australian+credit+approval",
        _australian,
    ),
    "breast": _Set(
        "malignant",
        "Wolberg, Wisconsin breast cancer (original), UCI data set 15, without rows with missing values",
        _CC,
        "b202a73aa1f9888c16962267e1814cf155b58f9f56195023b1393f8b55726e9a",
    ),
    "colon": _Set(
        "tumour",
        "Alon et al., Broad patterns of gene expression revealed by clustering of tumor and normal "
        "colon tissues, PNAS 96, 1999",
        "none stated",
        "7d7739a4d5c9177eed0ed3bb2dda9e1be4a82919d75565aec056353f71552917",
        f"{_PRINCETON}/",
        _colon,
        logs=True,
    ),
    "crabs": _Set(
        "male",
        "Campbell and Mahon, A multivariate study of variation in two species of rock crab of the "
        "genus Leptograpsus, Australian Journal of Zoology 22, 1974",
        "none stated; published measurements",
        "920ba97261c8065aa7907fb14f902b953e2bbbe02ae6809b65622b7d5d7e7965",
    ),
    "ionosphere": _Set(
        "good return",
        "Sigillito et al., UCI data set 52",
        _CC,
        "4034791db0fb35822c78093c6dd5f7bab6ea6e1764a31d0aad07e4c71fde7cb5",
    ),
    "pima": _Set(
        "diabetic",
        "National Institute of Diabetes and Digestive and Kidney Diseases, Pima Indians diabetes, UCI",
        _CC,
        "ed9281109a922479c047002a00e646846e2492bb2a98d86a07a756e92821553f",
    ),
    "sonar": _Set(
        "mine",
        "Gorman and Sejnowski, UCI data set 151",
        _CC,
        "e538d2617204575c53f6ac0bb4c99f9833f56ad87c3005d54e4830cb64bf4761",
    ),
}

NAMES = tuple(_SETS)


@overload
def load(name: Literal["mnist"]) -> Images: ...  # pyright: ignore[reportOverlappingOverload]


@overload
def load(name: str) -> Table: ...


def load(name: str) -> Table | Images:
    """A data set by name, with its source and licence: ``load("pima")``, ``load("mnist")``.

    Args:
        name: one of :data:`NAMES`, the tables, or "mnist".

    Examples:
        >>> from understudy import data
        >>> table = data.load("crabs")
        >>> table.features.shape, table.names[:2]
        ((200, 6), ('sp_orange', 'FL'))
    """
    if not isinstance(name, str) or name not in (*_SETS, "mnist"):
        raise IngredientError(f"A data set is one of {', '.join(NAMES)}, mnist; {shown(name)} came.")
    if name == "mnist":
        return mnist()
    known = _SETS[name]
    if known.download is None:
        raw = resources.files("understudy.data").joinpath("tables", f"{name}.csv").read_bytes()
    else:
        raw = files.obtain(f"uci/{name}.csv", known.download, known.address, digest, known.sha256)
    table = _parsed(name, raw)
    return replace(table, label=known.label, source=known.source, licence=known.licence, logs=known.logs)


def local() -> list[str]:
    """The tables that can be loaded without a network.

    Examples:
        >>> from understudy import data
        >>> "crabs" in data.local()
        True
    """
    return [n for n, known in _SETS.items() if known.download is None or files.find(f"uci/{n}.csv")]


def digest(raw: bytes) -> str:
    """SHA-256 of the numbers of a table, whatever their spelling."""
    table = _parsed("table", raw)
    hashed = hashlib.sha256(repr(table.features.shape).encode())
    hashed.update(np.ascontiguousarray(table.features, "<f8").tobytes())
    hashed.update(np.ascontiguousarray(table.labels, "<i8").tobytes())
    return hashed.hexdigest()


def _parsed(name: str, raw: bytes) -> Table:
    return parse(name, io.StringIO(raw.decode()))
