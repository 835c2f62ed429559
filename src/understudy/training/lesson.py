"""Making lessons: the student proposes, the teacher improves."""

from collections.abc import Callable
from typing import Literal, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PyTree, Scalar

from understudy.checks import calling
from understudy.core import (
    CONDITIONS,
    Condition,
    Improved,
    Key,
    Lesson,
    Student,
    Target,
    Teacher,
    batch_size,
    bind,
    prepared,
)
from understudy.devices import spread


class Movement(NamedTuple):
    """What the teacher did to the draws of a batch of conditions.

    Attributes:
        acceptance: mean acceptance, in the structure the teacher gave it.
        move: root mean square move, in standard deviations of the draws it started from.
        moved: share of the chains that moved at all.
        lost: share of the chains that were not finite and so were kept out of the lesson.
    """

    acceptance: PyTree
    move: Scalar
    moved: Scalar
    lost: Scalar

    @property
    def mean_acceptance(self) -> Scalar:
        """One number; nan where the teacher has no accept test."""
        rates = jax.tree.leaves(self.acceptance)
        return jnp.mean(jnp.stack(rates)) if rates else jnp.array(jnp.nan)


class Classroom(eqx.Module):
    """How lessons are made.

    Args:
        particles: draws per condition, K in the paper.
        pairing: "paired" compares the improved draws with those they came from; "fresh" compares
            them with new draws of the student (appendix D of the paper).
        refresh: share of the chains that start at the proposer's draws; the others go on from where
            the last lesson left them (persistent chains).
        guard: whether chains that are not finite are kept out of the lesson.
    """

    refresh: Float[Array, ""]
    particles: int = eqx.field(static=True)
    pairing: Literal["paired", "fresh"] = eqx.field(static=True)
    guard: bool = eqx.field(static=True, default=True)

    def teach(
        self,
        key: Key,
        target: Target,
        student: Student,
        proposer: Student,
        teacher: Teacher,
        x: Condition = None,
        chains: Float[Array, "b n d"] | None = None,
    ) -> tuple[Lesson, Movement]:
        """Lessons for a batch of conditions (leading axis of ``x``), as data without gradients.

        ``proposer`` starts the chains; it is the student itself, or a slower copy of it.
        """
        ready = prepared(target)

        def one(keys, x, chains):
            return self._lesson(keys, ready, student, proposer, teacher, x, chains)

        keys = jax.random.split(key, (batch_size(x), 4))
        lessons, start, improved = over_conditions(one, *spread((keys, x, chains)))
        return jax.lax.stop_gradient((lessons, _movement(start, improved)))

    def _lesson(self, keys, target, student, proposer, teacher, x, chains):
        draw, improve, noise, other = keys
        proposed = proposer.sample(draw, x, self.particles)
        # Conditions are spread over devices; where there is but one, its draws are.
        proposed = proposed if x is not None else spread(proposed)
        start = proposed if chains is None else self._restart(other, proposed, chains)
        with calling(f"The teacher {type(teacher).__name__} moves draws of size {start.shape[1]}"):
            improved = teacher.improve(
                improve, lambda z: target.log_density(z, x), start, bind(proposer, x)
            )
        if self.pairing == "paired" and proposer is student:
            lesson = self._lesson_of(draw, noise, x, proposed, improved, improved.control)
            return lesson, start, improved
        drawn = draw if self.pairing == "paired" else other
        before = student.sample(drawn, x, self.particles)
        return self._lesson_of(drawn, noise, x, before, improved, None), start, improved

    def _restart(self, key, proposed, chains):
        again = jax.random.bernoulli(key, self.refresh, (self.particles, 1))
        return jnp.where(again, proposed, chains)

    def _lesson_of(
        self,
        key: Key,
        noise: Key,
        x: Condition,
        before: Float[Array, "n d"],
        improved: Improved,
        control: Float[Array, "n d"] | None,
    ) -> Lesson:
        # Constants without the guard: a loss that draws for itself then needs no first draw at all.
        drawn = jnp.isfinite(before).all(-1) if self.guard else jnp.ones(self.particles, bool)
        kept = improved.finite & drawn if self.guard else drawn
        log_weights = jnp.zeros(kept.shape) if improved.log_weights is None else improved.log_weights
        keep = lambda rows: jnp.where(kept[:, None], rows, 0.0)  # noqa: E731
        return Lesson(
            key=key,
            noise=noise,
            x=x,
            before=jnp.where(drawn[:, None], before, 0.0),
            after=keep(improved.z),
            weights=jax.nn.softmax(log_weights, where=kept),
            control=keep(before if control is None else control),
            kept=kept,
        )


def over_conditions(function: Callable, *batches: PyTree) -> PyTree:
    """``function`` of every condition of a batch, along the axis named :data:`CONDITIONS`."""
    if jax.tree.leaves(batches)[0].shape[0] > 1:
        return jax.vmap(function, axis_name=CONDITIONS)(*batches)
    # XLA makes loops over a log density several times slower for a batch axis of one, so it has none.
    single = jax.tree.map(lambda leaf: leaf[0], batches)
    return jax.vmap(function, in_axes=None, axis_name=CONDITIONS, axis_size=1)(*single)


def _movement(start: Float[Array, "b n d"], improved: Improved) -> Movement:
    step = improved.z - start
    scale = start.var(axis=1, keepdims=True) + 1e-12 if start.shape[1] > 1 else jnp.ones(())
    return Movement(
        acceptance=jax.tree.map(lambda a: _mean(a, improved.finite), improved.acceptance),
        move=jnp.sqrt(_mean((step**2 / scale).mean(-1), improved.finite)),
        moved=_mean((step**2 > 1e-10 * scale).any(-1).astype(float), improved.finite),
        lost=(~improved.finite).mean(),
    )


def _mean(values: Float[Array, "b n"], where: Bool[Array, "b n"]) -> Scalar:
    return jnp.where(where, values, 0.0).sum() / jnp.maximum(where.sum(), 1)
