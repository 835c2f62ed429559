"""A fit without settings beside NUTS, nutpie, variational guides and Pathfinder, in one run.

All methods are given the same target of the suite, each as its library offers it: NumPyro's NUTS with
four chains of 1,000 adapting steps and 1,000 draws; nutpie's NUTS with the same, by default and with its
low-rank metric; guides at three learning rates of which the best bound is kept; multi-path Pathfinder
with Pareto-smoothed weights. Seconds are processor seconds until draws are at hand, compilation
included, so they do not depend on what else the machine does.

What the project itself does not need: ``pip install -r benchmarks/rivals_requirements.txt``.
"""

import dataclasses
import importlib.util
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from blackjax.vi import multipathfinder
from numpyro import optim
from numpyro.infer import SVI, Trace_ELBO, autoguide
from tqdm import tqdm

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.suite.case import Case, Sites
from benchmarks.suite.models import CASES
from benchmarks.suite.reference import KEEP, Sampler, chains_quality, compare
from experiments.__main__ import publish
from experiments.options import check_settings, option, run_with_settings
from experiments.rows import provenance
from understudy import files
from understudy.cli.main import guarded
from understudy.core import IngredientError
from understudy.fitting import fit
from understudy.surroundings import double_precision, in_double
from understudy.targets.numpyro import NumPyroTarget

ROWS = "rivals.jsonl"
CHAINS = 4
GUIDES = ("AutoNormal", "AutoMultivariateNormal", "AutoIAFNormal", "AutoBNAFNormal")
RATES = (3e-2, 1e-2, 3e-3)
PARTICLES, STEPS = 4, 10_000
PATHS, PATH_DRAWS = 20, 500
QUICK = ("eight_schools_noncentred", "banana_2")
# Of every kind in the suite, small enough that a guide's 30,000 updates take minutes at most.
CHOSEN = (
    *("eight_schools_noncentred", "eight_schools_centred", "kidscore_interaction", "garch11"),
    *("low_dim_gauss_mix", "hmm_drive_0", "banana_2", "student_t2_3", "two_modes_2"),
    *("robust_regression", "ordinal_regression", "weibull_survival", "dirichlet_multinomial"),
    *("linear_10_groups_centred", "poisson_10_groups_noncentred", "correlated_slopes_noncentred"),
)


@dataclasses.dataclass(frozen=True)
class Settings:
    """What is run."""

    preset: Literal["quick", "paper"] = option("quick", "quick: two posteriors; paper: sixteen")
    only: str | None = option(None, "names with commas between them", shown="from the preset")
    methods: str | None = option(None, "names with commas between them", shown="all that are installed")
    draws: int = option(20_000, "draws of every method that can make any number", least=1000)
    budget: float = option(120.0, "seconds that a fit may take", least=1)
    seed: int = option(0, "of everything random", least=0)

    def __post_init__(self):
        """Only what can be."""
        check_settings(self)


class Found(NamedTuple):
    """What a method made of a posterior.

    Attributes:
        sites: named draws.
        seconds: processor seconds until the first draw, compilation included.
        effective_per_second: effective draws a processor second once it is trained or warm.
        gradients: evaluations of the gradient; None where a library does not tell.
        more: whatever else is worth a column.
    """

    sites: Sites
    seconds: float
    effective_per_second: float
    gradients: int | None
    more: dict[str, Any]


