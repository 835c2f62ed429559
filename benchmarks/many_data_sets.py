"""One student for a thousand data sets beside NUTS for each: how near, how often trusted, how fast.

Three models: a hierarchical regression of 10 to 1,000 rows, an autoregressive series and a psychometric
curve. Data sets come from the prior predictive, a fifth of them with a shifted prior. All are drawn for
in one call of ``inference.sample``; NUTS (four chains of 500 adapting steps and 1,000 draws, compiled
once for all data sets) is the truth on some of them. Seconds are processor seconds, and those of NUTS
are without its compilation.
"""

import dataclasses
import functools
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from numpyro.infer import NUTS
from tqdm import tqdm

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.suite.case import flatten
from benchmarks.suite.reference import chains_quality
from experiments.__main__ import publish
from experiments.options import check_settings, option, run_with_settings
from experiments.rows import provenance
from understudy import files
from understudy.amortising import Amortised, Samples, Updates, amortise
from understudy.amortising.learning import Simulated, simulate
from understudy.amortising.models import simulator_of
from understudy.amortising.observations import DataSet
from understudy.cli.main import guarded
from understudy.core import IngredientError, Target

ROWS = "many_data_sets.jsonl"
CHAINS, ADAPT, KEEP = 4, 500, 1000
GROUPS, LONGEST, TIMES, LEVELS, TRIALS = 5, 1000, 100, 9, 20
# How far a mean may be off in standard deviations, and a standard deviation as a share of itself.
NEAR, WRONG = 0.1, 0.2
INSIDE = 0.9
# Data sets that are served one by one, and whose rows are put into another order.
_SERVED = 20
# NUTS is compiled for so many rows; a data set is padded to the next of them.
_PADDED = (32, 100, 320, LONGEST)


@dataclasses.dataclass(frozen=True)
class Settings:
    """What is run."""

    preset: Literal["quick", "paper"] = option("quick", "quick: seconds; paper: an hour")
    only: str | None = option(None, "models with commas between them", shown="all three")
    minutes: float | None = option(None, "of training for a model", least=0.01)
    updates: int | None = option(None, "of training, in place of minutes", least=1)
    data_sets: int | None = option(None, "to draw for, a fifth of them shifted", least=10)
    compared: int | None = option(None, "of them with NUTS, a fifth of them shifted", least=2)
    seed: int = option(0, "of everything random", least=0)

    def __post_init__(self):
        """Only what can be, and the preset's figures where none are given."""
        check_settings(self)
        quick = self.preset == "quick"
        preset = {"minutes": 0.1 if quick else 10.0, "data_sets": 10 if quick else 1000}
        for name, value in (preset | {"compared": 2 if quick else 60}).items():
            if getattr(self, name) is None:
                object.__setattr__(self, name, value)


class Autoregressive(dist.Distribution):
    """A stationary series in which every number leans on the two before it, by partial correlations.

    Reference: Barndorff-Nielsen and Schou, "On the Parametrization of Autoregressive Models by Partial
    Autocorrelations", 1973.
    """

    support = dist.constraints.real_vector
    pytree_data_fields = ("level", "first", "second", "noise")

    def __init__(self, level: Any, first: Any, second: Any, noise: Any):
        self.level, self.first, self.second, self.noise = level, first, second, noise
        super().__init__(event_shape=(TIMES,))

    def _innovations(self) -> Any:
        """Standard deviations of the first two numbers given those before, and of all later ones."""
        later = self.noise / jnp.sqrt(1 - self.second**2)
        start = jnp.stack([later / jnp.sqrt(1 - self.first**2), later])
        return jnp.concatenate([start, jnp.full(TIMES - 2, self.noise)])

    def _leans(self) -> tuple[Any, Any]:
        return self.first * (1 - self.second), self.second

    def sample(self, key: Any, sample_shape: tuple[int, ...] = ()) -> Any:
        """Draw a series."""
        noise = self._innovations() * jax.random.normal(key, (*sample_shape, TIMES))
        one, two = self._leans()

        def step(before, new):
            now = one * before[0] + two * before[1] + new
            return (now, before[0]), now

        # The second number leans on the first alone, by the first partial correlation.
        start = noise[..., 0]
        second = self.first * start + noise[..., 1]
        _, rest = jax.lax.scan(step, (second, start), jnp.moveaxis(noise[..., 2:], -1, 0))
        series = jnp.concatenate([jnp.stack([start, second]), rest])
        return self.level + jnp.moveaxis(series, 0, -1)

    def log_prob(self, value: Any, intermediates: Any = None) -> Any:
        """Log density of a series."""
        del intermediates
        away = value - self.level
        one, two = self._leans()
        means = one * away[..., 1:-1] + two * away[..., :-2]
        means = jnp.concatenate([jnp.zeros_like(away[..., :1]), self.first * away[..., :1], means], -1)
        return dist.Normal(means, self._innovations()).log_prob(away).sum(-1)


