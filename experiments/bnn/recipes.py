"""How every method trains: its student, its teacher and its feedback."""

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import paramax
from jaxtyping import Array, Float, Int

from experiments.bnn.course import Course
from understudy.core import Teacher
from understudy.feedbacks import Copy, EnergyDistance, EnergyMatching, ExclusiveKL, Viewed
from understudy.students import DiagonalGaussian, GaussianMixture, NormalisedGaussian, Particles
from understudy.targets import BayesianNetwork
from understudy.teachers import Identity, Recorded, Rescaled, hmc, minibatch_mala

PAPER_ACCEPTANCE = 0.99
LEAPFROGS = 25
EARLY, TOGETHER = 400, 32
# Of the taught mixture: updates, scale at the start over a path's, and how far inputs are shifted.
LESSONS, WIDTH, NEARBY = 200, 0.1, 0.3


class Sizes(NamedTuple):
    """How long everything runs."""

    updates: int
    matching_updates: int
    chain_updates: int
    warm: int
    kept: int
    folds: int
    seed: int

    def key(self, word: str) -> Array:
        """A key for one part of the experiment."""
        return jax.random.fold_in(jax.random.key(self.seed), sum(map(ord, word)))

    def marks(self, most: int, count: int) -> tuple[int, ...]:
        """Numbers of updates, each twice the last."""
        return tuple(sorted({max(most // 2**i, 1) for i in range(count)}))


def gaussian(scale: float, normalised: bool = False) -> Callable:
    """A mean-field student (or the paper's normalised one) around a random network."""
    kind = NormalisedGaussian if normalised else DiagonalGaussian
    return lambda key, target, start: kind(target.dim, target.start(key, 1)[0], scale)


def chains(count: int) -> Callable:
    """Chains that start at random networks, or at a draw of each of the first Gaussians of a mixture."""

    def make(key: Array, target: BayesianNetwork, start: DiagonalGaussian | None) -> Particles:
        if start is None:
            return Particles(target.start(key, count))
        noise = jax.random.normal(key, (count, target.dim))
        return Particles(start.mean[:count] + jnp.exp(start.log_scale[:count]) * noise)

    return make


def variational(sizes: Sizes, scale: float = 0.05) -> Course:
    """Mean-field VI with ten draws on minibatches of 32."""
    marks = sizes.marks(sizes.updates, 4)
    return Course(gaussian(scale), _nobody, ExclusiveKL(), 10, marks, 100, guard=False)


def member(sizes: Sizes, scale: float = 0.05) -> Course:
    """A Gaussian of a mixture: VI with one draw, on minibatches of its own, looked at early."""
    marks = sizes.marks(min(sizes.updates, EARLY), 3)
    return Course(gaussian(scale), _nobody, ExclusiveKL(), 1, marks, 3, together=TOGETHER, guard=False)


def pupil(sizes: Sizes, count: int) -> Course:
    """A mixture with a Gaussian at every chain's last state, which learns to predict as the paths do.

    Compared are the outputs on minibatches of rows and on the same rows a little way off: networks whose
    units have changed places are one network there, and no chain is needed to draw another.
    """

    def student(key: Array, target: BayesianNetwork, path: Array) -> GaussianMixture:
        made = GaussianMixture(key, target.dim, count)
        scales = jnp.log(WIDTH * path.std(0) + 1e-6)
        return eqx.tree_at(lambda m: (m.means, m.log_scales), made, (path[-1], scales))

    def teacher(rate: Any, rows: int, path: Array) -> Teacher:
        del rate, rows
        return Recorded(path.reshape(-1, path.shape[-1]))

    marks = sizes.marks(min(sizes.updates, LESSONS), 2)
    feedback = Viewed(EnergyDistance(), nearby_outputs)
    return Course(student, teacher, feedback, max(16, count), marks, 200, together=4, guard=False)


def nearby_outputs(
    target: BayesianNetwork, z: Float[Array, " d"], rows: Int[Array, " n"]
) -> Float[Array, " m"]:
    """What a network says of these rows and of points near them, large logits drawn together."""
    given = paramax.unwrap(target).features[rows]
    noise = jax.random.normal(jax.random.fold_in(jax.random.key(0), rows[0]), given.shape)
    return jnp.arcsinh(target.outputs(z, jnp.concatenate([given, given + NEARBY * noise]))[:, 0])


def energy_matching(sizes: Sizes, scale: float = 0.03) -> Course:
    """The paper's AMC: normalised Gaussian particles, one MALA step at acceptance .99, beta = 2."""
    marks = sizes.marks(sizes.matching_updates, 6)
    return Course(gaussian(scale, True), _cautious, EnergyMatching(2.0), 10, marks, 100, together=5)


def langevin(sizes: Sizes, count: int) -> Course:
    """Minibatch MALA, its step adapted to the acceptance that is tuned; every chain's last state."""
    marks = sizes.marks(sizes.chain_updates, 3)
    return Course(chains(count), _minibatch, Copy(), count, marks, count, learns=False, together=1)


def _nobody(*_: Any) -> Teacher:
    return Identity()


def _minibatch(acceptance: Any, rows: int, start: Any = None) -> Teacher:
    del start
    return minibatch_mala(0.05 / rows, target_acceptance=acceptance, rate=0.01)


def _cautious(_: Any, rows: int, start: Any) -> Teacher:
    return _minibatch(PAPER_ACCEPTANCE, rows, start)


def hamiltonian(
    count: int, marks: tuple[int, ...], leapfrogs: int = LEAPFROGS, temperature: float = 1.0
) -> Course:
    """Full-data HMC with its exact accept test, the step adapted to acceptance .8.

    Chains that start at the draws of a mixture run in the mean scales of its Gaussians.
    """

    def teacher(_: Any, rows: int, start: DiagonalGaussian | None) -> Teacher:
        # The posterior narrows with the square root of the rows.
        first = 0.35 / rows**0.5 if start is None else 0.1
        moves = hmc(first, leapfrogs=leapfrogs, target_acceptance=0.8, rate=0.2, jitter=0.2)
        if start is None:
            return moves
        return Rescaled(moves, start.mean.mean(0), jnp.exp(start.log_scale.mean(0)))

    return Course(chains(count), teacher, Copy(), count, marks, count, None, False, 1, temperature)
