"""Models that amortising was not built with, as a newcomer writes them, judged by NUTS and calibration.

Every model is trained for so many updates with nothing else set. Its data sets come from the model's
prior by code of its own, and NumPyro's NUTS (two chains of 1,000 adapting steps and 4,000 draws) on
the model as a modeller writes it, not on our density, is the truth for three of them.
"""

import dataclasses
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from jax.scipy.special import logsumexp
from numpyro.contrib.control_flow import scan
from numpyro.infer import MCMC, NUTS

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.suite.case import flatten
from benchmarks.suite.reference import chains_quality
from experiments.options import check_settings, option, run_with_settings
from experiments.rows import provenance
from understudy import files
from understudy.amortising import Amortised, PriorSimulator, Updates, amortise
from understudy.cli.main import guarded
from understudy.core import IngredientError

ROWS = "strangers.jsonl"
CHAINS, ADAPT, KEEP = 2, 1000, 4000


@dataclasses.dataclass(frozen=True)
class Settings:
    """What is run."""

    only: str | None = option(None, "models with commas between them", shown="all seven")
    updates: int = option(3000, "of training for a model", least=1)
    compared: int = option(3, "data sets with NUTS", least=1)
    seed: int = option(0, "of everything random", least=0)

    def __post_init__(self):
        """Only what can be."""
        check_settings(self)


AGES = np.random.default_rng(0).normal(size=60).astype(np.float32)
CLASSES, PUPILS = 8, 5
GROUP = np.repeat(np.arange(CLASSES), PUPILS)
STEPS, CATCHES, PATIENTS, BIRDS, DAYS = 15, 30, 25, 20, 30
STUDY_ENDS, WING = 4.0, 0.5


def visits(age, y=None):
    """Counts by a covariate; as many rows as came."""
    level = numpyro.sample("level", dist.Normal(1, 0.5))
    slope = numpyro.sample("slope", dist.Normal(0, 0.5))
    with numpyro.plate("patients", len(age)):
        numpyro.sample("y", dist.Poisson(jnp.exp(level + slope * age)), obs=y)


def classes(group, y=None):
    """Pupils in classes, each of which has a level of its own."""
    mean = numpyro.sample("mean", dist.Normal(0, 1))
    between = numpyro.sample("between", dist.HalfNormal(1))
    within = numpyro.sample("within", dist.HalfNormal(1))
    with numpyro.plate("classes", CLASSES):
        effect = numpyro.sample("effect", dist.Normal(mean, between))
    with numpyro.plate("pupils", len(group)):
        numpyro.sample("y", dist.Normal(effect[group], within), obs=y)


def river(steps, y=None):
    """A short series in which every number leans on the one before."""
    level = numpyro.sample("level", dist.Normal(0, 1))
    lean = numpyro.sample("lean", dist.Uniform(-1, 1))
    noise = numpyro.sample("noise", dist.LogNormal(0, 0.5))

    def step(before, now):
        new = numpyro.sample("y", dist.Normal(level + lean * (before - level), noise), obs=now)
        return new, None

    scan(step, level, y, length=steps)


def catches(y=None):
    """Counts with more zeros than a Poisson distribution has."""
    nothing = numpyro.sample("nothing", dist.Beta(2, 2))
    rate = numpyro.sample("rate", dist.Gamma(3, 1))
    with numpyro.plate("hauls", CATCHES):
        numpyro.sample("y", dist.ZeroInflatedPoisson(nothing, rate), obs=y)


SURVIVAL = {"shape": dist.LogNormal(0.0, 0.5), "scale": dist.LogNormal(1.0, 0.5)}


def lives(key, shape, scale):
    """Times until death, or until the study ends."""
    time = jax.random.weibull_min(key, scale, shape, (PATIENTS,))
    return {"time": jnp.minimum(time, STUDY_ENDS), "died": time < STUDY_ENDS}


def life_likelihood(data, shape, scale):
    """The density of deaths, and the chance to outlive the study."""
    law = dist.Weibull(scale, shape)
    outlived = -((data["time"] / scale) ** shape)
    return jnp.where(data["died"], law.log_prob(data["time"]), outlived).sum()


SPECIES = {"share": dist.Beta(2.0, 2.0), "low": dist.Normal(0.0, 1.0), "gap": dist.LogNormal(0.5, 0.5)}


def birds(key, share, low, gap):
    """Wings of birds of two species that nobody told apart."""
    which, noise = jax.random.split(key)
    mean = jnp.where(jax.random.bernoulli(which, share, (BIRDS,)), low, low + gap)
    return mean + WING * jax.random.normal(noise, (BIRDS,))


