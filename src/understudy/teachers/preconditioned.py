"""Teachers in coordinates where the student is white."""

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Float, PyTree

from understudy.checks import instance, number, whole
from understudy.core import BoundLogDensity, Improved, IngredientError, Key, Proposal, Space, Teacher


class Preconditioned(Teacher):
    """Any teacher, run in coordinates u, z = mean + L u, where the student has mean 0 and covariance 1.

    The mean and the Cholesky factor L come from fresh draws of the student, not from the chains, so the
    inner teacher's invariance is untouched. One step size then fits every direction.

    Reference: Neal, "MCMC using Hamiltonian dynamics", section 4.1, 2011.

    Args:
        teacher: the teacher to run.
        draws: how many fresh draws of the student are used.
        full: whether to whiten correlations too (shrunk by the factor draws / (draws + d)) or scales
            alone.
    """

    teacher: Teacher
    draws: int = eqx.field(static=True)
    full: bool = eqx.field(static=True)

    def __init__(self, teacher: Teacher, draws: int = 256, full: bool = True):
        self.teacher = instance("teacher", Teacher, "mala(0.1)", teacher)
        self.draws = whole("draws", draws, least=2)
        self.full = full

    @property
    def space(self) -> Space:
        """Continuous draws."""
        return "continuous"

    @property
    def deterministic(self) -> bool:
        """Whether equal draws always end at equal draws."""
        return False

    def improve(
        self,
        key: Key,
        log_density: BoundLogDensity,
        z: Float[Array, "n d"],
        proposal: Proposal,
    ) -> Improved:
        """Whiten, let the teacher improve, and map back."""
        draw_key, key = jax.random.split(key)
        mean, root = self._scale(proposal.sample(draw_key, self.draws))
        return _improve_rescaled(self.teacher, mean, root, key, log_density, z, proposal)

    def adapt(self, acceptance: PyTree) -> "Preconditioned":
        """Let the inner teacher adapt."""
        return Preconditioned(self.teacher.adapt(acceptance), self.draws, self.full)

    def _scale(self, draws: Float[Array, "m d"]) -> tuple[Float[Array, " d"], Array]:
        usable = jnp.isfinite(draws).all(-1, keepdims=True)
        m = jnp.maximum(usable.sum(), 1)
        mean = jnp.where(usable, draws, 0.0).sum(0) / m
        centred = jnp.where(usable, draws - mean, 0.0)
        scale = jnp.maximum(jnp.sqrt((centred**2).sum(0) / m), 1e-6)
        if not self.full:
            return mean, scale
        d = mean.size
        standard = centred / scale
        correlation = (standard.T @ standard + d * jnp.eye(d)) / (m + d)
        return mean, scale[:, None] * jnp.linalg.cholesky(correlation)


def _whitened(proposal: Proposal, whiten: Callable, colour: Callable, log_volume: Array) -> Proposal:
    def sample(key, n):
        return whiten(proposal.sample(key, n))

    log_prob = proposal.log_prob
    if log_prob is None:
        return Proposal(sample, None)
    return Proposal(sample, lambda u: log_prob(colour(u)) + log_volume)


class Rescaled(Teacher):
    """Any teacher, run in coordinates u, z = mean + L u, that are given once and for all.

    Reference: Neal, "MCMC using Hamiltonian dynamics", section 4.1, 2011.

    Args:
        teacher: the teacher to run.
        mean: where u = 0 lies.
        factor: the lower triangular matrix L, with a positive diagonal; a vector of scales is one with
            nothing else.
    """

    teacher: Teacher
    mean: Float[Array, " d"]
    factor: Float[Array, "d d"] | Float[Array, " d"]

    def __init__(self, teacher: Teacher, mean: ArrayLike, factor: ArrayLike):
        self.teacher = instance("teacher", Teacher, "hmc(0.1)", teacher)
        self.mean = number("mean", mean)
        self.factor = number("factor", factor)
        shapes = (self.mean.shape, 2 * self.mean.shape)
        if self.mean.ndim != 1 or self.factor.shape not in shapes:
            raise IngredientError(
                "mean is a vector of size d and factor a d x d matrix or a vector of size d; shapes "
                f"{self.mean.shape} and {self.factor.shape} came."
            )

    @property
    def space(self) -> Space:
        """Continuous draws."""
        return "continuous"

    @property
    def deterministic(self) -> bool:
        """Whether equal draws always end at equal draws."""
        return self.teacher.deterministic

    def improve(
        self,
        key: Key,
        log_density: BoundLogDensity,
        z: Float[Array, "n d"],
        proposal: Proposal,
    ) -> Improved:
        """Map to u, let the teacher improve, and map back."""
        return _improve_rescaled(self.teacher, self.mean, self.factor, key, log_density, z, proposal)

    def adapt(self, acceptance: PyTree) -> "Rescaled":
        """Let the inner teacher adapt."""
        return Rescaled(self.teacher.adapt(acceptance), self.mean, self.factor)


def _improve_rescaled(
    teacher: Teacher,
    mean: Array,
    root: Array,
    key: Key,
    log_density: BoundLogDensity,
    z: Array,
    proposal: Proposal,
) -> Improved:
    scales = root.ndim == 1

    def colour(u):
        return mean + (u * root if scales else u @ root.T)

    def whiten(z):
        if scales:
            return (z - mean) / root
        return jax.scipy.linalg.solve_triangular(root, (z - mean).T, lower=True).T

    inner = _whitened(proposal, whiten, colour, jnp.log(root if scales else jnp.diag(root)).sum())
    out = teacher.improve(key, lambda u: log_density(colour(u)), whiten(z), inner)
    control = None if out.control is None else colour(out.control)
    return out._replace(z=jnp.where(out.finite[:, None], colour(out.z), z), control=control)
