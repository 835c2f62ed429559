"""One pure update: propose, improve, critic learns, student learns, model learns.

Algorithm 1 of the paper for any choice of ingredients. ``Learner`` holds the choices, ``State``
everything that changes; :mod:`understudy.training.loop` runs ``Learner.update`` in compiled chunks.
"""

from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Bool, Float, Int, PyTree, Scalar

from understudy.checks import calling, flag, whole
from understudy.core import (
    Condition,
    Divergence,
    Feedback,
    Key,
    Lesson,
    Projection,
    Student,
    Target,
    Teacher,
    follow,
    numbered,
    partition,
)
from understudy.training import border
from understudy.training.lesson import Classroom, Movement, over_conditions

_OPTIMISER = "An optimiser from optax makes steps of gradients, (gradients, state, parameters), alone"


class State(eqx.Module):
    """Everything that changes during training; this pytree is the checkpoint."""

    key: Key
    step: Int[Array, "*r"]
    target: Target
    student: Student
    average: Student | None
    teacher: Teacher
    critic: PyTree
    chains: Float[Array, "*r b n d"] | None
    replay: Lesson | None
    memory: dict[str, Any]


class Info(NamedTuple):
    """What one update did.

    Attributes:
        loss: the student's loss.
        critic_loss: the critic's loss, zero without one.
        model_loss: minus the mean log joint density of the improved draws, zero if theta is fixed; the
            student's loss where both descend one free energy.
        acceptance: mean acceptance of the teacher, nan where it has no accept test.
        move: how far the teacher moved the draws, in standard deviations of the draws.
        moved: share of the chains that moved at all.
        lost: share of the chains that were not finite and so were kept out of the lesson.
        skipped: one for each gradient that was not finite and was left out: student, critic, model.
    """

    loss: Scalar
    critic_loss: Scalar
    model_loss: Scalar
    acceptance: Scalar
    move: Scalar
    moved: Scalar
    lost: Scalar
    skipped: Float[Array, "3"]

    @classmethod
    def zeros(cls) -> "Info":
        """Nothing yet, to add to."""
        shapes = {"skipped": (3,)}
        return cls(**{name: jnp.zeros(shapes.get(name, ())) for name in cls._fields})


class Learnt(NamedTuple):
    """The state after one part of it has learnt, its loss, and whether its gradient was finite."""

    state: State
    loss: Scalar
    fine: Bool[Array, ""]

    @classmethod
    def nothing(cls, state: State) -> "Learnt":
        """The state of what has nothing to learn."""
        return cls(state, loss=jnp.zeros(()), fine=jnp.array(True))


class Losses(NamedTuple):
    """Losses of the three that learn, and one for each whose gradient was left out, in that order."""

    loss: Scalar
    critic_loss: Scalar
    model_loss: Scalar
    skipped: Float[Array, "3"]


