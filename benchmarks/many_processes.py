"""Work of several processes: the same as that of one, and whole whoever is killed on the way.

Hosts are two processes of this machine, joined over loopback: a training of a mixture, one of digits, a
fit and an amortised model end where one process ends, and a training that two began goes on in one, and
then on eight devices. One of the two is killed (kill -9) again and again; the other must end within a
minute with a sentence, and the run must go on to the end. Workers are two of a Dask cluster that run
forty jobs while one of them is killed; every job must have one row. Run:
``python benchmarks/many_processes.py``.
"""

import argparse
import itertools
import json
import os
import random
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import IO, Any, NamedTuple

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
MINUTE = 60.0
JOBS = 40
# What a process that lost another says: our sentence, or that of JAX where its watch comes first.
SENTENCES = ("resume=True", "JAX distributed service detected fatal errors", "heartbeat")


# What one of several processes does.


def mixture(folder: Path, updates: int, dying: bool) -> np.ndarray:
    """Parameters of a small sampler of two modes; ``dying`` ends the process half way."""
    import signal

    from understudy.feedbacks import EnergyDistance
    from understudy.students import Implicit
    from understudy.targets import two_gaussians
    from understudy.teachers import mala

    def look(chunk: Any) -> None:
        if dying and int(chunk.row["step"]) >= updates // 2:
            os.kill(os.getpid(), signal.SIGKILL)

    ingredients = (
        two_gaussians(),
        lambda key: Implicit(key, 1, hidden=(8,)),
        mala(0.5, steps=2, target_acceptance=0.8),
        EnergyDistance(),
    )
    return _trained(folder, *ingredients, updates=updates, particles=8, chunk=20, callbacks=[look])


def digits(folder: Path, updates: int, dying: bool) -> np.ndarray:
    """Parameters of encoder and decoder of images after some updates."""
    import jax
    import optax

    from experiments.mnist.methods import METHODS, make_model, make_student
    from understudy import Binarised

    stage = METHODS["VAE"].stages[-1]
    keys = jax.random.split(jax.random.key(0))
    pixels = np.random.default_rng(0).integers(0, 256, (64, 28, 28), np.uint8)
    ingredients = make_model(keys[0]), make_student(stage.encoder, keys[1], 0), stage.teacher("eta")
    rates = {"optimiser": optax.sgd(1e-3), "model_optimiser": optax.sgd(1e-3)}
    data = Binarised(pixels, 16)
    return _trained(folder, *ingredients, stage.feedback(), data, updates=updates, particles=1, **rates)


def _trained(folder: Path, *ingredients: Any, **settings: Any) -> np.ndarray:
    import jax

    import understudy
    from understudy.core import partition

    place = {"folder": folder, "resume": True, "checkpoint_seconds": 0.0, "progress": False}
    result = understudy.train(*ingredients, **settings, **place, devices=jax.devices())
    leaves = jax.tree.leaves(partition((result.student, result.state.target))[0])
    return np.concatenate([np.asarray(leaf).ravel() for leaf in leaves])


def fit(folder: Path, gradients: int, dying: bool) -> np.ndarray:
    """Draws of a fitted posterior of correlated numbers."""
    import jax
    import jax.numpy as jnp

    import understudy

    target = understudy.LogDensity(lambda z: -0.5 * (jnp.sum((z - 1) ** 2) + z.sum() ** 2), 3)
    settings = {"budget": understudy.Gradients(gradients), "devices": jax.devices(), "verbose": False}
    result = understudy.fit(target, **settings, folder=folder)
    assert result.record is not None
    return np.concatenate([result.record, result.sample(0, 100, finish=False)["z"]]).ravel()


def amortise(folder: Path, looks: int, dying: bool) -> np.ndarray:
    """Draws of a small regression for any data; its seconds are looks at a clock."""
    import jax
    import numpyro
    from numpyro import distributions as dist

    import understudy
    from understudy.amortising import learning
    from understudy.students import SplineFlow

    seconds = itertools.count()
    learning.time = SimpleNamespace(perf_counter=lambda: float(next(seconds)))  # pyright: ignore
    covariates = np.random.default_rng(0).normal(size=(10, 2)).astype(np.float32)

    def regression(covariates, y=None):
        weights = numpyro.sample("weights", dist.Normal(0, 1).expand([2]).to_event(1))
        with numpyro.plate("rows", len(covariates)):
            numpyro.sample("y", dist.Normal(covariates @ weights, 1.0), obs=y)

    def small(key, dim, summary):
        return SplineFlow(key, dim, summary, layers=2, width=32, bins=4)

    settings = {"budget": float(looks), "student": small, "progress": False, "devices": jax.devices()}
    result = understudy.amortise(regression, covariates, observed="y", **settings, folder=folder)
    y = covariates @ np.array([0.5, -1.0]) + 0.3
    return result.sample(0, y[None], 100, finish=False).z.ravel()


