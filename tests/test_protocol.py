"""Every student with every teacher and every feedback: a few updates, compiled, two repeats at once.

A spread of triples that meets every ingredient is run always, all of them with the slow tests.
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
    SemiImplicitStudent,
    StratifiedStudent,
    Teacher,
    partition,
)
from understudy.feedbacks import (
    ContrastiveDivergence,
    Copy,
    ExclusiveKL,
    InclusiveKL,
    SemiImplicitInclusiveKL,
    SemiImplicitKL,
    SquaredDistance,
    WeightedSum,
)
from understudy.training.update import Learner

KEY = jax.random.key(0)
BOUNDS = (SemiImplicitKL, SemiImplicitInclusiveKL)
SCORE = (InclusiveKL, ContrastiveDivergence, Projection)


def legal(student, teacher_name, feedback) -> bool:
    """What can work together, said once more and independently of the ingredients' own checks."""
    if isinstance(feedback, WeightedSum):
        return all(legal(student, teacher_name, term) for term in feedback.divergences)
    teacher = TEACHERS[teacher_name].make(student.dim)
    explicit = isinstance(student, ExplicitStudent)
    discrete = isinstance(student, DiscreteStudent)
    score = isinstance(feedback, SCORE) or getattr(feedback, "estimator", "") == "score"
    return not (
        (isinstance(feedback, InclusiveKL | ExclusiveKL | ContrastiveDivergence) and not explicit)
        or (isinstance(feedback, BOUNDS) and not isinstance(student, SemiImplicitStudent))
        or (isinstance(feedback, Projection) and not isinstance(student, ProjectableStudent))
        or (isinstance(feedback, SquaredDistance) and not teacher.deterministic)
        or (isinstance(feedback, SquaredDistance) and isinstance(student, StratifiedStudent))
        or (teacher_name in TEACHERS_BY_DENSITY and not explicit)
        or (discrete and (teacher_name not in DISCRETE_TEACHERS or not score))
        or (not discrete and teacher_name == "SingleFlip" and not isinstance(feedback, Projection))
        or (teacher_name == "mclmc" and student.dim < 2)
    )


TEACHERS_BY_DENSITY = {"IndependenceMetropolis", "Annealed, from the student"}
DISCRETE_TEACHERS = {"SingleFlip", "Gibbs", "Identity", "IndependenceMetropolis"}


def taught(student_name, teacher_name):
    """Lessons of two repeats in one compiled program, and a state to learn from them."""
    student, world = make(student_name, KEY)
    learner = Learner(InclusiveKL(), particles=PARTICLES)
    teacher = TEACHERS[teacher_name].make(student.dim)

    @jax.jit
    @jax.vmap
    def teach(key):
        lessons, movement = learner.classroom.teach(
            key, world.target, student, student, teacher, world.x
        )
        return lessons, movement, arrays(teacher.adapt(movement.acceptance))

    lessons, movement, adapted = teach(jax.random.split(KEY, 2))
    assert (np.asarray(movement.lost) < 1).all()
    assert jax.tree.structure(adapted) == jax.tree.structure(arrays(teacher))
    for leaf in (lessons.before, lessons.after, lessons.weights, lessons.control):
        assert np.isfinite(leaf).all()
    np.testing.assert_allclose(lessons.weights.sum(-1), 1.0, rtol=1e-5)
    return lessons


def pupil(student_name, feedback_name):
    """A student and a compiled function in which two repeats learn from their lessons."""
    student, world = make(student_name, KEY)
    learner = Learner(FEEDBACKS[feedback_name](), particles=PARTICLES)
    teacher = Anyone()
    state = learner.init(KEY, world.target, student, teacher, world.x)
    first, rest = eqx.partition(state, eqx.is_array)

    @jax.jit
    @jax.vmap
    def learn(now, lessons):
        new, losses = learner.learn(KEY, eqx.combine(now, rest), lessons)
        return eqx.filter(new, eqx.is_array), losses

    def learn_twice(lessons):
        both = jax.tree.map(lambda leaf: jnp.stack([leaf, leaf]), first)
        new, losses = learn(both, lessons)
        again, _ = learn(new, lessons)
        return partition(eqx.combine(again, rest).student)[0], losses

    return student, learn_twice


class Anyone(Teacher):
    """Stands for whichever teacher made the lessons."""

    deterministic: bool = True
    space: str = "any"

    def improve(self, key, log_density, z, proposal):
        raise NotImplementedError

    def adapt(self, acceptance):
        return self


