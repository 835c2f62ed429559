"""Teachers in coordinates where the student is white."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Float

from understudy.checks import flag, instance, number, whole
from understudy.core import BoundLogDensity, Draws, Improved, IngredientError, Key, Proposal, Teacher
from understudy.numerics import AffineMap, whitening
from understudy.teachers.common import TeacherWrapper


class Preconditioned(TeacherWrapper):
    """Any teacher, run in coordinates u, z = mean + L u, where the student has mean 0 and covariance 1.

    The mean and the Cholesky factor L come from fresh draws of the student, not from the chains, so the
    inner teacher's invariance is untouched. One step size then fits every direction.

    Reference: Neal, "MCMC using Hamiltonian dynamics", section 4.1, 2011.

    Args:
        teacher: the teacher to run.
        draws: how many fresh draws of the student are used.
        full: whether to whiten correlations too (shrunk by the factor draws / (draws + d)) or scales
            alone.

    Examples:
        >>> import jax
        >>> from understudy.core import bind
        >>> from understudy.students import FullGaussian
        >>> from understudy.teachers import Preconditioned, hmc
        >>> teacher, proposal = Preconditioned(hmc(0.3)), bind(FullGaussian(2), None)
        >>> start = jax.numpy.ones((5, 2))
        >>> teacher.improve(jax.random.key(0), lambda z: -0.5 * z @ z, start, proposal).z.shape
        (5, 2)
    """

    teacher: Teacher
    draws: int = eqx.field(static=True)
    full: bool = eqx.field(static=True)

    def __init__(self, teacher: Teacher, draws: int = 256, full: bool = True):
        self.teacher = instance("teacher", Teacher, "mala(0.1)", teacher)
        self.space, self.deterministic = "continuous", False
        self.draws = whole("draws", draws, least=2)
        self.full = flag("full", full)

    def improve(self, key: Key, log_density: BoundLogDensity, z: Draws, proposal: Proposal) -> Improved:
        """Whiten, let the teacher improve, and map back."""
        draw_key, key = jax.random.split(key)
        draws = proposal.sample(draw_key, self.draws)
        kept = jnp.isfinite(draws).all(-1)
        shrinkage = z.shape[1] / (jnp.maximum(kept.sum(), 1) + z.shape[1])
        affine = whitening(draws, kept, shrinkage, self.full)
        return _improve_in(affine, self.teacher, key, log_density, z, proposal)


class Rescaled(TeacherWrapper):
    """Any teacher, run in coordinates u, z = mean + L u, that are given once and for all.

    Reference: Neal, "MCMC using Hamiltonian dynamics", section 4.1, 2011.

    Args:
        teacher: the teacher to run.
        mean: where u = 0 lies.
        factor: the lower triangular matrix L, with a positive diagonal; a vector of scales is one with
            nothing else.

    Examples:
        >>> import jax
        >>> from understudy.core import bind
        >>> from understudy.students import FullGaussian
        >>> from understudy.teachers import Rescaled, mala
        >>> teacher = Rescaled(mala(0.3), mean=jax.numpy.zeros(2), factor=jax.numpy.array([1.0, 2.0]))
        >>> start, proposal = jax.numpy.ones((5, 2)), bind(FullGaussian(2), None)
        >>> teacher.improve(jax.random.key(0), lambda z: -0.5 * z @ z, start, proposal).z.shape
        (5, 2)
    """

    teacher: Teacher
    mean: Float[Array, " d"]
    factor: Float[Array, "d d"] | Float[Array, " d"]

    def __init__(self, teacher: Teacher, mean: ArrayLike, factor: ArrayLike):
        self.teacher = instance("teacher", Teacher, "hmc(0.1)", teacher)
        self.space, self.deterministic = "continuous", self.teacher.deterministic
        self.mean = number("mean", mean)
        self.factor = number("factor", factor)
        shapes = (self.mean.shape, 2 * self.mean.shape)
        if self.mean.ndim != 1 or self.factor.shape not in shapes:
            raise IngredientError(
                "mean is a vector of size d and factor a d x d matrix or a vector of size d; shapes "
                f"{self.mean.shape} and {self.factor.shape} came."
            )

    def improve(self, key: Key, log_density: BoundLogDensity, z: Draws, proposal: Proposal) -> Improved:
        """Map to u, let the teacher improve, and map back."""
        affine = AffineMap(self.mean, self.factor)
        return _improve_in(affine, self.teacher, key, log_density, z, proposal)


def _improve_in(
    affine: AffineMap,
    teacher: Teacher,
    key: Key,
    log_density: BoundLogDensity,
    z: Draws,
    proposal: Proposal,
) -> Improved:
    whiten, colour, log_prob = affine.whiten, affine.colour, proposal.log_prob
    inner = Proposal(
        lambda key, n: whiten(proposal.sample(key, n)),
        None if log_prob is None else affine.whitened(log_prob),
    )
    out = teacher.improve(key, lambda u: log_density(colour(u)), whiten(z), inner)
    control = None if out.control is None else colour(out.control)
    return out._replace(z=jnp.where(out.finite[:, None], colour(out.z), z), control=control)
