"""What several devices give: the same numbers, and how much more work a second.

Three pieces of work (an update of the model of digits with its Hamiltonian teacher, the evaluations that
a fit is made of, an update on simulated pairs) run on one core with one device, as they come, and with
numbers of devices; each in a process of its own, since JAX counts its devices once. On a machine without
accelerators the devices are parts of the host. Run: ``python benchmarks/devices.py``.
"""

import argparse
import json
import math
import os
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

COLLECTIVES = "all-reduce|all-gather|all-to-all|collective-permute|reduce-scatter"
SHAPE = re.compile(r"([a-z]+\d*)\[([\d,]*)\]")
ROOT = Path(__file__).resolve().parents[1]
ONE_CORE, DEFAULT = "one core", "default"
PRESETS = {
    "quick": {"counts": (2,), "rounds": 1, "seconds": 0.2, "pairs": "few"},
    "paper": {"counts": (2, 4, 8, 16), "rounds": 5, "seconds": 2.0, "pairs": "all"},
}
# A feedback over sets of draws, one over conditions, batch statistics, a critic and a projection.
FEW = (
    "Implicit/EnergyDistance",
    "Implicit, conditional/JensenShannon",
    "NoisyEncoder/EnergyDistance",
    "FullGaussian/MomentProjection",
)


class Work(NamedTuple):
    """Something to repeat, and what a repetition is worth.

    Attributes:
        run: repeats it so many times.
        worth: units of work in one repetition.
        unit: their name.
        program: what the compiler made of it.
    """

    run: Callable[[int], Any]
    worth: float
    unit: str
    program: str


def digits(devices: int | None) -> Work:
    """Updates of encoder and decoder on 100 images, Hamiltonian chains between them."""
    import jax
    import numpy as np
    import optax

    from experiments.mnist.methods import METHODS, make_model, make_student
    from understudy import Binarised
    from understudy.training import Learner, Training

    stage = METHODS["HMC-VI, T=2"].stages[-1]
    keys = jax.random.split(jax.random.key(0))
    pixels = np.random.default_rng(0).integers(0, 256, (512, 28, 28), np.uint8)
    rates = {"optimiser": optax.adam(1e-3), "model_optimiser": optax.adam(1e-3)}
    ingredients = make_model(keys[0]), make_student(stage.encoder, keys[1], 0), stage.teacher("eta")
    learner = Learner(stage.feedback(), particles=1, **rates)
    data = Binarised(pixels, 100)
    training = Training(learner, *ingredients, data, devices=devices, split=devices is None)
    return _updates(training.compile(), 100, "images")


def simulated(devices: int | None) -> Work:
    """Updates of what `amortise` trains for regressions of 100 rows, on 256 simulated data sets."""
    import jax
    import numpy as np
    import numpyro
    from numpyro import distributions as dist

    from understudy.amortising.amortise import _begin
    from understudy.amortising.learning import Learning, simulate
    from understudy.amortising.models import simulator_of

    def regression(covariates, y=None):
        weights = numpyro.sample("weights", dist.Normal(0, 1).expand([6]).to_event(1))
        scale = numpyro.sample("scale", dist.HalfNormal(1))
        with numpyro.plate("rows", len(covariates)):
            numpyro.sample("y", dist.Normal(covariates @ weights, scale), obs=y)

    covariates = np.random.default_rng(0).normal(size=(100, 6)).astype(np.float32)
    simulator = simulator_of(regression, (covariates,), {}, "y", None, None, False)
    seen = simulate(jax.random.key(0), simulator, 1024)
    student = _begin(jax.random.key(1), simulator, seen, None, None)
    learning = Learning(simulator, student, seen, 0, devices)
    return _updates(learning.training, learning.conditions.size, "simulations")


