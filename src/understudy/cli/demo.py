"""Two things in a minute: a sampler without a density, and a model fitted with nothing to set.

A student learns a two-mode mixture from a Markov chain, weights of the modes included. The target is
1/2 N(-3, 1) + 1/2 N(3, 1). The student is a gate over four small networks of noise: it has no density.
The teacher is a tempered transition, which changes mode, and then a few MALA steps. Then eight schools,
a NumPyro model, is fitted without settings and held beside NUTS.
"""

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import numpy as np
import optax
from jaxtyping import Array, Float

from understudy import files
from understudy.checks import whole
from understudy.cli import runs, schools
from understudy.cli.parsing import Parser, path_word, whole_between
from understudy.core import Key, Proposal, Student, Teacher
from understudy.evaluation import kernel_stein_discrepancy, mode_report, wasserstein_1
from understudy.feedbacks import EnergyDistance
from understudy.progress import Progress, working
from understudy.report import describe_run, student_against_density, write_picture, write_report
from understudy.students import Gated
from understudy.targets import two_gaussians
from understudy.teachers import Compose, TemperedTransition, mala
from understudy.training import Interrupted, Trained, train

_EXAMPLE = "example:\n  understudy demo --seed 1"

TARGET = two_gaussians()
CHAINS, BLOCK, BLOCKS, PIECES = 128, 200, 50, 10


@dataclass(frozen=True)
class Settings:
    """Settings of the demo.

    Attributes:
        seed: of everything random.
        updates: of the student.
        draws: that are timed; a tenth is compared with exact ones.
    """

    seed: int = 0
    updates: int = 5000
    draws: int = 1_000_000

    def __post_init__(self):
        for name, (least, most) in LIMITS.items():
            whole(name, getattr(self, name), least, most)


LIMITS = {"seed": (0, 2**31 - 1), "updates": (1, 10**7), "draws": (10_000, 10**9)}


def command(words: Sequence[str]) -> None:
    """Teach a sampler two modes, fit a model beside NUTS, and look at both: a minute."""
    given = _parser().read(words)
    settings = Settings(given.seed, given.updates, given.draws)
    runs.make_writable(given.out)
    progress = False if given.quiet else None
    with working("understudy demo", progress):
        figures = run(settings, given.out, progress=progress)
    files.last_line(figures)


def _parser() -> Parser:
    parser = Parser("understudy demo", (__doc__ or "").strip(), _EXAMPLE)
    add = parser.add_argument
    helps = {
        "seed": "of everything random",
        "updates": "of the student",
        "draws": "that are timed; a tenth is compared with exact ones",
    }
    for name, limits in LIMITS.items():
        number = {"type": whole_between(*limits), "default": getattr(Settings, name), "metavar": "N"}
        add(f"--{name}", **number, help=f"{helps[name]} (default: %(default)s)")
    place = {"default": Path("runs", "demo"), "help": "where to write (default: %(default)s)"}
    add("--out", type=path_word, metavar="FOLDER", **place)
    add("--quiet", action="store_true", help="print the last line of figures alone")
    return parser


def run(settings: Settings, out: Path, progress: bool | None = None) -> dict[str, Any]:
    """Train, measure and write the run's files into ``out``.

    Args:
        settings: of the demo.
        out: a folder; an earlier demo in it is replaced.
        progress: False prints nothing; None shows a progress bar in a terminal only.

    Returns:
        The figures.
    """
    started = time.perf_counter()
    say = partial(print, flush=True) if progress is not False else lambda *_: None
    fitted = _aside(partial(schools.fit_schools, settings.seed))
    say("Teaching a student 1/2 N(-3, 1) + 1/2 N(3, 1); aside, fitting eight schools with nothing set.")
    trained = _train(settings, out, progress)
    say(f"Trained in {trained.seconds:.1f} s, compiled in {trained.compile_seconds:.1f} s.")
    with Progress(None, progress, "fitting eight schools"):
        result = fitted()
    say("Measuring both; NUTS runs on eight schools for comparison.")
    with Progress(None, progress, "measuring"):
        z, figures = _measure(settings, trained)
        figures |= schools.compare(result, out)
    figures["seconds"] = time.perf_counter() - started
    say(table(figures))
    page = _write(settings, out, trained.student, z, figures)
    say(f"The report is {page}, the student {out / 'student.safetensors'}.")
    return figures


