"""What we want draws from."""

from understudy.targets.density import LogDensity, OfIndexed
from understudy.targets.toy import (
    Mixture,
    Ring,
    Warped,
    banana,
    eight_gaussians,
    forty_gaussians,
    funnel,
    two_gaussians,
)

__all__ = [
    "LogDensity",
    "Mixture",
    "OfIndexed",
    "Ring",
    "Warped",
    "banana",
    "eight_gaussians",
    "forty_gaussians",
    "funnel",
    "two_gaussians",
]
