"""What a fit without settings is compared with: variational guides, Pathfinder and NUTS.

Each is run as its library offers it, on the same model: guides at several learning rates of which the
best is kept, all seeds and rates in one program; NUTS with its own adaptation.
"""

import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from arviz_stats.base import array_stats
from blackjax.vi import multipathfinder
from jaxtyping import Array, Float
from numpyro import optim
from numpyro.infer import MCMC, NUTS, SVI, Trace_ELBO, autoguide

from benchmarks.posteriordb import Posterior
from understudy.core import Key

GUIDES = ("AutoNormal", "AutoMultivariateNormal", "AutoIAFNormal", "AutoBNAFNormal")
RATES = (3e-2, 1e-2, 3e-3)
PARTICLES = 4


class Draws(NamedTuple):
    """Draws of one method and seed, and what they cost.

    Attributes:
        matrix: a column for every quantity of the reference.
        run_seconds: until the method was ready to draw, without compilation.
        compile_seconds: time spent compiling.
        gradients: gradient evaluations.
        effective_draws_per_second: after training or warm-up.
        note: what was chosen.
    """

    matrix: Float[np.ndarray, "n d"]
    run_seconds: float
    compile_seconds: float
    gradients: int
    effective_draws_per_second: float
    note: dict[str, Any]


def guide_draws(posterior: Posterior, name: str, seeds: int, steps: int, draws: int) -> list[Draws]:
    """One variational guide for every seed, at the learning rate whose bound is best."""
    guide: Any = getattr(autoguide, name)(posterior.model)
    one = _svi(posterior, guide, 1e-3, steps)
    one.init(jax.random.key(0), **posterior.arguments)
    keys = jnp.repeat(jax.random.split(jax.random.key(0), seeds), len(RATES))
    rates = jnp.tile(jnp.asarray(RATES), seeds)
    started = time.perf_counter()
    train = jax.jit(jax.vmap(lambda key, rate: _train(posterior, guide, key, rate, steps)))
    compiled = train.lower(keys, rates).compile()
    compiling, started = time.perf_counter() - started, time.perf_counter()
    params, losses = jax.block_until_ready(compiled(keys, rates))
    ran = (time.perf_counter() - started) / seeds
    losses = np.nan_to_num(np.asarray(losses).reshape(seeds, -1), nan=np.inf)
    draw = jax.jit(lambda key, params: guide.sample_posterior(key, params, sample_shape=(draws,)))
    found = []
    for seed in range(seeds):
        best = int(losses[seed].argmin())
        chosen = jax.tree.map(lambda leaf: leaf[seed * len(RATES) + best], params)  # noqa: B023
        latents, rate = _timed(draw, jax.random.key(seed), chosen, draws)
        matrix = posterior.matrix(_with_deterministic(posterior, latents))
        note = {"learning_rate": RATES[best], "loss": float(losses[seed, best])}
        spent = steps * PARTICLES * len(RATES)
        found.append(Draws(matrix, ran, compiling, spent, rate, note))
    return found


def _svi(posterior: Posterior, guide: Any, rate: Any, steps: int) -> SVI:
    schedule = optax.cosine_decay_schedule(1.0, steps)
    adam = optax.chain(optax.scale_by_adam(), optax.scale_by_schedule(lambda i: -rate * schedule(i)))
    return SVI(posterior.model, guide, optim.optax_to_numpyro(adam), Trace_ELBO(PARTICLES))


def _train(posterior: Posterior, guide: Any, key: Key, rate: Any, steps: int) -> Any:
    svi = _svi(posterior, guide, rate, steps)
    state = svi.init(key, **posterior.arguments)
    state = jax.lax.fori_loop(
        0, steps, lambda _, s: svi.stable_update(s, **posterior.arguments)[0], state
    )
    params = svi.get_params(state)
    bound = Trace_ELBO(num_particles=8)
    losses = jax.lax.map(
        lambda key: bound.loss(key, params, posterior.model, guide, **posterior.arguments),
        jax.random.split(key, 64),
    )
    # A draw whose density overflows would hide how good the others are.
    return params, jnp.nanmean(jnp.where(jnp.isfinite(losses), losses, jnp.nan))