class Learner(eqx.Module):
    """The choices of one training; the arguments are those of :func:`understudy.train`."""

    feedback: Feedback
    classroom: Classroom
    optimiser: optax.GradientTransformation
    critic_optimiser: optax.GradientTransformation
    model_optimiser: optax.GradientTransformation | None
    average: Float[Array, ""] | None
    model_every: int = eqx.field(static=True)
    proposer: Literal["student", "average"] = eqx.field(static=True)
    persistent: bool = eqx.field(static=True)
    replay: int = eqx.field(static=True)
    guard: bool = eqx.field(static=True)

    def __init__(
        self,
        feedback: Feedback,
        *,
        particles: int = 64,
        optimiser: optax.GradientTransformation | None = None,
        critic_optimiser: optax.GradientTransformation | None = None,
        model_optimiser: optax.GradientTransformation | None = None,
        model_every: int = 1,
        average: float | None = None,
        proposer: Literal["student", "average"] = "student",
        pairing: Literal["paired", "fresh"] = "paired",
        refresh: float = 1.0,
        replay: int = 0,
        guard: bool = True,
    ):
        border.check_choices(feedback, optimiser, critic_optimiser, model_optimiser, average, refresh)
        border.check_words(proposer, pairing, average)
        self.feedback = feedback
        self.guard = flag("guard", guard)
        self.classroom = Classroom(
            jnp.asarray(refresh, float),
            whole("particles", particles),
            pairing,
            self.guard,
        )
        self.optimiser = optimiser or optax.adam(1e-3)
        self.critic_optimiser = critic_optimiser or optax.adam(1e-3, b1=0.5)
        self.model_optimiser = model_optimiser
        self.model_every = whole("model_every", model_every)
        self.average = None if average is None else jnp.asarray(average)
        self.proposer = proposer
        self.persistent = refresh < 1
        self.replay = whole("replay", replay, least=0)

    def init(
        self, key: Key, target: Target, student: Student, teacher: Teacher, x: Condition = None
    ) -> State:
        """The state before the first update; ``x`` is one batch of conditions (or None)."""
        self.feedback.check(target, student, teacher)
        border.check_space(self.feedback, student, teacher)
        key, critic_key, lesson_key = jax.random.split(key, 3)
        critic = None
        if isinstance(self.feedback, Divergence):
            with calling(f"The feedback {type(self.feedback).__name__} makes a critic of draws"):
                one = jax.tree.map(lambda leaf: leaf[0], x)
                critic = self.feedback.init(critic_key, student.dim, one)
        with calling(_OPTIMISER):
            memory = {
                "student": self.optimiser.init(partition(student)[0]),
                "critic": self.critic_optimiser.init(partition(critic)[0]),
            }
            if self.model_optimiser is not None:
                memory["model"] = self.model_optimiser.init(partition(target)[0])
        average = None if self.average is None else student
        step = jnp.zeros((), int)
        state = State(key, step, target, student, average, teacher, critic, None, None, memory)
        return self._with_past(lesson_key, state, x) if self.persistent or self.replay else state

    def _with_past(self, key: Key, state: State, x: Condition) -> State:
        lessons, _ = self.teach(key, state, x)
        chains = lessons.before if self.persistent else None
        replay = None
        if self.replay:
            replay = jax.tree.map(lambda leaf: jnp.stack([leaf] * self.replay), lessons)
        return eqx.tree_at(
            lambda s: (s.chains, s.replay), state, (chains, replay), is_leaf=lambda leaf: leaf is None
        )

    def update(self, key: Key, state: State, x: Condition = None) -> tuple[State, Info]:
        """Teach one batch of conditions and learn from it."""
        lessons, movement = self.teach(key, state, x)
        state, losses = self.learn(key, state, lessons)
        teacher = state.teacher.adapt(movement.acceptance)
        state = eqx.tree_at(lambda s: (s.teacher, s.step), state, (teacher, state.step + 1))
        info = Info(
            **losses._asdict(),
            acceptance=movement.mean_acceptance,
            move=movement.move,
            moved=movement.moved,
            lost=movement.lost,
        )
        return state, info

    def teach(self, key: Key, state: State, x: Condition = None) -> tuple[Lesson, Movement]:
        """The student proposes, the teacher improves: lessons for a batch of conditions."""
        proposer = state.student if self.proposer == "student" else state.average or state.student
        return self.classroom.teach(
            key, state.target, state.student, proposer, state.teacher, x, state.chains
        )

    def learn(self, key: Key, state: State, lessons: Lesson) -> tuple[State, Losses]:
        """Critic, student and model learn, in this order."""
        state, studied = self._remember(key, state, lessons)
        critic = self._critic_learns(state, studied)
        if self._shares_gradient(state):
            student, model = self._both_learn(critic.state, studied)
        else:
            student = self._student_learns(critic.state, studied)
            model = self._model_learns(student.state, lessons)
        skipped = 1.0 - jnp.stack([student.fine, critic.fine, model.fine])
        return model.state, Losses(student.loss, critic.loss, model.loss, skipped)

    def _remember(self, key: Key, state: State, lessons: Lesson) -> tuple[State, Lesson]:
        if state.chains is not None:
            chains = jnp.where(lessons.kept[..., None], lessons.after, lessons.before)
            state = eqx.tree_at(lambda s: s.chains, state, chains)
        if state.replay is None:
            return state, lessons
        slot = state.step % self.replay
        replay = jax.tree.map(lambda old, new: old.at[slot].set(new), state.replay, lessons)
        chosen = jax.random.randint(
            jax.random.fold_in(key, 1), (), 0, jnp.minimum(state.step + 1, self.replay)
        )
        recalled = jax.tree.map(lambda leaf: leaf[chosen], replay)
        now = over_conditions(lambda lesson: lesson.propose(state.student), recalled)
        recalled = eqx.tree_at(lambda lesson: (lesson.before, lesson.control), recalled, (now, now))
        return eqx.tree_at(lambda s: s.replay, state, replay), recalled

    def _critic_learns(self, state: State, lessons: Lesson) -> Learnt:
        feedback = self.feedback
        if state.critic is None or not isinstance(feedback, Divergence):
            return Learnt.nothing(state)

        def step(critic, memory, count):
            noise = jax.vmap(lambda key: numbered(key, count))(lessons.noise)
            again = eqx.tree_at(lambda lesson: lesson.noise, lessons, noise)
            return descend(
                self.critic_optimiser,
                lambda critic: _mean_loss(
                    lambda le: feedback.critic_loss(critic, state.target, le), again
                ),
                critic,
                memory,
                self.guard,
            )

        critic, memory, loss, fine = _repeat(
            step, state.critic, state.memory["critic"], feedback.critic_steps
        )
        state = eqx.tree_at(lambda s: (s.critic, s.memory["critic"]), state, (critic, memory))
        return Learnt(state, loss, fine)

    def _student_learns(self, state: State, lessons: Lesson) -> Learnt:
        feedback = self.feedback
        if isinstance(feedback, Divergence):
            learnt = descend(
                self.optimiser,
                lambda student: _mean_loss(
                    lambda le: feedback.loss(student, state.critic, state.target, le), lessons
                ),
                state.student,
                state.memory["student"],
                self.guard,
            )
            return self._with_student(state, *learnt)
        assert isinstance(feedback, Projection)
        student = feedback.project(state.student, lessons)
        return self._with_student(
            state, student, state.memory["student"], jnp.zeros(()), jnp.array(True)
        )

    def _with_student(self, state: State, student, memory, loss, fine) -> Learnt:
        state = eqx.tree_at(lambda s: (s.student, s.memory["student"]), state, (student, memory))
        return Learnt(self._average(state), loss, fine)

    def _average(self, state: State) -> State:
        if self.average is None:
            return state
        decay = jnp.minimum(self.average, (1 + state.step) / (10 + state.step))
        new, _ = partition(state.student)
        old, rest = partition(state.average)
        mixed = optax.tree.add(optax.tree.scale(decay, old), optax.tree.scale(1 - decay, new))
        return eqx.tree_at(lambda s: s.average, state, eqx.combine(mixed, rest))

    def _model_learns(self, state: State, lessons: Lesson) -> Learnt:
        if self.model_optimiser is None:
            return Learnt.nothing(state)
        learnt = descend(
            self.model_optimiser,
            lambda target: _mean_loss(lambda le: _model_loss(target, le), lessons),
            state.target,
            state.memory["model"],
            self.guard,
        )
        return self._with_target(state, *learnt)

    def _with_target(self, state: State, target, memory, loss, fine) -> Learnt:
        due = (state.step + 1) % self.model_every == 0
        new = _choose(due, (target, memory), (state.target, state.memory["model"]))
        state = eqx.tree_at(lambda s: (s.target, s.memory["model"]), state, new)
        return Learnt(_followed(state), loss, fine)

    def _shares_gradient(self, state: State) -> bool:
        """Whether student and model descend the same loss at the same draws, the student's own."""
        feedback, others = self.feedback, (state.teacher.moves, self.persistent, self.replay)
        if self.model_optimiser is None or self.proposer == "average" or any(others):
            return False
        return isinstance(feedback, Divergence) and feedback.is_free_energy

    def _both_learn(self, state: State, lessons: Lesson) -> tuple[Learnt, Learnt]:
        """Student and model from one gradient: half the passes through the model."""
        feedback, critic = self.feedback, state.critic
        assert isinstance(feedback, Divergence)
        assert self.model_optimiser is not None

        def loss(both):
            return _mean_loss(lambda le: feedback.loss(both[0], critic, both[1], le), lessons)

        value, (of_student, of_model) = _value_and_gradient(loss, (state.student, state.target))
        memory = state.memory
        moved = _step(self.optimiser, state.student, memory["student"], value, of_student, self.guard)
        student = self._with_student(state, *moved)
        moved = _step(self.model_optimiser, state.target, memory["model"], value, of_model, self.guard)
        return student, self._with_target(student.state, *moved)


