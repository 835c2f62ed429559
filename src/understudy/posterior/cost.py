"""What a fit cost, what a draw costs, and from how many draws on the fit pays against NUTS."""

import math
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from understudy.core import Key, Target


class NutsCost(NamedTuple):
    """What NUTS costs on a target, without compilation.

    Attributes:
        warmup_seconds: before its first draw that counts.
        effective_per_second: effective draws per second after that, of the slowest coordinate.
        draws: what it drew, flat and unconstrained; None where they were not kept.
    """

    warmup_seconds: float
    effective_per_second: float
    draws: np.ndarray | None = None


class BreakEven(NamedTuple):
    """From how many draws on a fit pays against NUTS; run times without compilation.

    Attributes:
        draws: effective draws at which both have taken the same time; infinite if NUTS stays ahead.
        fit_seconds: run time of the fit.
        draws_per_second: of the fitted student.
        nuts: what NUTS costs.
    """

    draws: float
    fit_seconds: float
    draws_per_second: float
    nuts: NutsCost

    def __str__(self) -> str:
        costs = (
            f"the fit took {self.fit_seconds:.1f} s and draws {self.draws_per_second:,.0f} a second; "
            f"NUTS warms up in {self.nuts.warmup_seconds:.1f} s and makes "
            f"{self.nuts.effective_per_second:,.0f} effective draws a second"
        )
        if math.isinf(self.draws):
            return f"NUTS stays ahead for any number of draws: {costs}."
        if self.draws == 0:
            return f"The fit pays from the first draw on: {costs}."
        return f"The fit pays from {self.draws:,.0f} effective draws on: {costs}."


def break_even(fit_seconds: float, draws_per_second: float, nuts: NutsCost) -> BreakEven:
    """Solve fit + n / rate = warm-up + n / NUTS's rate for n."""
    ahead = fit_seconds - nuts.warmup_seconds
    saved = 1 / nuts.effective_per_second - 1 / draws_per_second
    draws = 0.0 if ahead <= 0 < saved else ahead / saved if saved > 0 else math.inf
    return BreakEven(draws, fit_seconds, draws_per_second, nuts)


def speed(sample: Callable[[Key, int], Any], n: int) -> float:
    """Draws per second, after a first call that compiles."""
    sample(jax.random.key(0), 1)
    started = time.perf_counter()
    sample(jax.random.key(1), n)
    return n / (time.perf_counter() - started)


def measure_nuts(
    key: Key,
    target: Target,
    start: Float[Array, "chains d"] | Float[np.ndarray, "chains d"],
    warmup: int = 500,
    draws: int = 500,
) -> NutsCost:
    """Run NumPyro's NUTS shortly, its chains side by side, and time it without compilation.

    Args:
        key: random key.
        target: what it draws from.
        start: where its chains start, one row each.
        warmup: iterations of adaptation; each is taken to last as long as one after it.
        draws: iterations that are timed.
    """
    from arviz_stats.base import array_stats
    from numpyro.infer import MCMC, NUTS

    kernel = NUTS(potential_fn=lambda z: -target.log_density(z))
    sizes: dict[str, Any] = {"num_warmup": warmup, "num_samples": draws, "num_chains": len(start)}
    chains = MCMC(kernel, **sizes, chain_method="vectorized", progress_bar=False)
    chains.run(key, init_params=jnp.asarray(start))
    chains.post_warmup_state = chains.last_state
    chains.run(key)
    started = time.perf_counter()
    chains.post_warmup_state = chains.last_state
    chains.run(jax.random.fold_in(key, 1))
    z = np.asarray(chains.get_samples(group_by_chain=True))
    seconds = time.perf_counter() - started
    least = min(float(np.asarray(array_stats.ess(z[..., i]))) for i in range(z.shape[-1]))
    rate = max(least, 1.0) / seconds
    return NutsCost(seconds * warmup / draws, rate, z.reshape(-1, z.shape[-1]))
