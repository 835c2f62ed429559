"""The student of many data sets, and how it learns from simulated pairs.

A pair drawn from the prior predictive is an exact draw of the posterior of its own data, for free. So
the simulator takes the student's place when lessons are made, and the student learns by the inclusive
KL: -log q(z | x) on fresh pairs.
"""

import math
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import paramax
from jaxtyping import Array, Float, Scalar

from understudy.amortising.budget import Length, Updates, share_of
from understudy.amortising.observations import DataSet, Reading
from understudy.amortising.simulators import Pairs, Simulator, several
from understudy.coordinates import Coordinates
from understudy.core import Condition, ExplicitStudent, IngredientError, Key, Target
from understudy.devices import Devices, agreed, here, spread
from understudy.feedbacks import InclusiveKL
from understudy.numerics import AnyArray
from understudy.progress import Progress
from understudy.students.splines import SplineFlow
from understudy.teachers.identity import Identity
from understudy.training import Chunk, Learner, State, StopTraining, Training
from understudy.training.recording import watch
from understudy.training.update import paced

HELD_OUT = 1024
# Updates between two looks at the clock at most, and how many looks there are at least.
CHUNK, _LOOKS = 25, 50
# The share of the time in which the rate climbs, and where it begins.
_CLIMB, _LEAST_RATE = 0.02, 0.1
# Adam forgets the size of gradients within a hundred updates, as trainings of minutes ask for.
_FORGETS = 0.99
_LARGEST_GRADIENT = 5.0
_NUMBERS_A_BATCH = 2**16
# Updates after which a table that was not learnt any better is learnt by heart.
_PATIENCE = 500


class Pair(NamedTuple):
    """A simulated pair as a condition: what is learnt, and from what."""

    z: Float[Array, " d"]
    data: DataSet


class Informed(ExplicitStudent):
    """A flow over parameters that is told a summary of the data.

    Attributes:
        reading: how numbers are made of a data set; fixed.
        summary: makes one vector of them.
        coordinates: in which the prior is nearly standard; fixed.
        flow: draws there, given the summary.
    """

    reading: Any
    summary: Any
    coordinates: Any
    flow: SplineFlow
    dim: int = eqx.field(static=True)

    def __init__(self, reading: Reading, summary: Any, coordinates: Coordinates, flow: SplineFlow):
        single = jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.float32), coordinates)
        self.reading, self.coordinates = paramax.non_trainable(reading), paramax.non_trainable(single)
        self.summary, self.flow, self.dim = summary, flow, flow.dim

    def summarise(self, x: DataSet) -> Float[Array, " m"]:
        """The vector that the flow is told of a data set."""
        return self.summary(paramax.unwrap(self.reading)(x))

    def sample(self, key: Key, x: Condition, n: int) -> Float[Array, "n d"]:
        """Draw for one data set."""
        return self.sample_and_log_prob(key, x, n)[0]

    def sample_and_log_prob(
        self, key: Key, x: Condition, n: int
    ) -> tuple[Float[Array, "n d"], Float[Array, " n"]]:
        """Draws and their log densities, for little more than the draws."""
        u, log_q = self.flow.sample_and_log_prob(key, self.summarise(x), n)
        z, log_volume = paramax.unwrap(self.coordinates).colour(u, jnp)
        return z, log_q - log_volume

    def log_prob(self, z: Float[Array, " d"], x: Condition = None) -> Scalar:
        """Log density of one draw given one data set."""
        u, log_volume = paramax.unwrap(self.coordinates).whiten(z, jnp)
        return self.flow.log_prob(u, self.summarise(x)) - log_volume


class Told(ExplicitStudent):
    """A student in training: its proposal is the simulated truth, its density its own.

    Attributes:
        student: who learns.
    """

    student: ExplicitStudent
    dim: int = eqx.field(static=True)

    def __init__(self, student: ExplicitStudent):
        self.student, self.dim = student, student.dim

    def sample(self, key: Key, x: Condition, n: int) -> Float[Array, "n d"]:
        """The truth of the pair, ``n`` times."""
        return jnp.broadcast_to(x.z, (n, self.dim))

    def log_prob(self, z: Float[Array, " d"], x: Condition = None) -> Scalar:
        """The student's log density given the pair's data."""
        return self.student.log_prob(z, x.data)


class OfPair(Target):
    """The target of pairs: that of their data, or nothing where only the pairs teach.

    Attributes:
        target: log p(z, x) of a data set; None weighs nothing.
    """

    target: Target | None
    dim: int = eqx.field(static=True)

    def log_density(self, z: Float[Array, " d"], x: Condition = None) -> Scalar:
        """The log density given the pair's data."""
        return jnp.zeros(()) if self.target is None else self.target.log_density(z, x.data)