def run(settings: Settings, out: Path, progress: bool | None = None) -> dict[str, Any]:
    """Run every method on every posterior; rows that are there already are kept."""
    rows = out / ROWS
    done = {(row["posterior"], row["method"], row["seed"]) for row in files.read_rows(rows)}
    names = _named(settings.only, QUICK if settings.preset == "quick" else CHOSEN, CASES)
    methods = _named(settings.methods, installed(), METHODS)
    pairs = [(name, method) for name in names for method in methods]
    for name, method in tqdm(pairs, disable=progress is False):
        if (name, method, settings.seed) in done or not suits(CASES[name], method):
            continue
        started = time.perf_counter()
        found = METHODS[method](CASES[name], settings)
        row = {"kind": "rival", "name": f"{name} {method}", "posterior": name, "method": method}
        row |= {"dim": CASES[name].dim, **compare(name, found.sites)}
        row |= {"fit_seconds": found.seconds, "gradients": found.gradients, **found.more}
        row |= {"effective_per_second": found.effective_per_second}
        seconds = time.perf_counter() - started
        files.append_row(rows, row | provenance(settings, settings.seed, seconds))
        # A process has a limited number of memory maps, and every compiled kernel takes one.
        jax.clear_caches()
    return summary(files.read_rows(rows))


def _named(given: str | None, usual: tuple[str, ...], known: dict[str, Any]) -> tuple[str, ...]:
    names = usual if given is None else tuple(name.strip() for name in given.split(","))
    for name in names:
        if name not in known:
            raise IngredientError(f"{name!r} is not one of {', '.join(known)}.")
    return names


def installed() -> tuple[str, ...]:
    """The methods whose libraries are here."""
    nutpie = importlib.util.find_spec("nutpie") is not None
    return tuple(name for name in METHODS if nutpie or not name.startswith("nutpie"))


def suits(case: Case, method: str) -> bool:
    """Whether a method can be run: guides are made for models alone."""
    return case.available() and (method not in GUIDES or isinstance(case.make(), NumPyroTarget))


def ours(case: Case, settings: Settings) -> Found:
    """A fit with nothing compiled before, and another with what the first left in the cache."""
    with tempfile.TemporaryDirectory() as folder:
        os.environ["XDG_CACHE_HOME"] = folder
        jax.config.update("jax_compilation_cache_dir", None)
        seconds = []
        for _ in ("cold", "cached"):
            jax.clear_caches()
            begun = time.process_time()
            result = fit(case.make(), budget=settings.budget, seed=settings.seed, verbose=False)
            result.sample(settings.seed, 1, finish=False)
            seconds.append(time.process_time() - begun)
        begun = time.process_time()
        drawn = 262_144
        result.sample(settings.seed + 1, drawn, finish=False)
        rate = drawn / (time.process_time() - begun)
        sites = result.sample(settings.seed, settings.draws)
    more = {"cached_seconds": seconds[1], "trusted": result.trusted}
    return Found(sites, seconds[0], rate, result.gradients, more)


def nuts(case: Case, settings: Settings) -> Found:
    """NumPyro's NUTS."""
    with double_precision():
        sampler = Sampler(case.make())
        chains = [sampler.run(settings.seed * CHAINS + i, 0.8) for i in range(CHAINS)]
        flat = np.stack([chain[0] for chain in chains])
        effective, _ = chains_quality(flat, CHAINS * KEEP)
        sites = sampler.sites(flat.reshape(-1, sampler.dim))
    spent = sum(chain[3] for chain in chains)
    # Half of the steps adapt; the others are the draws.
    rate = float(np.clip(effective.min(), 1, CHAINS * KEEP)) / (spent / 2)
    gradients = sum(chain[1] for chain in chains)
    return Found(sites, sampler.compile_seconds + spent, rate, gradients, {})