def hierarchical(x, group, y=None, shift=0.0):
    """A regression with a level for each group; as many rows as there are."""
    centre = numpyro.sample("centre", dist.Normal(shift, 1))
    slope = numpyro.sample("slope", dist.Normal(shift, 1))
    spread = numpyro.sample("spread", dist.LogNormal(-0.5, 0.5))
    noise = numpyro.sample("noise", dist.LogNormal(-0.5, 0.5))
    with numpyro.plate("groups", GROUPS):
        level = numpyro.sample("level", dist.Normal(centre, spread))
    with numpyro.plate("rows", len(x)):
        numpyro.sample("y", dist.Normal(level[group] + slope * x, noise), obs=y)


def series(y=None, shift=0.0):
    """An autoregressive series."""
    level = numpyro.sample("level", dist.Normal(2 * shift, 2))
    first = numpyro.sample("first", dist.Uniform(-1, 1))
    second = numpyro.sample("second", dist.Uniform(-1, 1))
    noise = numpyro.sample("noise", dist.LogNormal(shift, 1))
    numpyro.sample("y", Autoregressive(level, first, second, noise), obs=y)


def psychometric(strength, y=None, shift=0.0):
    """How often a stimulus is detected, by its strength; some answers are guesses, some lapses."""
    threshold = numpyro.sample("threshold", dist.Normal(shift, 1))
    slope = numpyro.sample("slope", dist.LogNormal(0.5 + 0.5 * shift, 0.5))
    lapse = numpyro.sample("lapse", dist.Beta(1, 10))
    detected = jax.nn.sigmoid(slope * (strength - threshold))
    with numpyro.plate("levels", len(strength)):
        numpyro.sample("y", dist.Binomial(TRIALS, 0.5 + (0.5 - lapse) * detected), obs=y)


class Workflow(NamedTuple):
    """A model, what it is called with, the sizes of its data sets and how far its prior is shifted."""

    model: Callable
    arguments: tuple
    sizes: tuple[int, int] | None
    shift: float


_chance = np.random.default_rng(0)
WORKFLOWS = {
    "hierarchical": Workflow(
        hierarchical,
        (_chance.normal(size=LONGEST).astype(np.float32), _chance.integers(GROUPS, size=LONGEST)),
        (10, LONGEST),
        2.0,
    ),
    "series": Workflow(series, (), None, 1.5),
    "psychometric": Workflow(psychometric, (np.linspace(-3, 3, LEVELS, dtype=np.float32),), None, 1.5),
}


def run(settings: Settings, out: Path, progress: bool | None = None) -> dict[str, Any]:
    """Amortise every model, draw for its data sets and compare; models with a row are kept."""
    names = tuple(WORKFLOWS) if settings.only is None else tuple(settings.only.split(","))
    for name in names:
        if name not in WORKFLOWS:
            raise IngredientError(f"{name!r} is not a model; they are {', '.join(WORKFLOWS)}.")
    done = {row["model"] for row in files.read_rows(out / ROWS) if row["kind"] == "model"}
    for name in names:
        if name in done:
            continue
        for row in measure(name, settings, out, progress):
            # Rows of a run that was cut off are replaced.
            called = name if row["kind"] == "model" else f"{name} {row['data_set']}"
            files.write_rows(out / ROWS, [{**row, "model": name, "name": called}])
        jax.clear_caches()
    return summary(files.read_rows(out / ROWS))


