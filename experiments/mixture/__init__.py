"""Section 5.1 of the paper: a mixture of two Gaussians, two students, three chain lengths.

Then our own rows: students that do better, and students that learn the weights of the modes.
"""

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float, Scalar

from experiments.mixture.figure import mixture_figure
from experiments.rows import provenance, write_rows
from experiments.settings import fill_preset
from understudy.cli.settings import check_settings, option
from understudy.core import Condition, Feedback, Key, Student, Teacher
from understudy.evaluation import kernel_stein_discrepancy, mode_report, wasserstein_1
from understudy.feedbacks import EnergyDistance, InclusiveKL, JensenShannon
from understudy.networks import Critic
from understudy.report import describe_run, write_picture, write_report
from understudy.students import Gated, GaussianMixture, Implicit, VariationalProgram
from understudy.targets import two_gaussians
from understudy.teachers import Compose, IndependenceMetropolis, TemperedTransition, mala
from understudy.training import Trained, train
from understudy.training.recording import Chunk

TARGET = two_gaussians()
CENTRES = jnp.array([[-3.0], [3.0]])
CHAINS = {1: 0.1, 5: 0.02, 10: 0.01}
ADAM = partial(optax.adam, b1=0.5)
PRESETS = {"quick": {"updates": 1_000, "repeats": 3}, "paper": {"updates": 10_000, "repeats": 10}}
SHOWN = ("name", "both_modes", "repeats", "ksd", "w1", "weight_error", "mode_variance")


@dataclass(frozen=True)
class Settings:
    """Settings of the mixture experiment."""

    preset: Literal["quick", "paper"] = option(
        "quick", "quick: 1,000 updates, 3 repeats; paper: 10,000, 10"
    )
    updates: int | None = option(None, "updates of every row", least=1)
    repeats: int | None = option(None, "trainings of every row, side by side", least=1)
    draws: int = option(1000, "draws for the KSD; W1, weights and variances take 20,000", least=100)
    seed: int = option(0, "seed of everything random", least=0, most=2**31 - 2)

    def __post_init__(self):
        check_settings(self)
        fill_preset(self, PRESETS)


@dataclass(frozen=True)
class Row:
    """One line of the table: ingredients and how they are trained."""

    name: str
    student: Callable[[Key], Student]
    teacher: Teacher
    feedback: Feedback
    learning: dict[str, Any]
    wild: bool = True
    learnt_weights: bool = False
    paper: bool = False


def program(key: Key) -> Student:
    """The variational program of section 5.1, both sides alive at the start."""
    return VariationalProgram(*(1 + 0.3 * jax.random.normal(key, (2, 2))))


def perceptron(key: Key) -> Student:
    """The small perceptron of section 5.1, [3, 20, 20, 1]."""
    return Implicit(key, 1, noise=3, hidden=(20, 20))


def gated(key: Key) -> Student:
    """Eight branches and a learnt gate."""
    return Gated(key, 1, branches=8)


def explicit(key: Key) -> Student:
    """Two Gaussians with learnt weights."""
    return GaussianMixture(key, 1, 2, spread=3.0)


def paper_rows() -> list[Row]:
    """Both students at each of the paper's three chain lengths and step sizes."""
    critic = JensenShannon(critic=partial(Critic, hidden=(20, 20), activation=jax.nn.relu))
    learning = {"particles": 10, "optimiser": ADAM(1e-3), "critic_optimiser": ADAM(1e-3)}
    return [
        Row(f"{name}, T={steps}", student, mala(size, steps=steps), critic, learning, paper=True)
        for name, student in (("program", program), ("perceptron", perceptron))
        for steps, size in CHAINS.items()
    ]


def our_rows(updates: int) -> list[Row]:
    """What does better, and students that learn the weights of the modes."""
    adam = optax.adam(optax.cosine_decay_schedule(3e-3, updates, 0.05))
    learning = {"particles": 64, "average": 0.999, "optimiser": adam}
    local = mala(0.3, steps=5)
    tempered = Compose(TemperedTransition(), local)
    independent = Compose(local, IndependenceMetropolis())
    critic = {**learning, "optimiser": ADAM(1e-3), "critic_optimiser": ADAM(1e-3)}
    energy, inclusive = EnergyDistance(), InclusiveKL()
    weighted = {"wild": False, "learnt_weights": True}
    return [
        Row("program, longer steps", program, local, JensenShannon(), critic),
        Row("program, energy distance", program, local, energy, learning),
        Row("perceptron, tempered", perceptron, tempered, energy, learning, learnt_weights=True),
        Row("gated, local", gated, local, energy, learning, learnt_weights=True),
        Row("gated, tempered", gated, tempered, energy, learning, learnt_weights=True),
        Row("mixture, local", explicit, local, inclusive, learning, **weighted),
        Row("mixture, independence", explicit, independent, inclusive, learning, **weighted),
    ]