def nutpie_nuts(low_rank: bool) -> Callable[[Case, Settings], Found]:
    """NUTS of nutpie on the target's log density, compiled by JAX."""

    def sample(case: Case, settings: Settings) -> Found:
        import nutpie
        from nutpie.compiled_pyfunc import from_pyfunc

        with double_precision():
            target = in_double(case.make())
            begun = time.process_time()
            density = jax.jit(jax.value_and_grad(target.log_density))
            jax.block_until_ready(density(jnp.zeros(target.dim)))
            compiled = time.process_time() - begun

            def log_density(z: np.ndarray, **_: Any) -> tuple[float, np.ndarray]:
                with double_precision():
                    value, slope = density(z)
                return float(value), np.asarray(slope)

            model = from_pyfunc(
                target.dim,
                lambda: log_density,
                lambda *_: lambda z, **__: {"z": np.asarray(z)},
                [np.dtype(np.float64)],
                [(target.dim,)],
                ["z"],
            )
            begun = time.process_time()
            trace = nutpie.sample(
                model, draws=KEEP, tune=KEEP, chains=CHAINS, cores=1, seed=settings.seed,
                progress_bar=False, low_rank_modified_mass_matrix=low_rank,
            )  # fmt: skip
            spent = time.process_time() - begun
            flat = np.asarray(trace.posterior["z"]).reshape(CHAINS, KEEP, target.dim)
            effective, _ = chains_quality(flat, CHAINS * KEEP)
            sites = constrained(target, flat.reshape(-1, target.dim))
        rate = float(np.clip(effective.min(), 1, CHAINS * KEEP)) / (spent / 2)
        return Found(sites, compiled + spent, rate, None, {})

    return sample


def guide(name: str) -> Callable[[Case, Settings], Found]:
    """One of NumPyro's automatic guides."""

    def sample(case: Case, settings: Settings) -> Found:
        target = case.make()
        given: Any = getattr(autoguide, name)(target.model)
        args, kwargs = target.arguments
        _svi(target, given, 1e-3).init(jax.random.key(0), *args, **kwargs)
        begun = time.process_time()
        keys = jax.random.split(jax.random.key(settings.seed), len(RATES))
        train = jax.jit(jax.vmap(lambda key, rate: _train(target, given, key, rate)))
        params, losses = jax.block_until_ready(train(keys, jnp.asarray(RATES)))
        best = int(np.nan_to_num(np.asarray(losses), nan=np.inf).argmin())
        params = jax.tree.map(lambda leaf: leaf[best], params)
        draw = jax.jit(lambda key: given.sample_posterior(key, params, sample_shape=(settings.draws,)))
        latents = jax.block_until_ready(draw(jax.random.key(settings.seed)))
        seconds, begun = time.process_time() - begun, time.process_time()
        jax.block_until_ready(draw(jax.random.key(settings.seed + 1)))
        rate = settings.draws / (time.process_time() - begun)
        named = jax.jit(jax.vmap(lambda v: target.constrain(target.unconstrain(v))))(latents)
        sites = {key: np.asarray(value) for key, value in named.items()}
        more = {"learning_rate": RATES[best], "loss": float(losses[best])}
        return Found(sites, seconds, rate, STEPS * PARTICLES * len(RATES), more)

    return sample


def _svi(target: NumPyroTarget, given: Any, rate: Any) -> SVI:
    schedule = optax.cosine_decay_schedule(1.0, STEPS)
    adam = optax.chain(optax.scale_by_adam(), optax.scale_by_schedule(lambda i: -rate * schedule(i)))
    return SVI(target.model, given, optim.optax_to_numpyro(adam), Trace_ELBO(PARTICLES))


def _train(target: NumPyroTarget, given: Any, key: Any, rate: Any) -> Any:
    svi, (args, kwargs) = _svi(target, given, rate), target.arguments
    state = svi.init(key, *args, **kwargs)
    state = jax.lax.fori_loop(0, STEPS, lambda _, s: svi.stable_update(s, *args, **kwargs)[0], state)
    params, bound = svi.get_params(state), Trace_ELBO(num_particles=8)
    losses = jax.lax.map(
        lambda key: bound.loss(key, params, target.model, given, *args, **kwargs),
        jax.random.split(key, 64),
    )
    # A draw whose density overflows would hide how good the others are.
    return params, jnp.nanmean(jnp.where(jnp.isfinite(losses), losses, jnp.nan))


