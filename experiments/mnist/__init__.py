"""Deep generative models of binarised digits: section 5.3 of the paper, its methods and ours.

Every method trains the same decoder for the same CPU time; what differs is who proposes, who teaches and
what is compared. Likelihoods of test images are estimated by importance sampling and by annealing. Rows
are written as they are made; with --resume a run goes on where it stopped.
"""

import dataclasses
import time
from pathlib import Path
from typing import Any, Literal

import jax
import numpy as np
from matplotlib.figure import Figure
from tqdm import tqdm

from experiments.mnist import live
from experiments.mnist.course import Plan, Trained, stage_folders, train_method, train_proposal
from experiments.mnist.measures import Sizes, measure
from experiments.mnist.methods import METHODS, QUICK
from experiments.options import check_settings, option
from experiments.rows import provenance, write_rows
from experiments.settings import fill_preset, listed
from understudy import data, files
from understudy.core import IngredientError
from understudy.report import describe_run, training_curves, write_picture, write_report

PRESETS = {
    "quick": {
        **{"core_seconds": 15.0, "proposal_seconds": 5.0, "images": 5_000},
        **{"iw_images": 64, "iw_samples": 200, "hais_images": 16, "hais_chains": 8, "hais_rungs": 40},
    },
    "hours": {
        **{"core_seconds": 3_600.0, "proposal_seconds": 360.0, "images": 55_000},
        **{"iw_images": 500, "iw_samples": 5_000},
        **{"hais_images": 128, "hais_chains": 16, "hais_rungs": 200},
    },
    "paper": {
        **{"core_seconds": 72_000.0, "proposal_seconds": 7_200.0, "images": 55_000},
        **{"iw_images": 10_000, "iw_samples": 5_000},
        **{"hais_images": 1_000, "hais_chains": 100, "hais_rungs": 10_000},
    },
}


@dataclasses.dataclass(frozen=True)
class Settings:
    """Settings of the generative models."""

    preset: Literal["quick", "hours", "paper"] = option(
        "quick", "quick: minutes, a check; hours: the same CPU time for all; paper: the full protocol"
    )
    methods: str = option("", "methods, with semicolons between", shown="the preset's")
    core_seconds: float | None = option(None, "CPU time of every training", least=0.1, most=1e7)
    proposal_seconds: float | None = option(
        None, "CPU time of a Gaussian proposal, where the encoder is none", least=0.1, most=1e7
    )
    updates: int | None = option(
        None, "updates of every training instead of CPU time", least=1, most=10**8, shown="none"
    )
    images: int | None = option(None, "training images", least=100, most=55_000)
    iw_images: int | None = option(None, "test images for importance sampling", least=1, most=10_000)
    iw_samples: int | None = option(None, "draws for each", least=1, most=10**6)
    hais_images: int | None = option(None, "test images for annealing", least=2, most=10_000)
    hais_chains: int | None = option(None, "chains for each", least=1, most=10**4)
    hais_rungs: int | None = option(None, "intermediate distributions", least=1, most=10**6)
    batch: int = option(100, "images in a batch", least=2, most=10_000)
    eta: Literal["eta", "root"] = option("eta", "a Langevin step of the paper is eta, or eta^2 / 2")
    train_seeds: int = option(1, "trainings of every method", least=1, most=100)
    seed: int = option(0, "the first training's seed", least=0, most=2**31 - 101)
    resume: bool = option(False, "go on with what is in the folder")

    def __post_init__(self):
        check_settings(self)
        fill_preset(self, PRESETS)
        listed(self.methods, METHODS, "A method", ";")

    @property
    def chosen(self) -> list[str]:
        """The methods to run."""
        named = listed(self.methods, METHODS, "A method", ";")
        return named or list(QUICK if self.preset == "quick" else METHODS)

    @property
    def sizes(self) -> Sizes:
        """How much is spent on measuring."""
        return Sizes(*(getattr(self, field.name) for field in dataclasses.fields(Sizes)))

    def plan(self, seed: int, core_seconds: float) -> Plan:
        """What the trainings of one seed have in common."""
        chunk = 10 if self.preset == "quick" else 50
        return Plan(core_seconds, self.updates, self.batch, self.eta, seed, chunk)


def run(settings: Settings, out: str | Path, progress: bool | None = None) -> dict[str, Any]:
    """Train and measure what is missing; ``mnist.jsonl``, ``mnist_hais.npz`` and grids of digits.

    Args:
        settings: of the experiment.
        out: a folder.
        progress: False prints nothing; None shows a progress bar in a terminal only.
    """
    out, started = Path(out), time.perf_counter()
    rows = _done(out, settings)
    digits = data.load("mnist")
    seeds = range(settings.seed, settings.seed + settings.train_seeds)
    todo = [(n, s) for s in seeds for n in settings.chosen if row_name(n, s) not in rows]
    disable = None if progress is None else not progress
    for name, seed in (bar := tqdm(todo, disable=disable, unit="method", leave=False)):
        bar.set_description(row_name(name, seed))
        _run_one(out, settings, name, seed, digits, bar)
        write_page(out, settings)
    done = [row for row in files.read_rows(out / "mnist.jsonl") if row["method"] in settings.chosen]
    seconds = time.perf_counter() - started
    return {"experiment": "mnist", **goals(done), **provenance(settings, settings.seed, seconds)}


