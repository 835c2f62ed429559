"""Rows of results: what was measured, with what, on what, and from which source."""

import dataclasses
import json
import os
import platform
import secrets
import subprocess
import sys
from collections.abc import Iterable, Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

from understudy import files
from understudy.files.saving import StoreError

_PACKAGES = ("jax", "blackjax", "equinox", "optax", "numpy", "understudy")
_HERE = Path(__file__).resolve().parents[1]


def provenance(settings: Any, seed: int, seconds: float) -> dict[str, Any]:
    """What a reader needs to make a row again: settings, seed, source, versions, time and machine.

    Args:
        settings: a dataclass or a mapping.
        seed: of everything random.
        seconds: how long the measurement took.
    """
    given = settings if isinstance(settings, Mapping) else dataclasses.asdict(settings)
    return files.plain(
        {
            "settings": given,
            "seed": seed,
            "commit": commit(),
            "versions": {"python": platform.python_version()} | {p: _version(p) for p in _PACKAGES},
            "seconds": seconds,
            "machine": {"cores": _cores(), "platform": f"{platform.system()} {platform.machine()}"},
        }
    )


def commit() -> str | None:
    """The short hash of the checkout that holds the package, with "+" if its source has changed."""
    if _git("ls-files", "--error-unmatch", str(_HERE / "__init__.py")) is None:
        return None
    short = _git("rev-parse", "--short", "HEAD")
    changed = _git("status", "--porcelain", "--", ":/src", ":/benchmarks")
    return short and short + ("+" if changed else "")


def write_rows(path: str | Path, rows: Iterable[Mapping[str, Any]]) -> None:
    """Put rows into a file of JSON lines, in the place of those of the same ``kind`` and ``name``."""
    path, rows = Path(path), [dict(row) for row in rows]
    for row in rows:
        if "kind" not in row or "name" not in row:
            came = ", ".join(row) or "nothing"
            raise StoreError(f"A row needs a kind and a name; one with {came} came.")
    replaced = {(row["kind"], row["name"]) for row in rows}
    kept = [row for row in files.read_rows(path) if (row.get("kind"), row.get("name")) not in replaced]
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    try:
        for row in [*kept, *rows]:
            files.append_row(temporary, row)
        if kept or rows:
            os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def last_line(figures: Mapping[str, Any]) -> None:
    """Print the figures as one JSON object, the last line of what a command prints."""
    sys.stderr.flush()
    print(json.dumps(files.plain(dict(figures)), allow_nan=False), flush=True)


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _cores() -> int | None:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()


def _git(*words: str) -> str | None:
    try:
        ran = subprocess.run(
            ["git", "-C", str(_HERE), *words], capture_output=True, text=True, timeout=20, check=False
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return ran.stdout.strip() if ran.returncode == 0 else None
