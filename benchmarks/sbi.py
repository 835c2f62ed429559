"""Eight tasks of simulation-based inference; understudy is given the likelihood, its rivals are not.

Every row is the C2ST (sbibm's own: two hidden layers of 10 d units, five folds, draws standardised by
the reference) of 10,000 draws against 10,000 reference draws of one observation: 0.5 is as good as can
be. ``understudy`` are the student's own draws, which learnt from simulations alone; ``understudy
finished`` are those that ``inference.sample`` gives, corrected by the likelihood.

Three steps, together or one at a time: ``train`` keeps the student, ``draw`` its draws, and ``judge``
appends the rows. Only the first is timed: by the clock, and in processor seconds, which other work
on the machine stretches less. A budget in updates makes the same of a seed on any machine.
"""

import dataclasses
import json
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

import understudy
from benchmarks.sbi_tasks import TASKS, folder, parameters, reference, simulator
from experiments.options import check_settings, option, run_with_settings
from experiments.rows import commit, provenance
from understudy import files
from understudy.amortising import Updates, amortise
from understudy.cli.main import guarded
from understudy.core import IngredientError

ROWS = "sbi.jsonl"
METHODS = ("understudy", "understudy finished")
STEPS = ("train", "draw", "judge")
DRAWS = 10_000
_FOLDS, _BATCH, _MOST_EPOCHS, _PATIENCE, _TOLERANCE, _DECAY = 5, 200, 1000, 10, 1e-4, 1e-4


@dataclasses.dataclass(frozen=True)
class Settings:
    """What is run."""

    only: str | None = option(None, "tasks with commas between them", shown="all eight")
    minutes: float = option(20.0, "of training for a task", least=0.01)
    updates: int | None = option(None, "of training, in place of minutes", least=1)
    steps: str = option(",".join(STEPS), "steps with commas between them")
    observations: int = option(10, "how many of the ten", least=1, most=10)
    seed: int = option(0, "of everything random", least=0)

    def __post_init__(self):
        """Only what can be."""
        check_settings(self)


def run(settings: Settings, out: Path, progress: bool | None = None) -> dict[str, Any]:
    """Train on every task, draw, and compare the draws with the reference."""
    tasks = named("tasks", settings.only, TASKS)
    steps = named("steps", settings.steps, STEPS)
    for task in tqdm(tasks, disable=progress is False):
        if not (folder() / f"{task}.npz").exists():
            print(f"{folder() / task}.npz is not there, so {task} is left out; set UNDERSTUDY_DATA.")
            continue
        place = out / "kept" / f"{task}-{settings.seed}"
        if "train" in steps:
            _train(task, place, settings)
        if "draw" in steps:
            keep(place, draw(task, place, settings))
        if "judge" in steps:
            for row in judge(task, place, settings):
                print(task, row["method"], row["observation"], round(row["c2st"], 3), flush=True)
                files.append_row(out / ROWS, row)
        jax.clear_caches()
    return summary(files.read_rows(out / ROWS))


def named(what: str, given: str | None, known: tuple[str, ...]) -> tuple[str, ...]:
    """The names between commas, all of them where none are given."""
    names = known if given is None else tuple(given.split(","))
    unknown = [name for name in names if name not in known]
    if unknown:
        raise IngredientError(f"{what} are {', '.join(known)}; {unknown[0]!r} came.")
    return names


def _train(task: str, place: Path, settings: Settings) -> None:
    """Keep a student, and what it was trained with."""
    budget = 60 * settings.minutes if settings.updates is None else Updates(settings.updates)
    begun = time.process_time()
    inference = amortise(simulator(task), budget=budget, seed=settings.seed, progress=False)
    print(task, inference, flush=True)
    inference.save(place.with_suffix(".safetensors"))
    told = {"minutes": settings.minutes, "updates": settings.updates, "commit": commit()}
    told["processor_seconds"] = time.process_time() - begun
    place.with_suffix(".json").write_text(json.dumps(told))


def draw(task: str, place: Path, settings: Settings) -> Iterator[tuple[dict[str, Any], np.ndarray]]:
    """A row without its judgement, and the draws, for every observation and method."""
    inference = understudy.load(place.with_suffix(".safetensors"), target=simulator(task))
    told = json.loads(place.with_suffix(".json").read_text())
    settings = dataclasses.replace(settings, minutes=told["minutes"], updates=told["updates"])
    known = reference(task)
    judged = sum(stage.evaluations for stage in inference.stages)
    for i in range(settings.observations):
        for method in METHODS:
            started, finish = time.perf_counter(), method == METHODS[1]
            drawn = inference.sample(
                settings.seed + i, known.observations[i : i + 1], DRAWS, finish=finish
            )
            row = {"task": task, "method": method, "observation": i + 1, "seed": settings.seed}
            row["train_seconds"] = inference.seconds + inference.compile_seconds
            row["processor_seconds"] = told["processor_seconds"]
            row["simulations"] = inference.simulations
            row["likelihoods"] = judged + (drawn.likelihoods if finish else 0)
            row |= {"gradients": drawn.gradients, "route": str(drawn.route[0])}
            row |= {"pareto_k": float(drawn.pareto_k[0]), "share": float(drawn.share[0])}
            row |= {"r_hat": float(drawn.r_hat[0]), "trusted": bool(drawn.trusted[0])}
            row |= provenance(settings, settings.seed, time.perf_counter() - started)
            row["trained_at"] = told["commit"]
            yield row, parameters(inference.simulator, drawn.draws)[0]


