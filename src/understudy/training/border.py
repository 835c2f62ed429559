"""The border of a training: what comes in is checked here, once, and refused in one sentence."""

from collections.abc import Sequence
from typing import Any

import jax
import optax
from jaxtyping import Array

from understudy import checks
from understudy.checks import (
    LARGEST_SEED,
    function,
    instance,
    one_fraction,
    one_number,
    one_of,
    shown,
    takes,
    whole,
)
from understudy.core import (
    CONDITIONS,
    Condition,
    DiscreteStudent,
    Feedback,
    IngredientError,
    Key,
    Projection,
    Student,
    Target,
    Teacher,
)


def check_choices(
    feedback: Any,
    optimiser: Any,
    critic_optimiser: Any,
    model_optimiser: Any,
    average: Any,
    refresh: Any,
) -> None:
    """The choices of a :class:`~understudy.training.update.Learner`."""
    instance("feedback", Feedback, "InclusiveKL()", feedback)
    for one in (optimiser, critic_optimiser, model_optimiser):
        if not isinstance(one, optax.GradientTransformation | None):
            raise IngredientError(
                f"An optimiser comes from optax, such as optax.adam(1e-3); {shown(one)} came."
            )
    if average is not None:
        one_fraction("average, a decay,", average)
    if not 0 <= one_number("refresh", refresh) <= 1:
        raise IngredientError(f"refresh is a share between 0 and 1; {shown(refresh)} came.")


def check_words(proposer: Any, pairing: Any, average: Any) -> None:
    """Who proposes, and what is compared."""
    one_of("pairing", ("paired", "fresh"), pairing)
    one_of("proposer", ("student", "average"), proposer)
    if proposer == "average" and not average:
        raise IngredientError(f"proposer='average' needs average=0.99, say; {average!r} came.")


def check_space(feedback: Feedback, student: Student, teacher: Teacher) -> None:
    """Discrete draws need discrete moves, and the other way round."""
    names = f"{type(student).__name__} with {type(teacher).__name__}"
    if isinstance(student, DiscreteStudent) and teacher.space == "continuous":
        raise IngredientError(
            f"{names}: a discrete student needs a teacher that keeps its draws discrete, such as "
            "SingleFlip(), Gibbs(conditionals) or IndependenceMetropolis()."
        )
    continuous = not isinstance(student, DiscreteStudent) and not isinstance(feedback, Projection)
    if continuous and teacher.space == "discrete":
        raise IngredientError(
            f"{names}: this teacher moves between discrete values; choose a discrete student such as "
            "Autoregressive, or a teacher for continuous draws such as mala()."
        )


def check_run(
    updates: Any,
    chunk: Any,
    folder: Any,
    resume: Any,
    checkpoint_seconds: Any,
    callbacks: Any,
    progress: Any,
) -> None:
    """How a training runs, and what it writes."""
    whole("updates", updates)
    whole("chunk", chunk)
    checks.folder(folder)
    checks.flag("resume", resume)
    if progress is not None:
        checks.flag("progress", progress)
    if one_number("checkpoint_seconds", checkpoint_seconds) < 0:
        raise IngredientError(f"checkpoint_seconds is 0 or more; {checkpoint_seconds} came.")
    if not isinstance(callbacks, Sequence):
        raise IngredientError(f"callbacks is a list of functions of a Chunk; {shown(callbacks)} came.")
    for callback in callbacks:
        if not takes(function("every callback", callback), 1):
            raise IngredientError(
                "Every callback is a function of a Chunk, such as lambda chunk: print(chunk.row); "
                f"{shown(callback)} takes other arguments."
            )


def check_ingredients(target: Any, teacher: Any, seed: Any, repeats: Any) -> None:
    """The nouns and numbers that are there before a student is made."""
    instance("target", Target, "LogDensity(function, dim)", target)
    instance("teacher", Teacher, "mala(step_size=0.1)", teacher)
    whole("seed", seed, least=0, most=LARGEST_SEED)
    if repeats is not None:
        whole("repeats", repeats)


def check_outside(state: Any) -> None:
    """What is trained is known in numbers, which within a program of JAX it is not."""
    if any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves(state)):
        raise IngredientError(
            "A training runs programs of its own; call it outside of jax.jit, jax.vmap and jax.grad."
        )


def made(student: Any, key: Key) -> Any:
    """The student, made with the key if it is a function of one."""
    if isinstance(student, Student) or not callable(student):
        return student
    if not takes(student, 1):
        raise IngredientError(
            "student is a Student, or a function of a key that makes one, such as "
            f"lambda key: Implicit(key, 2); {shown(student)} takes other arguments."
        )
    with checks.calling("student is a function of a key that makes a Student"):
        return student(key)


def check_student(target: Target, student: Any) -> None:
    """A student, of the target's size."""
    if not isinstance(student, Student):
        raise IngredientError(
            "student is a Student, or a function of a key that makes one; "
            f"a {type(student).__name__} came."
        )
    checks.same_size(target, student)


def rehearse(target: Target, student: Student, x: Condition, particles: int) -> None:
    """Trace the student and the log density on one condition, to name what does not fit."""
    one = jax.tree.map(lambda leaf: leaf[0], x)
    given = "" if x is None else f" given x of shape {[leaf.shape for leaf in jax.tree.leaves(one)]}"
    key = jax.random.key(0)
    doing = f"The student ({type(student).__name__}) cannot draw{given}"
    try:
        draws = jax.eval_shape(lambda x: _first_draws(student, key, x, particles), x)
        doing = f"The log density ({type(target).__name__}) fails at a draw of size {target.dim}{given}"
        jax.eval_shape(lambda z: target.log_density(z[0], one), draws)
    except IngredientError:
        raise
    except Exception as error:
        reason = shown(str(error).partition("\n")[0])
        raise IngredientError(
            f"{doing}: {reason}. Check their shapes, and that data are passed where x is used."
        ) from error


def _first_draws(student: Student, key: Key, x: Condition, particles: int) -> Array:
    if x is None:
        return student.sample(key, x, particles)
    draw = jax.vmap(lambda one: student.sample(key, one, particles), axis_name=CONDITIONS)
    return draw(x)[0]
