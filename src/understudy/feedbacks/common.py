"""What the feedbacks share: weighted averages, densities of rows, and what they ask of a student."""

from typing import TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree, Scalar

from understudy.core import (
    Condition,
    DiscreteStudent,
    Divergence,
    ExplicitStudent,
    IngredientError,
    Key,
    Lesson,
    Student,
    Target,
    Teacher,
)
from understudy.numerics import TINY

Tree = TypeVar("Tree")


class CriticFree(Divergence):
    """A divergence estimated without a critic."""

    critic_steps: int = eqx.field(static=True, default=0, init=False)

    def init(self, key: Key, dim: int, x: Condition) -> PyTree:
        """There is no critic."""
        del key, dim, x
        return None

    def critic_loss(self, critic: PyTree, target: Target, lesson: Lesson) -> Scalar:
        """Never called: there is no critic."""
        del critic, target, lesson
        return jnp.zeros(())


class Pathwise(Divergence):
    """A divergence whose gradient runs through the student's draws."""

    def check(self, target: Target, student: Student, teacher: Teacher) -> None:
        """The student's draws must carry gradients."""
        del target, teacher
        needs_paths(self, student)


def average(values: Float[Array, " n"], weights: Float[Array, " n"]) -> Scalar:
    """Weighted sum in which rows of weight zero do not matter, whatever they hold."""
    return jnp.sum(weights * jnp.where(weights == 0, 0.0, values))


def average_over_pairs(
    values: Float[Array, "n m"],
    rows: Float[Array, " n"],
    columns: Float[Array, " m"],
    distinct: bool,
) -> Scalar:
    """Weighted mean over pairs (i, j), over those with i != j alone if ``distinct``."""
    mass = rows[:, None] * columns[None, :]
    if distinct:
        mass = mass * (1 - jnp.eye(mass.shape[0], mass.shape[1]))
    return jnp.sum(mass * jnp.where(mass == 0, 0.0, values)) / jnp.maximum(mass.sum(), TINY)


def log_densities(target: Target, z: Float[Array, "n d"], x: Condition) -> Float[Array, " n"]:
    """Log density of the target at every row."""
    return jax.vmap(lambda row: target.log_density(row, x))(z)


def log_probs(student, z: Float[Array, "n d"], x: Condition) -> Float[Array, " n"]:
    """Log density of an explicit student at every row."""
    return jax.vmap(lambda row: student.log_prob(row, x))(z)


def frozen(tree: Tree) -> Tree:
    """The same module with no gradient to its parameters."""
    arrays, rest = eqx.partition(tree, eqx.is_inexact_array)
    return eqx.combine(jax.lax.stop_gradient(arrays), rest)


def score_loss(
    costs: Float[Array, " n"], scores: Float[Array, " n"], weights: Float[Array, " n"]
) -> Scalar:
    """Score-function estimate: the value of E[cost], the gradient E[(cost - baseline) grad log q].

    The baseline of a row is the mean cost of the other rows, so the gradient stays unbiased; the
    rows that count have equal weights.
    """
    costs = jax.lax.stop_gradient(costs)
    count = jnp.sum(weights > 0)
    centred = (costs - jnp.where(count > 1, average(costs, weights), 0.0)) * count
    surrogate = average(centred / jnp.maximum(count - 1, 1) * scores, weights)
    return average(costs, weights) + surrogate - jax.lax.stop_gradient(surrogate)


def needs_density(feedback: eqx.Module, student: Student) -> None:
    """Raise unless the student has a density."""
    if not isinstance(student, ExplicitStudent):
        raise IngredientError(
            f"{type(feedback).__name__} needs a student with a density (log_prob), and "
            f"{type(student).__name__} has none: choose EnergyDistance or JensenShannon, or an "
            f"explicit student such as a Gaussian or a flow."
        )


def needs_paths(feedback: eqx.Module, student: Student) -> None:
    """Raise if the student's draws carry no gradient."""
    if isinstance(student, DiscreteStudent):
        raise IngredientError(
            f"{type(feedback).__name__} follows gradients through the draws, and those of "
            f"{type(student).__name__} are discrete: choose InclusiveKL, or "
            f"ExclusiveKL(estimator='score')."
        )
