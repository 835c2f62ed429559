"""Bayesian neural networks on seven data sets: section 5.2 of the paper, its rows tuned, and ours.

A network with 50 ReLU units and a standard Gaussian prior, 20 random splits of every set, all splits of
a set in one program. Rows are written as they are made, predictions beside them; started again, a run
goes on where it stopped, and with another seed it adds further splits.
"""

import dataclasses
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from experiments.bnn import problems as parts
from experiments.bnn.methods import TASKS, Result
from experiments.bnn.predictions import keep_predictions
from experiments.bnn.recipes import Sizes
from experiments.bnn.report import (
    AMORTISED,
    REFINED,
    TAUGHT,
    bnn_figure,
    calibration_error,
    goals,
    summaries,
)
from experiments.options import check_settings, option
from experiments.rows import provenance
from experiments.settings import fill_preset, listed
from understudy import data, files
from understudy.jobs import Job, executor_of, run_jobs
from understudy.report import describe_run, write_picture, write_report

ORDER = ("crabs", "sonar", "ionosphere", "breast", "pima", "australian", "australian-A1", "colon")
LENGTHS = ("splits", "updates", "matching_updates", "chain_updates", "warm", "kept", "folds")
PRESETS = {
    "quick": dict(zip(LENGTHS, (4, 400, 200, 100, 20, 20, 1), strict=True)),
    "paper": dict(zip(LENGTHS, (20, 1200, 800, 2000, 40, 80, 5), strict=True)),
}
METHODS = [name for names in TASKS for name in names]
QUICK = ("crabs",)


@dataclasses.dataclass(frozen=True)
class Settings:
    """Settings of the networks."""

    preset: Literal["quick", "paper"] = option(
        "quick", "quick: one set, 4 splits; paper: all, 20 splits"
    )
    datasets: str = option("", "sets, with commas between", shown="the preset's, where at hand")
    methods: str = option("", "methods, with commas between", shown="all")
    splits: int | None = option(None, "random splits of every set", least=2, most=100)
    updates: int | None = option(None, "most updates of a student", least=1, most=10**6)
    matching_updates: int | None = option(None, "most updates of energy matching", least=1, most=10**6)
    chain_updates: int | None = option(None, "most updates of MALA", least=1, most=10**6)
    warm: int | None = option(None, "transitions of the reference left out", least=1, most=10**6)
    kept: int | None = option(None, "transitions of the reference kept", least=4, most=10**6)
    folds: int | None = option(None, "validation parts in every training part", least=1, most=5)
    seed: int = option(
        0, "seed of everything random; in one folder every seed adds its splits", least=0, most=2**31 - 1
    )

    workers: str | None = option(
        None,
        'processes, "local" or the address of a Dask cluster',
        shown="this process",
        also="cluster",
    )

    def __post_init__(self):
        check_settings(self)
        fill_preset(self, PRESETS)
        listed(self.datasets, ORDER, "A data set")
        listed(self.methods, METHODS, "A method")

    @property
    def chosen(self) -> list[str]:
        """The sets to run: those named, or those of the preset that need no network."""
        if named := listed(self.datasets, ORDER, "A data set"):
            return named
        near = data.local()
        names = QUICK if self.preset == "quick" else ORDER
        return [name for name in names if name.partition("-")[0] in near]

    @property
    def tasks(self) -> list[tuple[str, ...]]:
        """The groups of methods to run."""
        wanted = set(listed(self.methods, METHODS, "A method") or METHODS)
        return [names for names in TASKS if wanted & set(names)]

    @property
    def lengths(self) -> dict[str, Any]:
        """What decides a row: everything but which rows are wanted."""
        return {name: getattr(self, name) for name in (*LENGTHS, "seed")}


def run(settings: Settings, out: str | Path, progress: bool | None = None) -> dict[str, Any]:
    """Run what is missing, append to ``bnn.jsonl``, draw ``bnn.png`` and write the report.

    Rows hold figures; what they predict for every test row is in ``bnn_predictions.npz``.

    Args:
        settings: of the networks.
        out: a folder; rows there with the same settings are not made again, those of other seeds count
            as further splits.
        progress: False prints nothing; None shows a progress bar in a terminal only.
    """
    out, started = Path(out), time.perf_counter()
    path = out / "bnn.jsonl"
    done, first = _resume(path, settings)
    todo = [
        (name, names)
        for names in settings.tasks
        for name in settings.chosen
        if not {(name, method) for method in names} <= done
    ]
    run_jobs(
        [
            Job(f"{name}: {', '.join(names)}", _task, (settings, name, names, first))
            for name, names in todo
        ],
        lambda _, made: _keep(path, settings, made),
        executor_of(settings.workers),
        progress=progress,
    )
    rows = [row for row in files.read_rows(path) if _alike(row["settings"], settings)]
    rows = [row for row in rows if row["dataset"] in settings.chosen]
    write_picture(bnn_figure(rows), out / "bnn.png")
    _write_page(out, settings, rows)
    seconds = time.perf_counter() - started
    return {"experiment": "bnn", **goals(rows), **provenance(settings, settings.seed, seconds)}