def _timed(draw: Callable, key: Key, params: Any, n: int) -> tuple[dict[str, Array], float]:
    jax.block_until_ready(draw(key, params))
    started = time.perf_counter()
    latents = jax.block_until_ready(draw(jax.random.fold_in(key, 1), params))
    return latents, n / (time.perf_counter() - started)


def _with_deterministic(posterior: Posterior, latents: dict[str, Array]) -> dict[str, Array]:
    target = posterior.target()
    return jax.jit(jax.vmap(lambda v: target.constrain(target.unconstrain(v))))(latents)


def pathfinder_draws(
    posterior: Posterior, seeds: range, draws: int, paths: int = 20, each: int = 500
) -> Iterator[Draws]:
    """Multi-path Pathfinder, its draws resampled by Pareto-smoothed weights."""
    target = posterior.target()

    def run(key):
        start = jax.random.uniform(key, (paths, target.dim), minval=-2.0, maxval=2.0)
        state, _ = multipathfinder.multi_approximate(
            key, target.log_density, start, each, maxiter=100, ftol=1e-8
        )
        weights, k = multipathfinder.psis_weights(state)
        return state.samples.reshape(-1, target.dim), weights, k

    begun = time.perf_counter()
    compiled = jax.jit(run).lower(jax.random.key(0)).compile()
    compiling = time.perf_counter() - begun
    constrain = jax.jit(jax.vmap(target.constrain))
    for seed in seeds:
        begun = time.perf_counter()
        z, weights, k = jax.block_until_ready(compiled(jax.random.key(seed)))
        ran = time.perf_counter() - begun
        chance = np.exp(np.nan_to_num(np.asarray(weights, float), nan=-np.inf))
        usable = chance.sum() > 0
        chance = chance / chance.sum() if usable else np.full(len(chance), 1 / len(chance))
        picked = np.random.default_rng(seed).choice(len(chance), draws, p=chance)
        matrix = posterior.matrix(constrain(z[picked]))
        rate = float(1 / (chance**2).sum()) / ran
        note = {"pareto_k": float(k), "usable": bool(usable)}
        yield Draws(matrix, ran, compiling, paths * 100, rate, note)


def nuts_draws(
    posterior: Posterior, seeds: range, draws: int = 1000, warmup: int = 1000, chains: int = 4
) -> Iterator[Draws]:
    """NumPyro's NUTS with its own adaptation, chains side by side; all seeds share the programs."""
    sizes: dict[str, Any] = {"num_warmup": warmup, "num_samples": draws, "num_chains": chains}
    sampler = MCMC(NUTS(posterior.model), **sizes, chain_method="vectorized", progress_bar=False)
    started = time.perf_counter()
    _nuts(posterior, sampler, -1)
    cold = time.perf_counter() - started
    for seed in seeds:
        sites, warm, ran, spent = _nuts(posterior, sampler, seed)
        matrix = posterior.matrix(sites)
        effective = min(_effective(column.reshape(chains, -1)) for column in matrix.T)
        note = {"draws": draws * chains, "least_effective": effective, "warmup_seconds": warm}
        note["wall_seconds"] = cold
        yield Draws(matrix, warm + ran, cold - warm - ran, spent, effective / ran, note)


def _effective(values: Float[np.ndarray, "chains n"]) -> float:
    found: Any = array_stats.ess(values)
    return float(found)


def _nuts(posterior: Posterior, sampler: MCMC, seed: int) -> tuple[dict[str, Array], float, float, int]:
    key, fields = jax.random.key(seed + 1), ("num_steps",)
    started, given = time.perf_counter(), posterior.arguments
    sampler.post_warmup_state = None
    sampler.warmup(key, **given, extra_fields=fields, collect_warmup=True)
    jax.block_until_ready(sampler.last_state)
    warm, started = time.perf_counter() - started, time.perf_counter()
    spent = int(sampler.get_extra_fields()["num_steps"].sum())
    sampler.run(sampler.post_warmup_state.rng_key, **given, extra_fields=fields)
    sites = jax.block_until_ready(sampler.get_samples())
    ran = time.perf_counter() - started
    return sites, warm, ran, spent + int(sampler.get_extra_fields()["num_steps"].sum())
