"""One entry per ingredient: what the tests over all of them, and over all their pairs, run."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from flowjax.distributions import Normal

from understudy import feedbacks, students, teachers
from understudy.coordinates import Coordinates
from understudy.core import Indexed, Target
from understudy.targets import LogDensity, OfIndexed, banana, two_gaussians


class World(NamedTuple):
    """A target and a batch of its conditions."""

    target: Target
    x: Any = None


class StudentCase(NamedTuple):
    """How to make a student, and the world it lives in."""

    make: Callable[[jax.Array, Target], Any]
    world: str = "plane"


class TeacherCase(NamedTuple):
    """How to make a teacher for draws of some size; if it is exact, one that moves far in the plane."""

    make: Callable[[int], Any]
    exact: Callable[[], Any] | None = None


def _ising(z):
    spins = 2 * z - 1
    return 0.5 * jnp.sum(spins[1:] * spins[:-1])


def _given(z, x):
    return -jnp.sum((z - x) ** 2)


def _near_a_pixel(z, x):
    return -jnp.sum((z - x[0, :2]) ** 2)


CONDITIONAL = LogDensity(_given, 2, conditional=True)
X = jnp.array([[0.0, 1.0], [2.0, -1.0], [1.0, 1.0]])

IMAGES = jax.random.normal(jax.random.key(7), (3, 8, 8))
SMALL = {"hidden": (6,), "channels": (4, 8)}

WORLDS = {
    "images": World(LogDensity(_near_a_pixel, 2, conditional=True), IMAGES),
    "line": World(two_gaussians()),
    "plane": World(banana()),
    "conditional": World(CONDITIONAL, X),
    "indexed": World(OfIndexed(CONDITIONAL), Indexed(jnp.arange(3), X)),
    "binary": World(LogDensity(_ising, 3)),
}
PARTICLES = 8


def centred(d: int) -> Coordinates:
    """Coordinates with a shift, a scale, a skew and a tail."""
    margins = np.repeat([[0.3], [0.2], [0.1], [0.1]], d, 1)
    return Coordinates(np.eye(d), np.full(d, 0.9), margins)


CENTRED = centred(2)

STUDENTS = {
    "DiagonalGaussian": StudentCase(lambda key, target: students.DiagonalGaussian(2)),
    "FullGaussian": StudentCase(lambda key, target: students.FullGaussian(2)),
    "LowRankGaussian": StudentCase(lambda key, target: students.LowRankGaussian(2, 1)),
    "Mixture": StudentCase(
        lambda key, target: students.Mixture(
            [students.FullGaussian(2, shift) for shift in (-1.0, 1.0)], jnp.array([0.3, 0.7])
        )
    ),
    "GaussianMixture": StudentCase(lambda key, target: students.GaussianMixture(key, 2, 3)),
    "Flow": StudentCase(lambda key, target: students.Flow(Normal(jnp.zeros(2), jnp.ones(2)))),
    "coupling_flow": StudentCase(lambda key, target: students.coupling_flow(key, 2, layers=2, width=8)),
    "SplineFlow": StudentCase(lambda key, target: students.SplineFlow(key, 2, layers=2, width=8)),
    "CouplingFlow": StudentCase(lambda key, target: students.CouplingFlow(key, 2, layers=2, width=8)),
    "Placed": StudentCase(
        lambda key, target: students.Placed(CENTRED, students.CouplingFlow(key, 2, layers=2, width=8))
    ),
    "autoregressive_flow": StudentCase(
        lambda key, target: students.autoregressive_flow(key, 2, layers=1, width=8)
    ),
    "Implicit": StudentCase(lambda key, target: students.Implicit(key, 2)),
    "Implicit, conditional": StudentCase(
        lambda key, target: students.Implicit(key, 2, condition=X[0]), "conditional"
    ),
    "Gated": StudentCase(lambda key, target: students.Gated(key, 2, branches=3)),
    "VariationalProgram": StudentCase(lambda key, target: students.VariationalProgram(), "line"),
    "Particles": StudentCase(
        lambda key, target: students.Particles(jax.random.normal(key, (PARTICLES, 2)))
    ),
    "ChainTable": StudentCase(
        lambda key, target: students.ChainTable(3, PARTICLES, 2, start=jnp.arange(2.0)), "indexed"
    ),
    "NormalisedGaussian": StudentCase(lambda key, target: students.NormalisedGaussian(2)),
    "Dropout": StudentCase(lambda key, target: students.Dropout(key, [(1, 1)], rate=0.5)),
    "DropConnect": StudentCase(
        lambda key, target: students.Dropout(key, [(1, 1)], rate=0.3, noise="connections")
    ),
    "weight noise": StudentCase(
        lambda key, target: students.Dropout(key, [(1, 1)], rate=0.3, noise="gaussian")
    ),
    "TruncatedChain": StudentCase(
        lambda key, target: students.TruncatedChain(students.DiagonalGaussian(2), target, 2)
    ),
    "TruncatedChain, leapfrog": StudentCase(
        lambda key, target: students.TruncatedChain(
            students.DiagonalGaussian(2), target, 2, kind="leapfrog"
        )
    ),
    "GaussianEncoder": StudentCase(
        lambda key, target: students.gaussian_encoder(key, 2, X[0], hidden=(8,)), "conditional"
    ),
    "FlowEncoder": StudentCase(
        lambda key, target: students.flow_encoder(
            key, students.gaussian_encoder(key, 2, X[0], hidden=(8,)), layers=2, width=8
        ),
        "conditional",
    ),
    "NoisyEncoder": StudentCase(
        lambda key, target: students.NoisyEncoder(key, 2, (8, 8), noise=3, **SMALL), "images"
    ),
    "DropoutEncoder": StudentCase(
        lambda key, target: students.DropoutEncoder(key, 2, (8, 8), **SMALL), "images"
    ),
    "SemiImplicit": StudentCase(
        lambda key, target: students.semi_implicit(key, 2, hidden=(8,), condition=X[0]), "conditional"
    ),
    "SemiImplicit, images": StudentCase(
        lambda key, target: students.semi_implicit_encoder(key, 2, (8, 8), noise=3, **SMALL), "images"
    ),
    "Bernoulli": StudentCase(lambda key, target: students.Bernoulli(3), "binary"),
    "Categorical": StudentCase(lambda key, target: students.Categorical(3, 2), "binary"),
    "Autoregressive": StudentCase(
        lambda key, target: students.Autoregressive(key, 3, hidden=8), "binary"
    ),
}


def _flip_sign(key, z):
    return jnp.where(jax.random.bernoulli(key), z, z[::-1])


SLANTED = jnp.array([[2.0, 0.0], [-1.0, 1.0]])

TEACHERS = {
    "InCoordinates": TeacherCase(
        lambda d: teachers.InCoordinates(teachers.hmc(0.1, leapfrogs=2), centred(d)),
        lambda: teachers.InCoordinates(teachers.hmc(0.5, 3, 3), centred(2)),
    ),
    "Recorded": TeacherCase(lambda d: teachers.Recorded(jnp.zeros((16, d)))),
    "mala": TeacherCase(
        lambda d: teachers.mala(0.1, steps=2, target_acceptance=0.6, largest_step=1.0),
        lambda: teachers.mala(0.3, 5),
    ),
    "hmc": TeacherCase(
        lambda d: teachers.hmc(0.1, leapfrogs=2, target_acceptance=0.8, jitter=0.5),
        lambda: teachers.hmc(0.5, 3, 3, jitter=0.5),
    ),
    "nuts": TeacherCase(
        lambda d: teachers.nuts(0.1, doublings=2), lambda: teachers.nuts(0.5, 2, doublings=4)
    ),
    "ghmc": TeacherCase(lambda d: teachers.ghmc(0.1), lambda: teachers.ghmc(0.5, 8)),
    "barker": TeacherCase(lambda d: teachers.barker(0.3), lambda: teachers.barker(0.8, 5)),
    "random_walk": TeacherCase(
        lambda d: teachers.random_walk(0.3), lambda: teachers.random_walk(0.8, 5)
    ),
    "elliptical_slice": TeacherCase(
        lambda d: teachers.elliptical_slice(0.0, jnp.ones(d)),
        lambda: teachers.elliptical_slice(0.0, jnp.array([4.0, 3.0]), 4),
    ),
    "mclmc": TeacherCase(lambda d: teachers.mclmc(0.1)),
    "adjusted_mclmc": TeacherCase(
        lambda d: teachers.adjusted_mclmc(0.1), lambda: teachers.adjusted_mclmc(1.0, 3, 3)
    ),
    "minibatch_mala": TeacherCase(lambda d: teachers.minibatch_mala(0.1)),
    "sgld": TeacherCase(lambda d: teachers.sgld(0.01)),
    "sghmc": TeacherCase(lambda d: teachers.sghmc(0.01, leapfrogs=2)),
    "Langevin": TeacherCase(lambda d: teachers.Langevin(0.01, steps=2, drift_bound=1.0)),
    "SVGD": TeacherCase(lambda d: teachers.SVGD(0.1)),
    "Identity": TeacherCase(lambda d: teachers.Identity()),
    "Gibbs": TeacherCase(lambda d: teachers.Gibbs([_flip_sign])),
    "SingleFlip": TeacherCase(lambda d: teachers.SingleFlip()),
    "IndependenceMetropolis": TeacherCase(
        lambda d: teachers.IndependenceMetropolis(), lambda: teachers.IndependenceMetropolis(3)
    ),
    "TemperedTransition": TeacherCase(
        lambda d: teachers.TemperedTransition(rungs=3, target_acceptance=0.4),
        lambda: teachers.TemperedTransition(steps=3),
    ),
    "Annealed": TeacherCase(
        lambda d: teachers.Annealed(teachers.mala(0.1, target_acceptance=0.6), rungs=3, mean=0.0)
    ),
    "Annealed, from the student": TeacherCase(
        lambda d: teachers.Annealed(teachers.mala(0.1, target_acceptance=0.6), rungs=3)
    ),
    "tempered_smc": TeacherCase(lambda d: teachers.tempered_smc(teachers.mala(0.1), rungs=3, mean=0.0)),
    "Preconditioned": TeacherCase(
        lambda d: teachers.Preconditioned(teachers.mala(0.1, target_acceptance=0.6), draws=16),
        lambda: teachers.Preconditioned(teachers.mala(0.2, 4)),
    ),
    "Rescaled": TeacherCase(
        lambda d: teachers.Rescaled(teachers.hmc(target_acceptance=0.8), jnp.zeros(d), 2 * jnp.eye(d)),
        lambda: teachers.Rescaled(teachers.mala(0.2, 4), jnp.ones(2), SLANTED),
    ),
    "Rescaled, by a vector": TeacherCase(
        lambda d: teachers.Rescaled(teachers.mala(0.1), jnp.zeros(d), jnp.full(d, 2.0)),
        lambda: teachers.Rescaled(teachers.mala(0.2, 4), jnp.ones(2), jnp.array([2.0, 0.5])),
    ),
    "Scheduled": TeacherCase(
        lambda d: teachers.Scheduled(teachers.mala(0.1), steps=optax.linear_schedule(1, 3, 5))
    ),
    "Compose": TeacherCase(
        lambda d: teachers.Compose(
            teachers.mala(0.1, target_acceptance=0.5),
            teachers.Langevin(0.01),
            teachers.TemperedTransition(rungs=2),
        ),
        lambda: teachers.Compose(
            teachers.mala(0.2, 3), teachers.IndependenceMetropolis(), teachers.TemperedTransition(5)
        ),
    ),
}


def _doubled(target, z, x):
    return jnp.concatenate([z, z**2])


_small = partial(feedbacks.CriticBuilder, hidden=(8,))
FEEDBACKS = {
    "InclusiveKL": lambda: feedbacks.InclusiveKL(),
    "ExclusiveKL": lambda: feedbacks.ExclusiveKL(),
    "ExclusiveKL, score": lambda: feedbacks.ExclusiveKL(estimator="score"),
    "SemiImplicitKL": lambda: feedbacks.SemiImplicitKL(fresh=2),
    "SemiImplicitInclusiveKL": lambda: feedbacks.SemiImplicitInclusiveKL(fresh=2),
    "JensenShannon": lambda: feedbacks.JensenShannon(critic=_small()),
    "JensenShannon, saturating": lambda: feedbacks.JensenShannon(saturating=True, critic=_small()),
    **{
        f"FDivergence, {kind}": lambda kind=kind: feedbacks.FDivergence(kind, critic=_small())
        for kind in (
            "forward_kl",
            "reverse_kl",
            "pearson",
            "hellinger",
            "total_variation",
            "jensen_shannon",
        )
    },
    "DensityRatio": lambda: feedbacks.DensityRatio(critic=_small()),
    "Wasserstein": lambda: feedbacks.Wasserstein(critic=_small(), critic_steps=2),
    "AdversarialELBO": lambda: feedbacks.AdversarialELBO(critic=_small()),
    "ContrastiveDivergence": lambda: feedbacks.ContrastiveDivergence(critic=_small()),
    "EnergyMatching": lambda: feedbacks.EnergyMatching(),
    "EnergyDistance": lambda: feedbacks.EnergyDistance(),
    "EnergyDistance, pooled": lambda: feedbacks.EnergyDistance(pool=True),
    "MaximumMeanDiscrepancy": lambda: feedbacks.MaximumMeanDiscrepancy(),
    "MomentMatching": lambda: feedbacks.MomentMatching(),
    "SquaredDistance": lambda: feedbacks.SquaredDistance(),
    "Viewed": lambda: feedbacks.Viewed(feedbacks.EnergyDistance(), _doubled),
    "KernelSteinDiscrepancy": lambda: feedbacks.KernelSteinDiscrepancy(),
    "LearntStein": lambda: feedbacks.LearntStein(critic_steps=2),
    "WeightedSum": lambda: feedbacks.WeightedSum(
        [(0.5, feedbacks.ExclusiveKL()), (1.0, feedbacks.InclusiveKL())]
    ),
    "WeightedSum, critics": lambda: feedbacks.WeightedSum(
        [
            (0.5, feedbacks.JensenShannon(critic=_small())),
            (1.0, feedbacks.EnergyDistance()),
            (0.1, feedbacks.Wasserstein(critic=_small(), critic_steps=2)),
        ]
    ),
    "MomentProjection": lambda: feedbacks.MomentProjection(),
    "Copy": lambda: feedbacks.Copy(),
}


def make(name: str, key: jax.Array) -> tuple[Any, World]:
    """A student and its world."""
    case = STUDENTS[name]
    world = WORLDS[case.world]
    return case.make(key, world.target), world


def arrays(tree: Any) -> Any:
    """The array leaves alone."""
    return eqx.filter(tree, eqx.is_array)
