"""Coordinates in which a target is almost standard, and students put together from several of them."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Scalar
from scipy.linalg import solve_triangular

from understudy.core import Condition, ExplicitStudent, Key, Target
from understudy.fitting.flow import coloured
from understudy.students import FullGaussian, Mixture

JUDGED = 4096


class Chart(NamedTuple):
    """Coordinates u of z = mean + factor u, in double precision."""

    mean: Float[np.ndarray, " d"]
    factor: Float[np.ndarray, "d d"]

    def after(self, gaussian: FullGaussian) -> "Chart":
        """The chart in which ``gaussian``, given in this chart, is standard."""
        mean, factor = (np.asarray(v, float) for v in (gaussian.mean, gaussian.factor))
        return Chart(self.mean + self.factor @ mean, self.factor @ factor)

    def seen_from(self, other: "Chart") -> "Chart":
        """This chart with the other's coordinates in the place of z."""
        inverse = solve_triangular(other.factor, np.eye(len(other.mean)), lower=True)
        return Chart(inverse @ (self.mean - other.mean), inverse @ self.factor)

    def colour(self, student: Any) -> Any:
        """The student of z for a student of u, a full Gaussian or a flow."""
        if isinstance(student, FullGaussian):
            chart = self.after(student)
            return FullGaussian(student.dim, jnp.asarray(chart.mean), jnp.asarray(chart.factor))
        return coloured(student, jnp.asarray(self.mean), jnp.asarray(self.factor))


class Whitened(Target):
    """A target in the coordinates u of a chart, up to a constant."""

    target: Target
    mean: Float[Array, "*r d"]
    factor: Float[Array, "*r d d"]
    dim: int = eqx.field(static=True)

    def __init__(self, target: Target, mean: Any = None, factor: Any = None):
        self.target = target
        self.mean = jnp.zeros(target.dim) if mean is None else jnp.asarray(mean, float)
        self.factor = jnp.eye(target.dim) if factor is None else jnp.asarray(factor, float)
        self.dim = target.dim

    def log_density(self, z: Float[Array, " d"], x: Condition = None) -> Scalar:
        """The target's log density at the coloured draw."""
        return self.target.log_density(self.mean + self.factor @ z, x)


def assess(key: Key, target: Target, student: ExplicitStudent, draws: int = JUDGED) -> float:
    """Acceptance of independence Metropolis in equilibrium, E min(w, w') / E w for w = p / q.

    It is one for the target itself, and zero where no draw of the student has a finite density.
    """
    log_p, log_q = (np.asarray(v, float) for v in _densities(key, target, student, draws))
    weight = np.where(np.isfinite(log_p) & np.isfinite(log_q), log_p - log_q, -np.inf)
    if not np.isfinite(weight).any():
        return 0.0
    w = np.sort(np.exp(weight - weight.max()))
    smaller = np.arange(2 * draws - 1, 0, -2) / draws**2
    return float(w @ smaller / w.mean())


@eqx.filter_jit
def _densities(
    key: Key, target: Target, student: ExplicitStudent, draws: int
) -> tuple[Float[Array, " n"], Float[Array, " n"]]:
    z = student.sample(key, None, draws)
    return jax.lax.map(lambda z: (target.log_density(z), student.log_prob(z)), z, batch_size=256)


def weigh(
    key: Key, target: Target, components: Sequence[ExplicitStudent], draws: int = 8192
) -> Float[np.ndarray, " k"]:
    """The mixture's weights that fit the target best: expectation-maximisation on weighted draws."""
    log_p, log_q = (np.asarray(v, float) for v in _parts(key, target, Mixture(components), draws))
    log_p = np.where(np.isfinite(log_p), log_p, -np.inf)
    importance = np.exp(log_p - np.logaddexp.reduce(log_q, 1) - np.max(log_p))
    density = np.exp(log_q - log_q.max(1, keepdims=True))
    weights = np.full(len(components), 1 / len(components))
    for _ in range(100):
        share = density * weights
        weights = importance @ (share / share.sum(1, keepdims=True)) / importance.sum()
    return np.maximum(weights, 1e-6)


@eqx.filter_jit
def _parts(
    key: Key, target: Target, mixture: Mixture, draws: int
) -> tuple[Float[Array, " n"], Float[Array, "n k"]]:
    z = mixture.sample(key, None, draws)
    return jax.lax.map(lambda z: (target.log_density(z), mixture.log_probs(z)), z, batch_size=256)


class Assembled(NamedTuple):
    """A student in the target's own coordinates and its independence acceptance."""

    student: Any
    acceptance: float


def assemble(key: Key, target: Target, charts: Sequence[Chart], students: Sequence[Any]) -> Assembled:
    """One student of z from one student for every chart: itself, or a weighted mixture."""
    frame = charts[0]
    white = Whitened(target, frame.mean, frame.factor)
    if len(charts) == 1:
        return Assembled(frame.colour(students[0]), assess(key, white, students[0]))
    inside = [c.seen_from(frame).colour(s) for c, s in zip(charts, students, strict=True)]
    weights = weigh(key, white, inside)
    outside = [c.colour(s) for c, s in zip(charts, students, strict=True)]
    acceptance = assess(key, white, Mixture(inside, jnp.asarray(weights)))
    return Assembled(Mixture(outside, jnp.asarray(weights)), acceptance)
