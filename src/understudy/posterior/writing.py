"""Named draws in a file of netCDF, NumPy or CSV."""

import csv
import io
import re
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from understudy.checks import shown
from understudy.core import IngredientError
from understudy.display import entries
from understudy.files import checked_path, replace_file
from understudy.posterior.naming import renamed, writable

FORMATS = (".nc", ".npz", ".csv")
"""How the names of files end that :func:`write_draws` can write."""

Draws = Mapping[str, Any]

_AXES = ("chain", "draw")


def write_draws(path: str | Path, draws: Draws) -> Path:
    """Write named draws, one row a draw, to a file whose ending says the format.

    Every name comes back from .npz and .csv as it was; netCDF holds plain names, and the others as the
    attribute ``site`` of a renamed variable. What has to be renamed is said in a warning.

    Args:
        path: ends in .nc (netCDF, one chain, as ArviZ reads it), .npz (NumPy) or .csv.
        draws: what ``result.sample(key, n)`` gave.
    """
    path = checked_path(path)
    writers = {".nc": _netcdf, ".npz": _npz, ".csv": _csv}
    if path.suffix not in writers:
        raise IngredientError(f"path ends in {', '.join(FORMATS)}; {str(path)!r} came.")
    _check_draws(draws)
    replace_file(path, [writers[path.suffix](draws)])
    return path


def _check_draws(draws: Any) -> None:
    if not isinstance(draws, Mapping) or not draws:
        raise IngredientError(
            "draws are named arrays with one row a draw, as result.sample(key, n) gives them; "
            f"{shown(draws)} came."
        )
    rows = {np.shape(value)[:1] for value in draws.values()}
    if len(rows) != 1 or rows == {()}:
        came = ", ".join(str(np.shape(value)) for value in draws.values())
        raise IngredientError(f"draws have one row a draw, all as many; shapes {shown(came)} came.")


def _npz(draws: Draws) -> bytes:
    # NumPy's own writer takes names as keywords, where `file` is taken.
    names = renamed(draws, _is_entry, "An .npz file")
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as folder:
        for name, value in draws.items():
            with folder.open(zipfile.ZipInfo(f"{names[name]}.npy"), "w", force_zip64=True) as entry:
                np.lib.format.write_array(entry, np.asarray(value), allow_pickle=False)
    return buffer.getvalue()


def _is_entry(name: str) -> bool:
    return (
        writable(name) == name and not name.endswith(".npy") and "\\" not in name and len(name) < 2**14
    )


def _csv(draws: Draws) -> bytes:
    every = entries(draws)
    head = io.StringIO(newline="")
    names = [writable(name) for name in every]
    # Not every version of Python quotes a lone carriage return by itself.
    quoting = csv.QUOTE_ALL if any("\r" in name for name in names) else csv.QUOTE_MINIMAL
    csv.writer(head, lineterminator="\n", quoting=quoting).writerow(names)
    buffer = io.BytesIO()
    buffer.write(head.getvalue().encode())
    np.savetxt(buffer, np.stack(list(every.values()), 1), "%.12g", ",")
    return buffer.getvalue()


def _netcdf(draws: Draws) -> bytes:
    import xarray

    names = renamed(draws, _is_plain, "netCDF", _AXES)
    made = {}
    for name, value in draws.items():
        rows = np.asarray(value)[None]
        axes = [*_AXES, *(f"{names[name]}_dim_{i}" for i in range(rows.ndim - 2))]
        attributes = {} if names[name] == name else {"site": writable(name)}
        made[names[name]] = xarray.Variable(axes, rows, attributes)
    return bytes(xarray.Dataset(made).to_netcdf(engine="scipy"))


def _is_plain(name: str) -> bool:
    plain = re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name) is not None
    return plain and len(name) <= 120 and re.search(r"_dim_\d+$", name) is None