def descend(
    optimiser: optax.GradientTransformation,
    loss: Callable[[PyTree], Scalar],
    module: PyTree,
    memory: PyTree,
    guard: bool = True,
) -> tuple[PyTree, PyTree, Scalar, Bool[Array, ""]]:
    """One optimiser step; with the guard, a gradient that is not finite leaves everything as it was."""
    return _step(optimiser, module, memory, *_value_and_gradient(loss, module), guard)


def paced(state: State, rate: float) -> State:
    """The state with another rate of learning, for an optimiser of ``optax.inject_hyperparams``."""
    where = lambda s: s.memory["student"].hyperparams["learning_rate"]  # noqa: E731
    return eqx.tree_at(where, state, jnp.asarray(rate, jnp.float32))


def _value_and_gradient(loss: Callable[[PyTree], Scalar], module: PyTree) -> tuple[Scalar, PyTree]:
    parameters, rest = partition(module)
    return jax.value_and_grad(lambda p: loss(eqx.combine(p, rest)))(parameters)


def _step(
    optimiser: optax.GradientTransformation,
    module: PyTree,
    memory: PyTree,
    value: Scalar,
    gradient: PyTree,
    guard: bool,
) -> tuple[PyTree, PyTree, Scalar, Bool[Array, ""]]:
    parameters, rest = partition(module)
    with calling(_OPTIMISER):
        updates, new_memory = optimiser.update(gradient, memory, parameters)
        new = optax.apply_updates(parameters, updates)
    fine = jnp.isfinite(value) & jnp.isfinite(optax.tree.norm(gradient, squared=True))
    if guard:
        new, new_memory = _choose(fine, (new, new_memory), (parameters, memory))
    return eqx.combine(new, rest), new_memory, value, fine


