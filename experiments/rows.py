"""Rows of results: those of the package, and which commit of this checkout made them."""

import subprocess
from pathlib import Path
from typing import Any

import numpy as np

from understudy import files
from understudy.files import last_line, write_rows

__all__ = ["commit", "last_line", "mean_and_error", "provenance", "write_rows"]

_CHECKOUT = Path(__file__).resolve().parents[1]


def provenance(settings: Any, seed: int, seconds: float) -> dict[str, Any]:
    """What a reader needs to make a row again: settings, seed, commit, versions, time and machine.

    Args:
        settings: a dataclass or a mapping.
        seed: of everything random.
        seconds: how long the measurement took.
    """
    return {**files.provenance(settings, seed, seconds), "commit": commit()}


def mean_and_error(name: str, values: Any) -> dict[str, float]:
    """The mean under its name, and its standard error beside it."""
    values = np.asarray(values, float)
    return {
        name: float(values.mean()),
        f"{name}_se": float(values.std(ddof=1) / len(values) ** 0.5)
        if len(values) > 1
        else float("nan"),
    }


def commit() -> str | None:
    """The short hash of this checkout's commit, with "+" if its source has changed; None outside git."""
    if _git("ls-files", "--error-unmatch", __file__) is None:
        return None
    short = _git("rev-parse", "--short", "HEAD")
    changed = _git("status", "--porcelain", "--", ":/src", ":/experiments", ":/benchmarks")
    return short and short + ("+" if changed else "")


def _git(*words: str) -> str | None:
    try:
        ran = subprocess.run(
            ["git", "-C", str(_CHECKOUT), *words],
            capture_output=True,
            text=True,
            timeout=20,
            check=False,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return ran.stdout.strip() if ran.returncode == 0 else None
