"""Whether memory stays where it is: over hundreds of fits in one process, and over a long training.

Every fit is of a target of its own, with a draw, a check and a look at its draws, as a loop over many
targets would have it; the training makes so many small updates. Memory maps of the process (a system
allows 65,530) and resident memory are read on the way, and count as flat where what came after the first
tenth is small beside what was there. Run: ``python benchmarks/memory.py``.
"""

import argparse
import gc
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import jax.numpy as jnp
import numpy as np

import understudy
from experiments.rows import commit, last_line, provenance, write_rows
from understudy import Gradients
from understudy.feedbacks import EnergyDistance
from understudy.students import FullGaussian
from understudy.teachers import mala

DIM = 3
LOOKS = 40


def memory() -> tuple[int, float]:
    """Memory maps and resident megabytes of this process."""
    with open("/proc/self/maps") as maps:
        count = sum(1 for _ in maps)
    with open("/proc/self/statm") as pages:
        return count, int(pages.read().split()[1]) * 4096 / 2**20


def fits(count: int) -> Iterator[int]:
    """Fits of targets that differ, one after the other."""
    for i in range(count):
        mean = np.random.default_rng(i).normal(size=DIM)
        target = understudy.LogDensity(_around(mean), DIM)
        result = understudy.fit(target, seed=i, budget=Gradients(60_000), flows=False, verbose=False)
        result.sample(0, 1000)
        result.refine(0, 256, 4)
        yield i + 1


def _around(mean: np.ndarray) -> Callable[[Any], Any]:
    return lambda z: -0.5 * jnp.sum((z - mean) ** 2)


def updates(count: int) -> Iterator[int]:
    """Updates of one small training."""
    steps: list[int] = []
    due = max(count // LOOKS, 1)

    def look(chunk: Any) -> None:
        if int(chunk.row["step"]) // due > len(steps):
            steps.append(int(chunk.row["step"]))
            seen.append((steps[-1], *memory()))

    seen: list[tuple[int, int, float]] = []
    target = understudy.LogDensity(lambda z: -0.5 * jnp.sum(z**2), 2)
    ingredients = target, FullGaussian(2), mala(0.5), EnergyDistance()
    settings: dict[str, Any] = {"updates": count, "particles": 4, "progress": False}
    understudy.train(*ingredients, **settings, callbacks=[look])
    yield from seen


def measured(name: str, count: int) -> dict[str, Any]:
    """Memory on the way, and how much of it came after the first tenth."""
    seen: list[tuple[int, int, float]] = []
    for step in {"fits": fits, "updates": updates}[name](count):
        if isinstance(step, tuple):
            seen.append(step)
            continue
        gc.collect()
        seen.append((step, *memory()))
        print(name, *seen[-1], file=sys.stderr, flush=True)
    early = next(look for look in seen if look[0] >= max(min(count // 10, 10), 1))
    late = seen[-1]
    places = np.unique(np.linspace(0, len(seen) - 1, LOOKS).astype(int))
    return {
        "count": count,
        "maps_early": early[1],
        "maps_late": late[1],
        "megabytes_early": early[2],
        "megabytes_late": late[2],
        "looks": [list(seen[i]) for i in places],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fits", type=int, default=200, help="how many; 0 leaves them out")
    parser.add_argument("--updates", type=int, default=1_000_000, help="how many; 0 leaves them out")
    parser.add_argument("--out", default="results/memory.jsonl", help="rows (default: %(default)s)")
    given = parser.parse_args()
    tried, rows = commit(), []
    for name in ("updates", "fits"):
        if count := getattr(given, name):
            began = time.perf_counter()
            row = {"kind": "memory", "name": name, **measured(name, count)}
            made = provenance({name: count}, 0, time.perf_counter() - began)
            rows.append({**row, **made, "commit": tried})
            write_rows(given.out, rows[-1:])
    shown = ("maps_early", "maps_late", "megabytes_early", "megabytes_late")
    last_line({row["name"]: {name: row[name] for name in shown} for row in rows})


if __name__ == "__main__":
    main()