def row_name(method: str, seed: int) -> str:
    """Of a row, and of its array of likelihoods: the first seed has the method's own name."""
    return method if seed == 0 else f"{method}, seed {seed}"


def goals(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Every method's mean annealed log-likelihood over its trainings, and the best."""
    by_method: dict[str, list[float]] = {}
    for row in rows:
        by_method.setdefault(row["method"], []).append(row["hais_ll"])
    means = {name: float(np.mean(values)) for name, values in by_method.items()}
    return {"best": max(means, key=lambda name: means[name]) if means else None, "hais_ll": means}


def _run_one(
    out: Path, settings: Settings, name: str, seed: int, digits: data.Images, bar: tqdm
) -> None:
    method, pixels = METHODS[name], digits.train[: settings.images]
    folder = out / "runs" / str(seed)
    trained = train_method(
        folder, method, pixels, settings.plan(seed, settings.core_seconds or 0.0), bar
    )
    bar.set_postfix_str("measuring")
    started = time.perf_counter()
    proposal = trained.student
    if not method.own_proposal:
        plan = settings.plan(seed, settings.proposal_seconds or 0.0)
        proposal = train_proposal(folder / f"{name} (proposal)", trained, pixels, plan)
    figures, values = measure(trained.model, proposal, digits.test, settings.sizes)  # pyright: ignore
    row = {
        "kind": "method",
        "name": row_name(name, seed),
        "method": name,
        "encoder": method.encoder,
        "amortised": method.amortised,
        "learns_from_teacher": method.learns_from_teacher,
        "refined": False,
        "wild": method.wild,
        "train_seed": seed,
        "core_seconds": trained.core_seconds,
        "wall_seconds": trained.wall_seconds,
        "updates": trained.updates,
        **figures,
    }
    source = provenance(settings, seed, time.perf_counter() - started)
    _keep_values(out / "mnist_hais.npz", row_name(name, seed), values)
    write_picture(digit_grid(trained, seed), out / "digits" / f"{row_name(name, seed)}.png")
    if seen := live.rows_of(stage_folders(folder, method)):
        curves = training_curves(seen, live.CURVES)
        write_picture(curves, out / "curves" / f"{row_name(name, seed)}.png")
    write_rows(out / "mnist.jsonl", [files.plain(row | source)])


def write_page(out: Path, settings: Settings) -> None:
    """One HTML page of the rows so far, with the digits that every decoder makes."""
    rows = files.read_rows(out / "mnist.jsonl")
    values = [
        {
            "name": row["name"],
            "value": row["hais_ll"],
            "meaning": f"annealed, standard error over images {row['hais_se']:.2f}, effective chains "
            f"{row['hais_ess']:.1f}; importance weighted {row['iw_ll']:.2f}, effective draws "
            f"{row['iw_ess']:.1f}; {row['core_seconds']:.0f} core-seconds, {row['updates']} updates",
        }
        for row in rows
    ]
    captions = {"digits": "Generated digits.", "curves": f"{live.DRAWS} draws for each of some images."}
    pictures = [
        {"file": f"{kind}/{row['name']}.png", "title": row["name"], "caption": caption}
        for row in rows
        for kind, caption in captions.items()
        if (out / kind / f"{row['name']}.png").exists()
    ]
    lead = "Log-likelihood of test images in nats under decoders trained for the same CPU time."
    describe_run(
        out, "Generative models of digits", lead, dataclasses.asdict(settings), values, pictures
    )
    write_report(out)


def _keep_values(path: Path, name: str, values: np.ndarray) -> None:
    arrays = dict(np.load(path)) if path.exists() else {}
    arrays[name] = values
    temporary = path.with_name(f".{path.stem}.tmp.npz")
    np.savez(temporary, **arrays)
    temporary.replace(path)


def digit_grid(trained: Trained, seed: int) -> Figure:
    """A hundred generated digits."""
    pictures = np.asarray(trained.model.generate(jax.random.key(seed), 100))
    side = pictures.reshape(10, 10, *pictures.shape[1:]).swapaxes(1, 2).reshape(280, 280)
    figure = Figure(figsize=(4, 4))
    axes = figure.add_axes((0, 0, 1, 1))
    axes.imshow(side, cmap="gray_r", vmin=0, vmax=1)
    axes.set_axis_off()
    return figure


def _done(out: Path, settings: Settings) -> set[str]:
    """Names of the rows that need not be made again."""
    if not (out / "runs").exists():
        return set()
    if not settings.resume:
        raise IngredientError(
            f"{out} holds trainings already; add --resume to go on with them, or choose another --out."
        )
    rows = files.read_rows(out / "mnist.jsonl")
    wanted = _decisive(files.plain(dataclasses.asdict(settings)))
    other = [row["name"] for row in rows if _decisive(row["settings"]) != wanted]
    if other:
        raise IngredientError(
            f"{out} holds rows made with other settings ({other[0]}); use those, or another --out."
        )
    return {row["name"] for row in rows}


def _decisive(settings: dict[str, Any]) -> dict[str, Any]:
    wanting = ("methods", "train_seeds", "seed", "resume", "preset")
    return {name: value for name, value in settings.items() if name not in wanting}
