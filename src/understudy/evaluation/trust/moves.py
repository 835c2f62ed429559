"""A student's draws before and after teacher moves: the raw material of every test of trust."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from understudy.checks import drawn
from understudy.core import Condition, IngredientError, Key, Student, Target, Teacher, numbered
from understudy.devices import in_turn
from understudy.numerics import (
    ROWS_AT_ONCE,
    AffineMap,
    Densities,
    in_blocks,
    log_densities,
    row_blocks,
    whitening,
)
from understudy.programs import jit_of_few
from understudy.teachers import Rescaled, hmc
from understudy.teachers.turns import Turn, turn

BLOCK = ROWS_AT_ONCE
LEAPFROGS = 4
PILOTS = 12


class Claim(NamedTuple):
    """That draws of a student, given a condition, are draws of a target."""

    target: Target
    student: Student
    x: Condition = None


class Moved(NamedTuple):
    """Draws of a student, row by row before and after teacher moves.

    Attributes:
        before: the student's draws where the log density is finite.
        after: the same draws after the teacher's moves.
        log_p: log density of the target before and after, (2, n).
        log_q: log density of the student at its draws; None for wild students.
        scale: coordinates in which the draws before are white.
        lost: share of the draws where the log density was not finite.
        acceptance: of the teacher's moves; NaN where there is no accept test.
        teacher: as adapted.
    """

    before: Float[np.ndarray, "n d"]
    after: Float[np.ndarray, "n d"]
    log_p: Float[np.ndarray, "2 n"]
    log_q: Float[np.ndarray, " n"] | None
    scale: AffineMap
    lost: float
    acceptance: float
    teacher: Teacher


@jit_of_few
def propose(key: Key, student: Student, x: Condition, n: int) -> Float[Array, "n d"]:
    """Draws of the student."""
    return drawn(student, key, x, n)


@jit_of_few
def improve(
    key: Key,
    number: Int[Array | np.ndarray, ""],
    claim: Claim,
    teacher: Teacher,
    z: Float[Array, "n d"],
) -> tuple[Turn, Teacher]:
    """One turn of the teacher, and the teacher adapted to it."""
    made = turn(numbered(key, number), teacher, claim.target, claim.student, z, claim.x)
    return made, teacher.adapt(made.rates)


def default_teacher(
    key: Key, target: Target, student: Student, x: Condition = None, draws: int = 1024
) -> Teacher:
    """Hamiltonian moves in coordinates where the student's draws are white, the step adapted.

    Args:
        key: random key.
        target: what the moves leave invariant.
        student: whose draws set the coordinates and are moved while the step adapts.
        x: the condition, if any.
        draws: number of draws that set the coordinates.
    """
    key, pilot = jax.random.split(key)
    z = np.asarray(propose(key, student, x, max(draws, BLOCK)), float)
    finite = z[np.isfinite(z).all(1)]
    if len(finite) < 2:
        raise IngredientError("A teacher is scaled by the student's draws, and none of them is finite.")
    return adapted(pilot, Claim(target, student, x), whitened_hmc(whitening(finite)), z[:BLOCK])


def whitened_hmc(scale: AffineMap) -> Teacher:
    """Two transitions of a quarter turn at most, in the coordinates of ``scale``."""
    local = hmc(
        0.2,
        LEAPFROGS,
        2,
        target_acceptance=0.8,
        rate=0.4,
        jitter=0.5,
        largest_step=np.pi / 2 / LEAPFROGS,
    )
    return Rescaled(local, scale.mean, scale.factor)


def adapted(
    key: Key,
    claim: Claim,
    teacher: Teacher,
    z: Float[np.ndarray, "n d"],
) -> Teacher:
    """The teacher after pilot moves of one block of draws."""
    block = jnp.asarray(z[:BLOCK], jnp.result_type(float))
    for i in range(PILOTS):
        _, teacher = improve(key, np.array(i), claim, teacher, block)
    return teacher


def move(
    key: Key,
    claim: Claim,
    teacher: Teacher,
    z: Float[np.ndarray, "n d"],
    turns: int,
) -> tuple[Float[np.ndarray, "n d"], Bool[np.ndarray, " n"], float]:
    """Draws after some turns of the teacher, which stayed finite, and the mean acceptance."""

    def after_turns(i: int, block: Any) -> tuple[Any, Any, list[Any]]:
        fine, rates = jnp.ones(BLOCK, bool), []
        for j in range(turns):
            made, _ = improve(key, np.array(i * turns + j), claim, teacher, block)
            block, fine, rates = made.z, fine & made.finite, [*rates, made.acceptance]
        return block, fine, rates

    ends, kept, rates = zip(*in_turn(after_turns, row_blocks(z, BLOCK)), strict=True)
    after, fine = np.concatenate(ends)[: len(z)], np.concatenate(kept)[: len(z)]
    return after.astype(float), fine & np.isfinite(after).all(1), float(np.mean(rates))


def densities(claim: Claim, z: Float[np.ndarray, "n d"], rows: int) -> Densities:
    """Log densities at any number of points, by the program compiled for ``rows`` points."""
    found = in_blocks(
        lambda part: log_densities(claim.target, claim.student, part, claim.x), z, block=rows
    )
    return jax.tree.map(lambda values: values.astype(float), found)


def moved(
    key: Key,
    claim: Claim,
    teacher: Teacher | None,
    n: int,
    turns: int,
) -> Moved | None:
    """Draw, adapt the teacher and move; None where hardly any draw has a finite log density."""
    keys = jax.random.split(key, 3)
    z = np.asarray(propose(keys[0], claim.student, claim.x, n), float)
    log_p, log_q = densities(claim, z, n)
    usable = np.isfinite(z).all(1) & np.isfinite(log_p)
    if usable.sum() < max(32, z.shape[1] + 2):
        return None
    z, log_p, log_q = z[usable], log_p[usable], None if log_q is None else np.asarray(log_q[usable])
    scale = whitening(z)
    teacher = adapted(keys[1], claim, teacher or whitened_hmc(scale), _first(z))
    after, fine, acceptance = move(keys[2], claim, teacher, z, turns)
    after = np.where(fine[:, None], after, z)
    log_p = np.stack([log_p, densities(claim, after, n).target])
    return Moved(z, after, log_p, log_q, scale, 1 - float(usable.mean()), acceptance, teacher)


def _first(z: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "m d"]:
    return np.resize(z, (BLOCK, z.shape[1])) if len(z) < BLOCK else z[:BLOCK]