def run(settings: Settings, out: str | Path, progress: bool | None = None) -> dict[str, Any]:
    """Train every row, write ``mixture.jsonl``, the picture and the report; return the figures."""
    out = Path(out)
    started = time.perf_counter()
    trained = [
        train_row(row, settings, progress) for row in [*paper_rows(), *our_rows(settings.updates)]
    ]
    exact = exact_row(settings)
    summaries, curves = [t.summary for t in trained], [t.curve for t in trained]
    write_rows(out / "mixture.jsonl", [exact, *summaries, *curves])
    draws = {t.row.name: np.asarray(t.one_repeat) for t in trained}
    write_picture(mixture_figure(curves, draws, TARGET, exact["ksd"]), out / "mixture.png")
    write_page(out, settings, exact, summaries)
    return {
        "experiment": "mixture",
        "program": _best(s for s in summaries if s["student"] == "VariationalProgram"),
        "learnt_weights": _best(s for s in summaries if s["learnt_weights"]),
        "wild_learnt_weights": _best(s for s in summaries if s["wild"] and s["learnt_weights"]),
        "exact": {name: exact[name] for name in ("ksd", "w1")},
        **provenance(settings, settings.seed, time.perf_counter() - started),
    }


def _best(summaries: Iterable[dict[str, Any]]) -> dict[str, Any]:
    best = min(summaries, key=lambda row: (-row["both_modes"], row["w1"]))
    return {name: best[name] for name in SHOWN}


def train_row(row: Row, settings: Settings, progress: bool | None = None) -> "TrainedRow":
    """Train one row, all repeats at once, measuring along the way."""
    key = jax.random.key(settings.seed + 1)
    curve = Curve(key, settings)
    result = train(
        TARGET,
        row.student,
        row.teacher,
        row.feedback,
        updates=settings.updates,
        repeats=settings.repeats,
        seed=settings.seed,
        progress=progress,
        callbacks=[curve],
        **row.learning,
    )
    return TrainedRow(row, settings, result, curve, measure(key, result.student, settings))


class Curve:
    """KSD along training, at twenty points."""

    def __init__(self, key: Key, settings: Settings):
        self.key, self.settings = key, settings
        self.every = max(settings.updates // 20, 1)
        self.steps, self.seconds, self.ksd = [0], [0.0], []

    def __call__(self, chunk: Chunk) -> None:
        """Measure when a twentieth of the training has passed."""
        step = int(chunk.row["step"])
        if step // self.every == self.steps[-1] // self.every and step > 1:
            return
        student = chunk.state.student if chunk.state.average is None else chunk.state.average
        self.ksd.append(np.asarray(discrepancies(self.key, student, self.settings)))
        self.steps.append(step)
        self.seconds.append(float(chunk.row["seconds"]))


@eqx.filter_jit
def discrepancies(key: Key, students: Student, settings: Settings) -> Float[Array, " r"]:
    """KSD of every repeat."""

    def one(student, key):
        return discrepancy(student.sample(key, None, settings.draws))

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
    def one_repeat(self) -> Float[Array, "n 1"]:
        """Draws of the first repeat."""
        return self.result.sample(jax.random.key(self.settings.seed), 20_000)[0]

    @property
    def labels(self) -> dict[str, Any]:
        """What identifies the row in the table."""
        row, key = self.row, jax.random.key(0)
        return {
            "name": row.name,
            "student": type(row.student(key)).__name__,
            "feedback": type(row.feedback).__name__,
            "wild": row.wild,
            "learnt_weights": row.learnt_weights,
            "from_paper": row.paper,
        }

    @property
    def summary(self) -> dict[str, Any]:
        """Medians over repeats; the weight error is a mean, both modes a count."""
        m = {name: np.asarray(value) for name, value in self.measured.items()}
        return {
            "kind": "summary",
            **self.labels,
            "repeats": self.settings.repeats,
            "both_modes": int(m["both_modes"].sum()),
            "ksd": float(np.median(m["ksd"])),
            "w1": float(np.median(m["w1"])),
            "weight_error": float(m["weight_error"].mean()),
            "mode_variance": _median(m["mode_variance"]),
            "mode_variances": [_median(mode) for mode in m["mode_variance"].T],
            "compile_seconds": self.result.compile_seconds,
            **provenance(self.settings, self.settings.seed, self.result.seconds),
        }

    @property
    def curve(self) -> dict[str, Any]:
        """KSD against updates and run time: quartiles over repeats."""
        quartiles = np.quantile(np.asarray(self.progress.ksd), [0.25, 0.5, 0.75], axis=1)
        return {
            "kind": "curve",
            **self.labels,
            "step": self.progress.steps[1:],
            "training_seconds": self.progress.seconds[1:],
            "ksd_quartiles": np.round(quartiles, 4).tolist(),
            **provenance(self.settings, self.settings.seed, self.result.seconds),
        }


def exact_row(settings: Settings) -> dict[str, Any]:
    """What exact draws of the same number measure: nothing can do better but by luck."""
    started = time.perf_counter()
    measured = measure(jax.random.key(settings.seed + 2), Exact(), settings)
    return {
        "kind": "exact",
        "name": "exact draws",
        **{name: float(jnp.median(measured[name])) for name in ("ksd", "w1", "weight_error")},
        **provenance(settings, settings.seed, time.perf_counter() - started),
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
