"""Reports: one self-contained page for a run."""

from understudy.report.figures import (
    Picture,
    draws_beside_exact,
    student_against_density,
    training_curves,
    write_picture,
)
from understudy.report.page import describe_run, write_report

__all__ = [
    "Picture",
    "describe_run",
    "draws_beside_exact",
    "student_against_density",
    "training_curves",
    "write_picture",
    "write_report",
]
