"""What we want draws from."""

from understudy.targets.bayes import BayesianNetwork, Prediction, logistic_regression
from understudy.targets.density import LogDensity, OfIndexed
from understudy.targets.latent import LatentVariableModel, OfObserved, PartlyObserved
from understudy.targets.toy import (
    Ising,
    MixtureOfGaussians,
    Moons,
    Ring,
    Warped,
    banana,
    eight_gaussians,
    forty_gaussians,
    funnel,
    two_gaussians,
    two_moons,
)

__all__ = [
    "BayesianNetwork",
    "Ising",
    "LatentVariableModel",
    "LogDensity",
    "MixtureOfGaussians",
    "Moons",
    "OfIndexed",
    "OfObserved",
    "PartlyObserved",
    "Prediction",
    "Ring",
    "Warped",
    "banana",
    "eight_gaussians",
    "forty_gaussians",
    "funnel",
    "logistic_regression",
    "two_gaussians",
    "two_moons",
]
