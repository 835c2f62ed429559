"""A training in words: what went wrong if anything did, its course, and what to do next."""

from typing import Any

import numpy as np

from understudy.display import Explained

_COURSE = ("loss", "critic_loss", "model_loss", "acceptance", "move", "lost")


def explained(result: Any) -> Explained:
    """A trained student in words.

    Args:
        result: a ``Trained``.
    """
    side = "" if result.repeats is None else f", {result.repeats} side by side"
    title = f"Trained {type(result.student).__name__} of {result.student.dim} dimensions{side}"
    steps = int(result.history["step"][-1]) if result.history else 0
    made = (
        f"{steps:,} updates in {result.seconds:.1f} s and {result.compile_seconds:.1f} s of compiling, "
        f"taught by {type(result.state.teacher).__name__}; figures are medians."
    )
    advice = (
        "Next: sample(key, n), or Posterior(target, result.student).check() to test the draws, and "
        "save(path, result.student)."
    )
    return Explained(title, _verdict(result.history), _course(result.history), made, advice, "history")


def _verdict(history: dict[str, np.ndarray]) -> str:
    problems = [
        f"{100 * share:.0f} % of {what}" for what, share in _shares(history).items() if share > 0.01
    ]
    if problems:
        return (
            f"Look before use: in the last quarter {' and '.join(problems)} were left out as not finite."
        )
    return "Not tested yet: training ended without trouble, and nothing has tested the draws."


def _shares(history: dict[str, np.ndarray]) -> dict[str, float]:
    names = {"lost": "the chains", "skipped": "the gradients"}
    return {what: float(np.nanmax(_late(history[n]))) for n, what in names.items() if n in history}


def _late(values: np.ndarray) -> np.ndarray:
    late = values[-max(1, len(values) // 4) :]
    return np.nan_to_num(np.atleast_1d(late.mean(0)))


def _course(history: dict[str, np.ndarray]) -> Any:
    import pandas

    rows = {}
    for name in _COURSE:
        values = np.asarray(history.get(name, ()), float)
        if values.size and np.isfinite(values).any() and (values != 0).any():
            rows[name] = [_median(part) for part in np.array_split(values, min(4, len(values)))[::1]]
    parts = max((len(row) for row in rows.values()), default=0)
    heads = [f"part {i + 1} of {parts}" for i in range(parts)]
    return pandas.DataFrame.from_dict(rows, orient="index", columns=heads)


def _median(values: np.ndarray) -> float:
    finite = values[np.isfinite(values)]
    return float(np.median(finite)) if finite.size else float("nan")
