"""Every student with every teacher and every feedback: a few updates, compiled, two repeats at once.

A spread of pairs that meets every ingredient is run always, all triples with the slow tests.
"""

import itertools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tests.cases import FEEDBACKS, PARTICLES, STUDENTS, TEACHERS, arrays, make

from understudy.core import (
    DiscreteStudent,
    ExplicitStudent,
    IngredientError,
    ProjectableStudent,
    Projection,
    partition,
)
from understudy.feedbacks import ContrastiveDivergence, Copy, ExclusiveKL, InclusiveKL, SquaredDistance
from understudy.learning import Learner

KEY = jax.random.key(0)
SCORE = (InclusiveKL, ContrastiveDivergence, Projection)


def legal(student, teacher_name, feedback) -> bool:
    """What can work together, said once more and independently of the ingredients' own checks."""
    teacher = TEACHERS[teacher_name]()
    explicit = isinstance(student, ExplicitStudent)
    discrete = isinstance(student, DiscreteStudent)
    score = isinstance(feedback, SCORE) or getattr(feedback, "estimator", "") == "score"
    return not (
        (isinstance(feedback, InclusiveKL | ExclusiveKL | ContrastiveDivergence) and not explicit)
        or (isinstance(feedback, Projection) and not isinstance(student, ProjectableStudent))
        or (isinstance(feedback, SquaredDistance) and not teacher.deterministic)
        or (teacher_name == "IndependenceMetropolis" and not explicit)
        or (discrete and (teacher_name not in DISCRETE_TEACHERS or not score))
        or (not discrete and teacher_name == "SingleFlip" and not isinstance(feedback, Projection))
        or (teacher_name == "mclmc" and student.dim < 2)
    )


DISCRETE_TEACHERS = {"SingleFlip", "Gibbs", "Identity", "IndependenceMetropolis"}


def run(student_name, teacher_name, feedback_name, updates=2):
    """Two repeats of a short training in one compiled program; students before and after, and info."""
    student, world = make(student_name, KEY)
    learner = Learner(FEEDBACKS[feedback_name](), particles=PARTICLES)
    state = learner.init(KEY, world.target, student, TEACHERS[teacher_name](), world.x)
    dynamic, static = eqx.partition(state, eqx.is_array)

    @jax.jit
    @jax.vmap
    def train(key, dynamic):
        def body(i, carry):
            dynamic, _ = carry
            state, info = learner.update(
                jax.random.fold_in(key, i), eqx.combine(dynamic, static), world.x
            )
            return arrays(state), info

        first = learner.update(key, eqx.combine(dynamic, static), world.x)
        return jax.lax.fori_loop(1, updates, body, (arrays(first[0]), first[1]))

    both = jax.tree.map(lambda leaf: jnp.stack([leaf, leaf]), dynamic)
    after, info = train(jax.random.split(KEY, 2), both)
    return student, eqx.combine(after, static).student, info


def check(student_name, teacher_name, feedback_name):
    student, trained, info = run(student_name, teacher_name, feedback_name)
    assert np.isfinite(info.loss).all()
    assert info.skipped.sum() == 0
    assert (np.asarray(info.lost) < 1).all()
    before, now = (jax.tree.leaves(partition(s)[0]) for s in (student, trained))
    for old, new in zip(before, now, strict=True):
        assert new.shape == (2, *old.shape)
        assert np.isfinite(new).all()
    return student, trained


def pairs(first, second):
    """All pairs; all but a spread of them, which meets every ingredient, are slow."""
    table = itertools.product(enumerate(first), enumerate(second))
    return [
        pytest.param(a, b, marks=() if (i + 3 * j) % 8 == 0 else pytest.mark.slow)
        for (i, a), (j, b) in table
    ]


def feedback_for(student, teacher_name) -> str | None:
    preferred = ("InclusiveKL", "EnergyDistance", "Copy", "MomentProjection", "SquaredDistance")
    return next((name for name in preferred if legal(student, teacher_name, FEEDBACKS[name]())), None)


def teacher_for(student, feedback_name) -> str | None:
    preferred = ("mala", "SingleFlip", "SVGD")
    feedback = FEEDBACKS[feedback_name]()
    return next((name for name in preferred if legal(student, name, feedback)), None)


@pytest.mark.parametrize(("student", "teacher"), pairs(STUDENTS, TEACHERS))
def test_every_student_is_taught_by_every_teacher(student, teacher):
    feedback = feedback_for(make(student, KEY)[0], teacher)
    if feedback is None:
        with pytest.raises(IngredientError):
            run(student, teacher, "InclusiveKL")
    else:
        check(student, teacher, feedback)


@pytest.mark.parametrize(("student", "feedback"), pairs(STUDENTS, FEEDBACKS))
def test_every_student_learns_by_every_feedback(student, feedback):
    teacher = teacher_for(make(student, KEY)[0], feedback)
    if teacher is None:
        with pytest.raises(IngredientError, match=r"choose|needs"):
            run(student, "mala", feedback)
        return
    before, after = check(student, teacher, feedback)
    moved = [
        not np.allclose(new, old, rtol=0, atol=0)
        for old, new in zip(
            jax.tree.leaves(partition(before)[0]), jax.tree.leaves(partition(after)[0]), strict=True
        )
        if old.size
    ]
    assert all(moved)


@pytest.mark.slow
@pytest.mark.parametrize(("student", "teacher"), pairs(STUDENTS, TEACHERS))
def test_every_legal_triple_runs_and_every_other_is_refused(student, teacher):
    for feedback in FEEDBACKS:
        if legal(make(student, KEY)[0], teacher, FEEDBACKS[feedback]()):
            check(student, teacher, feedback)
        else:
            with pytest.raises(IngredientError):
                run(student, teacher, feedback)


def test_a_changed_setting_compiles_nothing_again():
    student, world = make("DiagonalGaussian", KEY)
    learner = Learner(InclusiveKL(), particles=PARTICLES)
    traces = []

    @eqx.filter_jit
    def update(state):
        traces.append(1)
        return learner.update(KEY, state, world.x)[0]

    for name, make_teacher in TEACHERS.items():
        state = (
            learner.init(KEY, world.target, student, make_teacher(), world.x)
            if name not in SKIP
            else None
        )
        if state is None or not jax.tree.leaves(eqx.filter(state.teacher, eqx.is_inexact_array)):
            continue
        traces.clear()
        numbers, rest = eqx.partition(state.teacher, eqx.is_inexact_array)
        update(state)
        changed = eqx.combine(jax.tree.map(lambda leaf: 1.01 * leaf, numbers), rest)
        update(eqx.tree_at(lambda s: s.teacher, state, changed))
        assert len(traces) == 1, name


SKIP = {"SingleFlip"}


def test_the_catalogue_is_complete():
    from understudy import feedbacks, students, teachers

    made = {type(make(name, KEY)[0]).__name__ for name in STUDENTS}
    exported = {name for name in students.__all__ if isinstance(getattr(students, name), type)}
    assert exported <= made
    made = {type(build()).__name__ for build in TEACHERS.values()} | set(TEACHERS)
    assert set(teachers.__all__) - {"Kernel", "ExcursionAcceptance"} <= made
    made = {type(build()).__name__ for build in FEEDBACKS.values()}
    assert set(feedbacks.__all__) - {"Adversarial", "CriticBuilder", "VectorCritic"} <= made
    assert isinstance(FEEDBACKS["Copy"](), Copy)