def table(figures: Mapping[str, Any]) -> str:
    """The figures as a small table: the student beside exact draws, then speeds."""
    rows = [("", "student", "exact draws")]
    for name, label in (("ksd", "KSD, 1,000 draws"), ("w1", "W1 to exact draws")):
        rows.append((label, f"{figures[name]:.3f}", f"{figures[f'exact_{name}']:.3f}"))
    for name, label, exact in (("weights", "weights", "0.500"), ("variances", "variances", "1.000")):
        both = "  ".join(f"{value:.3f}" for value in figures[name])
        rows.append((f"{label} of the modes", both, f"{exact}  {exact}"))
    speeds = [
        ("student, independent draws a second", figures["draws_per_second"]),
        ("the teacher, effective draws a second", figures["teacher_effective_per_second"]),
    ]
    lines = [f"{name:<22}{student:>14}{exact:>16}" for name, student, exact in rows]
    lines += ["", *(f"{name:<40}{rate:>12,.0f}" for name, rate in speeds)]
    return "\n".join([*lines, "", _schools_line(figures)])


def _schools_line(figures: Mapping[str, Any]) -> str:
    word = "trusted" if figures["schools_trusted"] else "not trusted"
    gap, fitted, drawn = (figures[f"schools_{n}"] for n in ("gap", "fit_seconds", "million_seconds"))
    return (
        f"eight schools, no settings: {word}, means within {gap:.2f} sd of NUTS; fitted in "
        f"{fitted:.0f} s, a million draws in {drawn:.1f} s"
    )


def student(key: Key) -> Gated:
    """Four small networks and a learnt gate."""
    # Smooth units: a kink of a rectifier is a false spike in the density.
    return Gated(key, 1, branches=4, hidden=(20, 20), activation=jax.nn.silu, spread=2.0)


def teacher() -> Compose:
    """One excursion between the modes, then five local steps."""
    return Compose(TemperedTransition(), mala(0.3, steps=5))


def _aside(work: Callable[[], Any]) -> Callable[[], Any]:
    """Begin some work in a thread; what is returned waits for it. Ctrl-C does not."""
    done: Future = Future()

    def settle() -> None:
        try:
            done.set_result(work())
        except BaseException as error:
            done.set_exception(error)

    threading.Thread(target=settle, daemon=True).start()
    return done.result


def _train(settings: Settings, out: Path, progress: bool | None) -> Trained:
    metrics = out / "metrics.jsonl"
    metrics.unlink(missing_ok=True)
    schedule = optax.cosine_decay_schedule(5e-3, settings.updates, 0.02)
    try:
        return train(
            TARGET,
            eqx.filter_jit(student)(jax.random.key(settings.seed)),
            teacher(),
            EnergyDistance(),
            updates=settings.updates,
            seed=settings.seed,
            particles=128,
            average=0.998,
            optimiser=optax.adam(schedule),
            progress=progress,
            callbacks=[lambda chunk: files.append_row(metrics, chunk.row)],
        )
    except Interrupted:
        raise KeyboardInterrupt("Interrupted; the demo is short, so start it again.") from None


def _measure(settings: Settings, trained: Trained) -> tuple[Float[Array, "n 1"], dict[str, Any]]:
    keys = jax.random.split(jax.random.key(settings.seed + 1), 4)
    drawn, seconds = timed_draws(keys[0], trained.student, settings.draws)
    z, limit = drawn[0], max(seconds, 0.5)
    exact, other = jax.jit(jax.vmap(lambda key: TARGET.sample(key, z.shape[0])))(keys[1:3])
    modes = mode_report(z, TARGET.means)
    figures = {name: float(value) for name, value in _distances(z, exact).items()}
    figures |= {f"exact_{name}": float(value) for name, value in _distances(other, exact).items()}
    figures |= {"weights": modes.weights.tolist(), "variances": modes.variances[:, 0].tolist()}
    figures |= {
        "draws_per_second": drawn.size / seconds,
        "teacher_effective_per_second": effective_per_second(keys[3], teacher(), limit),
    }
    times = {"training_seconds": trained.seconds, "compile_seconds": trained.compile_seconds}
    return z, figures | times


@eqx.filter_jit
def _distances(z: Float[Array, "n 1"], exact: Float[Array, "n 1"]) -> dict[str, Array]:
    few = z[:1000]
    score = jax.vmap(jax.grad(TARGET.log_density))(few)
    return {"ksd": kernel_stein_discrepancy(few, score), "w1": wasserstein_1(z[:, 0], exact[:, 0])}


