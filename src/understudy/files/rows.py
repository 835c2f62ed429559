"""Rows of results, one JSON object a line: what was measured, with which settings, and on what."""

import dataclasses
import json
import os
import platform
import sys
from collections.abc import Callable, Iterable, Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

from understudy.backend import cores
from understudy.files.errors import StoreError, reason
from understudy.files.plain import plain
from understudy.files.replacing import checked_path, read_file, replace_file

# Bytes of a file of rows.
_LARGEST = 2**30
_PACKAGES = ("jax", "blackjax", "equinox", "optax", "numpy", "understudy")


def append_row(path: str | Path, row: Mapping[str, Any]) -> None:
    """Append one row to a file of JSON lines; what is not finite becomes null."""
    path, line = checked_path(path), as_line(row) + "\n"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(path, "ab+") as file:
            _drop_torn_line(file)
            file.write(line.encode())
            file.flush()
    except OSError as error:
        raise StoreError(
            f"{path} could not be written ({reason(error)}); check the folder and its free space."
        ) from error


def read_rows(path: str | Path) -> list[dict[str, Any]]:
    """All rows of a file of JSON lines, but for a last line that was cut short; none if missing."""
    if not checked_path(path).exists():
        return []
    lines = read_file(path, _LARGEST).split(b"\n")[:-1]
    try:
        rows = [json.loads(line) for line in lines]
    except (ValueError, RecursionError) as error:
        raise StoreError(
            f"{path} is damaged: a line is not JSON ({error}); remove that line."
        ) from error
    for i, row in enumerate(rows, 1):
        if not isinstance(row, dict):
            raise StoreError(
                f"{path} is damaged: line {i} is not a row of names and values; remove that line."
            )
    return rows


def keep_rows(path: str | Path, wanted: Callable[[dict[str, Any]], bool]) -> None:
    """Drop the rows that are not wanted; the file is replaced whole or not at all."""
    if checked_path(path).exists():
        kept = [row for row in read_rows(path) if wanted(row)]
        replace_file(path, [(json.dumps(row) + "\n").encode() for row in kept])


def truncate_rows(path: str | Path, step: int) -> None:
    """Drop the rows after ``step``, as a resumed run writes them again."""
    keep_rows(path, lambda row: _step(path, row, step) <= step)


def write_rows(path: str | Path, rows: Iterable[Mapping[str, Any]]) -> None:
    """Put rows into a file of JSON lines, in the place of those of the same ``kind`` and ``name``."""
    rows = [dict(row) for row in rows]
    for row in rows:
        if "kind" not in row or "name" not in row:
            came = ", ".join(row) or "nothing"
            raise StoreError(f"A row needs a kind and a name; one with {came} came.")
    replaced = {(row["kind"], row["name"]) for row in rows}
    kept = [row for row in read_rows(path) if (row.get("kind"), row.get("name")) not in replaced]
    if kept or rows:
        replace_file(path, [(as_line(row) + "\n").encode() for row in [*kept, *rows]])


def provenance(settings: Any, seed: int, seconds: float) -> dict[str, Any]:
    """What a reader needs to make a row again: settings, seed, versions, time and machine.

    Args:
        settings: a dataclass or a mapping.
        seed: of everything random.
        seconds: how long the measurement took.
    """
    given = settings if isinstance(settings, Mapping) else dataclasses.asdict(settings)
    return plain(
        {
            "settings": given,
            "seed": seed,
            "versions": {"python": platform.python_version()} | {p: _version(p) for p in _PACKAGES},
            "seconds": seconds,
            "machine": {"cores": cores(), "platform": f"{platform.system()} {platform.machine()}"},
        }
    )


def last_line(figures: Mapping[str, Any]) -> None:
    """Print the figures as one JSON object, the last line of what a command prints."""
    sys.stderr.flush()
    print(as_line(figures), flush=True)


def as_line(row: Mapping[str, Any]) -> str:
    """A row as one line of JSON; what is not finite becomes null."""
    return json.dumps(plain(dict(row)), allow_nan=False)


def _step(path: str | Path, row: dict[str, Any], default: int) -> int | float:
    step = row.get("step", default)
    if not isinstance(step, int | float):
        raise StoreError(f"{path} is damaged: a row has the step {step!r}; remove that line.")
    return step


def _drop_torn_line(file: Any) -> None:
    size = file.seek(0, os.SEEK_END)
    file.seek(max(size - 1, 0))
    if file.read(1) != b"\n":
        file.seek(0)
        file.truncate(file.read().rfind(b"\n") + 1)


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None
