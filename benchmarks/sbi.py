"""Eight tasks of simulation-based inference; understudy is given the likelihood, its rivals are not.

Every row is the C2ST (sbibm's own: two hidden layers of 10 d units, five folds, draws standardised by
the reference) of 10,000 draws against 10,000 reference draws of one observation: 0.5 is as good as can
be. ``understudy`` are the student's own draws, which learnt from simulations alone; ``understudy
finished`` are those that ``inference.sample`` gives, corrected by the likelihood.
"""

import dataclasses
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from tqdm import tqdm

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.sbi_tasks import TASKS, folder, parameters, reference, simulator
from experiments.rows import provenance
from understudy import files
from understudy.amortising import amortise
from understudy.cli.main import guarded
from understudy.cli.settings import check_settings, option, run_with_settings
from understudy.core import IngredientError

ROWS = "sbi.jsonl"
METHODS = ("understudy", "understudy finished")
DRAWS = 10_000
_FOLDS, _BATCH, _MOST_EPOCHS, _PATIENCE, _TOLERANCE, _DECAY = 5, 200, 1000, 10, 1e-4, 1e-4


@dataclasses.dataclass(frozen=True)
class Settings:
    """What is run."""

    only: str | None = option(None, "tasks with commas between them", shown="all eight")
    minutes: float = option(20.0, "of training for a task", least=0.01)
    methods: str = option(",".join(METHODS), "methods with commas between them")
    observations: int = option(10, "how many of the ten", least=1, most=10)
    seed: int = option(0, "of everything random", least=0)

    def __post_init__(self):
        """Only what can be."""
        check_settings(self)


def run(settings: Settings, out: Path, progress: bool | None = None) -> dict[str, Any]:
    """Train on every task and compare its draws with the reference."""
    tasks = TASKS if settings.only is None else tuple(settings.only.split(","))
    unknown = [name for name in tasks if name not in TASKS]
    if unknown:
        raise IngredientError(f"{unknown[0]!r} is not a task; they are {', '.join(TASKS)}.")
    methods = settings.methods.split(",")
    if any(method not in METHODS for method in methods):
        raise IngredientError(f"methods are {', '.join(METHODS)}; {settings.methods!r} came.")
    for task in tqdm(tasks, disable=progress is False):
        if not (folder() / f"{task}.npz").exists():
            print(f"{folder() / task}.npz is not there, so {task} is left out; set UNDERSTUDY_DATA.")
            continue
        for row in measure(task, methods, settings):
            files.append_row(out / ROWS, row)
        jax.clear_caches()
    return summary(files.read_rows(out / ROWS))


def measure(task: str, methods: list[str], settings: Settings) -> Iterator[dict[str, Any]]:
    """Train once, and judge the draws of every method for every observation; a row for each."""
    started = time.perf_counter()
    model, known = simulator(task), reference(task)
    inference = amortise(model, budget=60 * settings.minutes, seed=settings.seed, progress=False)
    spent = time.perf_counter() - started
    print(inference, flush=True)
    for i in range(settings.observations):
        for method in methods:
            drawn = inference.sample(
                settings.seed + i, known.observations[i : i + 1], DRAWS, finish=method == METHODS[1]
            )
            judged = sum(stage.evaluations for stage in inference.stages)
            row = {"task": task, "method": method, "observation": i + 1, "seed": settings.seed}
            row["c2st"] = c2st(parameters(task, drawn.draws)[0], known.draws[i], settings.seed)
            row |= {"train_seconds": spent, "simulations": inference.simulations}
            row["likelihoods"] = judged + (drawn.likelihoods if method == METHODS[1] else 0)
            row |= {"gradients": drawn.gradients, "route": str(drawn.route[0])}
            row |= {"pareto_k": float(drawn.pareto_k[0]), "trusted": bool(drawn.trusted[0])}
            seconds = time.perf_counter() - started
            print(task, method, i + 1, round(row["c2st"], 3), row["route"], flush=True)
            yield row | provenance(settings, settings.seed, seconds)


