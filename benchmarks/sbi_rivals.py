"""The tasks of ``benchmarks/sbi.py`` by sbi's NPE and BayesFlow's flow matching, for the same time.

They are given simulations alone, as they are made for, and not the likelihood that understudy is given.
NPE has neural spline flows and 100,000 simulations, the most of its published figures; flow matching
simulates as it learns. Both learn parameters without bounds, so that no draw leaks out of the prior, and
train for as many minutes of the processor as they are told, which other work on the machine stretches
less than those of a clock; else they are as their libraries offer them. Rows are those of
``benchmarks/sbi.py``, with the same C2ST, and so are the steps, of which ``draw`` trains too.

What the project itself does not need: ``pip install -r benchmarks/sbi_requirements.txt``.
"""

import dataclasses
import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from tqdm import tqdm

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.sbi import DRAWS, ROWS, judge, keep, named, summary
from benchmarks.sbi_tasks import TASKS, folder, parameters, reference, simulator
from experiments.options import check_settings, option, run_with_settings
from experiments.rows import provenance
from understudy import files
from understudy.amortising.learning import simulate
from understudy.cli.main import guarded

SIMULATIONS, BATCH, EPOCH = 100_000, 256, 200
STEPS = ("draw", "judge")


@dataclasses.dataclass(frozen=True)
class Settings:
    """What is run."""

    only: str | None = option(None, "tasks with commas between them", shown="all eight")
    minutes: float = option(20.0, "of the processor for training on a task", least=0.01)
    methods: str | None = option(None, "methods with commas between them", shown="both")
    observations: int = option(10, "how many of the ten", least=1, most=10)
    simulations: int = option(SIMULATIONS, "that NPE learns from", least=1000)
    seed: int = option(0, "of everything random", least=0)
    steps: str = option(",".join(STEPS), "steps with commas between them")

    def __post_init__(self):
        """Only what can be."""
        check_settings(self)


class Learnt(NamedTuple):
    """A function of an observation to unbounded draws, and the simulations it learnt from."""

    draw: Callable[[np.ndarray], np.ndarray]
    simulations: int


def neural_posterior(task: Any, settings: Settings) -> Learnt:
    """Sbi's NPE with neural spline flows, for as many epochs as there is time, or until it stops."""
    import torch

    # The folder of a script comes before libraries, and this one has an sbi.py of its own.
    sys.path = [place for place in sys.path if Path(place) != Path(__file__).parent]
    from sbi.inference import NPE

    torch.manual_seed(settings.seed)
    torch.set_num_threads(1)
    ends = time.process_time() + 60 * settings.minutes
    pairs = simulate(jax.random.key(settings.seed), task, settings.simulations)
    trainer = NPE(density_estimator="nsf", show_progress_bars=False)
    z, x = (
        torch.as_tensor(np.array(part), dtype=torch.float32) for part in (pairs.z, _flat(pairs.data))
    )
    trainer.append_simulations(z, x)
    # Its limit is the number of the last epoch, counted from zero: these are two.
    begun = time.process_time()
    trainer.train(max_num_epochs=1)
    each = (time.process_time() - begun) / 2
    more = max(1, int((ends - time.process_time()) / each))
    estimator = trainer.train(max_num_epochs=1 + more, resume_training=True)

    def draw(seen: np.ndarray) -> np.ndarray:
        with torch.no_grad():
            given = torch.as_tensor(np.array(seen).reshape(1, -1), dtype=torch.float32)
            return estimator.sample((DRAWS,), given)[:, 0].numpy()

    return Learnt(draw, settings.simulations)


def flow_matching(task: Any, settings: Settings) -> Learnt:
    """BayesFlow's flow matching, learning from fresh simulations."""
    os.environ.setdefault("KERAS_BACKEND", "jax")
    import bayesflow
    import keras

    keras.utils.set_random_seed(settings.seed)
    source = _online(bayesflow, task, settings.seed)
    named = {"inference_variables": ["z"], "inference_conditions": ["x"], "standardize": "all"}

    def made() -> Any:
        return bayesflow.BasicWorkflow(simulator=source, inference_network="flow_matching", **named)

    def learn(workflow: Any, epochs: int, callbacks: list) -> float:
        begun = time.process_time()
        sizes = {"epochs": epochs, "num_batches_per_epoch": EPOCH, "batch_size": BATCH}
        workflow.fit_online(**sizes, verbose=0, callbacks=callbacks)
        return time.process_time() - begun

    # The rate falls over the epochs, so their number is found out first.
    compiled = made()
    learn(compiled, 1, [])
    each = learn(compiled, 1, [])
    ends = time.process_time() + 60 * settings.minutes
    workflow = made()
    source.count = 0
    stop = keras.callbacks.LambdaCallback(on_train_batch_end=lambda batch, logs: _stop(workflow, ends))
    learn(workflow, max(1, int(60 * settings.minutes / each)), [stop])

    def draw(seen: np.ndarray) -> np.ndarray:
        given = {"x": np.asarray(seen, np.float32).reshape(1, -1)}
        return np.asarray(workflow.sample(num_samples=DRAWS, conditions=given)["z"])[0]

    return Learnt(draw, source.count)


