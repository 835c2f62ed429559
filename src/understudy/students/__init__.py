"""Students: samplers that learn to stand in for a Markov chain."""

from understudy.students.chain import TruncatedChain
from understudy.students.couplings import CouplingFlow
from understudy.students.discrete import Autoregressive, Bernoulli, Categorical
from understudy.students.dropout import Dropout
from understudy.students.encoders import FlowEncoder, GaussianEncoder, flow_encoder, gaussian_encoder
from understudy.students.flow import Flow, autoregressive_flow, coupling_flow
from understudy.students.gaussian import (
    DiagonalGaussian,
    FullGaussian,
    GaussianMixture,
    LowRankGaussian,
    NormalisedGaussian,
)
from understudy.students.images import DropoutEncoder, NoisyEncoder, image_encoder
from understudy.students.implicit import Gated, Implicit
from understudy.students.mixture import Mixture
from understudy.students.particles import ChainTable, Particles
from understudy.students.placed import Placed
from understudy.students.program import VariationalProgram
from understudy.students.semi_implicit import SemiImplicit, semi_implicit, semi_implicit_encoder
from understudy.students.splines import SplineFlow

__all__ = [
    "Autoregressive",
    "Bernoulli",
    "Categorical",
    "ChainTable",
    "CouplingFlow",
    "DiagonalGaussian",
    "Dropout",
    "DropoutEncoder",
    "Flow",
    "FlowEncoder",
    "FullGaussian",
    "Gated",
    "GaussianEncoder",
    "GaussianMixture",
    "Implicit",
    "LowRankGaussian",
    "Mixture",
    "NoisyEncoder",
    "NormalisedGaussian",
    "Particles",
    "Placed",
    "SemiImplicit",
    "SplineFlow",
    "TruncatedChain",
    "VariationalProgram",
    "autoregressive_flow",
    "coupling_flow",
    "flow_encoder",
    "gaussian_encoder",
    "image_encoder",
    "semi_implicit",
    "semi_implicit_encoder",
]
