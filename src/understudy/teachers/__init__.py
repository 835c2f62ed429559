"""Teachers: Markov kernels that improve a student's draws."""

from understudy.teachers.annealed import Annealed, tempered_smc
from understudy.teachers.biased import mclmc, minibatch_mala, sghmc, sgld
from understudy.teachers.compose import Compose
from understudy.teachers.coordinated import InCoordinates
from understudy.teachers.gibbs import Gibbs, SingleFlip
from understudy.teachers.identity import Identity
from understudy.teachers.independence import IndependenceMetropolis
from understudy.teachers.kernels import (
    Kernel,
    adjusted_mclmc,
    barker,
    elliptical_slice,
    ghmc,
    hmc,
    mala,
    nuts,
    random_walk,
)
from understudy.teachers.langevin import Langevin
from understudy.teachers.preconditioned import Preconditioned, Rescaled
from understudy.teachers.recorded import Recorded
from understudy.teachers.schedules import Scheduled
from understudy.teachers.svgd import SVGD
from understudy.teachers.tempered import ExcursionAcceptance, TemperedTransition

__all__ = [
    "SVGD",
    "Annealed",
    "Compose",
    "ExcursionAcceptance",
    "Gibbs",
    "Identity",
    "InCoordinates",
    "IndependenceMetropolis",
    "Kernel",
    "Langevin",
    "Preconditioned",
    "Recorded",
    "Rescaled",
    "Scheduled",
    "SingleFlip",
    "TemperedTransition",
    "adjusted_mclmc",
    "barker",
    "elliptical_slice",
    "ghmc",
    "hmc",
    "mala",
    "mclmc",
    "minibatch_mala",
    "nuts",
    "random_walk",
    "sghmc",
    "sgld",
    "tempered_smc",
]