# Enough of each that a difference would show, and no more.
WORKS: dict[str, tuple[Callable[[Path, int, bool], np.ndarray], int]] = {
    "mixture": (mixture, 80),
    "digits": (digits, 4),
    "fit": (fit, 60_000),
    "amortise": (amortise, 60),
}


def at_work(name: str, folder: str, many: str, *words: str) -> None:
    """What a process does: it prints what it computed, and on how many devices."""
    from understudy.devices import join_hosts

    if "UNDERSTUDY_COORDINATOR" in os.environ:
        join_hosts()
    import jax

    found = WORKS[name][0](Path(folder), int(many), "die" in words)
    print(json.dumps({"devices": len(jax.devices()), "found": found.tolist()}), flush=True)


# Starting and killing processes.


class Started(NamedTuple):
    """A process at work, and files with what it prints: a pipe that is full would make it wait."""

    process: subprocess.Popen
    out: IO[str]
    err: IO[str]

    def word(self, seconds: float) -> str:
        """What it told of trouble, once it has ended; it is killed if it takes longer."""
        try:
            self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.err.seek(0)
        return self.err.read()


def started(
    name: str, folder: Path, many: int | None = None, hosts: int = 1, devices: int = 1, dying: int = -1
) -> list[Started]:
    """Processes at work, joined where there are several; the one numbered ``dying`` ends itself."""
    many, processes = many or WORKS[name][1], []
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{one.getsockname()[1]}"
    for i in range(hosts):
        env = os.environ | {"JAX_NUM_CPU_DEVICES": str(devices)}
        if hosts > 1:
            env |= {"UNDERSTUDY_COORDINATOR": address, "UNDERSTUDY_PROCESSES": str(hosts)}
            env |= {"UNDERSTUDY_PROCESS": str(i)}
        words = [name, str(folder), str(many), *(["die"] if i == dying else [])]
        command = [sys.executable, "-m", "benchmarks.many_processes", "--process", *words]
        out, err = (tempfile.TemporaryFile("w+") for _ in range(2))  # noqa: SIM115, read at its end
        process = subprocess.Popen(command, cwd=ROOT, env=env, stdout=out, stderr=err)
        processes.append(Started(process, out, err))
    return processes


def ended(processes: list[Started], seconds: float = 600) -> list[dict[str, Any]]:
    """What processes that should end well printed."""
    found = []
    for one in processes:
        told = one.word(seconds)
        if one.process.returncode:
            raise RuntimeError(told[-2000:])
        one.out.seek(0)
        found.append(json.loads(one.out.read().splitlines()[-1]))
    return found


def difference(one: dict[str, Any], other: dict[str, Any]) -> float:
    """The largest difference of two results, beside the largest number."""
    a, b = np.array(one["found"]), np.array(other["found"])
    return float(np.abs(a - b).max() / np.abs(a).max()) if a.shape == b.shape else float("inf")


def agree(name: str, room: Path) -> dict[str, Any]:
    """How far two processes are from one."""
    one = ended(started(name, room / "one"))[0]
    first, second = ended(started(name, room / "two", hosts=2))
    assert first["devices"] == second["devices"] == 2
    return {"difference": difference(one, first), "between": difference(first, second)}


def move(room: Path) -> dict[str, Any]:
    """Two processes begin, one goes on, then one with eight devices, then two again."""
    one = ended(started("mixture", room / "one", 80))[0]
    course = [(20, 2, 1), (40, 1, 1), (60, 1, 8), (80, 2, 1)]
    for updates, hosts, devices in course:
        last = ended(started("mixture", room / "moved", updates, hosts=hosts, devices=devices))[0]
    return {"difference": difference(one, last), "course": course}


def kill_hosts(kills: int, seed: int, room: Path) -> dict[str, Any]:
    """Kill one of two processes of a training at random moments; the other ends, and the run goes on."""
    chance, updates = random.Random(seed), 2000
    began = time.monotonic()
    wanted = ended(started("mixture", room / "clean", updates, hosts=2))[0]
    longest = time.monotonic() - began
    counts = {"kills": 0, "ended": 0, "told": 0, "resumed": 0}
    slowest = 0.0
    while counts["kills"] < kills:
        folder = room / f"run-{counts['kills']}"
        processes = started("mixture", folder, updates, hosts=2)
        time.sleep(chance.uniform(0.2, 0.95) * longest)
        victim, other = chance.sample(processes, 2)
        if victim.process.poll() is not None or other.process.poll() is not None:
            ended(processes)
            continue
        victim.process.kill()
        began = time.monotonic()
        told = other.word(2 * MINUTE)
        took = time.monotonic() - began
        slowest = max(slowest, took)
        counts["kills"] += 1
        counts["ended"] += took <= MINUTE
        counts["told"] += any(word in told for word in SENTENCES)
        again = ended(started("mixture", folder, updates, hosts=2))[0]
        counts["resumed"] += difference(wanted, again) == 0
        print("hosts", counts, f"{took:.1f} s", file=sys.stderr, flush=True)
    return {**counts, "slowest_seconds": slowest}


