"""One self-contained page about an amortised model: tests on simulated data, stages, the curve."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from understudy import files
from understudy.report.figures import STUDENT, Picture, blank_panels, picture_bytes
from understudy.report.page import as_bytes, document, figures_table, inlined
from understudy.report.posterior import again, finding_part, stages_table, trust_table

_NOT_TESTED = (
    "There is no likelihood, so three tests cannot be had: of the likelihood of the truth, of weighted "
    "draws, and of the weights over data sets. Nor is there a verdict for one data set."
)


def write_amortised_report(path: str | Path, result: Any, trust: Any, names: Sequence[str] = ()) -> Path:
    """Write the page.

    Args:
        path: of the page.
        result: an amortised model, for its stages and its curve.
        trust: what its check found.
        names: of the coordinates of a flat draw.
    """
    parts = [
        trust_table(trust),
        "" if result.simulator.likelihood else f"<p>{_NOT_TESTED}</p>",
        *(finding_part(finding, names) for finding in trust.findings),
        stages_table(result.stages),
        _curve(np.asarray(result.curve)),
        figures_table(_costs(result), "Costs"),
        again(f"inference = understudy.amortise(model, ..., seed={result.seed})", "inference", result),
    ]
    right = "ok", "The student is right on average as far as these tests see."
    weighed = "; sample() corrects its draws by the likelihood" if result.simulator.likelihood else ""
    wrong = f"The student's own draws are not right yet: see which test failed, and why{weighed}."
    verdict = right if trust.trusted else ("warn" if weighed else "fail", wrong)
    lead = f"{str(result).splitlines()[0]}."
    page = document("Amortised model", lead, [part for part in parts if part], verdict)
    files.replace_file(path, [as_bytes(page)])
    return Path(path)


def _costs(result: Any) -> list[dict[str, Any]]:
    rows = (
        ("simulations", result.simulations, "simulated pairs that it learnt from or was measured on"),
        ("run seconds", float(result.seconds), "run time of training"),
        ("compile seconds", float(result.compile_seconds), "spent compiling"),
    )
    return [{"name": name, "value": value, "meaning": meaning} for name, value, meaning in rows]


def _curve(curve: np.ndarray) -> str:
    if len(curve) < 2:
        return ""
    caption = "Mean log density of simulated pairs that were never learnt from."
    return inlined(picture_bytes(learning_picture(curve)), "Learning", caption)


def learning_picture(curve: np.ndarray) -> Picture:
    """The held-out log density over seconds.

    Args:
        curve: seconds, updates and log density, a row a look.
    """
    figure, (axes,) = blank_panels(1, (7.2, 2.6))
    axes.plot(curve[:, 0], curve[:, 2], color=STUDENT, marker=".")
    axes.set(xlabel="seconds", ylabel="held-out log density")
    return figure
