"""Divergences between two sets of draws that need no critic and no density of the student."""

from functools import partial

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree, Scalar

from understudy.checks import one_of, optional, positive, whole
from understudy.core import IngredientError, Lesson, StratifiedStudent, Student, Target, Teacher
from understudy.feedbacks.common import CriticFree, Pathwise, average, log_densities, needs_paths
from understudy.feedbacks.two_sample import (
    Kernel,
    TwoSample,
    TwoSets,
    median_square,
    minus_distance,
)
from understudy.numerics import RADIAL, TINY, radial_kernel, squared_distances


class EnergyMatching(CriticFree, Pathwise):
    """Match the mean log density before and after teaching: |E_{q_T} log p - E_q log p|^beta.

    Warning: this is one scalar equation. It is zero for many students that are far from the target, so
    it does not pin the student, whose spread tends to stay where it started. Prefer
    :class:`EnergyDistance`.

    Reference: Li, Turner and Liu, "Approximate Inference with Amortised MCMC", 2017, eq. (6).

    Args:
        beta: the power, positive.
    """

    beta: Float[Array, ""] = eqx.field(converter=partial(positive, "beta"), default=2.0)

    def loss(self, student: Student, critic: PyTree, target: Target, lesson: Lesson) -> Scalar:
        """The power of the gap."""
        del critic
        draws, weights = lesson.propose_weighted(student)
        after = average(log_densities(target, lesson.after, lesson.x), lesson.weights)
        before = average(log_densities(target, draws, lesson.x), weights)
        return ((after - before) ** 2 + TINY) ** (self.beta / 2)


class EnergyDistance(TwoSample):
    """Draws of the student near the teacher's, yet apart from one another; zero only at q = q_T.

    ``2 E|a - b| - E|b - b'| - E|a - a'|`` with a, a' after and b, b' before teaching, without bias: a
    row is never compared with itself, nor with the draw it was taught from.

    Reference: Szekely and Rizzo, "Energy statistics", 2013.

    Args:
        diagonal: compare each draw with its own improvement too. Biased: a short chain makes the two
            agree whatever the student, which comes out too wide.
        pool: compare pairs (x, z) over the whole batch rather than the particles of each condition;
            needed with one particle per condition. The numbers of x and z should have similar scales.

    Examples:
        >>> import jax.numpy as jnp, optax, understudy
        >>> from understudy.feedbacks import EnergyDistance
        >>> from understudy.students import FullGaussian
        >>> from understudy.teachers import mala
        >>> target = understudy.LogDensity(lambda z: -0.5 * jnp.sum((z - 1) ** 2), dim=1)
        >>> ingredients = FullGaussian(1), mala(0.5, steps=5), EnergyDistance()
        >>> settings = {"updates": 200, "optimiser": optax.adam(0.02), "progress": False}
        >>> trained = understudy.train(target, *ingredients, **settings)
        >>> bool(trained.summary()["mean"].iloc[0] > 0.5)
        True
    """

    def kernel_for(self, sets: TwoSets) -> Kernel:
        """Minus the distance."""
        del sets
        return minus_distance


