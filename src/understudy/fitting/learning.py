"""The students, and how they learn from the draws of running chains.

A student lives where draws are nearly standard (see :mod:`understudy.coordinates`) and in single
precision; the coordinates carry its draws to z in double. The first student is the standard
Gaussian of those coordinates; a flow takes its place where it makes fresh draws of the chains likelier.
"""

import contextlib
import math
import threading
from collections.abc import Iterator
from functools import partial
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import paramax
from jaxtyping import Array, Float, Scalar
from scipy.special import logsumexp

from understudy.backend import backend
from understudy.coordinates import Coordinates, match_knots, rank_of
from understudy.core import Condition, Target
from understudy.feedbacks import InclusiveKL
from understudy.numerics import in_blocks, log_standard
from understudy.students.couplings import CouplingFlow
from understudy.students.placed import Placed
from understudy.surroundings import own_settings
from understudy.teachers.recorded import Recorded
from understudy.training import Learner, State, Training
from understudy.training.update import paced

ROWS = 256
RECORDED = 16_384
_DRAWN = 2048
_CHUNK = 100
# How much larger one number of the noise is in draws of long tails.
_WIDE = 2.5
# Flows see draws with standard margins, only shifted and scaled (in which scales of others work along
# lines), or with their correlations taken out too.
COPULA = "Gaussian copula"
FLOWS = STRAIGHT, _, WHITE = "flow on scaled axes", "flow along the axes", "flow on white draws"
_DECAY = 1e-2


class _Standard(Target):
    """A standard Gaussian: the target of a student that learns from a record alone."""

    dim: int = eqx.field(static=True)

    def log_density(self, z: Float[Array, " d"], x: Condition = None) -> Scalar:
        """Log density up to a constant."""
        return -0.5 * jnp.sum(z**2)


