"""Stages two and three: a Gaussian by its moments, then a flow on the Gaussian's whitening."""

import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float, PRNGKeyArray, Scalar

from understudy.callbacks import Callback, Chunk, StopTraining
from understudy.core import Condition, ExplicitStudent, Student, Target, Teacher
from understudy.feedbacks import InclusiveKL, MomentProjection
from understudy.students import FullGaussian
from understudy.teachers import Compose, IndependenceMetropolis, Preconditioned, Scheduled, hmc
from understudy.training import Fit, fit

PARTICLES = 64


class Whitened(Target):
    """A target in coordinates u, z = mean + L u, up to a constant."""

    target: Target
    mean: Float[Array, " d"]
    factor: Float[Array, "d d"]
    dim: int = eqx.field(static=True)

    def __init__(self, target: Target, mean: Float[Array, " d"], factor: Float[Array, "d d"]):
        self.target = target
        self.mean = mean
        self.factor = factor
        self.dim = target.dim

    def log_density(self, z: Float[Array, " d"], x: Condition = None) -> Scalar:
        """The target's log density at the coloured draw."""
        return self.target.log_density(self.mean + self.factor @ z, x)


class Assessment(NamedTuple):
    """How near a student is to its target, from fresh draws of the student.

    Attributes:
        acceptance: of independence Metropolis moves in equilibrium, E min(w, w') / E w.
        log_density: mean log density of the draws that have one.
        bound: mean log weight, the evidence lower bound; minus infinity if a draw has no density.
    """

    acceptance: float
    log_density: float
    bound: float

    @property
    def score(self) -> float:
        """What decides which of two students is kept."""
        return self.acceptance if np.isfinite(self.acceptance) else 0.0


def assess(key: PRNGKeyArray, target: Target, student: ExplicitStudent, draws: int = 4096) -> Assessment:
    """Compare student and target at fresh draws."""
    log_p, log_q = (np.asarray(v, float) for v in _densities(key, target, student, draws))
    weight = np.where(np.isfinite(log_p) & np.isfinite(log_q), log_p - log_q, -np.inf)
    if not np.isfinite(weight).any():
        return Assessment(0.0, -np.inf, -np.inf)
    w = np.sort(np.exp(weight - weight.max()))
    smaller = np.arange(2 * draws - 1, 0, -2) / draws**2
    usable = np.isfinite(log_p)
    return Assessment(float(w @ smaller / w.mean()), float(log_p[usable].mean()), float(weight.mean()))


@eqx.filter_jit
def _densities(
    key: PRNGKeyArray, target: Target, student: ExplicitStudent, draws: int
) -> tuple[Float[Array, " n"], Float[Array, " n"]]:
    z = student.sample(key, None, draws)
    return jax.lax.map(lambda z: (target.log_density(z), student.log_prob(z)), z, batch_size=256)


def fit_gaussian(
    target: Target, seed: int, updates: int, callbacks: Sequence[Callback] = (), steps: int = 4
) -> Fit:
    """A full Gaussian that follows the moments of the teacher's draws, averaged over updates."""
    local = hmc(0.5, 3, target_acceptance=0.8, jitter=0.5, largest_step=jnp.pi / 6)
    teacher = Scheduled(Preconditioned(local), steps=optax.linear_schedule(1, steps, updates))
    return fit(
        target,
        FullGaussian(target.dim),
        teacher,
        MomentProjection(0.1),
        updates=updates,
        seed=seed,
        particles=PARTICLES,
        average=0.98,
        chunk=100,
        progress=False,
        callbacks=[*callbacks, keep_scale],
    )


def fit_flow(
    target: Target,
    flow: Student | Callable[[PRNGKeyArray], Student],
    seed: int,
    updates: int,
    callbacks: Sequence[Callback] = (),
    steps: int = 3,
    rate: float = 3e-3,
) -> Fit:
    """A flow taught by local moves and then one independence move, by the inclusive KL."""
    return fit(
        target,
        flow,
        flow_teacher(updates, steps),
        InclusiveKL(),
        updates=updates,
        seed=seed,
        particles=PARTICLES,
        optimiser=optax.adam(optax.cosine_decay_schedule(rate, updates)),
        chunk=250,
        progress=False,
        callbacks=callbacks,
    )


def flow_teacher(updates: int, steps: int) -> Teacher:
    """Hamiltonian moves, T growing to ``steps``, then one independence move."""
    local = hmc(0.5, 2, target_acceptance=0.8, jitter=0.7, largest_step=jnp.pi / 4)
    growing = Scheduled(local, steps=optax.linear_schedule(1, steps, updates))
    return Compose(growing, IndependenceMetropolis())


def keep_scale(chunk: Chunk) -> None:
    """Stop where a Gaussian in whitened coordinates runs away: acceptance would not show it."""
    largest = float(jnp.exp(chunk.state.student.log_diagonal).max())
    if not largest < 1e3:
        raise StopTraining


def until(deadline: float) -> Callback:
    """Stop at a time of ``time.perf_counter``."""

    def stop(chunk: Chunk) -> None:
        del chunk
        if time.perf_counter() > deadline:
            raise StopTraining

    return stop


def gradients(updates: int, steps: int, leapfrogs: int) -> int:
    """Gradient evaluations of ``updates`` whose transitions grow from one to ``steps``."""
    return int(updates * PARTICLES * ((1 + steps) / 2 * leapfrogs + 1))
