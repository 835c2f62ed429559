"""Section 5.1 of the paper: a mixture of two Gaussians, two students, three chain lengths.

Then what holds the perceptron, and our own rows: students that do better, and students that learn the
weights of the modes. Rows are written as they are made; those that were not asked for stay as they are.
"""

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Scalar

from experiments.mixture.figure import EDGES, mixture_figure
from experiments.mixture.rows import DISTANCES, LENGTHS, PAPER_STUDENTS, Row, all_rows, chain_name
from experiments.options import check_settings, option
from experiments.rows import provenance, write_rows
from experiments.settings import fill_preset, listed
from understudy import files
from understudy.core import Condition, Key, Student
from understudy.evaluation import kernel_stein_discrepancy, mode_report, wasserstein_1
from understudy.report import describe_run, write_picture, write_report
from understudy.targets import two_gaussians
from understudy.training import Trained, train
from understudy.training.recording import Chunk

TARGET = two_gaussians()
CENTRES = jnp.array([[-3.0], [3.0]])
PRESETS = {"quick": {"updates": 1_000, "repeats": 3}, "paper": {"updates": 10_000, "repeats": 10}}
SHOWN = ("name", "both_modes", "repeats", "ksd", "w1", "weight_error", "mode_variance")
NAMES = tuple(row.name for row in all_rows(1))
LOOKS = 20


@dataclass(frozen=True)
class Settings:
    """Settings of the mixture experiment."""

    preset: Literal["quick", "paper"] = option(
        "quick", "quick: 1,000 updates, 3 repeats; paper: 10,000, 10"
    )
    rows: str = option("", "rows to make, with semicolons between", shown="all")
    updates: int | None = option(None, "updates of every row", least=1)
    repeats: int | None = option(None, "trainings of every row, side by side", least=1)
    draws: int = option(1000, "draws for the KSD; W1, weights and variances take 20,000", least=100)
    seed: int = option(0, "seed of everything random", least=0, most=2**31 - 2)

    def __post_init__(self):
        check_settings(self)
        fill_preset(self, PRESETS)
        listed(self.rows, NAMES, "A row", ";")

    @property
    def chosen(self) -> list[Row]:
        """The rows to make."""
        named = listed(self.rows, NAMES, "A row", ";") or NAMES
        return [row for row in all_rows(self.updates or 1) if row.name in named]

    @property
    def decisive(self) -> dict[str, Any]:
        """What a row depends on: everything but which rows are wanted."""
        return {name: value for name, value in asdict(self).items() if name != "rows"}


def run(settings: Settings, out: str | Path, progress: bool | None = None) -> dict[str, Any]:
    """Train the rows asked for, write ``mixture.jsonl``, the picture and the report; the figures.

    Rows that the folder has of other settings are dropped.
    """
    out, path = Path(out), Path(out, "mixture.jsonl")
    started = time.perf_counter()
    files.keep_rows(path, lambda row: row["settings"] == settings.decisive)
    write_rows(path, [exact_row(settings)])
    for row in settings.chosen:
        made = train_row(row, settings, progress)
        write_rows(path, [made.summary, made.curve])
    rows = in_order(files.read_rows(path))
    write_rows(path, [*rows, *gains(rows, settings)])
    exact, summaries, curves = (_of_kind(rows, kind) for kind in ("exact", "summary", "curve"))
    write_picture(mixture_figure(curves, TARGET, exact[0]["ksd"]), out / "mixture.png")
    write_page(out, settings, exact[0], summaries)
    return {
        "experiment": "mixture",
        "program": _best(s for s in summaries if s["student"] == "VariationalProgram"),
        "learnt_weights": _best(s for s in summaries if s["learnt_weights"]),
        "wild_learnt_weights": _best(s for s in summaries if s["wild"] and s["learnt_weights"]),
        "exact": {name: exact[0][name] for name in ("ksd", "w1")},
        **provenance(settings, settings.seed, time.perf_counter() - started),
    }


