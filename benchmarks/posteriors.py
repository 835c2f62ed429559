"""A fit without settings on a suite of posteriors of every kind, each compared with its reference.

Every row says whether the posterior was refused, whether the student was trusted, and how far the
student's own draws and those that ``sample`` gives by default are from the reference. About a third of
the suite is held out: nothing was chosen on it.
"""

import dataclasses
import sys
import time
import warnings
from pathlib import Path
from typing import Any, Literal

import jax
import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.suite.case import Case
from benchmarks.suite.models import CASES
from benchmarks.suite.reference import FOLDER, compare, load
from experiments.__main__ import publish
from experiments.options import check_settings, option, run_with_settings
from experiments.rows import provenance
from understudy import files
from understudy.cli.main import guarded
from understudy.core import IngredientError
from understudy.fitting import fit
from understudy.jobs import Job, executor_of, run_jobs

ROWS = "posteriors.jsonl"
# What NumPyro's NUTS with four chains of 1,000 draws took when the reference was made.
NUTS = ("nuts_seconds", "nuts_gradients", "nuts_ess")
MOST = 4_000_000  # numbers that are compared
QUICK = ("banana_2", "eight_schools_centred", "improper_unidentified_sum")


@dataclasses.dataclass(frozen=True)
class Settings:
    """What is run."""

    preset: Literal["quick", "paper"] = option(
        "quick", "quick: three posteriors; paper: the whole suite"
    )
    only: str | None = option(None, "names with commas between them", shown="from the preset")
    part: Literal["all", "open", "held"] = option("all", "the open part, the held-out part, or all")
    largest: int = option(3000, "leave out posteriors of more dimensions", least=1)
    draws: int = option(40_000, "draws that are compared", least=1000)
    budget: float = option(120.0, "seconds that a fit may take", least=1)
    seed: int = option(0, "of everything random", least=0)
    workers: str | None = option(
        None,
        'processes, "local" or the address of a Dask cluster',
        shown="this process",
        also="cluster",
    )

    def __post_init__(self):
        """Only what can be."""
        check_settings(self)


def run(settings: Settings, out: Path, progress: bool | None = None) -> dict[str, Any]:
    """Fit every posterior; rows of this seed that are there already are kept."""
    rows = out / ROWS
    done = {(row["name"], row["seed"]) for row in files.read_rows(rows)}
    left = [case.name for case in chosen(settings) if (case.name, settings.seed) not in done]
    run_jobs(
        [Job(name, measured, (name, settings)) for name in left],
        lambda _, row: files.append_row(rows, row),
        executor_of(settings.workers),
        progress=progress,
    )
    return summary(files.read_rows(rows))


def measured(name: str, settings: Settings) -> dict[str, Any]:
    """The row of one posterior."""
    started = time.perf_counter()
    row = {"kind": "posterior", "name": name} | measure(CASES[name], settings)
    # A process has a limited number of memory maps, and every compiled kernel takes one.
    jax.clear_caches()
    return row | provenance(settings, settings.seed, time.perf_counter() - started)


def chosen(settings: Settings) -> list[Case]:
    """The cases that the settings name and that can be compared."""
    quick = QUICK if settings.preset == "quick" else tuple(CASES)
    names = quick if settings.only is None else tuple(settings.only.split(","))
    unknown = [name for name in names if name not in CASES]
    if unknown:
        raise IngredientError(f"{unknown[0]!r} is not in the suite; it has {', '.join(CASES)}.")
    parts = {"all": (True, False), "open": (False,), "held": (True,)}[settings.part]
    return [
        case
        for case in (CASES[name] for name in names)
        if case.held_out in parts and case.dim <= settings.largest and comparable(case)
    ]


def comparable(case: Case) -> bool:
    """Whether its data and its reference are at hand."""
    return case.available() and (case.improper or (FOLDER / f"{case.name}.npz").exists())


def measure(case: Case, settings: Settings) -> dict[str, Any]:
    """Fit one posterior and compare its draws with the reference."""
    row: dict[str, Any] = {"family": case.kind, "dim": case.dim, "held_out": case.held_out}
    row |= {"improper": case.improper, "refused": None, "trusted": False, "finished": False}
    started, begun = time.perf_counter(), time.process_time()
    try:
        result = fit(case.make(), budget=settings.budget, seed=settings.seed, verbose=False)
    except IngredientError as error:
        return row | {"refused": str(error), "fit_seconds": time.perf_counter() - started}
    row |= {"trusted": result.trusted, "finished": not result.trusted}
    row |= {"fit_seconds": time.perf_counter() - started, "gradients": result.gradients}
    row |= {"processor_seconds": time.process_time() - begun}
    row |= {"stages": {stage.name: stage.seconds + stage.compile_seconds for stage in result.stages}}
    row |= {"verdict": {figure.name: figure.value for figure in result.verdict.figures}}
    if case.improper:
        return row
    drawn = min(settings.draws, MOST // case.dim)
    own = compare(case.name, result.sample(settings.seed, drawn, finish=False))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        given = own if result.trusted else compare(case.name, result.sample(0, drawn))
    nuts = {key: float(value) for key, value in load(case.name).items() if key in NUTS}
    return row | {"own": own, "given": given, **nuts}


def summary(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Shares over the proper posteriors and over the improper ones."""
    proper = [row for row in rows if not row["improper"]]
    fitted = [row for row in proper if row["refused"] is None]
    improper = [row for row in rows if row["improper"]]
    return {
        "proper": len(proper),
        "refused": len(proper) - len(fitted),
        "wrong_and_trusted": sum(row["trusted"] and not row["own"]["right"] for row in fitted),
        "right_and_trusted": sum(row["trusted"] and bool(row["own"]["right"]) for row in fitted),
        "right_by_default": sum(bool(row["given"]["right"]) for row in fitted),
        "improper": len(improper),
        "improper_refused": sum(row["refused"] is not None for row in improper),
        "median_fit_seconds": float(np.median([row["fit_seconds"] for row in proper] or [np.nan])),
    }


def main(words: list[str]) -> None:
    """The command: options are those of ``Settings``; rows of a full run also go to ``results``."""
    module, out = sys.modules[__name__], Path("runs", "posteriors")
    settings, out, _ = run_with_settings("python benchmarks/posteriors.py", module, words, out)
    if settings.preset == "paper":
        publish(out, Path("results"), "posteriors")


if __name__ == "__main__":
    sys.exit(guarded(main))
