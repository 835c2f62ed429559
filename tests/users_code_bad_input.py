"""Bad input that is code of users: functions that fail, stop or give something else.

Also paths and disks that nothing can be written to; :mod:`tests.bad_input_cases` runs these too.
"""

import contextlib
import os
import random
import resource
import signal
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from numpyro.distributions import constraints

import understudy
from understudy import LogDensity, Stream, data
from understudy.feedbacks import EnergyDistance, InclusiveKL, JensenShannon, Viewed
from understudy.fitting import fit
from understudy.jobs import Job, run_jobs
from understudy.posterior import Posterior
from understudy.posterior.writing import write_draws
from understudy.report import write_report
from understudy.students import Bernoulli, DiagonalGaussian, FullGaussian, gaussian_encoder
from understudy.teachers import Gibbs, Kernel, Langevin, Preconditioned, Scheduled, hmc, mala, nuts

KEY = jax.random.key(0)
NORMAL = LogDensity(lambda z: -(z @ z) / 2, 2)
GIVEN = LogDensity(lambda z, x: -((z - x) @ (z - x)) / 2, 2, conditional=True)
ROWS = np.zeros((3, 2))


class UnsayableError(Exception):
    """Of which not even the message can be had."""

    def __str__(self) -> str:
        raise ValueError


def fails(*args: Any, **kwargs: Any) -> Any:
    """Fail, in several lines."""
    raise RuntimeError("\n\nfirst\nsecond \x1b[31m" + 5000 * "x")


def unsayable(*args: Any) -> Any:
    """Fail without a word."""
    raise UnsayableError


def train(target=NORMAL, student=None, teacher=None, feedback=None, data=None, **settings):
    """A short training."""
    parts = student or DiagonalGaussian(2), teacher or mala(0.1), feedback or InclusiveKL()
    return understudy.train(target, *parts, data, **{"updates": 2, "particles": 4, **settings})


def given(batches: Any) -> Any:
    """A training on data."""
    return train(GIVEN, gaussian_encoder(KEY, 2, np.zeros(2)), data=batches, updates=5)


def quick(density: Callable, dim: Any = 2) -> Any:
    """A fit that ends soon where it should never have begun."""
    return fit(LogDensity(density, dim), budget=3.0, flows=False, verbose=False, cache=False)


@jax.custom_jvp
def underivable(z: Any) -> Any:
    """A density with a derivative that fails."""
    return -(z @ z)


underivable.defjvp(fails)


async def awaited(z: Any) -> Any:
    """A density that has to be awaited."""
    return -(z @ z)