def c2st(draws: np.ndarray, known: np.ndarray, seed: int) -> float:
    """Sbibm's classifier two-sample test: the accuracy of a perceptron that tells the two apart.

    scikit-learn's classifier as sbibm calls it, in JAX: Adam at 0.001, batches of 200, a penalty of
    1e-4, until the loss of training has not fallen by 1e-4 for ten epochs.
    """
    mean, deviation = known.mean(0), known.std(0)
    rows = np.concatenate([(draws - mean) / deviation, (known - mean) / deviation])
    labels = np.repeat([0.0, 1.0], [len(draws), len(known)])
    order = np.random.default_rng(seed).permutation(len(rows))
    rows, labels = (jnp.asarray(v[order], jnp.float32) for v in (rows, labels))
    size = len(rows) // _FOLDS
    scores = []
    for fold in range(_FOLDS):
        test = slice(fold * size, (fold + 1) * size)
        kept = np.r_[0 : test.start, test.stop : size * _FOLDS]
        weights = _fit(jax.random.key(seed + fold), rows[kept], labels[kept])
        scores.append(float(((_logits(weights, rows[test]) > 0) == (labels[test] > 0.5)).mean()))
    return float(np.mean(scores))


def _logits(weights: list, rows: Any) -> Any:
    for matrix, bias in weights[:-1]:
        rows = jax.nn.relu(rows @ matrix + bias)
    return (rows @ weights[-1][0] + weights[-1][1])[:, 0]


@jax.jit
def _fit(key: Any, rows: Any, labels: Any) -> list:
    n, d = rows.shape
    sizes = [d, 10 * d, 10 * d, 1]
    keys = jax.random.split(key, 3)
    weights = [
        (np.sqrt(6 / (i + o)) * jax.random.uniform(k, (i, o), minval=-1, maxval=1), jnp.zeros(o))
        for k, i, o in zip(keys, sizes[:-1], sizes[1:], strict=True)
    ]
    optimiser = optax.adam(1e-3)
    batches = n // _BATCH

    def loss(weights, rows, labels):
        logits = _logits(weights, rows)
        penalty = sum((matrix**2).sum() for matrix, _ in weights)
        cross = (jax.nn.softplus(logits) - labels * logits).mean()
        return cross + 0.5 * _DECAY * penalty / len(rows)

    def step(carry, picks):
        weights, memory = carry
        value, slope = jax.value_and_grad(loss)(weights, rows[picks], labels[picks])
        updates, memory = optimiser.update(slope, memory)
        return (optax.apply_updates(weights, updates), memory), value

    def epoch(carry):
        weights, memory, best, stale, count = carry
        order = jax.random.permutation(jax.random.fold_in(key, count), n)[: batches * _BATCH]
        (weights, memory), losses = jax.lax.scan(step, (weights, memory), order.reshape(batches, _BATCH))
        mean = losses.mean()
        stale = jnp.where(mean > best - _TOLERANCE, stale + 1, 0)
        return weights, memory, jnp.minimum(best, mean), stale, count + 1

    def going(carry):
        return (carry[3] <= _PATIENCE) & (carry[4] < _MOST_EPOCHS)

    start = (weights, optimiser.init(weights), jnp.inf, jnp.array(0), jnp.array(0))
    return jax.lax.while_loop(going, epoch, start)[0]


def summary(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """The mean C2ST of every task and method."""
    found: dict[str, list[float]] = {}
    for row in rows:
        found.setdefault(f"{row['task']}, {row['method']}", []).append(row["c2st"])
    return {name: round(float(np.mean(values)), 4) for name, values in found.items()}


def main(words: list[str]) -> None:
    """The command: options are those of ``Settings``."""
    module, out = sys.modules[__name__], Path("runs", "sbi")
    run_with_settings("python benchmarks/sbi.py", module, words, out)


if __name__ == "__main__":
    sys.exit(guarded(main))
