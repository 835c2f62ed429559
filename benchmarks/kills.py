"""Kill trainings, fits and saves at random moments (kill -9), go on, and count what came back whole.

Every run is killed several times, goes on each time from what it left, and is then let finish. A
training must end bit for bit as one that was never killed, with one row of metrics a chunk; a fit and a
training over data sets must end at the right answer; a file that is being saved must always be one of
the files that were saved. Nothing may be left behind in the folders. Run:
``python benchmarks/kills.py --train 100 --fit 50 --save 20 --amortise 20``.
"""

import argparse
import contextlib
import hashlib
import multiprocessing
import random
import shutil
import signal
import tempfile
import time
import warnings
from collections.abc import Callable
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess as Process
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import numpyro
from numpyro import distributions as dist

import understudy
from experiments.rows import commit, last_line, provenance, write_rows
from understudy import files
from understudy.amortising import keeping
from understudy.feedbacks import JensenShannon
from understudy.files.container import is_whole as is_whole_file
from understudy.fitting import fit as fit_target
from understudy.students import Implicit, SplineFlow
from understudy.targets import two_gaussians
from understudy.teachers import mala

KILLS_A_RUN = 10
UPDATES, CHUNK = 4000, 40
FORK = multiprocessing.get_context("fork")  # nothing here starts JAX before a child does
MEAN, SCALE = 100.0, 14.0
COVARIATES = np.random.default_rng(0).normal(size=(10, 2)).astype(np.float32)


def train(folder: Path) -> str:
    """A training that writes a checkpoint after every chunk; a digest of all it learnt."""
    result = understudy.train(
        two_gaussians(),
        lambda key: Implicit(key, 1, hidden=(8,)),
        mala(0.5, steps=2, target_acceptance=0.8),
        JensenShannon(),
        updates=UPDATES,
        particles=8,
        chunk=CHUNK,
        average=0.99,
        folder=folder,
        checkpoint_seconds=0.0,
        progress=False,
        resume=True,
    )
    steps = [row["step"] for row in files.read_rows(folder / "metrics.jsonl")]
    leaves = jax.tree.leaves(eqx.filter(result.state, eqx.is_inexact_array))
    digest = hashlib.sha256(b"".join(np.asarray(leaf).tobytes() for leaf in leaves))
    digest.update(repr(steps).encode())
    return digest.hexdigest()


def fit(folder: Path) -> str:
    """A fit of correlated numbers far from zero; whether its mean and deviation are right."""
    target = understudy.LogDensity(_far_from_zero, 3)
    result = fit_target(target, folder=folder, resume=True, verbose=False)
    draws = result.sample(0, 20_000)["z"]
    off = abs(draws.mean(0) - MEAN).max() / SCALE, abs(draws.std(0) / SCALE - 1).max()
    result.save(folder / "posterior.safetensors")
    return "right" if result.trusted and max(off) < 0.1 else f"wrong by {max(off):.2f} deviations"


def save(folder: Path) -> str:
    """A file of 8 MB saved over and over, each time with another number in it."""
    for i in range(10**6):
        files.save(folder / "student.safetensors", np.full(2**21, float(i), np.float32))
    return "never"


def amortise(folder: Path) -> str:
    """A regression for all data sets; whether the posterior of one is right."""
    keeping.SECONDS = 0.2
    settings = {"budget": 8.0, "student": _small_flow, "progress": False, "cache": False}
    place = {"folder": folder, "resume": True}
    inference = understudy.amortise(_regression, COVARIATES, observed="y", **settings, **place)
    y = COVARIATES @ np.array([0.5, -1.0]) + 0.3
    covariance = np.linalg.inv(np.eye(2) + COVARIATES.T @ COVARIATES)
    draws = inference.sample(0, y[None], 2000).draws["weights"][0]
    off = (draws.mean(0) - covariance @ COVARIATES.T @ y) / np.sqrt(np.diag(covariance))
    inference.save(folder / "inference.safetensors")
    return "right" if np.abs(off).max() < 0.25 else f"wrong by {np.abs(off).max():.2f} deviations"


def _regression(covariates, y=None):
    weights = numpyro.sample("weights", dist.Normal(0, 1).expand([2]).to_event(1))
    with numpyro.plate("rows", len(covariates)):
        numpyro.sample("y", dist.Normal(covariates @ weights, 1.0), obs=y)


def _small_flow(key, dim, summary):
    return SplineFlow(key, dim, summary, layers=2, width=32, bins=4)


def _far_from_zero(z: jax.Array) -> jax.Array:
    y = (z - MEAN) / SCALE
    return -0.5 * (jnp.sum(y**2) + 0.25 * (jnp.sum(y) ** 2 - jnp.sum(y**2)))


WORK: dict[str, Callable[[Path], str]] = {
    "train": train,
    "fit": fit,
    "save": save,
    "amortise": amortise,
}


