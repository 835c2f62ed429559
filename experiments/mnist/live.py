"""Figures of a training while it runs: bound, reconstruction, acceptance and effective draws."""

import math
import time
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
from jaxtyping import Scalar
from tqdm import tqdm

from understudy import files
from understudy.core import CONDITIONS, Condition, ExplicitStudent, Key, Student
from understudy.evaluation.evidence import effective_draws
from understudy.targets import OfIndexed
from understudy.training.recording import Chunk
from understudy.training.update import State

FILE, SECONDS, DRAWS = "live.jsonl", 30.0, 20
CURVES = {
    "bound": "bound (nats)",
    "reconstruction": "log-likelihood of images given the encoder's draws (nats)",
    "acceptance": "acceptance of the teacher",
    "effective": f"effective draws of {DRAWS}",
}


class Live:
    """Looks at a training now and then, on the same images every time; what it spends does not count.

    Args:
        folder: of the stage; rows go into its ``live.jsonl``.
        budget: the stage's, told of the time that does not count.
        x: images to look at.
        before: updates in earlier stages.
        bar: a progress bar that shows the figures, or None.
    """

    def __init__(self, folder: Path, budget: Any, x: Condition, before: int, bar: tqdm | None):
        self.path, self.budget, self.x, self.before, self.bar = folder / FILE, budget, x, before, bar
        self.looked: float | None = None
        self.step = 0

    def __call__(self, chunk: Chunk) -> None:
        """A look, unless there was one a short while ago."""
        if self.looked is None:
            files.truncate_rows(self.path, chunk.row["step"] - 1)
        if self.looked is None or time.monotonic() - self.looked > SECONDS:
            self.look(chunk.state, chunk.row["acceptance"])

    def look(self, state: State, acceptance: Any) -> None:
        """One row of figures, shown in the progress bar as well; none if there was one of this state."""
        step = int(state.step)
        if step == self.step:
            return
        with self.budget.paused():
            found = figures(jax.random.key(0), state.target, state.student, self.x)
            found |= {"acceptance": acceptance}
            row = {"step": step, "updates": self.before + step, "core_seconds": self.budget.core}
            files.append_row(self.path, files.plain(row | found))
            if self.bar is not None:
                numbers = {name: float(value) for name, value in found.items()}
                shown = {n: f"{v:.4g}" for n, v in numbers.items() if math.isfinite(v)}
                self.bar.set_postfix({"spent": f"{self.budget.share(step):.0%}"} | shown)
        self.looked, self.step = time.monotonic(), step


@eqx.filter_jit
def figures(key: Key, target: Any, student: Student, x: Condition) -> dict[str, Scalar]:
    """Means over images; bound and effective draws need an encoder with a density."""
    model, images = (target.target, x.value) if isinstance(target, OfIndexed) else (target, x)
    keys = jax.random.split(key, len(images))
    draw = lambda key, x: student.sample(key, x, DRAWS)  # noqa: E731
    z = jax.vmap(draw, axis_name=CONDITIONS)(keys, x)
    likelihood = _over_draws(model.log_likelihood)(z, images)
    found = {"reconstruction": likelihood.mean()}
    if isinstance(student, ExplicitStudent):
        weights = _over_draws(model.log_density)(z, images) - _over_draws(student.log_prob)(z, x)
        found |= {"bound": weights.mean(), "effective": jax.vmap(effective_draws)(weights).mean()}
    return found


def _over_draws(function):
    return jax.vmap(jax.vmap(function, (0, None)))


def rows_of(folders: list[Path]) -> list[dict[str, Any]]:
    """What was seen in all stages of a method, over the updates of all of them."""
    rows = [row for folder in folders for row in files.read_rows(folder / FILE)]
    return [row | {"step": row["updates"]} for row in rows]
