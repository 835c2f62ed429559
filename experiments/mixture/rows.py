"""The rows of the mixture experiment: which student learns from which teacher by which feedback."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import jax
import optax

from understudy.core import Feedback, Key, Student, Teacher
from understudy.feedbacks import EnergyDistance, InclusiveKL, JensenShannon
from understudy.networks import Critic
from understudy.students import Gated, GaussianMixture, Implicit, VariationalProgram
from understudy.teachers import Compose, IndependenceMetropolis, TemperedTransition, mala

LENGTHS = (1, 5, 10)
# T x eta: what the paper's step sizes make, and what its text says.
DISTANCES = (0.1, 1.0)
ADAM = partial(optax.adam, b1=0.5)


@dataclass(frozen=True)
class Row:
    """One line of the table: ingredients and how they are trained.

    Attributes:
        name: identifies the row.
        student: makes it from a key.
        teacher: improves its draws.
        feedback: moves it towards them.
        learning: other settings of ``train``.
        group: of the rows that are drawn and read together.
        wild: whether the student has no density.
        learnt_weights: whether the weights of the modes can be learnt.
        chain: transitions T and step size eta of the paper's chains, None for other rows.
    """

    name: str
    student: Callable[[Key], Student]
    teacher: Teacher
    feedback: Feedback
    learning: dict[str, Any] = field(default_factory=dict)
    group: str = "ours"
    wild: bool = True
    learnt_weights: bool = False
    chain: tuple[int, float] | None = None

    @property
    def paper(self) -> bool:
        """Whether the paper has it."""
        return self.chain is not None

    @property
    def labels(self) -> dict[str, Any]:
        """What the row is, as a line of results says it."""
        steps, size = self.chain or (None, None)
        return {
            "name": self.name,
            "student": type(self.student(jax.random.key(0))).__name__,
            "feedback": type(self.feedback).__name__,
            "group": self.group,
            "wild": self.wild,
            "learnt_weights": self.learnt_weights,
            "from_paper": self.paper,
            "transitions": steps,
            "step_size": size,
        }


def program(key: Key) -> Student:
    """The variational program of section 5.1, both sides alive at the start."""
    return VariationalProgram(*(1 + 0.3 * jax.random.normal(key, (2, 2))))


def perceptron(key: Key) -> Student:
    """The small perceptron of section 5.1, [3, 20, 20, 1]."""
    return Implicit(key, 1, noise=3, hidden=(20, 20))


def gated(key: Key) -> Student:
    """Eight branches and a learnt gate."""
    return Gated(key, 1, branches=8)


def explicit(key: Key) -> Student:
    """Two Gaussians with learnt weights."""
    return GaussianMixture(key, 1, 2, spread=3.0)


PAPER_STUDENTS: dict[str, Callable[[Key], Student]] = {"program": program, "perceptron": perceptron}
PAPER_FEEDBACK = JensenShannon(critic=partial(Critic, hidden=(20, 20), activation=jax.nn.relu))
PAPER_LEARNING = {"particles": 10, "optimiser": ADAM(1e-3), "critic_optimiser": ADAM(1e-3)}


def all_rows(updates: int) -> list[Row]:
    """Every row, those of one program after another."""
    return [*paper_rows(), *holding_rows(updates), *our_rows(updates)]


def chain_name(student: str, steps: int, distance: float) -> str:
    """Of a row of the paper: its student, T and eta."""
    return f"{student}, T={steps}, eta={distance / steps:g}"


def paper_rows() -> list[Row]:
    """Both students at three chain lengths, for each of the two readings of T x eta."""
    return [
        Row(
            chain_name(name, steps, distance),
            student,
            mala(distance / steps, steps=steps),
            PAPER_FEEDBACK,
            PAPER_LEARNING,
            group=name,
            chain=(steps, distance / steps),
        )
        for name, student in PAPER_STUDENTS.items()
        for distance in DISTANCES
        for steps in LENGTHS
    ]


def holding_rows(updates: int) -> list[Row]:
    """The paper's perceptron, T=1, eta=0.1, with one thing changed in each: what holds its KSD."""
    falling = ADAM(optax.cosine_decay_schedule(1e-3, updates, 0.02))
    changes: dict[str, tuple[Feedback, dict[str, Any]]] = {
        "averaged weights": (PAPER_FEEDBACK, {"average": 0.999}),
        "falling rates": (PAPER_FEEDBACK, {"optimiser": falling, "critic_optimiser": falling}),
        "100 chains": (PAPER_FEEDBACK, {"particles": 100}),
        "no critic": (EnergyDistance(), {}),
        "no critic, 100 chains": (EnergyDistance(), {"particles": 100}),
    }
    return [
        Row(
            f"perceptron, {change}",
            perceptron,
            mala(0.1),
            feedback,
            {**PAPER_LEARNING, **learning},
            group="held",
        )
        for change, (feedback, learning) in changes.items()
    ]


def our_rows(updates: int) -> list[Row]:
    """What does better, and students that learn the weights of the modes."""
    adam = optax.adam(optax.cosine_decay_schedule(3e-3, updates, 0.05))
    learning = {"particles": 64, "average": 0.999, "optimiser": adam}
    local = mala(0.3, steps=5)
    tempered = Compose(TemperedTransition(), local)
    independent = Compose(local, IndependenceMetropolis())
    critic = {**learning, "optimiser": ADAM(1e-3), "critic_optimiser": ADAM(1e-3)}
    energy, inclusive = EnergyDistance(), InclusiveKL()
    weighted = {"wild": False, "learnt_weights": True}
    return [
        Row("program, longer steps", program, local, JensenShannon(), critic),
        Row("program, energy distance", program, local, energy, learning),
        Row("perceptron, tempered", perceptron, tempered, energy, learning, learnt_weights=True),
        Row("gated, local", gated, local, energy, learning, learnt_weights=True),
        Row("gated, tempered", gated, tempered, energy, learning, learnt_weights=True),
        Row("mixture, local", explicit, local, inclusive, learning, **weighted),
        Row("mixture, independence", explicit, independent, inclusive, learning, **weighted),
    ]
