"""Hamiltonian chains that anneal between a standard Gaussian and a density."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.scipy.stats import norm
from jaxtyping import Array, ArrayLike, Float, Scalar

from understudy.core import BoundLogDensity, Key

FIRST_STEP = 0.5


class Point(NamedTuple):
    """Chains in coordinates where the base is standard, with the log density and its gradient."""

    u: Float[Array, "n d"]
    value: Float[Array, " n"]
    slope: Float[Array, "n d"]


class Walk(NamedTuple):
    """Chains between a base, standard Gaussian in u, and a target, both ways.

    Attributes:
        chains: how many.
        rungs: intermediate distributions.
        leapfrogs: steps of a transition.
        acceptance: wanted by the pilot run that finds the step of every rung.
    """

    chains: int
    rungs: int
    leapfrogs: int
    acceptance: float

    def forward(self, key: Key, density: BoundLogDensity, dim: int) -> tuple[Array, Array]:
        """Log weights of chains from the base to the target, and the step of every rung."""
        pilot, start, key = jax.random.split(key, 3)
        scouts = max(2, self.chains // 4)
        draws = jax.random.normal(start, (scouts + self.chains, dim))
        gaps, betas = jnp.diff(self.schedule), self.schedule[1:]
        _, steps = self._run(pilot, density, draws[:scouts], gaps, betas, None)
        return self._run(key, density, draws[scouts:], gaps, betas, steps)

    def backward(
        self, key: Key, density: BoundLogDensity, u: Float[Array, " d"], steps: Float[Array, " k"]
    ) -> Float[Array, " n"]:
        """Log weights of chains from one exact draw of the target back to the base."""
        gaps, betas = jnp.diff(self.schedule)[::-1], self.schedule[-2::-1]
        steps = jnp.concatenate([steps[:1], steps[:-1]])[::-1]
        start = jnp.broadcast_to(u, (self.chains, u.size))
        return self._run(key, density, start, gaps, betas, steps)[0]

    @property
    def schedule(self) -> Float[Array, " k"]:
        """From 0 to 1, slow at both ends."""
        ends = jax.nn.sigmoid(jnp.linspace(-4.0, 4.0, self.rungs + 1))
        return (ends - ends[0]) / (ends[-1] - ends[0])

    def _run(self, key, density, u, gaps, betas, steps):
        def rung(carry, given):
            point, weights, step = carry
            key, gap, beta, fixed = given
            step = step if fixed is None else fixed
            gain = point.value - norm.logpdf(point.u).sum(-1)
            weights = weights + gap * jnp.where(jnp.isnan(gain), -jnp.inf, gain)
            point, accepted = transition(key, density, point, beta, step, self.leapfrogs)
            moved = step * jnp.exp(0.3 * (accepted - self.acceptance))
            return (point, weights, moved), step

        start = (at(density, u), jnp.zeros(len(u)), jnp.array(FIRST_STEP))
        given = (jax.random.split(key, self.rungs), gaps, betas, steps)
        (_, weights, _), steps = jax.lax.scan(rung, start, given)
        return weights, steps


def transition(
    key: Key, density: BoundLogDensity, point: Point, beta: Array, step: Array, leapfrogs: int
) -> tuple[Point, Scalar]:
    """One Hamiltonian transition at N(u; 0, I)^(1 - beta) p(u)^beta; its mean acceptance."""
    draw, jitter, test = jax.random.split(key, 3)
    step = step * jax.random.uniform(jitter, minval=0.8, maxval=1.2)

    def energy(point, v):
        squares = (1 - beta) * (point.u**2).sum(-1) + (v**2).sum(-1)
        return beta * point.value - squares / 2

    def kick(point, v):
        return v + step / 2 * (beta * point.slope - (1 - beta) * point.u)

    def leap(_, carry):
        point, v = carry
        v = kick(point, v)
        point = at(density, point.u + step * v)
        return point, kick(point, v)

    v = jax.random.normal(draw, point.u.shape)
    end, last = jax.lax.fori_loop(0, leapfrogs, leap, (point, v))
    ratio = energy(end, last) - energy(point, v)
    ratio = jnp.where(jnp.isnan(ratio), -jnp.inf, ratio)
    taken = jnp.log(jax.random.uniform(test, ratio.shape)) < ratio
    kept = jax.tree.map(lambda new, old: jnp.where(_like(taken, new), new, old), end, point)
    return kept, jnp.minimum(jnp.exp(ratio), 1.0).mean()


def settle(
    key: Key,
    density: BoundLogDensity,
    point: Point,
    step: ArrayLike,
    transitions: int,
    leapfrogs: int,
) -> tuple[Point, Array, Float[Array, "t n d"]]:
    """Let chains run at the target, the step adapting: where they end, the step, and all draws."""

    def move(carry, key):
        point, step = carry
        point, accepted = transition(key, density, point, jnp.array(1.0), step, leapfrogs)
        return (point, step * jnp.exp(0.3 * (accepted - 0.7))), point.u

    start = (point, jnp.asarray(step))
    (point, step), draws = jax.lax.scan(move, start, jax.random.split(key, transitions))
    return point, step, draws


def at(density: BoundLogDensity, u: Float[Array, "n d"]) -> Point:
    """The chains at ``u``."""
    return Point(u, *jax.vmap(jax.value_and_grad(density))(u))


def _like(flags: Array, values: Array) -> Array:
    return flags.reshape(flags.shape + (1,) * (values.ndim - 1))
