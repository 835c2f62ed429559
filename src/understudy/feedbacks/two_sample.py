"""Unbiased comparison of two sets of draws by a kernel: energy distance, MMD and moments are such."""

from abc import abstractmethod
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree, Scalar

from understudy.checks import flag
from understudy.core import CONDITIONS, IngredientError, Lesson, StratifiedStudent, Student, Target
from understudy.feedbacks.common import CriticFree, Pathwise, average_over_pairs
from understudy.networks import flat
from understudy.numerics import smooth_root, squared_distances

Kernel = Callable[[Float[Array, "n d"], Float[Array, "m d"]], Float[Array, "n m"]]


class TwoSets(NamedTuple):
    """Draws after teaching, and the student's twice: two sets whose pairs are independent.

    The student's sets are the same one, without its diagonal, unless the draws are stratified, whose
    rows depend on their branch: then the second is drawn anew.
    """

    after: Float[Array, "n d"]
    after_weights: Float[Array, " n"]
    first: Float[Array, "n d"]
    first_weights: Float[Array, " n"]
    second: Float[Array, "n d"]
    second_weights: Float[Array, " n"]
    paired: bool


class TwoSample(CriticFree, Pathwise):
    """A divergence that compares the two sets by a kernel: E k(b, b') - 2 E k(a, b) + E k(a, a').

    Args:
        diagonal: compare each draw with its own improvement too. Biased: a short chain makes the two
            agree whatever the student, which comes out too wide.
        pool: compare pairs (x, z) over the whole batch rather than the particles of each condition;
            needed with one particle per condition. The numbers of x and z should have similar scales.
    """

    diagonal: bool = eqx.field(
        converter=partial(flag, "diagonal"), static=True, default=False, kw_only=True
    )
    pool: bool = eqx.field(converter=partial(flag, "pool"), static=True, default=False, kw_only=True)

    @abstractmethod
    def kernel_for(self, sets: TwoSets) -> Kernel:
        """The kernel for these sets, between the rows of any two."""

    def loss(self, student: Student, critic: PyTree, target: Target, lesson: Lesson) -> Scalar:
        """The comparison, without bias unless the diagonal is kept."""
        del critic, target
        sets = two_sets(student, lesson, self.pool)
        return two_sample(self.kernel_for(sets), sets, self.diagonal)


def two_sets(student: Student, lesson: Lesson, pool: bool) -> TwoSets:
    """The sets of one condition, or of the batch if pooled."""
    if lesson.before.shape[0] < 2 and not pool:
        raise IngredientError(
            "comparing sets of draws needs at least two particles per condition, and one came: draw "
            "more of them, or compare pairs (x, z) over the batch with pool=True."
        )
    paired = not isinstance(student, StratifiedStudent)
    first = lesson.propose_weighted(student)
    again = eqx.tree_at(lambda it: it.noise, lesson, jax.random.fold_in(lesson.noise, 1))
    second = first if paired else again.propose_weighted(student)
    sets = [(lesson.after, lesson.weights), first, second]
    if pool:
        sets = [_pooled(draws, weights, lesson) for draws, weights in sets]
    return TwoSets(*(part for pair in sets for part in pair), paired)


def two_sample(kernel: Kernel, sets: TwoSets, diagonal: bool) -> Scalar:
    """E k(b, b') - 2 E k(a, b) + E k(a, a') without bias, unless the paired ``diagonal`` is kept."""
    after, weights, first, first_weights, second, second_weights, paired = sets
    within = average_over_pairs(kernel(first, second), first_weights, second_weights, paired)
    taught = average_over_pairs(kernel(after, after), weights, weights, True)
    across = average_over_pairs(kernel(after, first), weights, first_weights, paired and not diagonal)
    if not paired:
        other = average_over_pairs(kernel(after, second), weights, second_weights, False)
        across = (across + other) / 2
    return within - 2 * across + taught


def minus_distance(a: Float[Array, "n d"], b: Float[Array, "m d"]) -> Float[Array, "n m"]:
    """The kernel of the energy distance."""
    return -smooth_root(squared_distances(a, b))


def median_square(sets: TwoSets) -> Scalar:
    """Median squared distance between the pairs of draws after and before, as a constant."""
    counts = (sets.after_weights[:, None] > 0) & (sets.first_weights[None, :] > 0)
    squares = squared_distances(sets.after, sets.first)
    median = jnp.nanmedian(jnp.where(counts, squares, jnp.nan))
    return jax.lax.stop_gradient(jnp.where(median > 0, median, 1.0))


def _pooled(
    draws: Float[Array, "n d"], weights: Float[Array, " n"], lesson: Lesson
) -> tuple[Float[Array, "m e"], Float[Array, " m"]]:
    x = jnp.broadcast_to(flat(lesson.x), (draws.shape[0], flat(lesson.x).size))
    pairs = jax.lax.all_gather(jnp.concatenate([x, draws], axis=1), CONDITIONS)
    shares = jax.lax.all_gather(weights, CONDITIONS)
    return pairs.reshape(-1, pairs.shape[-1]), shares.reshape(-1) / shares.shape[0]
