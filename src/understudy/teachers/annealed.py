"""Annealed importance sampling and sequential Monte Carlo between a base density and the target."""

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from understudy.checks import count, fraction, instance, number, optional, positive
from understudy.core import (
    BoundLogDensity,
    Draws,
    Improved,
    IngredientError,
    Key,
    Proposal,
    Teacher,
    numbered,
)
from understudy.teachers.adapters import blackjax
from understudy.teachers.common import TeacherWrapper, finite_at


class Annealed(TeacherWrapper):
    """Bring draws from a base density r to the target p through r^(1 - beta) p^beta, keeping weights.

    Before every move to beta_k, log w += (beta_k - beta_{k-1}) (log p(z) - log r(z)); the mean of w
    estimates the ratio of the normalising constants without bias. The base is the student, if it has a
    density, or a Gaussian whose own fresh draws take the place of the student's.

    Reference: Neal, "Annealed importance sampling", 2001; with resampling, Del Moral, Doucet and Jasra,
    "Sequential Monte Carlo samplers", 2006.

    Args:
        teacher: the moves at every beta, any teacher that leaves its target invariant.
        rungs: the number of steps of beta from 0 to 1.
        mean: mean of a Gaussian base, a number or a vector; None makes the student the base.
        scale: its standard deviations.
        power: beta_k = (k / rungs)^power; above 1 it spends more rungs near the base.
        resample_below: resample when the effective share of the particles falls below this; None never
            does.

    Examples:
        >>> import jax
        >>> from understudy.core import bind
        >>> from understudy.students import FullGaussian
        >>> from understudy.teachers import Annealed, mala
        >>> teacher, proposal = Annealed(mala(0.3)), bind(FullGaussian(2), None)
        >>> start = jax.numpy.ones((5, 2))
        >>> teacher.improve(jax.random.key(0), lambda z: -0.5 * z @ z, start, proposal).z.shape
        (5, 2)
    """

    teacher: Teacher
    rungs: Int[Array, "..."]
    mean: Float[Array, "..."] | None
    scale: Float[Array, "..."]
    power: Float[Array, "..."]
    resample_below: Float[Array, "..."] | None

    def __init__(
        self,
        teacher: Teacher,
        rungs: Any = 10,
        mean: Any = None,
        scale: Any = 1.0,
        power: Any = 1.0,
        resample_below: Any = None,
    ):
        self.teacher = instance("teacher", Teacher, "mala(0.1)", teacher)
        self.space = self.teacher.space if mean is None else "continuous"
        self.deterministic = False
        self.rungs = count("rungs", rungs)
        self.mean = optional(number, "mean", mean)
        self.scale = positive("scale", scale)
        self.power = positive("power", power)
        self.resample_below = optional(fraction, "resample_below", resample_below)

    def improve(self, key: Key, log_density: BoundLogDensity, z: Draws, proposal: Proposal) -> Improved:
        """Anneal all particles from the base to the target."""
        start_key, key = jax.random.split(key)
        z, base = self._base(start_key, z, proposal)

        def anneal(i, carry):
            z, log_weights, total = carry
            resample_key, move_key = jax.random.split(numbered(key, i))
            before, beta = self._beta(i), self._beta(i + 1)
            gain = jax.vmap(lambda z: log_density(z) - base(z))(z)
            log_weights = _never_nan(log_weights + (beta - before) * gain)
            z, log_weights = self._resample(resample_key, z, log_weights)
            out = self.teacher.improve(move_key, _between(base, log_density, beta), z, proposal)
            return out.z, log_weights, jax.tree.map(jnp.add, total, out.acceptance)

        shape = jax.eval_shape(lambda: self.teacher.improve(key, log_density, z, proposal))
        zeros = jax.tree.map(lambda a: jnp.zeros(a.shape, a.dtype), shape.acceptance)
        carry = (z, jnp.zeros(z.shape[0]), zeros)
        end, log_weights, total = jax.lax.fori_loop(0, self.rungs, anneal, carry)
        finite = jnp.isfinite(log_weights) & finite_at(log_density, end)
        acceptance = jax.tree.map(lambda a: a / self.rungs, total)
        return Improved(end, finite, acceptance, log_weights)

    def _beta(self, rung: Int[Array, ""]) -> Float[Array, ""]:
        return (rung / self.rungs) ** self.power

    def _base(
        self, key: Key, z: Float[Array, "n d"], proposal: Proposal
    ) -> tuple[Float[Array, "n d"], BoundLogDensity]:
        mean = self.mean
        if mean is not None:
            draws = mean + self.scale * jax.random.normal(key, z.shape)
            return draws, lambda z: jax.scipy.stats.norm.logpdf(z, mean, self.scale).sum()
        if proposal.log_prob is None:
            raise IngredientError(
                "Annealed starts from the student's density (log_prob) and this student has none; "
                "give a Gaussian base, such as Annealed(mala(), mean=0.0, scale=1.0)."
            )
        return z, proposal.log_prob

    def _resample(
        self, key: Key, z: Float[Array, "n d"], log_weights: Float[Array, " n"]
    ) -> tuple[Float[Array, "n d"], Float[Array, " n"]]:
        if self.resample_below is None:
            return z, log_weights
        n = len(log_weights)
        weights = jax.nn.softmax(log_weights)
        low = 1 / jnp.sum(weights**2) < self.resample_below * n
        chosen = jnp.where(low, blackjax("smc.resampling").systematic(key, weights, n), jnp.arange(n))
        mean = jax.nn.logsumexp(log_weights) - jnp.log(n)
        return z[chosen], jnp.where(low, mean, log_weights)


def tempered_smc(
    teacher: Teacher, rungs: Any = 10, resample_below: Any = 0.5, **settings: Any
) -> Annealed:
    """Sequential Monte Carlo through tempered targets: annealing that drops particles of little weight.

    Resampling mixes the rows, so the improved draws are not paired with the student's.

    Reference: Del Moral, Doucet and Jasra, "Sequential Monte Carlo samplers", 2006.

    Examples:
        >>> import jax
        >>> from understudy.core import bind
        >>> from understudy.students import FullGaussian
        >>> from understudy.teachers import tempered_smc, mala
        >>> teacher, proposal = tempered_smc(mala(0.3)), bind(FullGaussian(2), None)
        >>> start = jax.numpy.ones((5, 2))
        >>> teacher.improve(jax.random.key(0), lambda z: -0.5 * z @ z, start, proposal).z.shape
        (5, 2)
    """
    return Annealed(teacher, rungs, resample_below=resample_below, **settings)


def _between(base: BoundLogDensity, log_density: BoundLogDensity, beta: Array) -> BoundLogDensity:
    return lambda z: (1 - beta) * base(z) + beta * log_density(z)


def _never_nan(log_weights: Float[Array, " n"]) -> Float[Array, " n"]:
    return jnp.where(jnp.isnan(log_weights), -jnp.inf, log_weights)