class Candidate(NamedTuple):
    """A student of nearly standard draws together with the coordinates that carry them to z.

    Attributes:
        flow: draws scores (or white draws, with turned coordinates); None is the standard Gaussian.
        coordinates: from there to z.
        name: of its kind.
    """

    flow: CouplingFlow | None
    coordinates: Coordinates
    name: str

    @property
    def student(self) -> Placed:
        """As an ingredient."""
        return Placed(self.coordinates, self.flow)

    def draw(
        self, seed: int, n: int, wide: bool = False
    ) -> tuple[Float[np.ndarray, "n d"], Float[np.ndarray, " n"]]:
        """Draws z and their log densities; wide ones, of longer tails, to be offered to chains."""
        noise, log_noise = _noise(seed, n, self.coordinates.dim, wide)
        u, log_inside = self._carry(noise)
        z, log_volume = self.coordinates.colour(u)
        return z, log_noise - log_inside - log_volume

    def draw_standard(self, seed: int, n: int) -> np.ndarray:
        """Draws before the coordinates carry them to z."""
        return self._carry(_noise(seed, n, self.coordinates.dim)[0])[0]

    def log_prob(self, z: Float[np.ndarray, "n d"], wide: bool = False) -> Float[np.ndarray, " n"]:
        """Log density at draws."""
        u, log_volume = self.coordinates.whiten(z)
        log_inside = np.zeros(len(z))
        if self.flow is not None:
            u, log_inside = _through(_carry_back, self.flow, u)
        return (_log_wide(u) if wide else log_standard(u)) - log_inside - log_volume

    def _carry(self, noise: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        if self.flow is None:
            return noise, np.zeros(len(noise))
        return _through(_carry, self.flow, noise)

    def matched(
        self, u: Float[np.ndarray, "n d"], z: Float[np.ndarray, "m d"], miss: float
    ) -> "Candidate":
        """The same with the margins of its standard draws u carried to those of draws z.

        A margin stays as it is whose scores are off by less than ``miss``.
        """
        return self._replace(coordinates=match_knots(self.coordinates, u, z, miss))


def _noise(
    seed: int, n: int, d: int, wide: bool = False
) -> tuple[Float[np.ndarray, "n d"], Float[np.ndarray, " n"]]:
    """Standard noise and its log density; wide: in half of the rows one number is larger."""
    generator = np.random.default_rng(seed)
    noise = generator.normal(size=(n, d))
    if not wide:
        return noise, log_standard(noise)
    rows = np.arange(0, n, 2)
    noise[rows, generator.integers(0, d, len(rows))] *= _WIDE
    return noise, _log_wide(noise)


def _log_wide(u: np.ndarray) -> np.ndarray:
    larger = 0.5 * u**2 * (1 - _WIDE**-2) - math.log(_WIDE)
    return (
        log_standard(u)
        + np.logaddexp(0.0, np.asarray(logsumexp(larger, 1)) - math.log(u.shape[1]))
        - math.log(2)
    )


def _through(function: Any, flow: Any, rows: Float[np.ndarray, "n d"]) -> Any:
    """A compiled function of a flow and rows, in bounded memory and by one program."""
    with own_settings():
        found = in_blocks(partial(function, flow), rows, block=_DRAWN)
    return tuple(part.astype(float) for part in found)


@eqx.filter_jit
def _carry(flow: CouplingFlow, noise: Array) -> tuple[Array, Array]:
    return flow.carry(noise.astype(jnp.float32))


@eqx.filter_jit
def _carry_back(flow: CouplingFlow, rows: Array) -> tuple[Array, Array]:
    return flow.carry_back(rows.astype(jnp.float32))


def log_probs(flow: CouplingFlow, u: Float[np.ndarray, "n d"]) -> Float[np.ndarray, " n"]:
    """Log densities of a flow at rows."""
    noise, log_volume = _through(_carry_back, flow, u)
    return log_standard(noise) - log_volume


class Learning:
    """The flow's updates, made and compiled aside while the chains run; no target is in them.

    Args:
        dim: size of a draw.
        seed: of everything random.
        layers: couplings of a flow.
        width: hidden units of each.
    """

    def __init__(self, dim: int, seed: int, layers: int = 6, width: int = 32):
        self._failed: list[BaseException] = []
        self._made: list[Training] = []
        # The interpreter waits for it at its end: a compiler that is cut off there may crash.
        self._thread = threading.Thread(target=self._make, args=(dim, seed, layers, width))
        self._thread.start()

    def _make(self, *shape: int) -> None:
        try:
            with _in_single_precision():
                training = _training(*shape)
                training.compile(backend().quick)
                flow = training.state.student
                for function in (_carry, _carry_back):
                    _through(function, flow, np.zeros((_DRAWN, flow.dim)))
            self._made.append(training)
        except BaseException as error:
            self._failed.append(error)

    @property
    def training(self) -> Training:
        """Wait for the compiler."""
        self._thread.join()
        if self._failed:
            raise self._failed[0]
        return self._made[0]

    def begin(self, found: Coordinates, z: Float[np.ndarray, "n d"], name: str) -> "Pupil":
        """A new flow.

        Args:
            found: coordinates in which the draws are nearly standard.
            z: the draws.
            name: one of FLOWS: how the flow sees them.
        """
        state = self.training.state
        if name == WHITE:
            return Pupil(self.training, state, found, name)
        seen = found.straightened(z) if name == STRAIGHT else found
        turn = (seen.directions, seen.stretch)
        turn = tuple(paramax.non_trainable(jnp.asarray(part, jnp.float32)) for part in turn)
        state = eqx.tree_at(lambda s: (s.student.directions, s.student.stretch), state, turn)
        return Pupil(self.training, state, seen.unturned(), name)


@contextlib.contextmanager
def _in_single_precision() -> Iterator[None]:
    """As a flow's updates are compiled, whatever precision the user's own arrays have."""
    with own_settings(), jax.enable_x64(False), jax.default_prng_impl(backend().keys):
        yield


def _training(dim: int, seed: int, layers: int, width: int) -> Training:
    rank = rank_of(dim)
    turn = (jnp.eye(dim)[:, :rank], jnp.ones(rank))
    flow = CouplingFlow(jax.random.key(seed), dim, layers, width, *turn)
    optimiser = optax.inject_hyperparams(_flat_adam)(learning_rate=0.0)
    learner = Learner(InclusiveKL(control=False), particles=ROWS, optimiser=optimiser)
    record = Recorded(jnp.zeros((RECORDED, dim), jnp.float32))
    return Training(learner, _Standard(dim), flow, record, seed=seed)


class Pupil:
    """One flow while it learns from draws of the chains, by maximum likelihood (the inclusive KL)."""

    def __init__(self, training: Training, state: State, coordinates: Coordinates, name: str):
        self.training, self.state, self.coordinates, self.name = training, state, coordinates, name
        self.best: Any = state.student

    @property
    def candidate(self) -> Candidate:
        """The best so far on draws it has not seen."""
        return Candidate(self.best, self.coordinates, self.name)

    def learn(
        self,
        seen: Float[np.ndarray, "n d"],
        held: Float[np.ndarray, "m d"],
        updates: int,
        rate: float,
        last: float = 0.0,
    ) -> float:
        """Learn from draws for some updates and keep the best on others; their mean log density.

        Args:
            seen: draws to learn from.
            held: draws to be measured on.
            updates: how many.
            rate: at the start.
            last: at the end.
        """
        rows = seen[np.linspace(0, len(seen) - 1, RECORDED).astype(int)]
        rows, held = (np.clip(self.coordinates.whiten(z)[0], -1e4, 1e4) for z in (rows, held))
        where = lambda s: (s.student, s.teacher.draws)  # noqa: E731
        with _in_single_precision():
            best = float(log_probs(self.best, held).mean())
            state = eqx.tree_at(where, self.state, (self.best, jnp.asarray(rows, jnp.float32)))
            for done in range(0, updates, _CHUNK):
                now = last + (rate - last) * 0.5 * (1 + math.cos(math.pi * done / updates))
                state, _ = self.training.advance(paced(state, now), _CHUNK)
                score = float(log_probs(state.student, held).mean())
                if score > best:
                    best, self.best = score, state.student
        self.state = state
        return best


def _flat_adam(learning_rate: Any) -> optax.GradientTransformation:
    decayed = optax.adamw(learning_rate, weight_decay=_DECAY)
    return optax.flatten(optax.chain(optax.clip_by_global_norm(10.0), decayed))
