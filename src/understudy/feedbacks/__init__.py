"""Feedbacks: how the student learns from what the teacher made of its draws."""

from understudy.feedbacks.adversarial import (
    Adversarial,
    FDivergence,
    JensenShannon,
    Wasserstein,
)
from understudy.feedbacks.common import CriticFree
from understudy.feedbacks.critics import CriticBuilder
from understudy.feedbacks.likelihood import (
    ExclusiveKL,
    InclusiveKL,
    SemiImplicitInclusiveKL,
    SemiImplicitKL,
)
from understudy.feedbacks.matching import (
    EnergyDistance,
    EnergyMatching,
    MaximumMeanDiscrepancy,
    MomentMatching,
    SquaredDistance,
)
from understudy.feedbacks.projection import Copy, MomentProjection
from understudy.feedbacks.ratio import AdversarialELBO, ContrastiveDivergence, DensityRatio
from understudy.feedbacks.stein import KernelSteinDiscrepancy, LearntStein
from understudy.feedbacks.viewed import Viewed
from understudy.feedbacks.weighted import WeightedSum

__all__ = [
    "Adversarial",
    "AdversarialELBO",
    "ContrastiveDivergence",
    "Copy",
    "CriticBuilder",
    "CriticFree",
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
    "SemiImplicitInclusiveKL",
    "SemiImplicitKL",
    "SquaredDistance",
    "Viewed",
    "Wasserstein",
    "WeightedSum",
]