def pathfinder(case: Case, settings: Settings) -> Found:
    """Multi-path Pathfinder, its draws resampled by Pareto-smoothed weights."""
    target = case.make()

    @jax.jit
    def search(key):
        start = jax.random.uniform(key, (PATHS, target.dim), minval=-2.0, maxval=2.0)
        state, _ = multipathfinder.multi_approximate(
            key, target.log_density, start, PATH_DRAWS, maxiter=100, ftol=1e-8
        )
        weights, k = multipathfinder.psis_weights(state)
        return state.samples.reshape(-1, target.dim), weights, k

    begun = time.process_time()
    z, weights, k = jax.block_until_ready(search(jax.random.key(settings.seed)))
    seconds, begun = time.process_time() - begun, time.process_time()
    jax.block_until_ready(search(jax.random.key(settings.seed + 1)))
    again = time.process_time() - begun
    chance = np.exp(np.nan_to_num(np.asarray(weights, float), nan=-np.inf))
    usable = bool(chance.sum() > 0)
    chance = chance / chance.sum() if usable else np.full(len(chance), 1 / len(chance))
    picked = np.random.default_rng(settings.seed).choice(len(chance), settings.draws, p=chance)
    more = {"pareto_k": float(k), "usable": usable}
    rate = float(1 / (chance**2).sum()) / again
    return Found(constrained(target, np.asarray(z)[picked]), seconds, rate, None, more)


def constrained(target: Any, z: np.ndarray) -> Sites:
    """Flat draws as named sites."""
    if not hasattr(target, "constrain"):
        return {"z": z}
    found = jax.jit(lambda z: jax.lax.map(target.constrain, z, batch_size=500))(jnp.asarray(z))
    return {name: np.asarray(value) for name, value in found.items()}


METHODS: dict[str, Callable[[Case, Settings], Found]] = {
    "understudy": ours,
    "NUTS": nuts,
    "nutpie": nutpie_nuts(low_rank=False),
    "nutpie, low rank": nutpie_nuts(low_rank=True),
    **{name: guide(name) for name in GUIDES},
    "Pathfinder": pathfinder,
}


def summary(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Medians over posteriors: how often right, and costs over those of NUTS on the same one."""
    by = {(row["posterior"], row["method"]): row for row in rows}
    names = sorted({name for name, method in by if method == "understudy"} & _with(by, "NUTS"))
    fastest = {
        name: max(
            row["effective_per_second"]
            for (posterior, method), row in by.items()
            if posterior == name and method.split(",")[0] in ("NUTS", "nutpie")
        )
        for name in names
    }

    def over_nuts(field: str) -> float:
        pairs = [(by[n, "understudy"][field], by[n, "NUTS"]["fit_seconds"]) for n in names]
        return statistics.median(a / b for a, b in pairs) if pairs else float("nan")

    methods = list(dict.fromkeys(row["method"] for row in rows))
    return {
        "posteriors": len(names),
        "right": {m: _right(row for row in rows if row["method"] == m) for m in methods},
        "cold_over_nuts": over_nuts("fit_seconds"),
        "cached_over_nuts": over_nuts("cached_seconds"),
        "draws_a_second_over_fastest": statistics.median(
            by[n, "understudy"]["effective_per_second"] / fastest[n] for n in names
        )
        if names
        else float("nan"),
    }


def _with(by: dict, method: str) -> set[str]:
    return {name for name, one in by if one == method}


def _right(rows: Any) -> str:
    found = [bool(row["right"]) for row in rows]
    return f"{sum(found)} of {len(found)}"


def main(words: list[str]) -> None:
    """The command: options are those of ``Settings``; rows of a full run also go to ``results``."""
    module, out = sys.modules[__name__], Path("runs", "rivals")
    settings, out, _ = run_with_settings("python benchmarks/rivals.py", module, words, out)
    if settings.preset == "paper":
        publish(out, Path("results"), "rivals")


if __name__ == "__main__":
    sys.exit(guarded(main))
