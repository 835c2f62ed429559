"""What we want draws from."""

from understudy.targets.density import LogDensity, OfIndexed
from understudy.targets.toy import (
    Ising,
    Mixture,
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
    "Ising",
    "LogDensity",
    "Mixture",
    "Moons",
    "OfIndexed",
    "Ring",
    "Warped",
    "banana",
    "eight_gaussians",
    "forty_gaussians",
    "funnel",
    "two_gaussians",
    "two_moons",
]
