"""Appendix D: draws paired with their improvement, or fresh ones, with a single chain.

The paper says that fresh draws let the critic saturate at K=1, paired ones confuse it, and that a
Wasserstein critic would not mind. The student is the program, which has both modes from the start.
"""

from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from experiments import mixture
from experiments.appendix.sizes import Sizes
from experiments.mixture.rows import PAPER_LEARNING, program
from experiments.rows import mean_and_error
from understudy.core import Condition, Divergence, Key, Lesson, Student, bind
from understudy.feedbacks import JensenShannon, Wasserstein
from understudy.networks import Critic
from understudy.teachers import mala
from understudy.training import train
from understudy.training.recording import Chunk
from understudy.training.update import State

TARGET = mixture.TARGET
CRITIC = partial(Critic, hidden=(20, 20), activation=jax.nn.softplus)
FEEDBACKS: dict[str, Divergence] = {
    "critic to fool": JensenShannon(critic=CRITIC),
    "bound of the critic": JensenShannon(critic=CRITIC, saturating=True),
    "Wasserstein critic": Wasserstein(critic=CRITIC, critic_steps=1),
}
SURE, DRAWS, LOOKS = 0.9, 500, 10


def rows(sizes: Sizes) -> list[dict[str, Any]]:
    """Every feedback with paired and with fresh draws."""
    return [
        _row(name, feedback, pairing, sizes)
        for name, feedback in FEEDBACKS.items()
        for pairing in ("paired", "fresh")
    ]


def _row(name: str, feedback: Divergence, pairing: Any, sizes: Sizes) -> dict[str, Any]:
    watch = Watch(jax.random.key(sizes.seed), feedback, sizes.updates)
    trained = train(
        TARGET,
        program,
        mala(0.1),
        feedback,
        updates=sizes.updates,
        repeats=sizes.repeats,
        seed=sizes.seed,
        pairing=pairing,
        chunk=watch.every,
        callbacks=[watch],
        progress=False,
        **PAPER_LEARNING | {"particles": 1},
    )
    settings = mixture.Settings(updates=sizes.updates, repeats=sizes.repeats)
    measured = mixture.measure(jax.random.key(sizes.seed + 1), trained.student, settings)
    return {
        "name": f"{pairing}, {name}",
        "pairing": pairing,
        "feedback": name,
        **mean_and_error("sure", watch.mean("sure")),
        **mean_and_error("pull", watch.mean("pull")),
        **{figure: float(np.median(measured[figure])) for figure in ("ksd", "w1")},
        "both_modes": int(np.sum(measured["both_modes"])),
        "training_seconds": trained.seconds,
    }


class Watch:
    """How sure the critic is along a training, and how hard it pulls."""

    def __init__(self, key: Key, feedback: Divergence, updates: int):
        self.key, self.feedback, self.every = key, feedback, max(updates // LOOKS, 1)
        self.looks: list[dict[str, np.ndarray]] = []

    def __call__(self, chunk: Chunk) -> None:
        """A look at the critics of all repeats."""
        found = confidence(self.key, self.feedback, chunk.state)
        self.looks.append({name: np.asarray(value) for name, value in found.items()})

    def mean(self, name: str) -> Float[np.ndarray, " r"]:
        """Over the looks, of every repeat."""
        return np.mean([found[name] for found in self.looks], axis=0)


@eqx.filter_jit
def confidence(key: Key, feedback: Divergence, state: State) -> dict[str, Float[Array, " r"]]:
    """Of every repeat's critic: the share of draws it is sure about, and its gradient at a draw.

    It is sure of a draw before teaching where it gives it a probability below 0.1 to be the teacher's,
    of one after where it gives above 0.9.
    """

    def one(key, student, critic, teacher):
        draw, improve, noise = jax.random.split(key, 3)
        before = student.sample(draw, None, DRAWS)
        moved = teacher.improve(improve, TARGET.log_density, before, bind(student, None))
        lesson = _lesson(draw, noise, before, moved.z)
        loss = lambda shift: feedback.loss(_Shifted(student, shift), critic, TARGET, lesson)  # noqa: E731
        judge = lambda z: jax.nn.sigmoid(jax.vmap(lambda row: critic(row, None))(z))  # noqa: E731
        right = jnp.concatenate([1 - judge(before), judge(moved.z)])
        pulls = jax.grad(loss)(jnp.zeros_like(before)) * DRAWS
        return {"sure": (right > SURE).mean(), "pull": jnp.abs(pulls).mean()}

    keys = jax.random.split(key, state.step.shape[0])
    return eqx.filter_vmap(one)(keys, state.student, state.critic, state.teacher)


def _lesson(key: Key, noise: Key, before: Array, after: Array) -> Lesson:
    n = before.shape[0]
    return Lesson(key, noise, None, before, after, jnp.full(n, 1 / n), before, jnp.ones(n, bool))


class _Shifted(Student):
    """A student whose draws are moved, to ask for the gradient at every draw."""

    student: Student
    shift: Float[Array, "n d"]
    dim: int = eqx.field(static=True, default=1)

    def sample(self, key: Key, x: Condition, n: int) -> Float[Array, "n d"]:
        return self.student.sample(key, x, n) + self.shift