def evaluated(devices: int | None) -> Work:
    """Gradients of a logistic regression of 4,000 rows at 128 places, as the chains of a fit ask."""
    import numpy as np

    from understudy.devices import mesh_of
    from understudy.fitting.evaluations import BLOCK, Evaluations
    from understudy.targets import logistic_regression

    random = np.random.default_rng(0)
    rows = random.normal(size=(4000, 40))
    target = logistic_regression(rows, (random.uniform(size=4000) < 0.5).astype(float))
    evaluate = Evaluations(target, mesh_of(devices), split=devices is None)
    z = random.normal(size=(BLOCK, target.dim))

    def run(times):
        for _ in range(times):
            evaluate(z)

    return Work(run, BLOCK, "gradients", evaluate.program)


WORKS = {"digits": digits, "simulated": simulated, "evaluated": evaluated}


def _updates(training: Any, worth: int, unit: str) -> Work:
    """Updates of a compiled training, one after the other."""
    now = [training.state]

    def run(times: int) -> None:
        now[0] = training.advance(now[0], times)[0]

    return Work(run, worth, unit, training.program)


def exchanged(program: str) -> int:
    """Bytes that a device has from the others in one repetition, by the collectives of its program."""
    parts: dict[str, tuple[int, list[tuple[str, int]]]] = {}
    name = ""
    for line in program.splitlines():
        if head := re.match(r"(?:ENTRY )?%?([\w.-]+) .*\{$", line):
            name = head[1]
            parts[name] = (0, [])
        elif found := re.search(rf"= (.*?) (?:{COLLECTIVES})(?:-start)?\(", line):
            parts[name] = (parts[name][0] + sum(map(_bytes, SHAPE.findall(found[1]))), parts[name][1])
        elif body := re.search(r"body=%?([\w.-]+)", line):
            times = re.search(r'known_trip_count":\{"n":"(\d+)"', line)
            parts[name][1].append((body[1], int(times[1]) if times else 1))
        elif called := re.search(r"(?:calls|to_apply)=%?([\w.-]+)", line):
            parts[name][1].append((called[1], 1))

    def total(name: str) -> int:
        own, inner = parts.get(name, (0, []))
        return own + sum(times * total(other) for other, times in inner)

    entry = re.search(r"^ENTRY %?([\w.-]+)", program, re.MULTILINE)
    return total(entry[1]) if entry else 0


def _bytes(shape: tuple[str, str]) -> int:
    width = int(re.sub(r"\D", "", shape[0]) or 8) // 8 or 1
    return width * math.prod(int(size) for size in shape[1].split(",") if size)


def measured(name: str, devices: int | None, rounds: int, seconds: float) -> dict[str, Any]:
    """Units of work a second of wall and of processor time, the medians of some rounds."""
    import jax

    work = WORKS[name](devices)
    work.run(1)
    began = time.perf_counter()
    work.run(2)
    times = max(1, round(seconds / ((time.perf_counter() - began) / 2)))
    wall, processor = [], []
    for _ in range(rounds):
        began, cpu = time.perf_counter(), time.process_time()
        work.run(times)
        wall.append((time.perf_counter() - began) / times)
        processor.append((time.process_time() - cpu) / times)
    return {
        "rate": work.worth / statistics.median(wall),
        "unit": f"{work.unit} a second",
        "wall_seconds": statistics.median(wall),
        "processor_seconds": statistics.median(processor),
        "bytes_exchanged": exchanged(work.program),
        "platform": jax.default_backend(),
        "devices_there": len(jax.devices()),
    }


def child(name: str, setting: str, rounds: int, seconds: float) -> dict[str, Any] | None:
    """One piece of work in a process whose JAX sees the devices asked for; None where they are not."""
    count = None if setting in (ONE_CORE, DEFAULT) else int(setting.split()[0])
    count = 1 if setting == ONE_CORE else count
    there = {"JAX_NUM_CPU_DEVICES": str(count)} if count else {}
    words = [name, setting, str(rounds), str(seconds)]
    command = [sys.executable, "-m", "benchmarks.devices", "--child", *words]
    ran = subprocess.run(command, cwd=ROOT, env=os.environ | there, capture_output=True, text=True)
    if ran.returncode:
        print(f"{name}, {setting}: {ran.stderr.strip().splitlines()[-1]}", file=sys.stderr)
        return None
    return json.loads(ran.stdout.splitlines()[-1])


