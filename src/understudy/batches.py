"""Where conditions come from: rows of a data set a minibatch at a time, binarised images, nothing."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree

from understudy.checks import flag, number, shown, whole
from understudy.core import Condition, Indexed, IngredientError, Key

Conditions = Callable[[Key], Condition]
"""Gives a batch of conditions for a key."""


class NoConditions(eqx.Module):
    """The target has no condition."""

    def __call__(self, key: Key) -> Condition:
        """None."""
        del key


class Minibatches(eqx.Module):
    """Conditions drawn from a data set, ``size`` rows at a time, on the device.

    Args:
        data: arrays with one row per condition.
        size: rows in a batch.
        together: True makes the whole minibatch one condition (a minibatch posterior), False makes
            every row a condition of its own (amortised inference).

    Examples:
        >>> import jax, jax.numpy as jnp, understudy
        >>> batches = understudy.Minibatches(jnp.arange(100.0), size=10)
        >>> batches(jax.random.key(0)).shape
        (10,)
    """

    data: PyTree
    size: int = eqx.field(static=True)
    together: bool = eqx.field(static=True, default=False)

    def __check_init__(self):
        whole("size", self.size)
        flag("together", self.together)
        leaves = jax.tree.leaves(self.data)
        if not leaves or not all(np.ndim(leaf) and eqx.is_array_like(leaf) for leaf in leaves):
            raise IngredientError(
                f"data holds arrays with one row per condition; {shown(self.data)} came."
            )

    def __call__(self, key: Key) -> Condition:
        """One batch, rows drawn with replacement."""
        rows = jax.random.randint(key, (self.size,), 0, jax.tree.leaves(self.data)[0].shape[0])
        batch = jax.tree.map(lambda leaf: leaf[rows], self.data)
        return jax.tree.map(lambda leaf: leaf[None], batch) if self.together else batch


class Binarised(eqx.Module):
    """Batches of images, every pixel 1 with the probability that is its grey value, drawn anew.

    Give it to ``train`` as ``data``. The grey values stay on the device as bytes.

    Reference: Salakhutdinov and Murray, "On the quantitative analysis of deep belief networks", 2008.

    Args:
        pixels: whole numbers from 0 to 255, or shares from 0 to 1; one image (or row of a table) a row.
            Whole numbers none of which is above 1 are black and white.
        size: images in a batch.
        indexed: whether every image comes with its row, for students that keep something per datum.

    Examples:
        >>> import jax, numpy as np, understudy
        >>> batches = understudy.Binarised(np.full((20, 8, 8), 0.5), size=4)
        >>> batches(jax.random.key(0)).shape
        (4, 8, 8)
    """

    pixels: Array
    size: int = eqx.field(static=True)
    indexed: bool = eqx.field(static=True)

    def __init__(self, pixels: Any, size: int = 100, indexed: bool = False):
        number("pixels", pixels)
        given = jnp.asarray(pixels)
        self.size = whole("size", size)
        self.indexed = indexed
        counted = jnp.issubdtype(given.dtype, jnp.integer)
        inside = (given >= 0) & (given <= (255 if counted else 1))
        if given.ndim < 2 or not given.size or not bool(inside.all()):
            raise IngredientError(
                "pixels are images one by one, whole numbers from 0 to 255 or others from 0 to 1; "
                f"{shown(given)} came; divide by the largest value, say."
            )
        self.pixels = given.astype(jnp.uint8 if given.max() > 1 else bool) if counted else given

    def __call__(self, key: Key) -> Condition:
        """One batch, images drawn with replacement."""
        choose, draw = jax.random.split(key)
        rows = jax.random.randint(choose, (self.size,), 0, self.pixels.shape[0])
        x = binarise(draw, self.pixels[rows])
        return Indexed(rows, x) if self.indexed else x


def binarise(key: Key, pixels: Array) -> Float[Array, "..."]:
    """Draw every pixel, 1 with the probability that is its grey value (bytes are divided by 255)."""
    grey = pixels / 255 if pixels.dtype == jnp.uint8 else pixels
    return (jax.random.uniform(key, pixels.shape) < grey).astype(float)


def conditions_of(data: Any, size: int) -> Conditions:
    """What gives batches of conditions: ``data`` itself if it is a function, else its rows.

    Args:
        data: None, arrays with one row per condition, or a function of a key.
        size: rows in a batch, where ``data`` holds arrays.
    """
    if data is None:
        return NoConditions()
    if callable(data):
        return data
    arrays = _arrays(data)
    leaves = jax.tree.leaves(arrays)
    rows = {leaf.shape[:1] for leaf in leaves}
    if len(rows) != 1 or rows == {()} or rows == {(0,)}:
        shapes = ", ".join(str(leaf.shape) for leaf in leaves) or "nothing"
        raise IngredientError(
            f"data holds arrays with one row per condition, all as long; {shapes} came."
        )
    if not all(bool(jnp.isfinite(leaf).all()) for leaf in leaves):
        raise IngredientError("data holds numbers that are not finite; drop or impute those rows first.")
    return Minibatches(arrays, whole("batch_size", size))


def batch_size(x: Condition) -> int:
    """Number of conditions in a batch, one where there is no condition."""
    return 1 if x is None else jax.tree.leaves(x)[0].shape[0]


def _arrays(data: Any) -> PyTree:
    try:
        return jax.tree.map(jnp.asarray, data)
    except (TypeError, ValueError) as error:
        raise IngredientError(
            f"data holds arrays of numbers with one row per condition; {shown(data)} came."
        ) from error
