"""A fit without settings beside variational guides, Pathfinder and NUTS, on eight posteriors.

Draws are compared with 10,000 reference draws of posteriordb: marginal Wasserstein distances in the
reference's standard deviations, errors of means, standard deviations and correlations, and how well a
classifier tells them apart.
"""

import dataclasses
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
from scipy.stats import wasserstein_distance
from tqdm import tqdm

from benchmarks.posteriordb import POSTERIORS, Posterior, load_posterior
from benchmarks.rivals import (
    GUIDES,
    Draws,
    guide_draws,
    nuts_draws,
    pathfinder_draws,
)
from experiments.__main__ import publish
from experiments.rows import provenance
from understudy import files
from understudy.cli.main import guarded
from understudy.cli.settings import check_settings, option, run_with_settings
from understudy.evaluation import classifier_two_sample
from understudy.fitting import fit

ROWS = "guides.jsonl"


@dataclasses.dataclass(frozen=True)
class Settings:
    """What is run."""

    preset: Literal["quick", "paper"] = option("quick", "quick: two posteriors, one seed; paper: all")
    posteriors: str | None = option(None, "names with commas between them", shown="from the preset")
    methods: str | None = option(None, "names with commas between them", shown="all")
    seeds: int | None = option(None, "seeds of every method", least=1)
    steps: int | None = option(None, "updates of a guide at each learning rate", least=1)
    draws: int = option(100_000, "draws of every method that can make any number", least=1000)
    budget: float = option(120.0, "seconds that a fit may take", least=1)
    seed: int = option(0, "first seed", least=0)

    def __post_init__(self):
        """Fill in what the preset says."""
        check_settings(self)
        quick = self.preset == "quick"
        few = ("eight_schools_noncentered", "gp_regr")
        for name, value in {
            "posteriors": ",".join(few if quick else POSTERIORS),
            "methods": ",".join(METHODS if not quick else ("understudy", "AutoNormal", "NUTS")),
            "seeds": 1 if quick else 5,
            "steps": 2000 if quick else 10_000,
        }.items():
            if getattr(self, name) is None:
                object.__setattr__(self, name, value)


def run(settings: Settings, out: Path, progress: bool | None = None) -> dict[str, Any]:
    """Run every method on every posterior; rows that are there already are kept."""
    rows = out / ROWS
    done = {(row["posterior"], row["method"]) for row in files.read_rows(rows)}
    work = [(p, m) for p in _names(settings.posteriors, POSTERIORS) for m in _chosen(settings)]
    shown = progress is not False
    # A cache of its own, so that the first fit of a posterior compiles everything.
    os.environ["XDG_CACHE_HOME"] = tempfile.mkdtemp()
    for name, method in tqdm([pair for pair in work if pair not in done], disable=not shown):
        posterior, started = load_posterior(name), time.perf_counter()
        for seed, draws in enumerate(METHODS[method](posterior, settings)):
            seconds = time.perf_counter() - started
            row = {"kind": "posterior", "name": f"{name} {method} {seed}"}
            row |= {"posterior": name, "method": method}
            row |= compare(posterior, draws.matrix) | _costs(draws)
            files.append_row(rows, row | provenance(settings, settings.seed + seed, seconds))
        # Every kernel of a compiled program takes a memory map, of which a process has a limited number.
        jax.clear_caches()
    return summary(files.read_rows(rows))


def compare(posterior: Posterior, draws: np.ndarray) -> dict[str, Any]:
    """How far draws are from the reference, in its standard deviations."""
    reference, draws = posterior.reference, np.asarray(draws, float)
    usable = np.isfinite(draws).all(1)
    draws = draws[usable] if usable.any() else np.full((2, reference.shape[1]), 1e6)
    sd = reference.std(0)
    w1 = [wasserstein_distance(a, b) / s for a, b, s in zip(draws.T, reference.T, sd, strict=True)]
    ratio = draws.std(0) / sd
    apart = (
        np.abs(np.corrcoef(draws.T) - np.corrcoef(reference.T)) if draws.shape[1] > 1 else np.zeros(1)
    )
    return {
        "worst_w1": float(max(w1)),
        "mean_w1": float(np.mean(w1)),
        "worst_mean_error": float(np.max(np.abs(draws.mean(0) - reference.mean(0)) / sd)),
        "sd_ratio_min": float(ratio.min()),
        "sd_ratio_max": float(ratio.max()),
        "worst_correlation_error": float(np.nan_to_num(apart, nan=1.0).max()),
        "c2st": _told_apart(draws, reference),
        "not_finite": int((~usable).sum()),
        "mean_errors": ((draws.mean(0) - reference.mean(0)) / sd).tolist(),
    }