class MaximumMeanDiscrepancy(TwoSample):
    """Match all features of a kernel: E k(b, b') - 2 E k(a, b) + E k(a, a'), zero only at q = q_T.

    The same unbiased comparison as :class:`EnergyDistance` with a kernel of bounded reach: sets that
    are many bandwidths apart do not feel each other.

    Reference: Gretton et al., "A Kernel Two-Sample Test", 2012.

    Args:
        kernel: "gaussian" exp(-r^2 / 2h^2), "laplace" exp(-r / h), "imq" (1 + r^2 / h^2)^(-1/2), or
            "multiscale", the mean of Gaussian ones at h/4, h/2, h, 2h and 4h.
        bandwidth: h; None takes the median distance between before and after in each update.
        diagonal: compare each draw with its own improvement too (biased).
        pool: compare pairs (x, z) over the whole batch.

    Examples:
        >>> import jax.numpy as jnp, optax, understudy
        >>> from understudy.feedbacks import MaximumMeanDiscrepancy
        >>> from understudy.students import FullGaussian
        >>> from understudy.teachers import mala
        >>> target = understudy.LogDensity(lambda z: -0.5 * jnp.sum((z - 1) ** 2), dim=1)
        >>> ingredients = FullGaussian(1), mala(0.5, steps=5), MaximumMeanDiscrepancy()
        >>> settings = {"updates": 200, "optimiser": optax.adam(0.02), "progress": False}
        >>> trained = understudy.train(target, *ingredients, **settings)
        >>> bool(trained.summary()["mean"].iloc[0] > 0.5)
        True
    """

    kernel: str = eqx.field(static=True, default="gaussian")
    bandwidth: Float[Array, ""] | None = eqx.field(
        converter=partial(optional, positive, "bandwidth"), default=None
    )

    def __check_init__(self):
        """Only the kernels above."""
        one_of("kernel", RADIAL, self.kernel)

    def kernel_for(self, sets: TwoSets) -> Kernel:
        """The radial kernel, its bandwidth the median distance where none was given."""
        bandwidth = jnp.sqrt(median_square(sets)) if self.bandwidth is None else self.bandwidth
        radial = radial_kernel(self.kernel, bandwidth)
        return lambda a, b: radial(squared_distances(a, b))


class MomentMatching(TwoSample):
    """Match the first moments, coordinate by coordinate: sum_m |E_{q_T} z^m - E_q z^m|^2.

    The squares are estimated without bias, from products of different particles.

    Reference: Li, Turner and Liu, "Approximate Inference with Amortised MCMC", 2017, section 3.

    Args:
        order: how many moments.
        diagonal: compare each draw with its own improvement too (biased).
        pool: compare pairs (x, z) over the whole batch, and so only what is true on average over x.

    Examples:
        >>> import jax.numpy as jnp, optax, understudy
        >>> from understudy.feedbacks import MomentMatching
        >>> from understudy.students import FullGaussian
        >>> from understudy.teachers import mala
        >>> target = understudy.LogDensity(lambda z: -0.5 * jnp.sum((z - 1) ** 2), dim=1)
        >>> ingredients = FullGaussian(1), mala(0.5, steps=5), MomentMatching()
        >>> settings = {"updates": 200, "optimiser": optax.adam(0.02), "progress": False}
        >>> trained = understudy.train(target, *ingredients, **settings)
        >>> bool(trained.summary()["mean"].iloc[0] > 0.5)
        True
    """

    order: int = eqx.field(static=True, default=2)

    def __check_init__(self):
        """At least one moment."""
        whole("order, the number of moments,", self.order)

    def kernel_for(self, sets: TwoSets) -> Kernel:
        """Products of powers."""
        del sets
        return lambda a, b: self._powers(a) @ self._powers(b).T

    def _powers(self, z: Float[Array, "n d"]) -> Float[Array, "n e"]:
        return jnp.concatenate([z ** (m + 1) for m in range(self.order)], axis=1)


class SquaredDistance(CriticFree):
    """Follow each draw to where a deterministic teacher took it: E|z_0 - z_T|^2, row by row.

    With a random teacher the best student would collapse to the mean of its moves, so it is refused.

    Reference: Feng, Wang and Liu, "Learning to Draw Samples with Amortized SVGD", 2017.
    """

    def check(self, target: Target, student: Student, teacher: Teacher) -> None:
        """The teacher must be deterministic, and the student's draws must carry gradients."""
        del target
        needs_paths(self, student)
        if isinstance(student, StratifiedStudent):
            raise IngredientError(
                f"SquaredDistance compares draw by draw, so the probabilities of the branches of "
                f"{type(student).__name__} would never learn: choose EnergyDistance as feedback."
            )
        if not teacher.deterministic:
            raise IngredientError(
                f"SquaredDistance needs a deterministic teacher, and {type(teacher).__name__} moves at "
                f"random: choose an SVGD teacher, or EnergyDistance as feedback."
            )

    def loss(self, student: Student, critic: PyTree, target: Target, lesson: Lesson) -> Scalar:
        """Mean squared move."""
        del critic, target
        moves = jnp.sum((lesson.propose(student) - lesson.after) ** 2, axis=-1)
        return average(moves, lesson.weights)
