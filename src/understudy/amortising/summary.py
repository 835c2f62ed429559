"""An amortised model in words and in a table: how it learnt, and what data tell of each parameter."""

from typing import TYPE_CHECKING, Any

import numpy as np

from understudy.display import Explained

if TYPE_CHECKING:
    import pandas

_LOOKS = 5


def explained(result: Any) -> Explained:
    """An amortised model in words.

    Args:
        result: an ``Amortised``.
    """
    layout = result.simulator.layout
    sites = ", ".join(f"{site.name} {site.shape}" for site in layout.sites)
    rows = f", {layout.least} to {layout.rows} rows" if layout.varies else ""
    title = f"Amortised over data {sites}{rows}: {result.student.dim} free parameters"
    made = (
        f"{result.simulations:,} simulations ({100 * result.lost:.1f} % not finite and left out) in "
        f"{result.seconds:.0f} s and {result.compile_seconds:.0f} s of compiling."
    )
    advice = (
        "Next: inference(y) is a posterior, sample(key, ys, n) draws for many data sets, check() tests "
        "it on simulated data, summary() says what data tell of each parameter, save(path)."
    )
    return Explained(title, _verdict(result), _course(result.curve), made, advice, "curve")


def _verdict(result: Any) -> str:
    learnt = [stage.note for stage in result.stages[1:]] or ["nothing was learnt"]
    words = f"Not tested yet, which check() does. The last round: {learnt[-1]}."
    if result.simulator.likelihood:
        return words
    return f"{words} There is no likelihood: weights, chains and a verdict for a data set cannot be had."


def _course(curve: np.ndarray) -> "pandas.DataFrame":
    import pandas

    rows = np.asarray(curve, float).reshape(-1, 3)
    rows = rows[np.unique(np.linspace(0, len(rows) - 1, min(_LOOKS, len(rows))).astype(int))]
    names = [f"after {row[0]:.0f} s" for row in rows]
    return pandas.DataFrame(rows[:, 1:], index=names, columns=["updates", "held-out log density"])
