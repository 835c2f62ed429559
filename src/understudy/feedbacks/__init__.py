"""Feedbacks: how the student learns from what the teacher made of its draws."""

from understudy.feedbacks.adversarial import (
    Adversarial,
    CriticBuilder,
    FDivergence,
    JensenShannon,
    Wasserstein,
)
from understudy.feedbacks.likelihood import ExclusiveKL, InclusiveKL, SemiImplicitKL
from understudy.feedbacks.matching import (
    EnergyDistance,
    EnergyMatching,
    MaximumMeanDiscrepancy,
    MomentMatching,
    SquaredDistance,
)
from understudy.feedbacks.projection import Copy, MomentProjection
from understudy.feedbacks.ratio import AdversarialELBO, ContrastiveDivergence, DensityRatio
from understudy.feedbacks.stein import KernelSteinDiscrepancy, LearntStein, VectorCritic

__all__ = [
    "Adversarial",
    "AdversarialELBO",
    "ContrastiveDivergence",
    "Copy",
    "CriticBuilder",
    "DensityRatio",
    "EnergyDistance",
    "EnergyMatching",
    "ExclusiveKL",
    "FDivergence",
    "InclusiveKL",
    "JensenShannon",
    "KernelSteinDiscrepancy",
    "LearntStein",
    "MaximumMeanDiscrepancy",
    "MomentMatching",
    "MomentProjection",
    "SemiImplicitKL",
    "SquaredDistance",
    "VectorCritic",
    "Wasserstein",
]
