"""A student's draws before and after teacher moves: the raw material of every test of trust."""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from understudy.core import (
    Condition,
    ExplicitStudent,
    IngredientError,
    Key,
    Student,
    Target,
    Teacher,
    bind,
    numbered,
)
from understudy.teachers import Rescaled, hmc

BLOCK = 256
LEAPFROGS = 4
PILOTS = 12


class Scale(NamedTuple):
    """Mean and Cholesky factor of the covariance of draws."""

    mean: Float[np.ndarray, " d"]
    factor: Float[np.ndarray, "d d"]

    def whiten(self, z: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n d"]:
        """Coordinates u with z = mean + L u."""
        return np.linalg.solve(self.factor, (z - self.mean).T).T

    def colour(self, u: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n d"]:
        """Back from u to z."""
        return self.mean + u @ self.factor.T


class Moved(NamedTuple):
    """Draws of a student, row by row before and after teacher moves.

    Attributes:
        before: the student's draws where the log density is finite.
        after: the same draws after the teacher's moves.
        log_p: log density of the target before and after, (2, n).
        log_q: log density of the student at its draws; None for wild students.
        scale: mean and Cholesky factor of the draws before.
        lost: share of the draws where the log density was not finite.
        acceptance: of the teacher's moves; NaN where there is no accept test.
        teacher: as adapted.
    """

    before: Float[np.ndarray, "n d"]
    after: Float[np.ndarray, "n d"]
    log_p: Float[np.ndarray, "2 n"]
    log_q: Float[np.ndarray, " n"] | None
    scale: Scale
    lost: float
    acceptance: float
    teacher: Teacher


@eqx.filter_jit
def propose(key: Key, student: Student, x: Condition, n: int) -> Float[Array, "n d"]:
    """Draws of the student."""
    return student.sample(key, x, n)


@eqx.filter_jit
def densities(
    target: Target, student: Student, x: Condition, z: Float[Array, "n d"]
) -> tuple[Float[Array, " n"], Float[Array, " n"] | None]:
    """Log densities of the target and of the student (None if it is wild)."""

    def both(z):
        log_q = student.log_prob(z, x) if isinstance(student, ExplicitStudent) else None
        return target.log_density(z, x), log_q

    return jax.lax.map(both, z, batch_size=BLOCK)


@eqx.filter_jit
def improve(
    key: Key,
    turn: Int[Array | np.ndarray, ""],
    target: Target,
    student: Student,
    teacher: Teacher,
    x: Condition,
    z: Float[Array, "n d"],
) -> tuple[Float[Array, "n d"], Bool[Array, " n"], Float[Array, ""], Teacher]:
    """One turn of the teacher: draws, which of them are finite, acceptance, the teacher adapted."""
    key = numbered(key, turn)
    out = teacher.improve(key, lambda z: target.log_density(z, x), z, bind(student, x))
    if out.log_weights is not None:
        raise IngredientError(
            "A check needs a teacher that leaves the target invariant, such as hmc(0.1); this one "
            "returns weighted draws. Leave teacher out to have one made."
        )
    means = jax.tree.map(lambda a: jnp.nan_to_num(a).mean(), out.acceptance)
    rates = jax.tree.leaves(means)
    acceptance = rates[0] if rates else jnp.asarray(jnp.nan)
    return out.z, out.finite, acceptance, teacher.adapt(means)


def scale_of(z: Float[np.ndarray, "n d"]) -> Scale:
    """Mean and Cholesky factor of draws, a factor even where they lie in a subspace."""
    deviation = np.maximum(z.std(0), 1e-12 * (1 + np.abs(z).max(0)))
    correlation = np.atleast_2d(np.cov(((z - z.mean(0)) / deviation).T, bias=True))
    ridge = 1e-6 * np.eye(len(deviation))
    return Scale(z.mean(0), deviation[:, None] * np.linalg.cholesky(correlation + ridge))


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
    return adapted(pilot, target, student, whitened_hmc(scale_of(finite)), x, z[:BLOCK])


def whitened_hmc(scale: Scale) -> Teacher:
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
    target: Target,
    student: Student,
    teacher: Teacher,
    x: Condition,
    z: Float[np.ndarray, "n d"],
) -> Teacher:
    """The teacher after pilot moves of one block of draws."""
    block = jnp.asarray(z[:BLOCK], jnp.result_type(float))
    for i in range(PILOTS):
        *_, teacher = improve(key, np.array(i), target, student, teacher, x, block)
    return teacher


def move(
    key: Key,
    target: Target,
    student: Student,
    teacher: Teacher,
    x: Condition,
    z: Float[np.ndarray, "n d"],
    turns: int,
) -> tuple[Float[np.ndarray, "n d"], Bool[np.ndarray, " n"], float]:
    """Draws after some turns of the teacher, which stayed finite, and the mean acceptance."""
    ends, kept, rates = [], [], []
    for i, block in enumerate(_blocks(z)):
        fine = jnp.ones(BLOCK, bool)
        for turn in range(turns):
            number = np.array(i * turns + turn)
            block, finite, rate, _ = improve(key, number, target, student, teacher, x, block)
            fine, rates = fine & finite, [*rates, rate]
        ends, kept = [*ends, block], [*kept, fine]
    after, fine = np.concatenate(ends)[: len(z)], np.concatenate(kept)[: len(z)]
    return after.astype(float), fine & np.isfinite(after).all(1), float(np.mean(rates))


def log_densities(
    target: Target, student: Student, x: Condition, z: Float[np.ndarray, "n d"], rows: int
) -> tuple[Float[np.ndarray, " n"], Float[np.ndarray, " n"] | None]:
    """Log densities at any number of points, by the program compiled for ``rows`` points."""
    parts = []
    for start in range(0, len(z), rows):
        part = z[start : start + rows]
        padded = np.concatenate([part, np.repeat(part[:1], rows - len(part), 0)])
        parts.append(densities(target, student, x, jnp.asarray(padded, jnp.result_type(float))))
    log_p, log_q = (None if p[0] is None else np.concatenate(p) for p in zip(*parts, strict=True))
    assert log_p is not None
    return log_p[: len(z)].astype(float), None if log_q is None else log_q[: len(z)].astype(float)


def _blocks(z: Float[np.ndarray, "n d"]) -> list[Array]:
    padded = np.concatenate([z, np.repeat(z[:1], -len(z) % BLOCK, 0)])
    blocks = padded.reshape(-1, BLOCK, z.shape[1])
    return list(jnp.asarray(blocks, jnp.result_type(float)))


def moved(
    key: Key,
    target: Target,
    student: Student,
    teacher: Teacher | None,
    x: Condition,
    n: int,
    turns: int,
) -> Moved | None:
    """Draw, adapt the teacher and move; None where hardly any draw has a finite log density."""
    keys = jax.random.split(key, 3)
    z = np.asarray(propose(keys[0], student, x, n), float)
    log_p, log_q = log_densities(target, student, x, z, n)
    usable = np.isfinite(z).all(1) & np.isfinite(log_p)
    if usable.sum() < max(32, z.shape[1] + 2):
        return None
    z, log_p, log_q = z[usable], log_p[usable], None if log_q is None else log_q[usable]
    scale = scale_of(z)
    teacher = adapted(keys[1], target, student, teacher or whitened_hmc(scale), x, _first(z))
    after, fine, acceptance = move(keys[2], target, student, teacher, x, z, turns)
    after = np.where(fine[:, None], after, z)
    log_p = np.stack([log_p, log_densities(target, student, x, after, n)[0]])
    return Moved(z, after, log_p, log_q, scale, 1 - float(usable.mean()), acceptance, teacher)


def _first(z: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "m d"]:
    return np.resize(z, (BLOCK, z.shape[1])) if len(z) < BLOCK else z[:BLOCK]