class Simulations(eqx.Module):
    """Batches of fresh pairs; one that is not finite teaches nothing.

    Attributes:
        simulator: draws them.
        size: pairs in a batch.
    """

    simulator: Simulator
    size: int = eqx.field(static=True)

    def __call__(self, key: Key) -> Pair:
        """One batch."""
        z, data = jax.vmap(self.simulator.simulate)(spread(jax.random.split(key, self.size)))
        fine = finite_pairs(z, data)

        def either(new, filler):
            return jnp.where(fine.reshape(-1, *[1] * (new.ndim - 1)), new, filler)

        return Pair(either(z, jnp.nan), jax.tree.map(either, data, self.simulator.filler))


def finite_pairs(z: Float[AnyArray, "b d"], data: DataSet) -> Any:
    """Which pairs are finite throughout."""
    leaves = [z, *data.values.values(), *data.arguments]
    return jnp.stack([jnp.isfinite(leaf).reshape(len(leaf), -1).all(1) for leaf in leaves]).all(0)


class Simulated(NamedTuple):
    """Pairs that were drawn before training, finite ones alone.

    Attributes:
        z: parameters.
        data: data sets.
        lost: the share of the simulations that were not finite.
    """

    z: Float[np.ndarray, "m d"]
    data: DataSet
    lost: float


def simulate(key: Key, simulator: Simulator, count: int) -> Simulated:
    """Draw pairs and leave out those that are not finite."""
    z, data = jax.device_get(_simulate(key, simulator, count))
    fine = np.asarray(finite_pairs(z, data))
    if fine.sum() < min(len(fine), 100) / 2:
        raise IngredientError(
            f"{np.sum(~fine)} of {len(fine)} simulations are not finite; check the model for "
            "overflows and divisions by zero, or give it a narrower prior."
        )
    return Simulated(z[fine], jax.tree.map(lambda leaf: leaf[fine], data), float(1 - fine.mean()))


@eqx.filter_jit
def _simulate(key: Key, simulator: Simulator, count: int) -> tuple[Array, DataSet]:
    return several(key, simulator, count)


def batch_size(simulator: Simulator) -> int:
    """Pairs in a batch: fewer where a data set is large."""
    numbers = sum(np.size(leaf) for leaf in jax.tree.leaves(simulator.filler.values))
    return int(np.clip(2 ** round(math.log2(_NUMBERS_A_BATCH / max(numbers, 1))), 64, 256))