def _stop(workflow: Any, ends: float) -> None:
    if time.process_time() > ends:
        workflow.approximator.stop_training = True


def _online(bayesflow: Any, task: Any, seed: int) -> Any:
    """Simulations of a task for BayesFlow, counted."""
    one = jax.jit(lambda key, n: jax.vmap(task.simulate)(jax.random.split(key, n)), static_argnums=1)

    class Online(bayesflow.simulators.Simulator):
        count, calls = 0, 0

        @bayesflow.utils.decorators.allow_batch_size
        def sample(self, batch_shape: Any, **_: Any) -> dict[str, np.ndarray]:
            size = int(np.prod(batch_shape))
            self.calls += 1
            self.count += size
            z, data = one(jax.random.fold_in(jax.random.key(seed), self.calls), size)
            z, x = np.array(z), _flat(data)
            fine = np.isfinite(z).all(1) & np.isfinite(x).all(1)
            rows = np.resize(np.flatnonzero(fine), size)
            return {"z": z[rows], "x": x[rows]}

    return Online()


def _flat(data: Any) -> np.ndarray:
    values = next(iter(data.values.values()))
    return np.array(values, np.float32).reshape(len(values), -1)


METHODS = {"sbi NPE": neural_posterior, "bayesflow FM": flow_matching}


def run(settings: Settings, out: Path, progress: bool | None = None) -> dict[str, Any]:
    """Train every rival on every task and compare its draws with the reference."""
    tasks = named("tasks", settings.only, TASKS)
    methods = named("methods", settings.methods, tuple(METHODS))
    steps = named("steps", settings.steps, STEPS)
    for task in tqdm(tasks, disable=progress is False):
        if not (folder() / f"{task}.npz").exists():
            print(f"{folder() / task}.npz is not there, so {task} is left out; set UNDERSTUDY_DATA.")
            continue
        for method in methods:
            place = out / "kept" / f"{task}-{settings.seed}-{method.replace(' ', '-')}"
            if "draw" in steps:
                keep(place, draw(task, method, settings))
            if "judge" in steps:
                for row in judge(task, place, settings):
                    print(task, method, row["observation"], round(row["c2st"], 3), flush=True)
                    files.append_row(out / ROWS, row)
    return summary(files.read_rows(out / ROWS))


def draw(task: str, method: str, settings: Settings) -> Iterator[tuple[dict[str, Any], np.ndarray]]:
    """A row without its judgement, and the draws, for every observation."""
    started, begun = time.perf_counter(), time.process_time()
    model, known = simulator(task), reference(task)
    learnt = METHODS[method](model, settings)
    spent, processor = time.perf_counter() - started, time.process_time() - begun
    constrain = jax.jit(jax.vmap(model.target.constrain))
    for i in range(settings.observations):
        sites = constrain(jnp.asarray(learnt.draw(known.observations[i])))
        row = {"task": task, "method": method, "observation": i + 1, "seed": settings.seed}
        row |= {"train_seconds": spent, "processor_seconds": processor}
        row |= {"simulations": learnt.simulations}
        row |= {"likelihoods": 0, "gradients": 0}
        row |= provenance(settings, settings.seed, time.perf_counter() - started)
        named_sites = {name: np.asarray(value)[None] for name, value in sites.items()}
        yield row, parameters(model, named_sites)[0]


def main(words: list[str]) -> None:
    """The command: options are those of ``Settings``."""
    module, out = sys.modules[__name__], Path("runs", "sbi")
    run_with_settings("python benchmarks/sbi_rivals.py", module, words, out)


if __name__ == "__main__":
    sys.exit(guarded(main))
