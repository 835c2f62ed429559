"""Targets whose answer is known: five in the plane, forty Gaussians in a box, a small Ising model.

One explicit composition, at one setting, for the five plane targets (a wild one beside it), measured
against exact draws; then the modes and weights of the box, and the Ising model by enumeration.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float

from experiments.options import check_settings, option
from experiments.rows import provenance, write_rows
from experiments.settings import fill_preset
from experiments.toys.figure import toys_figure
from understudy.core import Feedback, Key, Student, Target, Teacher
from understudy.evaluation import maximum_mean_discrepancy, mode_report, sliced_wasserstein
from understudy.feedbacks import EnergyDistance, InclusiveKL
from understudy.report import describe_run, write_picture, write_report
from understudy.students import Autoregressive, Gated, GaussianMixture
from understudy.targets import (
    Ising,
    MixtureOfGaussians,
    Moons,
    Ring,
    banana,
    eight_gaussians,
    forty_gaussians,
    funnel,
    two_moons,
)
from understudy.teachers import Compose, IndependenceMetropolis, SingleFlip, TemperedTransition, mala
from understudy.training import Trained, train

PLANE: dict[str, Any] = {
    "banana": banana(),
    "funnel": funnel(),
    "ring": Ring(),
    "eight gaussians": eight_gaussians(),
    "two moons": two_moons(),
}
TARGETS = PLANE | {"forty gaussians": forty_gaussians(), "ising": Ising(3, 3, 0.4)}
PRESETS = {"quick": {"updates": 200, "repeats": 2}, "paper": {"updates": 2_000, "repeats": 3}}
WITHIN = 1.5
FLOORS = 8
MANY = 50_000
REFERENCES = {"w1": 100_000, "mmd": 8_000}


@dataclass(frozen=True)
class Settings:
    """Settings of the toys."""

    preset: Literal["quick", "paper"] = option("quick", "quick: 200 updates, 2 repeats; paper: 2,000, 3")
    updates: int | None = option(None, "updates of every explicit row", least=1, most=10**7)
    repeats: int | None = option(None, "trainings of every row, side by side", least=1, most=1000)
    draws: int = option(2000, "draws of each student compared with exact ones", least=100, most=20_000)
    seed: int = option(0, "seed of everything random", least=0, most=2**31 - 1)

    def __post_init__(self):
        check_settings(self)
        fill_preset(self, PRESETS)


@dataclass(frozen=True)
class Row:
    """One line of the table: a target, the ingredients, and how they are trained."""

    composition: str
    target: str
    student: Callable[[Key], Student]
    teacher: Teacher
    feedback: Feedback
    updates: int
    rate: float
    particles: int

    @property
    def name(self) -> str:
        """What identifies the row."""
        return f"{self.target}, {self.composition}"


def rows(updates: int) -> list[Row]:
    """The explicit and the wild composition on every plane target, the box, the Ising model."""
    local = mala(0.1, steps=4, target_acceptance=0.6)
    anywhere = Compose(local, IndependenceMetropolis(steps=4))
    tempered = Compose(TemperedTransition(target_acceptance=0.4), local)
    hotter = Compose(TemperedTransition(hottest=0.02, target_acceptance=0.4), *anywhere.teachers)
    flips = SingleFlip(steps=5)
    free = Compose(flips, IndependenceMetropolis(steps=4))
    kl, energy = InclusiveKL(), EnergyDistance()
    plane = [
        row
        for name in PLANE
        for row in (
            Row("explicit", name, explicit, anywhere, kl, updates, 0.03, 128),
            Row("wild", name, wild, tempered, energy, updates, 0.005, 128),
        )
    ]
    return [
        *plane,
        Row("box", "forty gaussians", box, hotter, kl, updates, 0.1, 256),
        Row("discrete", "ising", discrete, flips, kl, updates, 0.01, 256),
        Row("discrete, independence", "ising", discrete, free, kl, updates, 0.01, 256),
    ]


def explicit(key: Key) -> Student:
    """64 Gaussians."""
    return GaussianMixture(key, 2, 64, spread=4.0)


def wild(key: Key) -> Student:
    """Sixteen networks of noise and a gate: no density."""
    return Gated(key, 2, branches=16, spread=3.0)


def box(key: Key) -> Student:
    """256 Gaussians, spread over the box."""
    return GaussianMixture(key, 2, 256, spread=25.0)


def discrete(key: Key) -> Student:
    """Nine coins, each of which sees those before it."""
    return Autoregressive(key, 9, hidden=64)


def run(settings: Settings, out: str | Path, progress: bool | None = None) -> dict[str, Any]:
    """Train every row, write ``toys.jsonl``, ``toys.png`` and the report; return the figures.

    Args:
        settings: of the toys.
        out: a folder.
        progress: False prints nothing; None shows a progress bar in a terminal only.
    """
    out, started = Path(out), time.perf_counter()
    summaries, draws, known = [], {}, {}
    for row in rows(settings.updates or 0):
        if row.target != "ising" and row.target not in known:
            known[row.target] = Known(TARGETS[row.target], settings)
        trained = train_row(row, settings, progress)
        summaries.append(summary(row, trained, measure(trained, known.get(row.target)), settings))
        draws[row.name] = _shown(row, trained, settings)
        if progress is not False:
            print(sentence(summaries[-1]), flush=True)
    write_rows(out / "toys.jsonl", summaries)
    write_picture(
        toys_figure(summaries, draws, {n: k.exact for n, k in known.items()}), out / "toys.png"
    )
    _write_page(out, settings, summaries)
    seconds = time.perf_counter() - started
    return {
        "experiment": "toys",
        **figures(summaries),
        **provenance(settings, settings.seed, seconds),
    }


def measure(trained: Trained, known: "Known | None") -> dict[str, Any]:
    """Against exact draws where the target has them, by enumeration where it is discrete."""
    if known is None:
        return _total_variation(trained)
    return known(trained.sample(jax.random.fold_in(known.key, 1), MANY))


def figures(summaries: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """What the table comes to."""
    of = {row["name"]: row for row in summaries}
    box, ising = of["forty gaussians, box"], of["ising, discrete"]
    return {
        "targets_within": sum(of[f"{name}, explicit"]["within"] for name in PLANE),
        "wild_targets_within": sum(of[f"{name}, wild"]["within"] for name in PLANE),
        "forty_modes": box["modes"],
        "forty_weight_tv": box["weight_tv"],
        "ising_tv": ising["total_variation"],
    }


def train_row(row: Row, settings: Settings, progress: bool | None) -> Trained:
    """Train one row, all repeats as one program."""
    schedule = optax.cosine_decay_schedule(row.rate, row.updates, 0.01)
    return train(
        TARGETS[row.target],
        row.student,
        row.teacher,
        row.feedback,
        updates=row.updates,
        repeats=settings.repeats,
        seed=settings.seed,
        progress=progress,
        particles=row.particles,
        average=0.998,
        optimiser=optax.adam(schedule),
    )


class Known:
    """A target's exact draws, and how far as many exact draws as the student makes are from them."""

    def __init__(self, target: Any, settings: Settings):
        self.target, self.settings = target, settings
        key, many, sets = jax.random.split(jax.random.key(settings.seed + 1), 3)
        self.key, sizes = key, max(REFERENCES.values())
        self.exact = eqx.filter_jit(target.sample)(many, sizes - sizes % settings.draws)
        self.shares = shares(target, self.exact)
        floors = jax.vmap(lambda k: target.sample(k, settings.draws))(jax.random.split(sets, FLOORS))
        self.floor = {name: float(v.mean()) for name, v in distances(key, floors, self.exact).items()}

    def __call__(self, many: Float[Array, "r n d"]) -> dict[str, Any]:
        """The distances of every repeat beside the floor, and modes and weights where there are some."""
        apart = distances(self.key, many[:, : self.settings.draws], self.exact)
        measured = {name: float(value.mean()) for name, value in apart.items()}
        measured |= {f"{name}_floor": value for name, value in self.floor.items()}
        measured |= {f"{name}_repeats": np.asarray(v).tolist() for name, v in apart.items()}
        modes = {} if self.shares is None else self._modes(many)
        near = all(measured[name] <= WITHIN * self.floor[name] for name in self.floor)
        whole = modes.get("modes") == modes.get("modes_total")
        return measured | modes | {"within": bool(near and whole)}

    def _modes(self, many: Float[Array, "r n d"]) -> dict[str, Any]:
        exact = jnp.asarray(self.shares)
        found = jnp.stack([jnp.asarray(shares(self.target, z)) for z in many])
        present = (found >= exact / 2).sum(1)
        apart = jnp.abs(found - exact).sum(1) + jnp.abs(found.sum(1) - exact.sum())
        return {
            "modes": int(present.min()),
            "modes_total": exact.size,
            "weight_tv": float(apart.mean() / 2),
            "weight_tv_repeats": np.asarray(apart / 2).tolist(),
        }