def timed_draws(key: Key, student: Student, n: int) -> tuple[Float[Array, "p m 1"], float]:
    """Draws of a student in ten pieces, and the seconds they took, without compilation."""
    draw = eqx.filter_jit(
        lambda student, keys: jax.lax.map(lambda key: student.sample(key, None, n // PIECES), keys)
    )
    jax.block_until_ready(draw(student, jax.random.split(jax.random.fold_in(key, 1), PIECES)))
    keys = jax.random.split(key, PIECES)
    started = time.perf_counter()
    drawn = jax.block_until_ready(draw(student, keys))
    return drawn, time.perf_counter() - started


def effective_per_second(key: Key, teacher: Teacher, limit: float) -> float:
    """Effective draws a second of many chains side by side, compiled and started at exact draws.

    Args:
        key: random key.
        teacher: one call of it is one transition.
        limit: the chains run for about this many seconds, and for at most 10,000 transitions.
    """
    from arviz_stats.base import array_stats

    proposal = Proposal(TARGET.sample, None)

    def transition(z, key):
        z = teacher.improve(key, TARGET.log_density, z, proposal).z
        return z, z[:, 0]

    block = eqx.filter_jit(lambda key, z: jax.lax.scan(transition, z, jax.random.split(key, BLOCK)))
    z = TARGET.sample(key, CHAINS)
    jax.block_until_ready(block(key, z))
    path, started = [], time.perf_counter()
    while not path or (time.perf_counter() - started < limit and len(path) < BLOCKS):
        z, visited = jax.block_until_ready(block(jax.random.fold_in(key, len(path)), z))
        path.append(visited)
    seconds = time.perf_counter() - started
    chains = np.concatenate(path).T
    effective = array_stats.ess(chains, chain_axis=0, draw_axis=1, method="mean")
    return np.asarray(effective).item() / seconds


def _write(settings: Settings, out: Path, student: Student, z: Array, figures: dict[str, Any]) -> Path:
    files.save(out / "student.safetensors", student)
    write_picture(student_against_density(z, TARGET), out / "density.png")
    made = files.provenance(settings, settings.seed, figures["seconds"])
    files.write_rows(out / "rows.jsonl", [{"kind": "demo", "name": "two gaussians", **figures, **made}])
    described = asdict(settings) | {name: made[name] for name in ("versions", "machine")}
    lead = (
        "A sampler without a density learnt two modes and their weights from a Markov chain; and eight "
        "schools, a NumPyro model, was fitted with nothing set."
    )
    title = "The student against the exact density"
    pictures = [
        {"file": "density.png", "title": title, "caption": _CAPTION},
        {"file": "schools.png", "title": "Eight schools beside NUTS", "caption": _SCHOOLS_CAPTION},
    ]
    describe_run(out, "understudy demo", lead, described, _described(figures), pictures, _NOTES)
    return write_report(out)


def _described(figures: Mapping[str, Any]) -> list[dict[str, Any]]:
    goals = {"ksd": figures["exact_ksd"], "w1": figures["exact_w1"], "weights": [0.5, 0.5]}
    goals["variances"] = [1.0, 1.0]
    return [
        {"name": name, "value": figures[key], "goal": goals.get(key), "meaning": meaning}
        for key, (name, meaning) in _MEANINGS.items()
    ]


_CAPTION = (
    "Bars are the student's draws, the line is the target. Where the two agree in both bumps, the "
    "student has the modes, their widths and their weights."
)
_SCHOOLS_CAPTION = (
    "Bars are a million draws of the fitted student, the line is NUTS. tau is the spread of schools, "
    "theta[0] and theta[2] are the effects of the first and the third."
)
_MEANINGS = {
    "ksd": ("KSD", "kernel Stein discrepancy of 1,000 draws; the goal is that of as many exact draws"),
    "w1": ("W1", "1-Wasserstein distance to exact draws; the goal is that between two exact sets"),
    "weights": ("weights", "share of the draws in each mode"),
    "variances": ("variances", "variance within each mode"),
    "draws_per_second": ("student's draws a second", "independent draws, compiled"),
    "teacher_effective_per_second": (
        "the teacher's effective draws a second",
        f"effective sample size of {CHAINS} compiled chains a second",
    ),
    "schools_trusted": ("eight schools: trusted", "whether the fit trusts its student's own draws"),
    "schools_gap": ("eight schools: gap", "largest distance of a mean to NUTS, in deviations"),
    "schools_fit_seconds": ("eight schools: seconds", "of the fit, compiling included"),
    "schools_million_seconds": ("eight schools: a million draws", "seconds, compiled"),
    "schools_nuts_effective_per_second": (
        "eight schools: NUTS",
        "its effective draws a second, after compiling and warming up",
    ),
    "training_seconds": ("seconds of training", "run time of the updates"),
    "compile_seconds": ("seconds of compiling", "before the first update"),
}
_NOTES = [
    "KSD cannot see a missing mode or wrong weights; read it together with W1 and the weights.",
    "A student's draws are independent but as good as its training; a chain's are exact in the limit.",
]
