"""Twenty splits in one program against twenty runs one after another.

VI on crabs; CPU time with compilation, as twenty calls of a training function cost it, and without. Also
the most memory that the widest network takes: colon's 2,000 features as they are, 100,101 weights, 20
splits. Run: ``python benchmarks/bnn_splits.py``.
"""

import argparse
import resource
import time

import jax.numpy as jnp
import numpy as np

from experiments.bnn import problems, recipes
from experiments.bnn.course import follow
from experiments.rows import last_line, provenance, write_rows
from understudy import data

SPLITS, UPDATES, SINGLES, WIDE_UPDATES = 20, 800, 3, 5
SIZES = recipes.Sizes(UPDATES, UPDATES, UPDATES, 1, 1, 1, 0)


def cpu(run):
    started = time.process_time()
    outcome = run()
    return time.process_time() - started, outcome.seconds


def together_and_apart():
    every = problems.outer(problems.load("crabs"), SPLITS, 0)
    course, key = recipes.variational(SIZES), SIZES.key("benchmark")
    whole = cpu(lambda: follow(course, key, every, np.full(SPLITS, 0.01)))
    singles = []
    for split in range(SINGLES):
        one = problems.Problems(*(leaf[split : split + 1] for leaf in every))
        singles.append(cpu(lambda one=one: follow(course, key, one, np.full(1, 0.01))))
    apart = SPLITS * np.mean(singles, axis=0)
    return {"with_compilation": apart[0] / whole[0], "without_compilation": apart[1] / whole[1]}


def wide_memory():
    """Peak memory in GiB of a few updates of the paper's AMC on colon, nothing reduced."""
    if "colon" not in data.local():
        return None
    table = data.load("colon")
    made = []
    for train, test in zip(*data.splits(len(table), SPLITS), strict=True):
        scaled, new = data.standardise(table.inputs[train], table.inputs[test])
        made.append((scaled, table.labels[train], new, table.labels[test]))
    every = problems.Problems(*(jnp.asarray(np.stack(p), jnp.float32) for p in zip(*made, strict=True)))
    sizes = SIZES._replace(matching_updates=WIDE_UPDATES)
    course = recipes.energy_matching(sizes)
    follow(course, sizes.key("wide"), every, np.full(SPLITS, 0.001))
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def main():
    argparse.ArgumentParser(description=__doc__).parse_args()
    started = time.perf_counter()
    figures = {**together_and_apart(), "colon_gib": wide_memory()}
    settings = {"splits": SPLITS, "updates": UPDATES, "singles": SINGLES, "wide_updates": WIDE_UPDATES}
    row = {**figures, **provenance(settings, 0, time.perf_counter() - started)}
    write_rows("results/bnn_splits.jsonl", [{"kind": "benchmark", "name": "bnn_splits", **row}])
    last_line(row)


if __name__ == "__main__":
    main()
