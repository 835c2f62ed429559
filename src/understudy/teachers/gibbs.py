"""Gibbs sampling: by given conditionals, and site by site for discrete latents."""

from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Scalar

from understudy.checks import count, flag, number, shown, whole
from understudy.core import BoundLogDensity, Draws, Improved, IngredientError, Key, Proposal, numbered
from understudy.teachers.common import FixedTeacher, finite_at

Conditional = Callable[[Key, Float[Array, " d"]], Float[Array, " d"]]


class Gibbs(FixedTeacher):
    """T sweeps that redraw block after block from its distribution given the rest.

    Reference: Geman and Geman, "Stochastic relaxation, Gibbs distributions, and the Bayesian restoration
    of images", 1984.

    Args:
        conditionals: functions of a key and the whole vector z, each returning z with one block redrawn.
        steps: the number of sweeps T.
    """

    space = "any"
    deterministic = False

    conditionals: tuple[Conditional, ...] = eqx.field(static=True)
    steps: Int[Array, "..."]

    def __init__(self, conditionals: Sequence[Conditional], steps: Any = 1):
        listed = isinstance(conditionals, Sequence) and len(conditionals)
        if not listed or not all(callable(conditional) for conditional in conditionals):
            raise IngredientError(
                "Gibbs takes a list of functions (key, z) -> z, each redrawing one block of z; "
                f"{shown(conditionals)} came."
            )
        self.conditionals = tuple(conditionals)
        self.steps = count("steps", steps)

    def improve(self, key: Key, log_density: BoundLogDensity, z: Draws, proposal: Proposal) -> Improved:
        """Sweep T times over the blocks of every chain."""
        del proposal

        def sweep(i, z):
            keys = jax.random.split(numbered(key, i), len(self.conditionals))
            for k, conditional in zip(keys, self.conditionals, strict=True):
                z = jax.vmap(conditional)(jax.random.split(k, z.shape[0]), z)
            return z

        end = jax.lax.fori_loop(0, self.steps, sweep, z)
        return Improved(end, finite_at(log_density, z) & finite_at(log_density, end))


class SingleFlip(FixedTeacher):
    """T sweeps over the sites of a discrete vector, one site at a time, by the log density alone.

    The heat bath draws z_i from p(z_i | the rest) by trying every value; Metropolis proposes one other
    value and accepts or stays, for two evaluations a site however many values there are. Draws are
    float vectors whose entries take the given values.

    Reference: Glauber, "Time-dependent statistics of the Ising model", 1963.

    Args:
        steps: the number of sweeps T; a sweep visits as many sites as there are.
        values: the values of a site, such as (-1, 1); a number k stands for 0, 1, .., k - 1.
        metropolis: Metropolis moves in place of the heat bath.
        random_scan: visit sites at random (reversible) or in order.

    Examples:
        >>> import jax
        >>> from understudy.core import bind
        >>> from understudy.students import Bernoulli
        >>> from understudy.targets import Ising
        >>> from understudy.teachers import SingleFlip
        >>> start, proposal = jax.numpy.ones((5, 9)), bind(Bernoulli(9), None)
        >>> SingleFlip().improve(jax.random.key(0), Ising().log_density, start, proposal).z.shape
        (5, 9)
    """

    space = "discrete"
    deterministic = False

    steps: Int[Array, "..."]
    values: Float[Array, " k"]
    metropolis: bool = eqx.field(static=True)
    random_scan: bool = eqx.field(static=True)

    def __init__(
        self,
        steps: Any = 1,
        values: Any = 2,
        metropolis: bool = False,
        random_scan: bool = False,
    ):
        counted = isinstance(values, int) and not isinstance(values, bool)
        levels = (
            jnp.arange(whole("values, if a number of them,", values, 2, 2**16))
            if counted
            else number("values", values)
        )
        if levels.size < 2:
            raise IngredientError(f"SingleFlip needs two values or more, such as 2; {values} came.")
        self.steps = count("steps", steps)
        self.values = levels.astype(float)
        self.metropolis = flag("metropolis", metropolis)
        self.random_scan = flag("random_scan", random_scan)

    def improve(self, key: Key, log_density: BoundLogDensity, z: Draws, proposal: Proposal) -> Improved:
        """Sweep T times over the sites of every chain."""
        del proposal
        keys = jax.random.split(key, z.shape[0])
        end, acceptance = jax.vmap(lambda k, start: self._chain(k, log_density, start))(keys, z)
        finite = finite_at(log_density, z) & finite_at(log_density, end)
        return Improved(end, finite, acceptance if self.metropolis else None)

    def _chain(
        self, key: Key, log_density: BoundLogDensity, z: Float[Array, " d"]
    ) -> tuple[Float[Array, " d"], Scalar]:
        move = self._metropolis if self.metropolis else self._heat_bath

        def visit(i, carry):
            z, total = carry
            site_key, key_i = jax.random.split(numbered(key, i))
            site = jax.random.randint(site_key, (), 0, z.size) if self.random_scan else i % z.size
            z, probability = move(key_i, log_density, z, site)
            return z, total + probability

        moves = self.steps * z.size
        end, total = jax.lax.fori_loop(0, moves, visit, (z, jnp.zeros(())))
        return end, total / moves

    def _heat_bath(
        self, key: Key, log_density: BoundLogDensity, z: Float[Array, " d"], site: Array
    ) -> tuple[Float[Array, " d"], Scalar]:
        heights = jax.vmap(lambda value: log_density(z.at[site].set(value)))(self.values)
        heights = jnp.where(jnp.isnan(heights), -jnp.inf, heights)
        return z.at[site].set(self.values[jax.random.categorical(key, heights)]), jnp.ones(())

    def _metropolis(
        self, key: Key, log_density: BoundLogDensity, z: Float[Array, " d"], site: Array
    ) -> tuple[Float[Array, " d"], Scalar]:
        value_key, test_key = jax.random.split(key)
        now = jnp.argmin(jnp.abs(self.values - z[site]))
        shift = jax.random.randint(value_key, (), 1, self.values.size)
        candidate = z.at[site].set(self.values[(now + shift) % self.values.size])
        log_ratio = log_density(candidate) - log_density(z)
        probability = jnp.nan_to_num(jnp.exp(jnp.minimum(log_ratio, 0.0)))
        accept = jax.random.uniform(test_key) < probability
        return jnp.where(accept, candidate, z), probability