def keep(place: Path, drawn: Iterator[tuple[dict[str, Any], np.ndarray]]) -> None:
    """Write rows and draws, for :func:`judge`."""
    rows, draws = zip(*drawn, strict=True)
    place.parent.mkdir(parents=True, exist_ok=True)
    np.savez(place.with_suffix(".npz"), rows=json.dumps(rows), draws=np.stack(draws))


def judge(task: str, place: Path, settings: Any) -> Iterator[dict[str, Any]]:
    """The rows that were kept, with the C2ST of their draws."""
    known = reference(task)
    with np.load(place.with_suffix(".npz"), allow_pickle=False) as held:
        rows, draws = json.loads(str(held["rows"])), held["draws"]
    for row, z in zip(rows, draws, strict=True):
        if row["observation"] <= settings.observations:
            yield row | {"c2st": c2st(z, known.draws[row["observation"] - 1], settings.seed)}


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
    tests = np.arange(_FOLDS * size).reshape(_FOLDS, size)
    rest = np.stack([np.setdiff1d(tests, test) for test in tests])
    weights = _fit(jax.random.key(seed), rows[rest], labels[rest])
    right = (jax.vmap(_logits)(weights, rows[tests]) > 0) == (labels[tests] > 0.5)
    return float(right.mean())


def _logits(weights: list, rows: Any) -> Any:
    for matrix, bias in weights[:-1]:
        rows = jax.nn.relu(rows @ matrix + bias)
    return (rows @ weights[-1][0] + weights[-1][1])[:, 0]


@jax.jit
def _fit(key: Any, rows: Any, labels: Any) -> list:
    """The classifiers of all folds, side by side; one that has ended waits for the others."""
    folds, n, d = rows.shape
    sizes = [d, 10 * d, 10 * d, 1]
    keys = jax.random.split(key, 3)
    weights = [
        (
            np.sqrt(6 / (i + o)) * jax.random.uniform(k, (folds, i, o), minval=-1, maxval=1),
            jnp.zeros((folds, o)),
        )
        for k, i, o in zip(keys, sizes[:-1], sizes[1:], strict=True)
    ]
    optimiser = optax.adam(1e-3)
    batches = n // _BATCH

    def loss(weights, rows, labels):
        logits = _logits(weights, rows)
        penalty = sum((matrix**2).sum() for matrix, _ in weights)
        cross = (jax.nn.softplus(logits) - labels * logits).mean()
        return cross + 0.5 * _DECAY * penalty / len(rows)

    def step(carry, batch):
        weights, memory = carry
        values, slopes = jax.vmap(jax.value_and_grad(loss))(weights, *batch)
        updates, memory = optimiser.update(slopes, memory)
        return (optax.apply_updates(weights, updates), memory), values

    def epoch(carry):
        learnt, best, stale, count = carry
        # One order for all folds, whose rows differ: sorting would take most of the time.
        order = jnp.argsort(jax.random.bits(jax.random.fold_in(key, count), (n,)))
        picks = order[: batches * _BATCH].reshape(batches, _BATCH)
        taken = tuple(jnp.moveaxis(part[:, picks], 1, 0) for part in (rows, labels))
        new, losses = jax.lax.scan(step, learnt, taken)
        going, mean = stale <= _PATIENCE, losses.mean(0)

        def chosen(new, old):
            if new.ndim == 0:
                return new
            return jnp.where(going.reshape(-1, *[1] * (new.ndim - 1)), new, old)

        stale = jnp.where(mean > best - _TOLERANCE, stale + going, jnp.where(going, 0, stale))
        return jax.tree.map(chosen, new, learnt), jnp.minimum(best, mean), stale, count + 1

    def going(carry):
        return (carry[2] <= _PATIENCE).any() & (carry[3] < _MOST_EPOCHS)

    start = (weights, optimiser.init(weights)), jnp.full(folds, jnp.inf), jnp.zeros(folds, int), 0
    return jax.lax.while_loop(going, epoch, start)[0][0]


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
