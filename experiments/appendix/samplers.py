"""Amortised SVGD and operator variational inference beside amortised MCMC, on the same targets.

One wild student, the same number of particles and updates and the same rate for all; only who teaches,
and by what, differs.
"""

from collections.abc import Callable
from typing import Any

import jax
import optax

from experiments import toys
from experiments.appendix.sizes import Sizes
from understudy.core import Feedback, Key, Student, Teacher
from understudy.feedbacks import CriticBuilder, EnergyDistance, LearntStein, SquaredDistance
from understudy.students import Implicit
from understudy.teachers import SVGD, Identity, mala
from understudy.training import train

TARGETS = ("banana", "ring")
METHODS: dict[str, Callable[[], tuple[Teacher, Feedback]]] = {
    "amortised MCMC": lambda: (mala(0.1, steps=5, target_acceptance=0.6), EnergyDistance()),
    "amortised SVGD": lambda: (SVGD(0.1), SquaredDistance()),
    "operator VI": lambda: (Identity(), LearntStein(critic=CriticBuilder((32, 32), vector=True))),
}
PARTICLES, RATE = 64, 3e-3


def student(key: Key) -> Student:
    """A network of four noises."""
    return Implicit(key, 2, noise=4, hidden=(40, 40))


def rows(sizes: Sizes) -> list[dict[str, Any]]:
    """Every method on every target."""
    settings = toys.Settings(updates=sizes.updates, repeats=sizes.repeats, seed=sizes.seed)
    made = []
    for name in TARGETS:
        known = toys.Known(toys.TARGETS[name], settings)
        made += [_row(name, known, method, sizes) for method in METHODS]
    return made


def _row(name: str, known: toys.Known, method: str, sizes: Sizes) -> dict[str, Any]:
    teacher, feedback = METHODS[method]()
    trained = train(
        known.target,
        student,
        teacher,
        feedback,
        updates=sizes.updates,
        repeats=sizes.repeats,
        seed=sizes.seed,
        particles=PARTICLES,
        average=0.998,
        optimiser=optax.adam(optax.cosine_decay_schedule(RATE, sizes.updates, 0.02)),
        progress=False,
    )
    measured = known(trained.sample(jax.random.key(sizes.seed + 1), known.settings.draws))
    return {
        "name": f"{name}, {method}",
        "target": name,
        "method": method,
        **measured,
        "training_seconds": trained.seconds,
    }
