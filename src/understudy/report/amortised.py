"""One self-contained page about an amortised model: tests on simulated data, stages, the curve."""

from pathlib import Path
from typing import Any

import numpy as np

from understudy import files
from understudy.report.figures import STUDENT, blank_panels, picture_bytes
from understudy.report.page import as_bytes, document, inlined
from understudy.report.posterior import finding_part, stages_table, trust_table


def write_amortised_report(path: str | Path, result: Any, trust: Any) -> Path:
    """Write the page.

    Args:
        path: of the page.
        result: an amortised model, for its stages and its curve.
        trust: what its check found.
    """
    parts = [
        trust_table(trust),
        *(finding_part(finding) for finding in trust.findings),
        stages_table(result.stages),
        _curve(np.asarray(result.curve)),
    ]
    right = "ok", "The student is right on average as far as these tests see."
    wrong = "fail", "The student is not right yet: see which test failed, and what it says."
    verdict = right if trust.trusted else wrong
    lead = f"{str(result).splitlines()[0]}."
    page = document("Amortised model", lead, [part for part in parts if part], verdict)
    files.replace_file(path, [as_bytes(page)])
    return Path(path)


def _curve(curve: np.ndarray) -> str:
    if len(curve) < 2:
        return ""
    figure, (axes,) = blank_panels(1, (7.2, 2.6))
    axes.plot(curve[:, 0], curve[:, 2], color=STUDENT)
    axes.set(xlabel="seconds", ylabel="log density")
    caption = "Mean log density of simulated pairs that were never learnt from."
    return inlined(picture_bytes(figure), "Learning", caption)
