"""How good draws are: against a target, against reference draws, mode by mode."""

from understudy.evaluation.distances import (
    ModeReport,
    classifier_two_sample,
    energy_distance,
    energy_permutation_test,
    marginal_wasserstein_1,
    maximum_mean_discrepancy,
    mode_report,
    sliced_wasserstein,
    wasserstein_1,
)
from understudy.evaluation.evidence import (
    Bounds,
    Evidence,
    annealed_evidence,
    bidirectional,
    gaussian_base,
    importance_weighted,
)
from understudy.evaluation.stein import (
    SteinTest,
    kernel_stein_discrepancy,
    stein_test,
)
from understudy.evaluation.trust import Finding, Trust, calibration, check, default_teacher

__all__ = [
    "Bounds",
    "Evidence",
    "Finding",
    "ModeReport",
    "SteinTest",
    "Trust",
    "annealed_evidence",
    "bidirectional",
    "calibration",
    "check",
    "classifier_two_sample",
    "default_teacher",
    "energy_distance",
    "energy_permutation_test",
    "gaussian_base",
    "importance_weighted",
    "kernel_stein_discrepancy",
    "marginal_wasserstein_1",
    "maximum_mean_discrepancy",
    "mode_report",
    "sliced_wasserstein",
    "stein_test",
    "wasserstein_1",
]
