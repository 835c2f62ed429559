"""Whether to trust a student: each test a file, their verdicts one table."""

from understudy.evaluation.trust.calibration import calibration
from understudy.evaluation.trust.check import check
from understudy.evaluation.trust.findings import Effects, Finding, Trust
from understudy.evaluation.trust.moves import default_teacher
from understudy.evaluation.trust.weights import pareto_smoothed

__all__ = [
    "Effects",
    "Finding",
    "Trust",
    "calibration",
    "check",
    "default_teacher",
    "pareto_smoothed",
]