DENSITIES: dict[str, Callable[[], Any]] = {
    "fails in many lines": lambda: quick(fails),
    "fails without a word": lambda: quick(unsayable),
    "has a derivative that fails": lambda: quick(underivable),
    "is a coroutine": lambda: quick(awaited),
    "draws plain numbers": lambda: quick(lambda z: -(z @ z) * random.random()),
    "counts its calls": lambda calls=[]: quick(lambda z: calls.append(1) or -(z @ z) * len(calls)),
    "goes back to the host": lambda: quick(
        lambda z: jax.pure_callback(fails, jax.ShapeDtypeStruct((), jnp.float32), z)
    ),
    "lies between bounds the wrong way round": lambda: quick(
        lambda a: -a * a, {"a": constraints.interval(1.0, 0.0)}
    ),
    "lies between bounds that are none": lambda: quick(
        lambda a: -a * a, {"a": constraints.interval(float("nan"), 1.0)}
    ),
}
BATCHES: dict[str, Callable[[], Any]] = {
    "a function that fails": lambda: given(fails),
    "a function of nothing": lambda: given(lambda: ROWS),
    "a function that gives a word": lambda: given(lambda key: "rows"),
    "a function that gives nothing": lambda: given(lambda key: None),
    "a function of NumPy": lambda: given(lambda key: np.asarray(key)),
    "a function of other sizes": lambda: given(lambda key: jnp.zeros((4, 7))),
    "a stream that fails": lambda: given(Stream(fails() for _ in range(3))),
    "a stream of a function that fails": lambda: given(Stream(lambda used: fails())),
    "a stream of a function of nothing": lambda: given(Stream(lambda: [ROWS])),
    "a stream of a function that gives a number": lambda: given(Stream(lambda used: 3)),
    "a stream of ragged lists": lambda: given(Stream([[[1.0], [1.0, 2.0]]])),
    "a stream of other sizes": lambda: given(Stream([ROWS, ROWS[:2]])),
    "a stream of unequal rows": lambda: given(Stream([{"a": ROWS, "b": ROWS[:2]}])),
}
INGREDIENTS: dict[str, Callable[[], Any]] = {
    "a student function that fails": lambda: train(student=fails),
    "an optimiser that cannot begin": lambda: train(
        optimiser=optax.GradientTransformation(fails, fails)
    ),
    "an optimiser that fails": lambda: train(
        optimiser=optax.GradientTransformation(lambda parameters: (), fails)
    ),
    "an optimiser that gives something else": lambda: train(
        optimiser=optax.GradientTransformation(lambda p: (), lambda g, state, p=None: (3, state))
    ),
    "an optimiser that needs the loss": lambda: train(optimiser=optax.lbfgs()),
    "an optimiser with a word for a rate": lambda: train(optimiser=optax.sgd("fast")),
    "a schedule that fails": lambda: train(teacher=Scheduled(mala(0.1), steps=fails)),
    "a schedule of words": lambda: train(teacher=Scheduled(mala(0.1), steps=lambda n: "many")),
    "a conditional that fails": lambda: train(student=Bernoulli(2), teacher=Gibbs([fails])),
    "a conditional of another shape": lambda: train(
        student=Bernoulli(2), teacher=Gibbs([lambda key, z: z[:1]])
    ),
    "a kernel that cannot be built": lambda: train(teacher=Kernel(fails, {"step_size": 0.1})),
    "a kernel that is nothing": lambda: train(teacher=Kernel(lambda p, step_size: None, {})),
    "two numbers of steps": lambda: train(teacher=mala(0.1, steps=[1, 2])),
    "three step sizes": lambda: train(teacher=mala([0.1, 0.2, 0.3])),
    "three drifts": lambda: train(teacher=Langevin([0.1, 0.2, 0.3])),
    "two acceptances": lambda: train(teacher=hmc(0.1, target_acceptance=[0.5, 0.6])),
    "two trees": lambda: train(teacher=nuts([0.1, 0.2, 0.3])),
    "three steps in a frame": lambda: train(teacher=Preconditioned(mala([0.1, 0.2, 0.3]))),
    "a critic that fails": lambda: train(feedback=JensenShannon(critic=fails)),
    "a view that fails": lambda: train(feedback=Viewed(EnergyDistance(), fails)),
    "a guard that is a word": lambda: train(guard="on"),
    "progress that is a word": lambda: train(progress="bar"),
    "resume that is an array": lambda: train(resume=np.zeros(2)),
    "a job that cannot be kept": lambda: run_jobs([Job("a", int)], fails),
    "an executor that is none": lambda: run_jobs([Job("a", int)], print, int),
}


def inside_a_program() -> dict[str, Callable[[], Any]]:
    """What runs programs of its own, called within one."""
    made = Posterior(NORMAL, FullGaussian(2))

    def scaled(a: Any) -> LogDensity:
        return LogDensity(lambda z: -(z @ z) * a, 2)

    return {
        "training": lambda: jax.jit(lambda a: train(scaled(a)).sample(0, 3))(1.0),
        "fitting": lambda: jax.jit(lambda a: fit(scaled(a)).sample(0, 3))(1.0),
        **{
            name: lambda call=call: jax.jit(call)(KEY)
            for name, call in {
                "drawing": lambda key: made.sample(key, 3),
                "refining": lambda key: made.refine(key, 4, 2).z,
                "resampling": lambda key: made.resample(key, 4).z,
                "checking": lambda key: made.check(key),
                "handing over": lambda key: made.to_arviz(key, 8),
            }.items()
        },
    }


