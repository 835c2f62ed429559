"""Tempered transitions: excursions to hot, flat versions of the target and back."""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PyTree, Scalar

from understudy.checks import count, fraction, optional, positive
from understudy.core import BoundLogDensity, Draws, Improved, Key, Proposal, Teacher, numbered
from understudy.teachers.common import moved


class ExcursionAcceptance(NamedTuple):
    """Acceptance of whole excursions, and of the random-walk steps within them."""

    excursion: PyTree
    walk: PyTree


class _Excursion(NamedTuple):
    z: Float[Array, " d"]
    height: Scalar
    log_ratio: Scalar
    accepted: Scalar


class TemperedTransition(Teacher):
    """An excursion through p^beta, hot enough to change mode, accepted or refused as a whole.

    The inverse temperature beta falls geometrically from 1 to ``hottest`` over the rungs and rises
    again, with one random-walk Metropolis step at every rung each way; the excursion is accepted with
    probability min(1, exp sum_i (beta_{i+1} - beta_i) (log p(up_i) - log p(down_i))). It leaves the
    target invariant, carries draws between modes and never asks for the student's density.

    Reference: Neal, "Sampling from multimodal distributions using tempered transitions", 1996.

    Args:
        rungs: how many inverse temperatures there are below 1.
        hottest: the smallest inverse temperature.
        step_size: the random walk at beta has standard deviation step_size / sqrt(beta).
        steps: how many excursions are made.
        target_acceptance: ``adapt`` moves the step size until the random walks are accepted at this rate
            (not the excursions: both very short and very long steps come back to where they started).
        rate: how fast the step size adapts.

    Examples:
        >>> import jax
        >>> from understudy.core import bind
        >>> from understudy.students import FullGaussian
        >>> from understudy.teachers import TemperedTransition
        >>> teacher, proposal = TemperedTransition(rungs=5), bind(FullGaussian(2), None)
        >>> start = jax.numpy.ones((5, 2))
        >>> teacher.improve(jax.random.key(0), lambda z: -0.5 * z @ z, start, proposal).z.shape
        (5, 2)
    """

    space = "continuous"
    deterministic = False

    rungs: Int[Array, "..."]
    hottest: Float[Array, "..."]
    step_size: Float[Array, "..."]
    steps: Int[Array, "..."]
    target_acceptance: Float[Array, "..."] | None
    rate: Float[Array, "..."]

    def __init__(
        self,
        rungs: Any = 10,
        hottest: Any = 0.05,
        step_size: Any = 1.0,
        steps: Any = 1,
        target_acceptance: Any = None,
        rate: Any = 0.1,
    ):
        self.rungs = count("rungs", rungs)
        self.hottest = fraction("hottest", hottest)
        self.step_size = positive("step_size", step_size)
        self.steps = count("steps", steps)
        self.target_acceptance = optional(fraction, "target_acceptance", target_acceptance)
        self.rate = positive("rate", rate)

    def improve(self, key: Key, log_density: BoundLogDensity, z: Draws, proposal: Proposal) -> Improved:
        """Send every chain on its excursions."""
        del proposal
        keys = jax.random.split(key, z.shape[0])
        return Improved(*jax.vmap(lambda k, start: self._chain(k, log_density, start))(keys, z))

    def adapt(self, acceptance: PyTree) -> "TemperedTransition":
        """Move the step size until the random walks are accepted as often as wanted."""
        if acceptance is None or self.target_acceptance is None:
            return self
        step = moved(self.step_size, acceptance.walk, self.target_acceptance, self.rate)
        return eqx.tree_at(lambda teacher: teacher.step_size, self, step)

    def _chain(
        self, key: Key, log_density: BoundLogDensity, z: Float[Array, " d"]
    ) -> tuple[Float[Array, " d"], Bool[Array, ""], ExcursionAcceptance]:
        def transition(i, carry):
            z, height, excursions, walks = carry
            walk_key, test_key = jax.random.split(numbered(key, i))
            end = self._excursion(walk_key, log_density, z, height)
            probability = jnp.nan_to_num(jnp.exp(jnp.minimum(end.log_ratio, 0.0)))
            accept = jax.random.uniform(test_key) < probability
            z = jnp.where(accept, end.z, z)
            height = jnp.where(accept, end.height, height)
            return z, height, excursions + probability, walks + end.accepted / (2 * self.rungs)

        height = log_density(z)
        start = (z, height, jnp.zeros_like(height), jnp.zeros_like(height))
        end, end_height, excursions, walks = jax.lax.fori_loop(0, self.steps, transition, start)
        finite = jnp.isfinite(height) & jnp.isfinite(end_height) & jnp.isfinite(end).all()
        return end, finite, ExcursionAcceptance(excursions / self.steps, walks / self.steps)

    def _inverse_temperature(self, rung: Int[Array, ""]) -> Scalar:
        return self.hottest ** (rung / self.rungs)

    def _excursion(
        self, key: Key, log_density: BoundLogDensity, z: Float[Array, " d"], height: Scalar
    ) -> _Excursion:
        def visit(i, state: _Excursion) -> _Excursion:
            up = i < self.rungs
            rung = jnp.where(up, i + 1, 2 * self.rungs - i)
            beta = self._inverse_temperature(rung)
            gap = beta - self._inverse_temperature(rung - 1)
            before = state.height
            state = self._walk(numbered(key, i), log_density, beta, state)
            change = gap * jnp.where(up, before, -state.height)
            return state._replace(log_ratio=state.log_ratio + change)

        zero = jnp.zeros_like(height)
        return jax.lax.fori_loop(0, 2 * self.rungs, visit, _Excursion(z, height, zero, zero))

    def _walk(
        self, key: Key, log_density: BoundLogDensity, beta: Scalar, state: _Excursion
    ) -> _Excursion:
        noise_key, test_key = jax.random.split(key)
        noise = jax.random.normal(noise_key, state.z.shape)
        candidate = state.z + self.step_size / jnp.sqrt(beta) * noise
        height = log_density(candidate)
        log_ratio = beta * (height - state.height)
        probability = jnp.nan_to_num(jnp.exp(jnp.minimum(log_ratio, 0.0)))
        accept = jax.random.uniform(test_key) < probability
        return state._replace(
            z=jnp.where(accept, candidate, state.z),
            height=jnp.where(accept, height, state.height),
            accepted=state.accepted + probability,
        )