def _followed(state: State) -> State:
    """The state whose students hold the target that has just learnt, where they hold one."""
    students = state.student, state.average
    return eqx.tree_at(
        lambda s: (s.student, s.average),
        state,
        follow(students, state.target),
        is_leaf=lambda leaf: leaf is None,
    )


def _model_loss(target: Target, lesson: Lesson) -> Scalar:
    values = jax.vmap(lambda z: target.log_density(z, lesson.x))(lesson.after)
    return -jnp.sum(jnp.where(lesson.kept, lesson.weights * values, 0.0))


def _mean_loss(loss: Callable[[Lesson], Scalar], lessons: Lesson) -> Scalar:
    return over_conditions(loss, lessons).mean()


def _choose(condition: Bool[Array, ""], new: PyTree, old: PyTree) -> PyTree:
    return jax.tree.map(lambda n, o: jnp.where(condition, n, o) if eqx.is_array(n) else n, new, old)


def _repeat(step: Callable, module: PyTree, memory: PyTree, times: int) -> tuple:
    module, memory, loss, fine = step(module, memory, 0)
    if times == 1:
        return module, memory, loss, fine
    arrays, rest = eqx.partition((module, memory, loss, fine), eqx.is_array)

    def body(count, arrays):
        module, memory, _, fine = eqx.combine(arrays, rest)
        *learnt, loss, still = step(module, memory, count)
        return eqx.filter((*learnt, loss, fine & still), eqx.is_array)

    return eqx.combine(jax.lax.fori_loop(1, times, body, arrays), rest)