def at_work(name: str, setting: str, rounds: str, seconds: str) -> None:
    """What a child process does; on one core JAX sees one device."""
    if setting == ONE_CORE and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    count = None if setting in (ONE_CORE, DEFAULT) else int(setting.split()[0])
    print(json.dumps(measured(name, count, int(rounds), float(seconds))))


def agreement(pairs: tuple[str, ...]) -> dict[str, float]:
    """The largest relative difference of parameters on eight devices and on one, pair by pair."""
    eight = os.environ | {"JAX_NUM_CPU_DEVICES": "8"}
    command = [sys.executable, "-m", "tests.training.devices_agree", *pairs]
    ran = subprocess.run(command, cwd=ROOT, env=eight, capture_output=True, text=True, check=True)
    return json.loads(ran.stdout.splitlines()[-1])


def figures(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """The largest difference, the least gain of two devices, and the default beside the best choice."""
    rates = {(row["work"], row["setting"]): row["rate"] for row in rows if row["kind"] == "devices"}
    differences = [row["difference"] for row in rows if row["kind"] == "devices agree"]
    chosen = {name: {s: r for (w, s), r in rates.items() if w == name} for name in WORKS}
    gains = [c["2 devices"] / c[ONE_CORE] for c in chosen.values() if {"2 devices", ONE_CORE} <= set(c)]
    beside = [c[DEFAULT] / max(c.values()) for c in chosen.values() if DEFAULT in c and len(c) > 1]
    return {
        "devices_agree": max(differences, default=None),
        "two_over_one": min(gains, default=None),
        "default_over_best": min(beside, default=None),
    }


def table(rows: list[dict[str, Any]]) -> str:
    """The rates, a line a piece of work and setting."""
    lines = [f"{'work':<12}{'setting':<14}{'rate':>12}  {'processor s':>12}"]
    for row in rows:
        if row["kind"] == "devices":
            shown = f"{row['rate']:>12,.0f}  {row['processor_seconds']:>12.4f}"
            lines.append(f"{row['work']:<12}{row['setting']:<14}{shown}  {row['unit']}")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--preset", choices=PRESETS, default="quick", help="(default: %(default)s)")
    parser.add_argument("--works", nargs="+", choices=WORKS, default=list(WORKS), help="which")
    parser.add_argument("--counts", nargs="+", type=int, help="numbers of devices; default by preset")
    parser.add_argument("--pairs", choices=("none", "few", "all"), help="compared on eight devices")
    parser.add_argument("--out", default="results/devices.jsonl", help="rows (default: %(default)s)")
    parser.add_argument("--child", nargs=4, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child:
        at_work(*given.child)
        return
    from experiments.rows import last_line, provenance, write_rows

    settings = dict(PRESETS[given.preset])
    settings["counts"] = tuple(given.counts or settings["counts"])
    settings["pairs"] = given.pairs or settings["pairs"]
    made = partial(provenance, {"preset": given.preset, **settings}, 0)
    began, rows = time.perf_counter(), []
    for name in given.works:
        for setting in (ONE_CORE, DEFAULT, *(f"{count} devices" for count in settings["counts"])):
            found = child(name, setting, settings["rounds"], settings["seconds"])
            if found is not None:
                named = {"name": f"{name}, {setting}", "work": name, "setting": setting}
                rows.append({"kind": "devices", **named, **found})
                print(f"{name}, {setting}: {found['rate']:,.0f} {found['unit']}", flush=True)
    if settings["pairs"] != "none":
        found = agreement(FEW if settings["pairs"] == "few" else ())
        rows += [{"kind": "devices agree", "name": pair, "difference": d} for pair, d in found.items()]
    write_rows(given.out, [{**row, **made(time.perf_counter() - began)} for row in rows])
    print(table(rows))
    last_line(figures(rows))


if __name__ == "__main__":
    main()