def measure(
    name: str, settings: Settings, out: Path, progress: bool | None = None
) -> Iterator[dict[str, Any]]:
    """A row for every data set that was compared with NUTS, and one for the model."""
    started = time.perf_counter()
    inference, figures = _trained(WORKFLOWS[name], settings)
    (out / "kept").mkdir(parents=True, exist_ok=True)
    inference.save(out / "kept" / f"{name}.safetensors")
    usual, shifted, lessons = _data_sets(WORKFLOWS[name], inference, settings)
    samples, more = _timed_draws(inference, _joined(usual, shifted), settings)
    figures |= more | {"coverage": _coverage(samples.z[: len(usual.z)], usual.z)}
    figures |= _one_by_one(inference, usual) | {"permuted": _permuted(inference, usual)}
    rows = []
    for row in _compared(inference, usual, shifted, settings, progress):
        rows.append(row)
        yield row | provenance(settings, settings.seed, time.perf_counter() - started)
    each = float(np.mean([row["nuts_seconds"] for row in rows]))
    figures |= {"nuts_seconds": each, **_agreement(rows)}
    figures["over_nuts"] = figures["sample_seconds"] / (each * figures["data_sets"])
    # So many data sets take NUTS as long as training takes, and drawing for them.
    saved = each * (1 - figures["over_nuts"])
    figures["break_even"] = figures["train_seconds"] / saved if saved > 0 else float("inf")
    after = _taught(inference, shifted, lessons, settings)
    figures |= _served(samples, after, len(usual.z))
    yield {"kind": "model", **figures} | provenance(
        settings, settings.seed, time.perf_counter() - started
    )


def _trained(work: Workflow, settings: Settings) -> tuple[Amortised, dict[str, Any]]:
    begun = time.process_time()
    inference = amortise(
        work.model,
        *work.arguments,
        observed="y",
        sizes=work.sizes,
        budget=_length(settings, 1.0),
        seed=settings.seed,
        progress=False,
    )
    print(inference, flush=True)
    spent = time.process_time() - begun
    return inference, {
        "dim": inference.student.dim,
        "train_seconds": spent,
        "simulations": inference.simulations,
    }


def _length(settings: Settings, share: float) -> float | Updates:
    """A share of the budget of training."""
    if settings.updates is not None:
        return Updates(max(1, round(share * settings.updates)))
    assert settings.minutes is not None
    return 60 * share * settings.minutes


def _data_sets(
    work: Workflow, inference: Amortised, settings: Settings
) -> tuple[Simulated, Simulated, Simulated]:
    """Usual data sets, shifted ones to draw for, and as many shifted ones to be taught at."""
    few = settings.data_sets // 5
    first, second = jax.random.split(jax.random.key(settings.seed + 1))
    usual = simulate(first, inference.simulator, settings.data_sets - few)
    model = functools.partial(work.model, shift=work.shift)
    simulator = simulator_of(model, work.arguments, {}, "y", sizes=work.sizes)
    other = simulate(second, simulator, 2 * few)
    return usual, _rows(other, slice(0, few)), _rows(other, slice(few, None))


def _timed_draws(
    inference: Amortised, every: Simulated, settings: Settings
) -> tuple[Samples, dict[str, Any]]:
    """A thousand draws for every data set: what the first call takes, and one after it."""
    seconds = []
    for call in range(2):
        begun = time.process_time()
        samples = _drawn(inference, every, 1000, settings.seed + call)
        seconds.append(time.process_time() - begun)
    print(samples, flush=True)
    return samples, {
        "data_sets": len(every.z),
        "first_sample_seconds": seconds[0],
        "sample_seconds": seconds[1],
    }


def _one_by_one(inference: Amortised, usual: Simulated) -> dict[str, float]:
    """Milliseconds of a posterior and a thousand of its draws, its verdict included."""
    data, *arguments = _given(_rows(usual, slice(0, _SERVED)).data)
    took = []
    for i in range(len(data)):
        begun = time.process_time()
        inference(data[i], *(one[i] for one in arguments)).sample(i, 1000)
        took.append(1000 * (time.process_time() - begun))
    # Every route compiles when it is first taken.
    return {"first_milliseconds": took[0], "milliseconds": float(np.median(took[1:]))}


def _permuted(inference: Amortised, usual: Simulated) -> float:
    """How far draws move, in their deviations, where the rows of data sets come in another order."""
    layout = inference.simulator.layout
    if layout.placed or not layout.exchangeable:
        return float("nan")
    data, *arguments = _given(_rows(usual, slice(0, _SERVED)).data)
    orders = [np.random.default_rng(i).permutation(len(one)) for i, one in enumerate(data)]
    mixed = [[one[order] for one, order in zip(c, orders, strict=True)] for c in (data, *arguments)]
    drawn = [inference.sample(0, y, 1000, *more).z for y, *more in ((data, *arguments), mixed)]
    return float((np.abs(drawn[0] - drawn[1]) / drawn[0].std(1, keepdims=True)).max())