@contextlib.contextmanager
def limited(kind: int, least: int) -> Iterator[None]:
    """Files of few bytes, or few files, as where a disk is full or too much is open."""
    before = resource.getrlimit(kind)
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(kind, (least, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(kind, before)


def writers() -> dict[str, Callable[[Path], Any]]:
    """All that writes a file or a folder."""
    made = Posterior(NORMAL, FullGaussian(2))
    draws = {"a": np.zeros(1000)}
    return {
        "save": made.save,
        "export": made.export,
        "csv": lambda path: write_draws(path.with_suffix(".csv"), draws),
        "npz": lambda path: write_draws(path.with_suffix(".npz"), draws),
        "nc": lambda path: write_draws(path.with_suffix(".nc"), draws),
        "rows": lambda path: understudy.files.write_rows(path, [{"a": "x" * 300}]),
        "row": lambda path: understudy.files.append_row(path, {"a": "x" * 300}),
        "fit": lambda path: fit(NORMAL, budget=1.0, verbose=False, cache=False, folder=path),
        "train": lambda path: train(folder=path),
    }


def in_folder(function: Callable[[Path], Any]) -> Any:
    """Call a function of a folder that is gone afterwards."""
    with tempfile.TemporaryDirectory() as folder:
        return function(Path(folder))


def disks() -> dict[str, Callable[[], Any]]:
    """Full disks, paths too long, pipes in the place of files."""
    made: dict[str, Callable[[], Any]] = {}

    def full(write: Callable[[Path], Any]) -> Any:
        with limited(resource.RLIMIT_FSIZE, 100):
            return in_folder(lambda folder: write(folder / "f"))

    def onto_a_pipe(write: Callable[[Path], Any], name: str) -> Any:
        def written(folder: Path) -> Any:
            path = folder / name
            os.mkfifo(path)
            try:
                return write(path)
            finally:
                assert path.is_fifo()

        return in_folder(written)

    for name, write in writers().items():
        suffix = f".{name}" if name in ("csv", "npz", "nc") else ""
        made[f"a full disk: {name}"] = lambda write=write: full(write)
        made[f"far too long a path: {name}"] = lambda write=write: write(Path("a/" * 3000 + "f"))
        if name not in ("row", "fit", "train"):
            made[f"a pipe in the place: {name}"] = lambda write=write, suffix=suffix: onto_a_pipe(
                write, f"f{suffix}"
            )
    return made | names()


def names() -> dict[str, Callable[[], Any]]:
    """Names of files that are too long, or hold what no line can show."""
    made: dict[str, Callable[[], Any]] = {}
    for name, read in {
        "load": understudy.load,
        "load_exported": understudy.load_exported,
        "read_csv": data.read_csv,
        "read_images": data.read_images,
    }.items():
        made[f"far too long a name: {name}"] = lambda read=read: read("a" * 5000)
        made[f"lines in a name: {name}"] = lambda read=read: read("no\nsuch\x1b[31mfile")
    made["saving to the root"] = lambda: Posterior(NORMAL, FullGaussian(2)).save("//")
    return made


def pages() -> dict[str, Callable[[], Any]]:
    """Runs whose rows and pictures are none."""

    def run(rows: str, description: str | None = None, picture: bool = False) -> Any:
        def reported(folder: Path) -> Any:
            (folder / "metrics.jsonl").write_text(rows)
            if description is not None:
                (folder / "report.json").write_text(description)
            if picture:
                os.mkfifo(folder / "p.png")
            return write_report(folder)

        return in_folder(reported)

    return {
        "rows of a number too large": lambda: run('{"step": 1, "loss": ' + "9" * 400 + "}\n"),
        "rows of dictionaries": lambda: run('{"step": 1, "loss": {"a": 1}}\n'),
        "rows of tags": lambda: run('{"step": 1, "loss": "<script>"}\n'),
        "rows of no step": lambda: run('{"step": "x", "loss": 1}\n'),
        "a picture that is a pipe": lambda: run(
            '{"step": 1, "loss": 1}\n',
            '{"title": "t", "figures": [], "pictures": [{"file": "p.png"}]}',
            picture=True,
        ),
    }


CASES = {
    **{f"fitting a density that {name}": case for name, case in DENSITIES.items()},
    **{f"data are {name}": case for name, case in BATCHES.items()},
    **{f"training by {name}": case for name, case in INGREDIENTS.items()},
    **{f"{name} inside jax.jit": case for name, case in inside_a_program().items()},
    **disks(),
    **{f"a report of {name}": case for name, case in pages().items()},
}