def started(name: str, folder: Path) -> tuple[Process, Connection]:
    """A process at work in a folder; forked, so that it need not import everything again."""
    ours, theirs = FORK.Pipe()
    process = FORK.Process(target=_at_work, args=(name, folder, theirs))
    process.start()
    theirs.close()
    return process, ours


def _at_work(name: str, folder: Path, pipe: Connection) -> None:
    with contextlib.suppress(OSError), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pipe.send(WORK[name](folder))


def finished(name: str, folder: Path) -> str:
    """The last word of a process that is not killed."""
    process, pipe = started(name, folder)
    try:
        return pipe.recv()
    except EOFError:
        return "died"
    finally:
        process.join()


def kill(name: str, folder: Path, seconds: float) -> bool:
    """Kill a process after some seconds; whether it was still at work."""
    process, pipe = started(name, folder)
    process.join(seconds)
    process.kill()
    process.join()
    alive = process.exitcode == -signal.SIGKILL
    pipe.close()
    return alive


def is_whole(folder: Path) -> bool:
    """Whether every file of arrays in a folder is as it was written."""
    return all(is_whole_file(path) for path in folder.rglob("*.safetensors"))


def litter(folder: Path) -> int:
    """Temporary files in a folder."""
    return sum(1 for path in folder.rglob("*") if path.name.endswith(".tmp"))


def count_kills(name: str, kills: int, rng: random.Random, room: Path) -> dict[str, int]:
    """Kill runs until there were enough kills; each run is then let finish and looked at."""
    clean = room / "clean"
    finished(name, clean)  # the second time, compiled programs come from the cache
    shutil.rmtree(clean)
    began = time.perf_counter()
    wanted = finished(name, clean)
    longest = time.perf_counter() - began
    counts = {"kills": 0, "resumed": 0, "whole": 0, "litter": 0, "litter_at_kills": 0}
    while counts["kills"] < kills:
        folder, in_this = room / f"run-{counts['kills']}", 0
        whole = 0
        while in_this < min(KILLS_A_RUN, kills - counts["kills"]):
            if not kill(name, folder, rng.uniform(0, longest)):
                break  # it had finished
            in_this, whole = in_this + 1, whole + is_whole(folder)
            counts["litter_at_kills"] += litter(folder)
        same = finished(name, folder) == wanted
        counts["kills"] += in_this
        counts["resumed"] += in_this * same
        counts["whole"] += whole
        counts["litter"] += litter(folder)
        print(name, counts, flush=True)
    return counts


def count_saves(kills: int, rng: random.Random, room: Path) -> dict[str, int]:
    """Kill savers of one file; it must hold one number throughout, and the next save leaves it alone."""
    folder = room / "save"
    counts = {"kills": 0, "resumed": 0, "whole": 0, "litter": 0, "litter_at_kills": 0}
    while counts["kills"] < kills:
        counts["kills"] += kill("save", folder, rng.uniform(0.05, 0.5))
        counts["litter_at_kills"] += litter(folder)
        path = folder / "student.safetensors"
        counts["whole"] += not path.exists() or len(np.unique(files.load(path))) == 1
        files.save(path, np.zeros(3))
        counts["resumed"] += files.load(path).shape == (3,)
        counts["litter"] += litter(folder)
    print("save", counts, flush=True)
    return counts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    for name, many in {"train": 100, "fit": 50, "save": 20, "amortise": 20}.items():
        parser.add_argument(f"--{name}", type=int, default=many, help="how many are killed")
    parser.add_argument("--seed", type=int, default=0, help="of the moments")
    parser.add_argument("--out", default="results/kills.jsonl", help="rows (default: %(default)s)")
    given = parser.parse_args()
    asked = {name: getattr(given, name) for name in WORK}
    tried = commit()  # what the children run, whatever is written meanwhile
    cache = tempfile.TemporaryDirectory()
    jax.config.update("jax_compilation_cache_dir", cache.name)  # children begin without compiling
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    rows = []
    for name, kills in asked.items():
        began = time.perf_counter()
        with tempfile.TemporaryDirectory() as room:
            rng = random.Random(f"{given.seed} {name}")
            count = count_saves if name == "save" else lambda *rest, name=name: count_kills(name, *rest)
            counts = count(kills, rng, Path(room)) if kills else {}
        if counts:
            settings = {"kills_a_run": KILLS_A_RUN, "updates": UPDATES, "chunk": CHUNK}
            made = provenance(settings, given.seed, time.perf_counter() - began)
            rows.append({"kind": "kills", "name": name, **counts, **made, "commit": tried})
    write_rows(given.out, rows)
    shown = ("kills", "resumed", "whole", "litter", "litter_at_kills")
    last_line({row["name"]: {name: row[name] for name in shown} for row in rows})


if __name__ == "__main__":
    main()