def _taught(inference: Amortised, shifted: Simulated, lessons: Simulated, settings: Settings) -> Samples:
    data, *arguments = _given(lessons.data)
    taught = inference.teach(data, *arguments, budget=_length(settings, 0.25), seed=settings.seed)
    print(taught.stages[-1].note, flush=True)
    return _drawn(taught, shifted, 1000, settings.seed + 2)


def _served(samples: Samples, after: Samples, usual: int) -> dict[str, Any]:
    """Shares of the data sets that needed no chains, and of those that can be trusted."""
    without = samples.route != "chains"
    return {
        "without_chains": float(without[:usual].mean()),
        "trusted": float(samples.trusted[:usual].mean()),
        "share": float(np.median(samples.share[:usual])),
        "shifted_without_chains": float(without[usual:].mean()),
        "shifted_without_chains_taught": float((after.route != "chains").mean()),
        "shifted_share": float(np.median(samples.share[usual:])),
        "shifted_share_taught": float(np.median(after.share)),
    }


def _rows(pairs: Simulated, rows: Any) -> Simulated:
    return Simulated(pairs.z[rows], jax.tree.map(lambda leaf: leaf[rows], pairs.data), pairs.lost)


def _joined(one: Simulated, other: Simulated) -> Simulated:
    both = jax.tree.map(lambda *leaves: np.concatenate(leaves), one.data, other.data)
    return Simulated(np.concatenate([one.z, other.z]), both, one.lost)


def _given(data: DataSet) -> tuple[Any, ...]:
    """Data sets as a user has them: lists of arrays with the rows that are there, then arguments."""
    seen = data.seen["y"]
    if seen.ndim < 2 or seen.all():
        return (data.values["y"],)
    columns = [data.values["y"], *data.arguments]
    return tuple([column[i][there] for i, there in enumerate(seen)] for column in columns)


def _drawn(inference: Amortised, pairs: Simulated, n: int, seed: int) -> Samples:
    data, *arguments = _given(pairs.data)
    return inference.sample(seed, data, n, *arguments)