def in_order(rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows by kind, and then as the table has them."""
    kinds, names = ("exact", "summary", "curve"), ("exact draws", *NAMES)
    known = [row for row in rows if row["kind"] in kinds and row["name"] in names]
    return sorted(known, key=lambda row: (kinds.index(row["kind"]), names.index(row["name"])))


def _of_kind(rows: Iterable[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    return [row for row in rows if row["kind"] == kind]


def _best(summaries: Iterable[dict[str, Any]]) -> dict[str, Any] | None:
    best = min(summaries, key=lambda row: (-row["both_modes"], row["w1"]), default=None)
    return best and {name: best[name] for name in SHOWN}


def train_row(row: Row, settings: Settings, progress: bool | None = None) -> "TrainedRow":
    """Train one row, all repeats at once, measuring along the way."""
    key = jax.random.key(settings.seed + 1)
    curve = Curve(key, settings)
    result = train(
        TARGET,
        row.student,
        row.teacher,
        row.feedback,
        updates=settings.updates or 1,
        repeats=settings.repeats,
        seed=settings.seed,
        progress=progress,
        callbacks=[curve],
        **row.learning,
    )
    return TrainedRow(row, settings, result, curve, measure(key, result.student, settings))


class Curve:
    """KSD, W1 and the weights of the modes along training, at twenty points."""

    def __init__(self, key: Key, settings: Settings):
        self.key, self.settings = key, settings
        self.every = max((settings.updates or 1) // LOOKS, 1)
        self.steps: list[int] = []
        self.seconds: list[float] = []
        self.looks: list[dict[str, np.ndarray]] = []

    def __call__(self, chunk: Chunk) -> None:
        """Measure when a twentieth of the training has passed."""
        step, last = int(chunk.row["step"]), self.steps[-1] if self.steps else 0
        if step // self.every == last // self.every and step > 1:
            return
        student = chunk.state.student if chunk.state.average is None else chunk.state.average
        found = look(self.key, student, self.settings)
        self.looks.append({name: np.asarray(value) for name, value in found.items()})
        self.steps.append(step)
        self.seconds.append(float(chunk.row["seconds"]))

    def __getitem__(self, name: str) -> Float[np.ndarray, "looks r"]:
        """One figure at every look, for every repeat."""
        return np.asarray([found[name] for found in self.looks])


@eqx.filter_jit
def look(key: Key, students: Student, settings: Settings) -> dict[str, Float[Array, " r"]]:
    """What is watched along training, of every repeat."""

    def one(student, key):
        draw, exact = jax.random.split(key)
        z = student.sample(draw, None, 5 * settings.draws)
        return {
            "ksd": discrepancy(z[: settings.draws]),
            "w1": wasserstein_1(z[:, 0], TARGET.sample(exact, 20_000)[:, 0]),
            "weight_error": jnp.abs((z > 0).mean() - 0.5),
        }

    return eqx.filter_vmap(one)(students, jax.random.split(key, settings.repeats))


def discrepancy(z: Float[Array, "n 1"]) -> Scalar:
    """KSD of draws under the mixture."""
    return kernel_stein_discrepancy(z, jax.vmap(jax.grad(TARGET.log_density))(z))


@eqx.filter_jit
def measure(key: Key, students: Student, settings: Settings) -> dict[str, Array]:
    """Figures of every repeat; KSD on ``draws`` draws, everything else on many more."""

    def one(student, key):
        draw, exact = jax.random.split(key)
        many = student.sample(draw, None, 20_000)
        modes = mode_report(many, CENTRES)
        return {
            "ksd": discrepancy(many[: settings.draws]),
            "w1": wasserstein_1(many[:, 0], TARGET.sample(exact, 100_000)[:, 0]),
            "both_modes": modes.covered.all(),
            "weight_error": jnp.abs(modes.weights[0] - 0.5),
            "mode_variance": modes.variances[:, 0],
        }

    return eqx.filter_vmap(one)(students, jax.random.split(key, settings.repeats))


@dataclass(frozen=True)
class TrainedRow:
    """A trained row with everything measured on it."""

    row: Row
    settings: Settings
    result: Trained
    progress: Curve
    measured: dict[str, Array]

    @property
    def source(self) -> dict[str, Any]:
        """Where the figures come from."""
        return provenance(self.settings.decisive, self.settings.seed, self.result.seconds)

    @property
    def summary(self) -> dict[str, Any]:
        """Medians over repeats; the weight error is a mean, both modes a count."""
        m = {name: np.asarray(value) for name, value in self.measured.items()}
        return {
            "kind": "summary",
            **self.row.labels,
            "repeats": self.settings.repeats,
            "both_modes": int(m["both_modes"].sum()),
            "ksd": float(np.median(m["ksd"])),
            "w1": float(np.median(m["w1"])),
            "weight_error": float(m["weight_error"].mean()),
            "mode_variance": _median(m["mode_variance"]),
            "mode_variances": [_median(mode) for mode in m["mode_variance"].T],
            "compile_seconds": self.result.compile_seconds,
            **self.source,
        }

    @property
    def curve(self) -> dict[str, Any]:
        """KSD, W1 and weights against updates and run time, and a histogram of one repeat's draws."""
        draws = np.asarray(self.result.sample(jax.random.key(self.settings.seed), 20_000)[0])
        quartiles = np.quantile(self.progress["ksd"], [0.25, 0.5, 0.75], axis=1)
        return {
            "kind": "curve",
            **self.row.labels,
            "step": self.progress.steps,
            "training_seconds": np.round(self.progress.seconds, 3),
            **{name: np.round(self.progress[name], 4) for name in ("ksd", "w1", "weight_error")},
            "ksd_quartiles": np.round(quartiles, 4),
            "histogram": np.round(np.histogram(draws, EDGES, density=True)[0], 4),
            **self.source,
        }


def gains(rows: Sequence[Mapping[str, Any]], settings: Settings) -> list[dict[str, Any]]:
    """What the longest of the paper's chains gain over the shortest, for each student and T x eta."""
    curves = {row["name"]: row for row in rows if row["kind"] == "curve"}
    made = []
    for student in PAPER_STUDENTS:
        for distance in DISTANCES:
            pair = [curves.get(chain_name(student, t, distance)) for t in (LENGTHS[0], LENGTHS[-1])]
            if None not in pair:
                made.append(_gain(student, distance, *pair, settings))
    return made


def _gain(student: str, distance: float, short: Any, long: Any, settings: Settings) -> dict[str, Any]:
    """By how much KSD and W1 fall, with standard errors over repeats, which share their starts.

    ``updates`` compares the means over the second half of the updates; ``seconds`` the short chains'
    last look with what the long ones have at the same run time.
    """
    figures: dict[str, float] = {}
    for name in ("ksd", "w1"):
        before, after = np.asarray(short[name]), np.asarray(long[name])
        half = len(before) // 2
        at = min(
            np.searchsorted(long["training_seconds"], short["training_seconds"][-1]), len(after) - 1
        )
        for what, gained in (
            ("updates", before[half:].mean(0) - after[half:].mean(0)),
            ("seconds", before[-1] - after[at]),
        ):
            figures[f"{name}_gain_{what}"] = float(gained.mean())
            figures[f"{name}_gain_{what}_se"] = float(gained.std(ddof=1) / len(gained) ** 0.5)
    return {
        "kind": "gain",
        "name": f"{student}, T eta={distance:g}: T={LENGTHS[-1]} over T={LENGTHS[0]}",
        "student": student,
        "distance": distance,
        **figures,
        **provenance(settings.decisive, settings.seed, 0.0),
    }


def exact_row(settings: Settings) -> dict[str, Any]:
    """What exact draws of the same number measure: nothing can do better but by luck."""
    started = time.perf_counter()
    measured = measure(jax.random.key(settings.seed + 2), Exact(), settings)
    return {
        "kind": "exact",
        "name": "exact draws",
        **{name: float(jnp.median(measured[name])) for name in ("ksd", "w1", "weight_error")},
        **provenance(settings.decisive, settings.seed, time.perf_counter() - started),
    }


class Exact(Student):
    """The target's own sampler in a student's place."""

    dim: int = eqx.field(static=True, default=1)

    def sample(self, key: Key, x: Condition, n: int) -> Float[Array, "n 1"]:
        """Exact draws."""
        return TARGET.sample(key, n)


def _median(values: np.ndarray) -> float | None:
    """Over repeats that have the mode at all."""
    found = values[np.isfinite(values)]
    return float(np.median(found)) if found.size else None


def write_page(
    out: Path, settings: Settings, exact: dict[str, Any], summaries: list[dict[str, Any]]
) -> None:
    """The report: the table of rows, the picture and how to read them."""
    meaning = (
        "both modes in {both_modes} of {repeats}; W1 {w1:.3f}; weight error {weight_error:.3f}; "
        "mode variance {mode_variance}"
    )
    describe_run(
        out,
        title="A mixture of two Gaussians",
        lead="Students trained to stand in for short Markov chains on 1/2 N(-3, 1) + 1/2 N(3, 1), "
        "as in section 5.1 of Li, Turner and Liu (2017), and our own compositions.",
        settings=vars(settings),
        figures=[
            {"name": f"KSD, {s['name']}", "value": s["ksd"], "meaning": meaning.format(**s)}
            for s in summaries
        ],
        pictures=[
            {
                "file": "mixture.png",
                "title": "Fitted densities and KSD",
                "caption": "Left: draws of one repeat over the true density. Right: KSD "
                "against updates and run time, median and quartiles over repeats.",
            }
        ],
        notes=[
            "KSD does not see a missing mode: read it beside W1, the repeats with both modes and "
            "the weight error.",
            f"Exact draws have a KSD of {exact['ksd']:.3f} and a W1 of {exact['w1']:.3f}.",
        ],
    )
    write_report(out)