def bird_likelihood(wings, share, low, gap):
    """Both species summed over."""
    one = jnp.log(share) + dist.Normal(low, WING).log_prob(wings)
    other = jnp.log1p(-share) + dist.Normal(low + gap, WING).log_prob(wings)
    return logsumexp(jnp.stack([one, other]), 0).sum()


RETURNS = {
    "middle": dist.Normal(0.0, 1.0),
    "width": dist.LogNormal(0.0, 0.5),
    "tail": dist.LogNormal(0.7, 0.5),
}


def returns(key, middle, width, tail):
    """Numbers with tails so heavy that some are huge; nobody gives their likelihood."""
    return middle + width * jax.random.t(key, tail, (DAYS,))


def return_likelihood(data, middle, width, tail):
    """What NUTS is given, and nobody else."""
    return dist.StudentT(tail, middle, width).log_prob(data).sum()


def _by_hand(prior: dict[str, Any], log_likelihood: Callable) -> Callable:
    """A prior and a likelihood as a model for NUTS."""

    def model(y=None):
        values = {name: numpyro.sample(name, one) for name, one in prior.items()}
        numpyro.factor("likelihood", log_likelihood(y, **values))

    return model


class Stranger(NamedTuple):
    """A model, how a newcomer amortises it, and what makes its data sets.

    Attributes:
        model: for NUTS, called with the arguments and ``y``.
        train: with the settings of a training.
        data: a key to arguments and data.
    """

    model: Callable
    train: Callable[..., Amortised]
    data: Callable[[Any], tuple[tuple, Any]]


def _drawn(model: Callable, *args: Any) -> Callable[[Any], tuple[tuple, Any]]:
    """Data of a NumPyro model by its own prior predictive."""

    def data(key):
        found = numpyro.handlers.trace(numpyro.handlers.seed(model, key)).get_trace(*args)
        return args, np.asarray(found["y"]["value"])

    return data


def _of_some_rows(key: Any) -> tuple[tuple, Any]:
    first, second, third = jax.random.split(key, 3)
    rows = int(jax.random.randint(first, (), 8, 61))
    ages = AGES[np.asarray(jax.random.permutation(second, 60))[:rows]]
    return _drawn(visits, ages)(third)


def _simulated(prior: dict[str, Any], simulate: Callable) -> Callable[[Any], tuple[tuple, Any]]:
    def data(key):
        keys = jax.random.split(key, 1 + len(prior))
        values = {n: one.sample(k) for k, (n, one) in zip(keys[1:], prior.items(), strict=True)}
        return (), jax.tree.map(np.asarray, simulate(keys[0], **values))

    return data


def _of_simulator(prior: dict[str, Any], simulate: Callable, *likelihood: Callable) -> Callable:
    simulator = PriorSimulator(prior, simulate, *likelihood, exchangeable=True)
    return lambda **more: amortise(simulator, **more)


STRANGERS = {
    "visits": Stranger(
        visits, lambda **more: amortise(visits, AGES, observed="y", sizes=(8, 60), **more), _of_some_rows
    ),
    "classes": Stranger(
        classes, lambda **more: amortise(classes, GROUP, observed="y", **more), _drawn(classes, GROUP)
    ),
    "river": Stranger(
        river, lambda **more: amortise(river, STEPS, observed="y", **more), _drawn(river, STEPS)
    ),
    "catches": Stranger(
        catches, lambda **more: amortise(catches, observed="y", **more), _drawn(catches)
    ),
    "survival": Stranger(
        _by_hand(SURVIVAL, life_likelihood),
        _of_simulator(SURVIVAL, lives, life_likelihood),
        _simulated(SURVIVAL, lives),
    ),
    "species": Stranger(
        _by_hand(SPECIES, bird_likelihood),
        _of_simulator(SPECIES, birds, bird_likelihood),
        _simulated(SPECIES, birds),
    ),
    "returns": Stranger(
        _by_hand(RETURNS, return_likelihood),
        _of_simulator(RETURNS, returns),
        _simulated(RETURNS, returns),
    ),
}


