"""The registry of all cases, in a fixed order."""

from ..case import Case
from . import (
    applied,
    differential_equations,
    gaussian_processes,
    gym,
    hierarchies,
    improper,
    mixtures,
    posteriordb,
    regressions,
    shapes,
    state_space,
)

_MODULES = (
    shapes,
    posteriordb,
    regressions,
    hierarchies,
    mixtures,
    state_space,
    gaussian_processes,
    differential_equations,
    gym,
    applied,
    improper,
)

CASES: dict[str, Case] = {case.name: case for module in _MODULES for case in module.CASES}