def square(number: int, seconds: float = 0.2) -> int:
    """A job."""
    time.sleep(seconds)
    return number**2


def kill_workers(kills: int, seed: int) -> dict[str, Any]:
    """Kill one of two Dask workers while forty jobs run, and count the rows."""
    from dask.distributed import LocalCluster

    from understudy import files
    from understudy.jobs import Job, executor_of, run_jobs

    chance = random.Random(seed)
    counts: dict[str, int] = {"kills": 0, "complete": 0, "doubled": 0}
    jobs = [Job(str(i), square, (i,)) for i in range(JOBS)]
    while counts["kills"] < kills:
        with (
            tempfile.TemporaryDirectory() as room,
            LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster,
        ):
            rows, after = Path(room, "rows.jsonl"), chance.randint(1, JOBS - 5)

            def keep(name: str, value: int, rows: Path = rows, after: int = after) -> None:
                files.append_row(rows, {"name": name, "value": value})
                if len(files.read_rows(rows)) == after:
                    chance.choice(list(cluster.workers.values())).process.process._process.kill()

            run_jobs(jobs, keep, executor_of(cluster.scheduler_address), progress=False)
            found = [(row["name"], row["value"]) for row in files.read_rows(rows)]
        counts["kills"] += 1
        counts["complete"] += set(found) == {(str(i), i**2) for i in range(JOBS)}
        counts["doubled"] += len(found) - len(set(found))
        print("workers", counts, file=sys.stderr, flush=True)
    return counts


def overhead(jobs: int = 200) -> dict[str, Any]:
    """Milliseconds that an executor takes for a job that does nothing, on a warm worker."""
    from dask.distributed import LocalCluster

    from understudy.jobs import Job, executor_of, run_jobs

    def spent(workers: int | str | None) -> float:
        times = []

        def keep(name: str, value: int) -> None:
            times.append(time.perf_counter())

        several = [Job(str(i), square, (i, 0.0)) for i in range(jobs)]
        run_jobs(several, keep, executor_of(workers), progress=False)
        return 1000 * (times[-1] - times[0]) / (jobs - 1)

    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster:
        dask = spent(cluster.scheduler_address)
    return {"this_process_ms": spent(None), "processes_ms": spent(2), "dask_ms": dask, "jobs": jobs}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--agree", nargs="*", choices=WORKS, default=list(WORKS), help="which")
    parser.add_argument("--hosts", type=int, default=20, help="processes that are killed")
    parser.add_argument("--workers", type=int, default=20, help="Dask workers that are killed")
    parser.add_argument("--seed", type=int, default=0, help="of the moments")
    parser.add_argument("--out", default="results/many_processes.jsonl", help="rows")
    parser.add_argument("--process", nargs="+", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.process:
        at_work(*given.process)
        return
    from experiments.rows import commit, last_line, provenance, write_rows

    tried, rows = commit(), []

    def measure(name: str, figures: Callable[[Path], dict[str, Any]]) -> None:
        began = time.perf_counter()
        with tempfile.TemporaryDirectory() as room:
            row = {"kind": "many processes", "name": name, **figures(Path(room))}
        settings = {"agree": given.agree, "hosts": given.hosts, "workers": given.workers}
        made = provenance(settings, given.seed, time.perf_counter() - began)
        rows.append({**row, **made, "commit": tried})
        write_rows(given.out, rows[-1:])
        print(name, {k: v for k, v in row.items() if k not in ("kind", "name")}, flush=True)

    if given.workers:
        measure("executors", lambda _: overhead())
        measure("workers killed", lambda _: kill_workers(given.workers, given.seed))
    for name in given.agree:
        measure(f"two processes, {name}", lambda room, name=name: agree(name, room))
    if given.agree:
        measure("two processes, one, eight devices, two processes", move)
    if given.hosts:
        measure("hosts killed", lambda room: kill_hosts(given.hosts, given.seed, room))
    told = ("settings", "versions", "machine", "seconds", "seed", "commit", "kind", "name")
    last_line({row["name"]: {k: v for k, v in row.items() if k not in told} for row in rows})


if __name__ == "__main__":
    main()