def _compared(
    inference: Amortised,
    usual: Simulated,
    shifted: Simulated,
    settings: Settings,
    progress: bool | None,
) -> Iterator[dict[str, Any]]:
    """Means and deviations of our draws beside those of NUTS, one data set after another."""
    few = max(1, settings.compared // 5)
    picked = _joined(_rows(usual, slice(0, settings.compared - few)), _rows(shifted, slice(0, few)))
    samples = _drawn(inference, picked, 2 * CHAINS * KEEP, settings.seed + 3)
    nuts = Nuts(inference.simulator.target)
    for i in tqdm(range(len(picked.z)), disable=progress is False):
        x = _rows(picked, i).data
        found = nuts(jax.random.key(settings.seed + 4 + i), x)
        names = list(found.sites)
        ours = flatten({name: value[i] for name, value in samples.draws.items()}, names)
        theirs = flatten(found.sites, names)
        yield {
            "kind": "data set",
            "data_set": i,
            "rows": int(np.sum(x.seen["y"])) if np.ndim(x.seen["y"]) else TIMES,
            "shifted": i >= settings.compared - few,
            "mean_error": float((np.abs(ours.mean(0) - theirs.mean(0)) / theirs.std(0)).max()),
            "sd_low": float((ours.std(0) / theirs.std(0)).min()),
            "sd_high": float((ours.std(0) / theirs.std(0)).max()),
            "route": str(samples.route[i]),
            "pareto_k": float(samples.pareto_k[i]),
            "share": float(samples.share[i]),
            "trusted": bool(samples.trusted[i]),
            "novel": bool(samples.novel[i]),
            "nuts_seconds": found.seconds,
            "nuts_effective": found.effective,
            "nuts_r_hat": found.r_hat,
        }


class Found(NamedTuple):
    """What NUTS made of a data set: named draws, processor seconds, effective draws and R-hat."""

    sites: dict[str, np.ndarray]
    seconds: float
    effective: float
    r_hat: float


class Nuts:
    """NumPyro's NUTS on the posterior of any data set, compiled once for every padded size."""

    def __init__(self, target: Target):
        self.target = target
        self.chain = jax.jit(self._chain)
        self.sites = jax.jit(jax.vmap(target.constrain, (0, None)))
        self.compiled: set[tuple] = set()

    def _chain(self, key: Any, x: DataSet) -> Any:
        kernel = NUTS(potential_fn=lambda z: -self.target.log_density(z, x))
        first, second = jax.random.split(key)
        start = jax.random.uniform(first, (self.target.dim,), minval=-2.0, maxval=2.0)
        state = kernel.init(second, ADAPT, start, (), {})

        def step(state, _):
            state = kernel.sample(state, (), {})
            return state, state.z

        return jax.lax.scan(step, state, None, length=ADAPT + KEEP)[1][ADAPT:]

    def __call__(self, key: Any, x: DataSet) -> Found:
        """Run four chains, one after another."""
        x = jax.tree.map(jnp.asarray, _cut(x))
        shapes = tuple(leaf.shape for leaf in jax.tree.leaves(x))
        if shapes not in self.compiled:
            jax.block_until_ready(self.chain(key, x))
            self.compiled.add(shapes)
        begun = time.process_time()
        z = np.stack([np.asarray(self.chain(one, x)) for one in jax.random.split(key, CHAINS)])
        seconds = time.process_time() - begun
        effective, r_hat = chains_quality(z, CHAINS * KEEP)
        sites = self.sites(z.reshape(-1, z.shape[-1]), x)
        named = {name: np.asarray(value) for name, value in sites.items()}
        return Found(named, seconds, float(effective.min()), r_hat)


def _cut(x: DataSet) -> DataSet:
    """A data set with no more padding than up to the next size that NUTS is compiled for."""
    seen = x.seen["y"]
    if np.ndim(seen) == 0 or len(seen) <= _PADDED[0]:
        return x
    size = next(size for size in _PADDED if seen.sum() <= size)
    return jax.tree.map(lambda leaf: leaf[:size], x)


def _coverage(z: np.ndarray, truth: np.ndarray) -> float:
    """How often true parameters lie inside the central nine tenths of the draws."""
    low, high = np.quantile(z, [(1 - INSIDE) / 2, (1 + INSIDE) / 2], axis=1)
    return float(((low < truth) & (truth < high)).mean())


def _agreement(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """How near to NUTS, over the data sets on which NUTS itself converged."""
    fine = [row for row in rows if row["nuts_r_hat"] < 1.02]
    usual = [row for row in fine if not row["shifted"]]
    trusted = [row for row in fine if row["trusted"]]
    return {
        "compared": len(fine),
        "near": float(np.mean([_off(row) <= NEAR for row in usual])) if usual else float("nan"),
        "mean_error": _median([row["mean_error"] for row in usual]),
        "worst_mean_error": max((row["mean_error"] for row in usual), default=float("nan")),
        "worst_sd": max((_sd_off(row) for row in usual), default=float("nan")),
        "trusted_compared": len(trusted),
        "trusted_but_wrong": sum(_off(row) > WRONG for row in trusted),
    }


def _off(row: dict[str, Any]) -> float:
    return max(row["mean_error"], _sd_off(row))


def _sd_off(row: dict[str, Any]) -> float:
    return max(1 - row["sd_low"], row["sd_high"] - 1)


def _median(values: list[float]) -> float:
    return float(np.median(values)) if values else float("nan")


def summary(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """The figures of every model."""
    kept = (
        *("without_chains", "shifted_without_chains", "shifted_without_chains_taught", "coverage"),
        *("near", "worst_mean_error", "worst_sd", "trusted_but_wrong", "trusted_compared", "over_nuts"),
        "break_even",
    )
    models = [row for row in rows if row["kind"] == "model"]
    return {row["model"]: {name: row[name] for name in kept} for row in models}


def main(words: list[str]) -> None:
    """The command: options are those of ``Settings``; rows of a full run also go to ``results``."""
    module, out = sys.modules[__name__], Path("runs", "many_data_sets")
    settings, out, _ = run_with_settings("python benchmarks/many_data_sets.py", module, words, out)
    if settings.preset == "paper":
        publish(out, Path("results"), "many_data_sets")


if __name__ == "__main__":
    sys.exit(guarded(main))