class _Made(NamedTuple):
    """What a task gives: its data set, what its methods predict, the truth, and the rows."""

    dataset: str
    means: dict[str, np.ndarray]
    labels: np.ndarray
    rows: list[dict[str, Any]]


def _task(settings: Settings, name: str, names: Sequence[str], first: int) -> _Made:
    """Run a group of methods on all splits of a set, in whichever process."""
    lengths = settings.lengths
    splits = lengths.pop("splits")
    table = parts.outer(parts.load(name), splits, settings.seed)
    started = time.perf_counter()
    results = TASKS[tuple(names)](table, Sizes(**lengths))
    source = provenance(settings.lengths, settings.seed, time.perf_counter() - started)
    labels = np.asarray(table.new_labels)
    means = {method: np.asarray(result.mean) for method, result in results.items()}
    rows = [
        files.plain(row | source)
        for method, result in results.items()
        for row in split_rows(name, method, result, labels, first)
    ]
    return _Made(name, means, labels, rows)


def _keep(path: Path, settings: Settings, made: _Made) -> None:
    """Write down what a task gave."""
    keep_predictions(path.parent, settings.lengths, made.dataset, made.means, made.labels)
    for row in made.rows:
        files.append_row(path, row)


def split_rows(
    name: str, method: str, result: Result, labels: np.ndarray, first: int = 0
) -> list[dict[str, Any]]:
    """A row for every split, numbered from ``first``."""
    made = []
    for split, (mean, truth) in enumerate(zip(result.mean, labels, strict=True)):
        row = {
            "kind": "split",
            "name": f"{name}, {method}, {first + split}",
            "dataset": name,
            "method": method,
            "split": first + split,
            "test_ll": float(parts.log_likelihood(mean, truth)),
            "test_error": float(parts.error(mean, truth)),
            "ece": calibration_error(mean, truth),
            "train_seconds": float(result.seconds[split]),
            "tuned": "(paper)" not in method and method not in ("VI mixture", "HMC"),
            "amortised": method in AMORTISED,
            "refined": method in REFINED,
            "learns_from_teacher": method in TAUGHT,
        }
        made.append(row | {key: np.round(value[split], 4) for key, value in result.extra.items()})
    return made


def _resume(path: Path, settings: Settings) -> tuple[set[tuple[str, str]], int]:
    """Drop what this seed left half done.

    Returns which sets and methods are there for this seed, and the number of its first split.
    """
    alike = [row for row in files.read_rows(path) if _alike(row["settings"], settings)]
    whole = _whole([row for row in alike if row["seed"] == settings.seed], settings.splits)
    files.keep_rows(
        path,
        lambda row: row["settings"] != settings.lengths or (row["dataset"], row["method"]) in whole,
    )
    splits = settings.splits or 0
    blocks = {row["seed"]: row["split"] // splits for row in alike}
    return whole, splits * blocks.get(settings.seed, max(blocks.values(), default=-1) + 1)


def _alike(given: Mapping[str, Any], settings: Settings) -> bool:
    return {**given, "seed": settings.seed} == settings.lengths


def _whole(rows: Sequence[Mapping[str, Any]], splits: int | None) -> set[tuple[str, str]]:
    """The sets and methods whose group of methods has a row for every split."""
    found = Counter((row["dataset"], row["method"]) for row in rows)
    done = {pair for pair, count in found.items() if count == splits}
    return {
        (name, method)
        for name, _ in done
        for names in TASKS
        for method in names
        if {(name, other) for other in names} <= done
    }


def _write_page(out: Path, settings: Settings, rows: Sequence[dict[str, Any]]) -> None:
    lead = "Networks with 50 hidden units: test log-likelihood and error over random splits."
    values = [
        {
            "name": f"{row['dataset']}, {row['method']}",
            "value": row["test_ll"],
            "meaning": f"error {row['test_error']:.3f}, calibration error {row['ece']:.3f}, "
            f"{row['train_seconds']:.2f} s a split",
        }
        for row in summaries(rows)
    ]
    pictures = [{"file": "bnn.png", "title": "Time and accuracy", "caption": "Every set, all methods."}]
    describe_run(out, "Bayesian neural networks", lead, dataclasses.asdict(settings), values, pictures)
    write_report(out)