def check_learnt(student, learnt, moved: bool):
    new, losses = learnt
    for loss in losses:
        assert np.isfinite(loss).all()
    assert losses.skipped.sum() == 0
    old, new = (jax.tree.leaves(tree) for tree in (partition(student)[0], new))
    for before, after in zip(old, new, strict=True):
        assert after.shape == (2, *before.shape)
        assert np.isfinite(after).all()
        assert not moved or not before.size or (np.asarray(after) != np.asarray(before)).any()


def refusal(student_name, teacher_name, feedback_name):
    """Whether these ingredients are refused, by a sentence."""
    student, world = make(student_name, KEY)
    learner = Learner(FEEDBACKS[feedback_name](), particles=PARTICLES)

    teacher = TEACHERS[teacher_name].make(student.dim)

    def start():
        state = learner.init(KEY, world.target, student, teacher, world.x)
        jax.eval_shape(lambda key: learner.teach(key, state, world.x), KEY)

    with pytest.raises(IngredientError) as refused:
        start()
    assert len(str(refused.value)) > 40


def every_triple(student_name, teacher_names, feedback_names):
    """Teachers and feedbacks compile apart, since a lesson has one shape whoever made it."""
    student, _ = make(student_name, KEY)
    lessons, pupils = {}, {}
    for teacher, feedback in itertools.product(teacher_names, feedback_names):
        if not legal(student, teacher, FEEDBACKS[feedback]()):
            refusal(student_name, teacher, feedback)
            continue
        if teacher not in lessons:
            lessons[teacher] = taught(student_name, teacher)
        if feedback not in pupils:
            pupils[feedback] = pupil(student_name, feedback)
        start, learn = pupils[feedback]
        check_learnt(start, learn(lessons[teacher]), moved=teacher in ("mala", "SVGD", "SingleFlip"))


@pytest.mark.slow
@pytest.mark.parametrize("student", STUDENTS)
def test_every_triple(student):
    every_triple(student, TEACHERS, FEEDBACKS)


@pytest.mark.parametrize(("place", "student"), list(enumerate(STUDENTS)))
def test_a_spread_of_triples(place, student):
    made, _ = make(student, KEY)
    discrete = isinstance(made, DiscreteStudent)
    teachers = ["SingleFlip" if discrete else "mala", *list(TEACHERS)[place :: len(STUDENTS)]]
    feedbacks = ["InclusiveKL", "EnergyDistance"]
    if all(legal(made, teachers[0], FEEDBACKS[name]()) for name in feedbacks):
        feedbacks = feedbacks[place % 2 :][:1]  # the other is met by the next student that can have both
    feedbacks += list(FEEDBACKS)[place :: len(STUDENTS)]
    every_triple(student, dict.fromkeys(teachers), dict.fromkeys(feedbacks))


def test_a_changed_setting_compiles_nothing_again():
    student, world = make("DiagonalGaussian", KEY)
    learner = Learner(InclusiveKL(), particles=PARTICLES)
    traces = []

    @eqx.filter_jit
    def update(state):
        traces.append(1)
        return learner.update(KEY, state, world.x)[0]

    for name, case in TEACHERS.items():
        state = (
            learner.init(KEY, world.target, student, case.make(2), world.x) if name not in SKIP else None
        )
        if state is None or not jax.tree.leaves(eqx.filter(state.teacher, eqx.is_inexact_array)):
            continue
        traces.clear()
        numbers, rest = eqx.partition(state.teacher, eqx.is_inexact_array)
        update.lower(state)  # what is traced once is compiled once
        changed = eqx.combine(jax.tree.map(lambda leaf: 1.01 * leaf, numbers), rest)
        update.lower(eqx.tree_at(lambda s: s.teacher, state, changed))
        assert len(traces) == 1, name


SKIP = {"SingleFlip"}


def test_the_catalogue_is_complete():
    from understudy import feedbacks, students, teachers

    made = {type(make(name, KEY)[0]).__name__ for name in STUDENTS}
    exported = {name for name in students.__all__ if isinstance(getattr(students, name), type)}
    assert exported <= made
    made = {type(case.make(2)).__name__ for case in TEACHERS.values()} | set(TEACHERS)
    assert set(teachers.__all__) - {"ExcursionAcceptance"} <= made
    made = {type(build()).__name__ for build in FEEDBACKS.values()}
    assert set(feedbacks.__all__) - {"Adversarial", "CriticBuilder", "CriticFree"} <= made
    assert isinstance(FEEDBACKS["Copy"](), Copy)