def run(settings: Settings, out: Path, progress: bool | None = None) -> dict[str, Any]:
    """Train on every model and compare; models with a row are kept."""
    del progress
    names = tuple(STRANGERS) if settings.only is None else tuple(settings.only.split(","))
    for name in names:
        if name not in STRANGERS:
            raise IngredientError(f"{name!r} is not a model; they are {', '.join(STRANGERS)}.")
    done = {row["name"] for row in files.read_rows(out / ROWS)}
    for name in names:
        if name not in done:
            row = measure(name, settings)
            print(row, flush=True)
            files.write_rows(out / ROWS, [row])
            jax.clear_caches()
    return {row["name"]: row["worst_mean"] for row in files.read_rows(out / ROWS)}


def measure(name: str, settings: Settings) -> dict[str, Any]:
    """One row: calibration over simulated data sets, and the worst distance from NUTS over some."""
    stranger, started = STRANGERS[name], time.perf_counter()
    budget = Updates(settings.updates)
    inference = stranger.train(budget=budget, seed=settings.seed, progress=False)
    print(inference, flush=True)
    trust = inference.check()
    print(trust, flush=True)
    chains = MCMC(
        NUTS(stranger.model, target_accept_prob=0.95),
        num_warmup=ADAPT,
        num_samples=KEEP,
        num_chains=CHAINS,
        chain_method="vectorized",
        progress_bar=False,
        jit_model_args=False,
    )
    found = []
    for i in range(settings.compared):
        args, data = stranger.data(jax.random.key(1000 + i))
        found.append(_compared(inference, chains, args, data, settings.seed + i))
    fine = [row for row in found if row["nuts_r_hat"] < 1.02]
    trusted = [row for row in fine if row["trusted"]]
    return {
        "kind": "model",
        "name": name,
        "verdicts": trust.verdicts,
        "train_seconds": inference.seconds,
        "simulations": inference.simulations,
        "compared": len(fine),
        "worst_mean": max((row["mean"] for row in fine), default=float("nan")),
        "worst_sd": max((row["sd"] for row in fine), default=float("nan")),
        "trusted": len(trusted),
        "trusted_but_wrong": sum(max(row["mean"], row["sd"]) > 0.2 for row in trusted),
        "data_sets": found,
    } | provenance(settings, settings.seed, time.perf_counter() - started)


def _compared(inference: Amortised, chains: MCMC, args: tuple, data: Any, seed: int) -> dict[str, Any]:
    """How far draws for a data set are from those of NUTS, which has the model alone."""
    several = jax.tree.map(lambda leaf: [leaf], data) if isinstance(data, dict) else [data]
    varying = args if inference.simulator.argument_names else ()
    drawn = inference.sample(seed, several, 8000, *([one] for one in varying))
    one, first, later = _served(inference, data, varying)
    chains.run(jax.random.key(seed), *args, y=data)
    by_chain = {n: np.asarray(v) for n, v in chains.get_samples(group_by_chain=True).items()}
    rows = flatten({n: v.reshape(-1, *v.shape[2:]) for n, v in by_chain.items()}, list(by_chain))
    _, r_hat = chains_quality(rows.reshape(CHAINS, KEEP, -1), CHAINS * KEEP)
    ours = flatten({n: v[0] for n, v in drawn.draws.items()}, list(by_chain))
    single = flatten(one.sample(seed, 8000), list(by_chain))

    def off(z):
        mean = np.abs(z.mean(0) - rows.mean(0)) / rows.std(0)
        return float(mean.max()), float(np.abs(z.std(0) / rows.std(0) - 1).max())

    (mean, sd), (one_mean, one_sd) = off(ours), off(single)
    assert one.trusted == bool(drawn.trusted[0])
    found = {"mean": mean, "sd": sd, "one_mean": one_mean, "one_sd": one_sd, "nuts_r_hat": r_hat}
    found |= {"first_milliseconds": first, "milliseconds": later}
    found |= {"route": str(drawn.route[0]), "pareto_k": float(drawn.pareto_k[0])}
    return found | {"trusted": bool(drawn.trusted[0]), "novel": bool(drawn.novel[0])}


def _served(inference: Amortised, data: Any, varying: tuple) -> tuple[Any, float, float]:
    """A posterior, and what it and a thousand of its draws take: at first, and afterwards."""
    took = []
    for call in range(4):
        begun = time.process_time()
        one = inference(data, *varying)
        one.sample(call, 1000)
        took.append(1000 * (time.process_time() - begun))
    return one, took[0], float(np.median(took[1:]))


def main(words: list[str]) -> None:
    """The command: options are those of ``Settings``."""
    module, out = sys.modules[__name__], Path("runs", "strangers")
    run_with_settings("python benchmarks/sbi_strangers.py", module, words, out)


if __name__ == "__main__":
    sys.exit(guarded(main))
