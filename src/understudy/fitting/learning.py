"""The students, and how they learn from the draws of running chains.

A student lives where draws are nearly standard (see :mod:`understudy.coordinates`) and in single
precision; the coordinates carry its draws to z in double. The first student is the standard
Gaussian of those coordinates; a flow takes its place where it makes fresh draws of the chains likelier.
"""

import math
import threading
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import paramax
from jaxtyping import Array, Float, Scalar

from understudy.coordinates import Coordinates, match_knots, rank_of
from understudy.core import Condition, Target
from understudy.feedbacks import InclusiveKL
from understudy.fitting.evaluations import KEYS
from understudy.students.couplings import CouplingFlow
from understudy.students.placed import Placed
from understudy.surroundings import own_settings
from understudy.teachers.recorded import Recorded
from understudy.training import Learner, State, Training

ROWS = 256
RECORDED = 16_384
_DRAWN = 2048
_CHUNK = 100
_DECAY = 1e-2
# The updates run for seconds only, so the compiler should not spend as long on making them faster.
_QUICK = {"xla_backend_optimization_level": 1}


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

    def draw(self, seed: int, n: int) -> tuple[Float[np.ndarray, "n d"], Float[np.ndarray, " n"]]:
        """Draws z and their log densities."""
        u, log_q = self.draw_standard(seed, n)
        z, log_volume = self.coordinates.colour(u)
        return z, log_q - log_volume

    def draw_standard(self, seed: int, n: int) -> tuple[np.ndarray, np.ndarray]:
        """Draws before the coordinates carry them to z, and their log densities."""
        generator = np.random.default_rng(seed)
        if self.flow is None:
            u = generator.normal(size=(n, self.coordinates.dim))
            return u, _log_standard(u)
        words = generator.integers(0, 2**32, (-(-n // _DRAWN), 4), np.uint32)
        with own_settings():
            parts = [_draw(self.flow, four) for four in words]
        u, log_q = (np.concatenate(part)[:n].astype(float) for part in zip(*parts, strict=True))
        return u, log_q

    def log_prob(self, z: Float[np.ndarray, "n d"]) -> Float[np.ndarray, " n"]:
        """Log density at draws."""
        u, log_volume = self.coordinates.whiten(z)
        return self._log_base(u) - log_volume

    def matched(self, z: Float[np.ndarray, "n d"]) -> "Candidate":
        """The same with its margins carried to those of draws z; the Gaussian has them already."""
        if self.flow is None:
            return self
        u, _ = self.draw_standard(0, 16_384)
        return self._replace(coordinates=match_knots(self.coordinates, u, z))

    def _log_base(self, u: np.ndarray) -> np.ndarray:
        return _log_standard(u) if self.flow is None else log_probs(self.flow, u)


def _log_standard(u: np.ndarray) -> np.ndarray:
    return -0.5 * (u**2).sum(1) - 0.5 * u.shape[1] * math.log(2 * math.pi)


def log_probs(flow: CouplingFlow, u: Float[np.ndarray, "n d"]) -> Float[np.ndarray, " n"]:
    """Log densities of a flow at rows, in bounded memory and by one program."""
    parts = []
    with own_settings():
        for i in range(0, len(u), _DRAWN):
            rows = np.resize(u[i : i + _DRAWN], (_DRAWN, u.shape[1])).astype(np.float32)
            parts.append(np.asarray(_log_probs(flow, rows), float)[: len(u) - i])
    return np.concatenate(parts)


@eqx.filter_jit
def _draw(flow: CouplingFlow, words: Array) -> tuple[Array, Array]:
    return flow.sample_and_log_prob(jax.random.wrap_key_data(words, impl=KEYS), _DRAWN)


@eqx.filter_jit
def _log_probs(flow: CouplingFlow, rows: Array) -> Array:
    return jax.vmap(flow.log_prob)(rows)


class Learning:
    """The flow's updates, compiled aside while the chains run; no target is in them.

    Args:
        dim: size of a draw.
        seed: of everything random.
        layers: couplings of a flow.
        width: hidden units of each.
    """

    def __init__(self, dim: int, seed: int, layers: int = 6, width: int = 32):
        with own_settings(), jax.default_prng_impl(KEYS):
            rank = rank_of(dim)
            turn = (jnp.eye(dim)[:, :rank], jnp.ones(rank))
            flow = CouplingFlow(jax.random.key(seed), dim, layers, width, *turn)
            optimiser = optax.inject_hyperparams(_flat_adam)(learning_rate=0.0)
            learner = Learner(InclusiveKL(control=False), particles=ROWS, optimiser=optimiser)
            record = Recorded(jnp.zeros((RECORDED, dim), jnp.float32))
            self.training = Training(learner, _Standard(dim), flow, record, seed=seed)
        self._failed: list[BaseException] = []
        self._thread = threading.Thread(target=self._compile, daemon=True)
        self._thread.start()

    def _compile(self) -> None:
        try:
            with own_settings(), jax.default_prng_impl(KEYS):
                self.training.compile(_QUICK)
                flow = self.training.state.student
                _draw(flow, np.zeros(4, np.uint32))
                _log_probs(flow, np.zeros((_DRAWN, flow.dim), np.float32))
        except BaseException as error:
            self._failed.append(error)

    def ready(self) -> State:
        """Wait for the compiler; the state before the first update."""
        self._thread.join()
        if self._failed:
            raise self._failed[0]
        return self.training.state

    def begin(self, coordinates: Coordinates, along_axes: bool) -> "Pupil":
        """A new flow, along the axes of the draws or on white ones."""
        state = self.ready()
        if not along_axes:
            return Pupil(self.training, state, coordinates, "flow on white draws")
        turn = (coordinates.directions, coordinates.stretch)
        turn = tuple(paramax.non_trainable(jnp.asarray(part, jnp.float32)) for part in turn)
        state = eqx.tree_at(lambda s: (s.student.directions, s.student.stretch), state, turn)
        return Pupil(self.training, state, coordinates.unturned(), "flow along the axes")


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
        """Learn from draws for some updates, stop where others gain nothing; their mean log density.

        Args:
            seen: draws to learn from.
            held: draws to be measured on.
            updates: at most.
            rate: at the start.
            last: at the end.
        """
        seen, held = (np.clip(self.coordinates.whiten(z)[0], -1e4, 1e4) for z in (seen, held))
        rows = seen[np.linspace(0, len(seen) - 1, RECORDED).astype(int)]
        best, stalled = float(log_probs(self.best, held).mean()), 0
        where = lambda s: (s.student, s.teacher.draws)  # noqa: E731
        state = eqx.tree_at(where, self.state, (self.best, jnp.asarray(rows, jnp.float32)))
        with own_settings(), jax.default_prng_impl(KEYS):
            for done in range(0, updates, _CHUNK):
                now = last + (rate - last) * 0.5 * (1 + math.cos(math.pi * done / updates))
                state, _ = self.training.advance(_paced(state, now), _CHUNK)
                score = float(log_probs(state.student, held).mean())
                stalled = 0 if score > best else stalled + 1
                if score > best:
                    best, self.best = score, state.student
                if stalled > 2:
                    break
        self.state = state
        return best


def _paced(state: State, rate: float) -> State:
    where = lambda s: s.memory["student"].hyperparams["learning_rate"]  # noqa: E731
    return eqx.tree_at(where, state, jnp.asarray(rate, jnp.float32))


def _flat_adam(learning_rate: Any) -> optax.GradientTransformation:
    decayed = optax.adamw(learning_rate, weight_decay=_DECAY)
    return optax.flatten(optax.chain(optax.clip_by_global_norm(10.0), decayed))
