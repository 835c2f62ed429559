"""What several students share: condition vectors, strata and pooled lessons."""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Scalar

from understudy.core import Condition, IngredientError, Lesson
from understudy.networks import flat


def features(x: Condition, size: int) -> Float[Array, " m"]:
    """A condition as one vector of the size met at construction; empty for unconditional students."""
    if size == 0:
        return jnp.zeros(0)
    vector = flat(x)
    if vector.size != size:
        raise IngredientError(
            f"This student was built for conditions with {size} numbers; one with {vector.size} came. "
            "Build it with an example condition of the right shape."
        )
    return vector


def stratify(logits: Float[Array, " k"], n: int) -> tuple[Int[Array, " n"], Float[Array, " n"]]:
    """Branches 0, .., k - 1, 0, .. of ``n`` draws, and each draw's share of its branch's probability."""
    branches = logits.shape[0]
    if n < branches:
        raise IngredientError(
            f"Each of the {branches} branches is drawn, so at least {branches} particles are needed; "
            f"{n} came. Ask for more particles or build the student with fewer branches."
        )
    branch = np.arange(n) % branches
    share = 1 / np.bincount(branch)[branch]
    return jnp.asarray(branch), jax.nn.softmax(logits)[branch] * share


def pool(lessons: Lesson, rate: Scalar) -> tuple[Float[Array, "m d"], Float[Array, " m"], Scalar]:
    """All rows of ``after``, weights that sum to one, and ``rate``, zero where no row was kept."""
    rows = jnp.where(lessons.kept[..., None], lessons.after, 0)
    weights = jnp.where(lessons.kept, lessons.weights, 0).ravel()
    total = weights.sum()
    weights, rate = weights / jnp.where(total > 0, total, 1), jnp.where(total > 0, rate, 0)
    return rows.reshape(-1, rows.shape[-1]), weights, rate