@jax.jit
def distances(
    key: Key, sets: Float[Array, "s n d"], exact: Float[Array, "m d"]
) -> dict[str, Float[Array, " s"]]:
    """Sliced W1 and MMD of every set to the exact draws, whose number is a multiple of a set's."""
    few = exact[: REFERENCES["mmd"]]

    def one(z):
        # Repeating every draw changes nothing in W1 and makes it a difference of sorted numbers.
        as_many = jnp.repeat(z, len(exact) // len(z), axis=0)
        return {
            "w1": sliced_wasserstein(key, as_many, exact, directions=16),
            "mmd": maximum_mean_discrepancy(z, few),
        }

    return jax.lax.map(one, sets)


@eqx.filter_jit
def shares(target: Target, z: Float[Array, "n d"]) -> Float[Array, " m"] | None:
    """The share of the draws in each mode (within five standard deviations), None without modes."""
    if isinstance(target, MixtureOfGaussians):
        return mode_report(z, target.means, radius=5 * target.scales.max()).weights
    if isinstance(target, Moons):
        moon = jax.vmap(target.log_parts)(z).argmax(1)
        return jnp.stack([1 - moon.mean(), moon.mean()])
    return None


def summary(row: Row, trained: Trained, measured: dict[str, Any], settings: Settings) -> dict[str, Any]:
    """The row as it is written: means over repeats, the fewest modes of any repeat."""
    columns = ("mmd", "mmd_floor", "w1", "w1_floor", "modes", "modes_total", "weight_tv")
    teacher = row.teacher
    teachers = teacher.teachers if isinstance(teacher, Compose) else (teacher,)
    return {
        "kind": "summary",
        "name": row.name,
        "target": row.target,
        "composition": row.composition,
        "student": type(row.student(jax.random.key(0))).__name__,
        "teacher": " + ".join(_called(teacher) for teacher in teachers),
        "feedback": type(row.feedback).__name__,
        "updates": row.updates,
        "repeats": settings.repeats,
        **dict.fromkeys((*columns, "total_variation", "within")),
        **measured,
        "compile_seconds": trained.compile_seconds,
        **provenance(settings, settings.seed, trained.seconds),
    }


def sentence(row: dict[str, Any]) -> str:
    """One row for people."""
    words = []
    for name in ("w1", "mmd"):
        if row[name] is not None:
            words.append(f"{name} {row[name]:.4f} (exact draws {row[f'{name}_floor']:.4f})")
    if row["modes_total"]:
        words.append(f"modes {row['modes']}/{row['modes_total']}, weights {row['weight_tv']:.3f} off")
    if row["total_variation"] is not None:
        words.append(f"total variation {row['total_variation']:.4f}")
    return f"{row['name']}: {'; '.join(words)} [{row['seconds']:.0f} s]"


def _called(teacher: Teacher) -> str:
    build = getattr(teacher, "build", None)
    return type(teacher).__name__ if build is None else build.__name__


@eqx.filter_jit
def _probabilities(students: Student, states: Float[Array, "s d"]) -> Float[Array, "r s"]:
    return eqx.filter_vmap(lambda student: jnp.exp(jax.vmap(student.log_prob)(states)))(students)


def _total_variation(trained: Trained) -> dict[str, Any]:
    ising = TARGETS["ising"]
    learnt = _probabilities(trained.student, ising.states)
    apart = jnp.abs(learnt - ising.probabilities).sum(1) / 2
    return {"total_variation": float(apart.mean()), "total_variation_repeats": apart.tolist()}


def _shown(row: Row, trained: Trained, settings: Settings) -> np.ndarray:
    if row.target == "ising":
        ising = TARGETS["ising"]
        learnt = _probabilities(trained.student, ising.states)[0]
        return np.stack([ising.probabilities, learnt], -1)
    return np.asarray(trained.sample(jax.random.key(settings.seed), 5_000)[0])


def _write_page(out: Path, settings: Settings, summaries: Sequence[dict[str, Any]]) -> None:
    figure = "toys.png"
    lead = "Students of targets whose answer is known, beside exact draws of the same number."
    values = [
        {
            "name": row["name"],
            "value": row["w1"] if row["total_variation"] is None else row["total_variation"],
            "goal": row["w1_floor"],
            "meaning": sentence(row),
        }
        for row in summaries
    ]
    pictures = [{"file": figure, "title": "Draws of one repeat", "caption": "Above, exact draws."}]
    describe_run(out, "Toys with exact answers", lead, vars(settings), values, pictures)
    write_report(out)