class Learning:
    """A training on simulated pairs, compiled once and gone on with for as long as one likes.

    Args:
        simulator: draws the pairs.
        student: who learns.
        held: pairs that are never learnt from.
        seed: of everything random.
        devices: over which the pairs are spread; None runs on one.

    Attributes:
        curve: seconds, updates and mean log density of held-out pairs, a row a look.
    """

    def __init__(
        self,
        simulator: Simulator,
        student: ExplicitStudent,
        held: Simulated,
        seed: int,
        devices: Devices = None,
    ):
        self.conditions = Simulations(simulator, batch_size(simulator))
        learner = Learner(InclusiveKL(control=False), particles=1, optimiser=paced_adam())
        target = OfPair(target=None, dim=simulator.target.dim)
        ingredients = (learner, target, Told(student), Identity(), self.conditions)
        split = devices is None
        training = Training(*ingredients, seed=seed, devices=devices, split=split)
        self.training = training.compile()
        self.state = self.training.state
        rows = slice(0, HELD_OUT)
        self.held = (held.z[rows], jax.tree.map(lambda leaf: leaf[rows], held.data))
        self.curve: list[tuple[float, int, float]] = []
        # A table can be learnt by heart, so the state of the best look at the rest of it is kept.
        self.by_heart, self.best = isinstance(simulator, Pairs), (-math.inf, self.state)
        self.until = 0.0  # when the round ends, by the clock that counts seconds
        self.seconds, self.lost = 0.0, 0.0

    @property
    def student(self) -> Any:
        """The student as it is now."""
        return here(self.state.student.student)

    @property
    def updates(self) -> int:
        """Updates made so far."""
        return int(self.state.step)

    @property
    def simulations(self) -> int:
        """Pairs learnt from so far."""
        return self.updates * self.conditions.size

    def run(
        self,
        length: Length,
        rate: float,
        line: Progress | None = None,
        spent: float = 0.0,
        keep: Callable[[State, float], None] | None = None,
    ) -> float:
        """Learn for some time, the rate falling to nothing; the held-out log density at the end.

        Args:
            length: seconds, the looks at held-out pairs included; or updates, from the first one on.
            rate: of learning, at first.
            line: says how far it is.
            spent: seconds of it that an earlier run has had.
            keep: called with the state and the seconds spent, between two chunks.
        """
        clock = _Clock(self, length, rate, line, spent, keep)
        self.state = paced(self.state, pace(rate, clock.looked))
        if clock.looked < 1:
            self.training.run(self.state, 2**31 - 1, self._chunk(length), [watch, clock])
        self.state = clock.state
        score = self.look(self.seconds + clock.spent)
        self.seconds += clock.spent
        if self.by_heart:
            score, self.state = self.best
        return score

    def _chunk(self, length: Length) -> int:
        """Updates between two looks at the clock, from how long the first ones take."""
        if isinstance(length, Updates):
            return int(np.clip(length // _LOOKS, 1, CHUNK))
        begun = time.perf_counter()
        self.state, _ = self.training.advance(self.state, 2)
        each = (time.perf_counter() - begun) / 2
        return int(np.clip(length / _LOOKS / self.agreed(each), 1, CHUNK))

    def agreed(self, value: float) -> float:
        """What the first of several processes found."""
        return agreed(value, self.training.mesh)

    def figures(self) -> dict[str, str]:
        """What a live line shows: pairs learnt from, the held-out log density, time left of a round."""
        shown = {"simulations": f"{self.simulations:,}"} if self.updates else {}
        if self.curve:
            shown["held-out log density"] = f"{self.curve[-1][2]:.2f}"
        left = max(self.until - time.perf_counter(), 0)
        return shown | ({"time": f"{left // 60:.0f}:{left % 60:02.0f} left"} if left else {})

    def look(self, seconds: float) -> float:
        """Measure the student on the held-out pairs, and keep the figure."""
        score = self.agreed(float(mean_log_prob(self.student, *self.held)))
        if self.by_heart and score > self.best[0]:
            self.best = (score, self.state)
        self.curve.append((seconds, self.updates, score))
        return score

    @property
    def past_its_best(self) -> bool:
        """Whether what is learnt of a table has not helped with the rest of it for long."""
        best = max(self.curve, key=lambda row: row[2])[1]
        return self.by_heart and self.curve[-1][1] > 2 * best + _PATIENCE


class _Clock:
    """Between two chunks: the rate follows the time, and the training ends with it."""

    def __init__(
        self,
        learning: Learning,
        length: Length,
        rate: float,
        line: Progress | None,
        spent: float,
        keep: Callable[[State, float], None] | None,
    ):
        self.learning, self.length, self.rate, self.line = learning, length, rate, line
        self.state, self.begun = learning.state, time.perf_counter() - spent
        self.looked, self.keep = share_of(length, spent, learning.updates), keep
        learning.until = 0.0 if isinstance(length, Updates) else self.begun + length

    @property
    def spent(self) -> float:
        """Seconds since it was set."""
        return self.learning.agreed(time.perf_counter() - self.begun)

    def __call__(self, chunk: Chunk) -> State:
        """Set the rate; look at held-out pairs ten times on the way, at those of a table every time."""
        self.state = chunk.state
        learning, spent = self.learning, self.spent
        learning.lost = max(learning.lost, float(chunk.row["lost"]))
        updates = int(chunk.state.step)
        share = share_of(self.length, spent, updates)
        if (learning.by_heart or share >= self.looked + 0.1) and share < 1:
            self.looked = share
            learning.state = chunk.state
            learning.look(learning.seconds + spent)
        if self.line is not None:
            counted = isinstance(self.length, Updates)
            self.line.to(updates if counted else learning.seconds + spent)
        if self.keep is not None:
            self.keep(chunk.state, spent)
        if share >= 1 or learning.past_its_best:
            raise StopTraining
        return paced(chunk.state, pace(self.rate, share))


def pace(rate: float, share: float) -> float:
    """The rate of learning after a share of the time: it climbs, and falls to nothing as a cosine."""
    climbed = min(1.0, max(_LEAST_RATE, share / _CLIMB))
    return rate * climbed * 0.5 * (1 + math.cos(math.pi * share))


def paced_adam() -> optax.GradientTransformation:
    """Adam whose rate is a leaf of its state."""

    def build(learning_rate):
        adam = optax.adam(learning_rate, b2=_FORGETS)
        return optax.chain(optax.clip_by_global_norm(_LARGEST_GRADIENT), adam)

    return optax.inject_hyperparams(build)(learning_rate=0.0)


@eqx.filter_jit
def mean_log_prob(student: ExplicitStudent, z: Any, data: DataSet) -> Scalar:
    """The mean log density of pairs."""
    return jax.lax.map(lambda pair: student.log_prob(*pair), (z, data), batch_size=256).mean()
