"""One line per ingredient: what the protocol test combines."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from flowjax.distributions import Normal

from understudy import feedbacks, students, teachers
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

TEACHERS = {
    "mala": lambda: teachers.mala(0.1, steps=2, target_acceptance=0.6),
    "hmc": lambda: teachers.hmc(0.1, leapfrogs=2),
    "nuts": lambda: teachers.nuts(0.1, doublings=2),
    "ghmc": lambda: teachers.ghmc(0.1),
    "barker": lambda: teachers.barker(0.3),
    "random_walk": lambda: teachers.random_walk(0.3),
    "elliptical_slice": lambda: teachers.elliptical_slice(0.0, 1.0),
    "mclmc": lambda: teachers.mclmc(0.1),
    "adjusted_mclmc": lambda: teachers.adjusted_mclmc(0.1),
    "minibatch_mala": lambda: teachers.minibatch_mala(0.1),
    "sgld": lambda: teachers.sgld(0.01),
    "sghmc": lambda: teachers.sghmc(0.01, leapfrogs=2),
    "Langevin": lambda: teachers.Langevin(0.01, steps=2),
    "SVGD": lambda: teachers.SVGD(0.1),
    "Identity": lambda: teachers.Identity(),
    "Gibbs": lambda: teachers.Gibbs([_flip_sign]),
    "SingleFlip": lambda: teachers.SingleFlip(),
    "IndependenceMetropolis": lambda: teachers.IndependenceMetropolis(),
    "TemperedTransition": lambda: teachers.TemperedTransition(rungs=3),
    "Annealed": lambda: teachers.Annealed(teachers.mala(0.1), rungs=3, mean=0.0),
    "tempered_smc": lambda: teachers.tempered_smc(teachers.mala(0.1), rungs=3, mean=0.0),
    "Preconditioned": lambda: teachers.Preconditioned(teachers.mala(0.1), draws=16),
    "Scheduled": lambda: teachers.Scheduled(teachers.mala(0.1), steps=optax.linear_schedule(1, 3, 5)),
    "Compose": lambda: teachers.Compose(teachers.mala(0.1), teachers.TemperedTransition(rungs=2)),
}

_small = partial(feedbacks.CriticBuilder, hidden=(8,))
FEEDBACKS = {
    "InclusiveKL": lambda: feedbacks.InclusiveKL(),
    "ExclusiveKL": lambda: feedbacks.ExclusiveKL(),
    "ExclusiveKL, score": lambda: feedbacks.ExclusiveKL(estimator="score"),
    "SemiImplicitKL": lambda: feedbacks.SemiImplicitKL(fresh=2),
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
    "KernelSteinDiscrepancy": lambda: feedbacks.KernelSteinDiscrepancy(),
    "LearntStein": lambda: feedbacks.LearntStein(critic_steps=2),
    "MomentProjection": lambda: feedbacks.MomentProjection(),
    "Copy": lambda: feedbacks.Copy(),
}


def _flip_sign(key, z):
    return jnp.where(jax.random.bernoulli(key), z, z[::-1])


def make(name: str, key: jax.Array) -> tuple[Any, World]:
    """A student and its world."""
    case = STUDENTS[name]
    world = WORLDS[case.world]
    return case.make(key, world.target), world


def arrays(tree: Any) -> Any:
    """The array leaves alone."""
    return eqx.filter(tree, eqx.is_array)