def _told_apart(draws: np.ndarray, reference: np.ndarray, n: int = 4000) -> float:
    few = draws[np.random.default_rng(0).choice(len(draws), n, replace=len(draws) < n)]
    scale = reference.std(0)
    a, b = (jnp.asarray((v - reference.mean(0)) / scale, jnp.float32) for v in (few, reference[:n]))
    return float(classifier_two_sample(jax.random.key(0), a, b, folds=3, steps=300))


def _understudy(posterior: Posterior, settings: Settings) -> Iterator[Draws]:
    for seed in _seeds(settings):
        yield _fitted(posterior, seed, settings, "warm" if seed > settings.seed else "cold")


def _fitted(posterior: Posterior, seed: int, settings: Settings, cache: str) -> Draws:
    started = time.perf_counter()
    fitted: Any = fit(posterior.target(), budget=settings.budget, seed=seed, verbose=False)
    fitted.sample(jax.random.key(seed), 1)
    wall = time.perf_counter() - started
    sites = fitted.sample(jax.random.key(seed), settings.draws)
    note = {
        "wall_seconds": wall,
        "cache": cache,
        "acceptance": max(stage.acceptance for stage in fitted.stages),
        "kept": next(stage.name for stage in fitted.stages if stage.kept),
    }
    return Draws(
        posterior.matrix(sites), fitted.seconds, fitted.compile_seconds, fitted.gradients,
        fitted.draws_per_second(), note,
    )  # fmt: skip


def _guide(name: str) -> Callable[[Posterior, Settings], Iterable[Draws]]:
    return lambda p, s: guide_draws(p, name, s.seeds or 1, s.steps or 1, s.draws)


def _seeds(settings: Settings) -> range:
    return range(settings.seed, settings.seed + (settings.seeds or 1))


METHODS: dict[str, Callable[[Posterior, Settings], Iterable[Draws]]] = {
    "understudy": _understudy,
    **{name: _guide(name) for name in GUIDES},
    "Pathfinder": lambda p, s: pathfinder_draws(p, _seeds(s), s.draws),
    "NUTS": lambda p, s: nuts_draws(p, _seeds(s)),
    "NUTS long": lambda p, s: nuts_draws(p, _seeds(s)[:1], 5000),
}


def _chosen(settings: Settings) -> list[str]:
    return _names(settings.methods, METHODS)


def _names(given: str | None, known: Iterable[str]) -> list[str]:
    from understudy.core import IngredientError

    names = [name.strip() for name in (given or "").split(",") if name.strip()]
    for name in names:
        if name not in known:
            raise IngredientError(f"{name!r} is not one of {', '.join(known)}.")
    return names


def _costs(draws: Draws) -> dict[str, Any]:
    fields = draws._asdict()
    return {**{k: v for k, v in fields.items() if k not in ("matrix", "note")}, **draws.note}


def summary(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """The figures that the documents quote, medians over seeds."""
    ours = [row for row in rows if row["method"] == "understudy"]
    names = sorted({row["posterior"] for row in ours})
    median = lambda name, method, key: statistics.median(  # noqa: E731
        row[key] for row in rows if (row["posterior"], row["method"]) == (name, method)
    )
    return {
        "posteriors": len(names),
        "worst_w1": {name: median(name, "understudy", "worst_w1") for name in names},
        "worst_mean_error": {name: median(name, "understudy", "worst_mean_error") for name in names},
    }


def main(words: list[str]) -> None:
    """The command: options are those of ``Settings``; rows of a full run also go to ``results``."""
    module, out = sys.modules[__name__], Path("runs", "guides")
    settings, out, _ = run_with_settings("python benchmarks/guides.py", module, words, out)
    if settings.preset == "paper":
        publish(out, Path("results"), "guides")


if __name__ == "__main__":
    sys.exit(guarded(main))
