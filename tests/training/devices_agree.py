"""Run by the tests where JAX has eight devices: students and feedbacks on one and on all of them.

Prints one JSON object with the largest relative difference of parameters, pair by pair.
"""

import json
import sys

import jax
import numpy as np

from tests.cases import FEEDBACKS, STUDENTS, TEACHERS, WORLDS, make
from tests.test_protocol import legal
from understudy.core import partition
from understudy.training import Learner, Training

UPDATES = 10
TEACHER = "mala"


def learnt(student_name: str, feedback_name: str, devices: int | None) -> list[np.ndarray]:
    """Parameters of student after ten updates; as many conditions as devices."""
    student, world = make(student_name, jax.random.key(0))
    x = (
        None
        if world.x is None
        else jax.tree.map(lambda leaf: np.resize(leaf, (8, *leaf.shape[1:])), world.x)
    )
    learner = Learner(FEEDBACKS[feedback_name](), particles=8)
    teacher = TEACHERS[TEACHER].make(student.dim)
    training = Training(
        learner, world.target, student, teacher, lambda key: x, devices=devices
    ).compile()
    state, _ = training.advance(training.state, UPDATES)
    return [np.asarray(leaf) for leaf in jax.tree.leaves(partition(state.student)[0])]


def difference(one: list[np.ndarray], other: list[np.ndarray]) -> float:
    """Largest difference, as a share of the largest number of its array."""
    gaps = [np.abs(a - b).max() / max(np.abs(a).max(), 1e-3) for a, b in zip(one, other, strict=True)]
    return float(max(gaps, default=0.0))


def main(pairs: list[str]) -> None:
    every = [
        f"{student}/{feedback}"
        for student in STUDENTS
        for feedback in FEEDBACKS
        if WORLDS[STUDENTS[student].world].x is None or "ChainTable" not in student
    ]
    found = {}
    for pair in pairs or every:
        names = tuple(pair.split("/"))
        student, _ = make(names[0], jax.random.key(0))
        if legal(student, TEACHER, FEEDBACKS[names[1]]()):
            found[pair] = difference(learnt(*names, None), learnt(*names, 8))
            jax.clear_caches()
    print(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1:])
