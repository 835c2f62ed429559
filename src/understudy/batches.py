"""Where conditions come from: rows of a data set, binarised images, a stream from the host, nothing."""

import itertools
import queue
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PyTree

from understudy.checks import calling, flag, is_numeric, native, number, shown, takes, whole
from understudy.core import Condition, Indexed, IngredientError, Key

Conditions = Callable[[Key], Condition]
"""Gives a batch of conditions for a key."""


def _on_device(data: Any) -> PyTree:
    """NumPy's arrays of numbers as JAX's; what else there is stays, to be refused."""
    move = lambda leaf: jnp.asarray(native(leaf)) if is_numeric(leaf) else leaf  # noqa: E731
    return jax.tree.map(move, data)


class NoConditions(eqx.Module):
    """The target has no condition."""

    def __call__(self, key: Key) -> Condition:
        """No condition, whatever the key."""
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

    data: PyTree = eqx.field(converter=_on_device)
    size: int = eqx.field(static=True)
    together: bool = eqx.field(static=True, default=False)

    def __check_init__(self):
        whole("size", self.size)
        flag("together", self.together)
        leaves = jax.tree.leaves(self.data)
        if not all(map(is_numeric, leaves)):
            raise IngredientError(
                f"data holds arrays of numbers with one row per condition; {shown(self.data)} came."
            )
        _check_rows(leaves)

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
        given = np.asarray(pixels)
        self.size = whole("size", size)
        self.indexed = flag("indexed", indexed)
        counted = given.dtype.kind in "iu"
        inside = (given >= 0) & (given <= (255 if counted else 1))
        if given.ndim < 2 or not given.size or not bool(inside.all()):
            raise IngredientError(
                "pixels are images one by one, whole numbers from 0 to 255 or others from 0 to 1; "
                f"{shown(given)} came; divide by the largest value, say."
            )
        shades = given.astype(np.uint8 if given.max() > 1 else bool) if counted else given
        self.pixels = jnp.asarray(shades)

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


class Window(eqx.Module):
    """Some batches of a stream, on the device: update ``t`` learns from batch ``t``.

    Args:
        batches: arrays whose first axis counts the batches.
        first: number of the first.
    """

    batches: PyTree
    first: Int[Array, ""]

    def __call__(self, key: Key) -> Condition:
        """The first batch, whatever the key."""
        del key
        return jax.tree.map(lambda leaf: leaf[0], self.batches)

    def at(self, step: Int[Array, ""]) -> Condition:
        """The batch of one update."""
        return jax.tree.map(lambda leaf: leaf[step - self.first], self.batches)


class Stream:
    """Batches of conditions from the host, one for each update: a loader, files, any iterable.

    Give it to ``train`` as ``data``. A thread reads ahead while updates run; ``chunk`` batches are on
    the device at a time. Update t learns from batch t, so that a resumed run goes on with the batch
    after the last one it learnt from; the same batches have to come in the same order again.

    Args:
        batches: an iterable of arrays (or trees of them) with one row per condition, all of one shape,
            gone through again and again. Or a function of the number of batches used so far that gives
            those that follow, which saves skipping them when a run is resumed.
        prefetch: batches read ahead.

    Examples:
        >>> import numpy as np, understudy
        >>> stream = understudy.Stream([np.zeros((4, 2)), np.ones((4, 2))])
        >>> [int(batch[0, 0]) for _, batch in zip(range(5), stream.starting(1))]
        [1, 0, 1, 0, 1]
    """

    def __init__(self, batches: Any, prefetch: int = 64):
        usable = takes(batches, 1) if callable(batches) else isinstance(batches, Iterable)
        if isinstance(batches, str) or not usable:
            raise IngredientError(
                "batches are an iterable of arrays, such as a loader, or a function of the number of "
                f"batches used so far; {shown(batches)} came."
            )
        self.batches: Any = batches
        self.prefetch = whole("prefetch", prefetch)
        self._first: Any = None

    @property
    def first(self) -> PyTree:
        """The first batch; all others have its shapes."""
        if self._first is None:
            self._first = _host_arrays(next(self._endless(0)), 0)
            if not callable(self.batches) and iter(self.batches) is self.batches:
                # What can be gone through only once has lost its first batch to this look.
                self.batches = itertools.chain([self._first], self.batches)
        return self._first

    def starting(self, position: int) -> Iterator[PyTree]:
        """The batches from a position on, without end, each with the shapes of the first."""
        shapes = _shapes(self.first)
        for place, batch in enumerate(self._endless(position), position):
            arrays = _host_arrays(batch, place)
            if _shapes(arrays) != shapes:
                raise IngredientError(
                    f"All batches of a stream have the shapes of the first, {shapes}; batch {place} "
                    f"has {_shapes(arrays)}: leave out a smaller last batch (drop_last=True, say)."
                )
            yield arrays

    def _endless(self, position: int) -> Iterator[Any]:
        used = position if callable(self.batches) else 0
        while True:
            before = used
            with calling("The batches of a stream are gone through one after the other"):
                batches: Any = self.batches(used) if callable(self.batches) else self.batches
                for batch in batches:
                    used += 1
                    if used > position or callable(self.batches):
                        yield batch
            if used == before:
                raise IngredientError(
                    f"The stream ended after {used} batches: give what can be gone through again, such "
                    "as a loader or a list rather than a generator, or ask for fewer updates."
                )


class Reader:
    """Takes batches from a stream, read ahead by a thread; close it when done."""

    def __init__(self, stream: Stream, position: int):
        self.position = position
        self._queue: queue.Queue = queue.Queue(stream.prefetch)
        self._stopped = threading.Event()
        self._thread = threading.Thread(
            target=self._read, args=(stream.starting(position),), daemon=True
        )
        self._thread.start()

    def window(self, count: int, size: int) -> Window:
        """The next ``count`` batches, in arrays that have room for ``size``."""
        first, self.position = self.position, self.position + count
        return window([self._next() for _ in range(count)], first, size)

    def close(self) -> None:
        """Stop reading."""
        self._stopped.set()
        self._thread.join(timeout=10)

    def _next(self) -> PyTree:
        found = self._queue.get()
        if isinstance(found, Exception):
            raise found
        return found

    def _read(self, batches: Iterator[PyTree]) -> None:
        try:
            for batch in batches:
                if not self._put(batch):
                    return
        except Exception as error:  # raised where the batch is asked for
            self._put(error)

    def _put(self, found: Any) -> bool:
        while not self._stopped.is_set():
            try:
                self._queue.put(found, timeout=0.1)
            except queue.Full:
                continue
            return True
        return False


def window(batches: Sequence[PyTree], first: int, size: int) -> Window:
    """These batches in arrays that have room for ``size``, the last one again and again at their end."""
    room = [*batches, *[batches[-1]] * (size - len(batches))]
    return Window(jax.tree.map(lambda *leaves: jnp.stack(leaves), *room), jnp.asarray(first))


def _host_arrays(batch: Any, place: int) -> PyTree:
    try:
        arrays = jax.tree.map(np.asarray, batch)
    except Exception as error:
        raise IngredientError(
            f"A batch of a stream holds arrays of numbers; batch {place} is {shown(batch)}."
        ) from error
    leaves = jax.tree.leaves(arrays)
    rows = {leaf.shape[:1] for leaf in leaves}
    if len(rows) != 1 or rows <= {(), (0,)} or not all(_numbers(leaf) for leaf in leaves):
        raise IngredientError(
            "A batch of a stream holds arrays of finite numbers with one row per condition, all as "
            f"long; batch {place} is {shown(batch)}."
        )
    return arrays


def _numbers(leaf: np.ndarray) -> bool:
    return leaf.dtype.kind in "biuf" and bool(np.isfinite(leaf).all())


def _shapes(arrays: PyTree) -> Sequence[tuple[int, ...]]:
    return [leaf.shape for leaf in jax.tree.leaves(arrays)]


def conditions_of(data: Any, size: int) -> Conditions:
    """What gives batches of conditions: ``data`` itself if it is a function, else its rows.

    Args:
        data: None, arrays with one row per condition, a function of a key, or a :class:`Stream`, of
            which the first batch is given.
        size: rows in a batch, where ``data`` holds arrays.
    """
    whole("batch_size", size)
    if data is None:
        return NoConditions()
    if isinstance(data, Stream):
        return window([data.first], 0, 1)
    if callable(data):
        _check_function(data)
        return data
    arrays, finite = _arrays(data)
    _check_rows(jax.tree.leaves(arrays))
    if not finite:
        raise IngredientError("data holds numbers that are not finite; drop or impute those rows first.")
    return Minibatches(arrays, size)


def _check_function(data: Callable) -> None:
    """Whether a function of a key gives a batch of conditions."""
    doing = "data, where they are a function, take a random key and give a batch of conditions"
    if not takes(data, 1):
        raise IngredientError(f"{doing}; {shown(data)} takes other arguments.")
    with calling(doing):
        leaves = jax.tree.leaves(jax.eval_shape(data, jax.random.key(0)))
    if leaves:
        _check_rows(leaves)


def _check_rows(leaves: Sequence[Any]) -> None:
    rows = {leaf.shape[:1] for leaf in leaves}
    if len(rows) != 1 or rows <= {(), (0,)}:
        shapes = ", ".join(str(leaf.shape) for leaf in leaves) or "nothing"
        raise IngredientError(
            f"data holds arrays with one row per condition, all as long; {shapes} came."
        )


def _arrays(data: Any) -> tuple[PyTree, bool]:
    """Arrays of a data set, and whether all their numbers are finite."""
    try:
        arrays = jax.tree.map(lambda leaf: jnp.asarray(native(leaf)), data)
        return arrays, all(bool(jnp.isfinite(leaf).all()) for leaf in jax.tree.leaves(arrays))
    except Exception as error:
        raise IngredientError(
            f"data holds arrays of numbers with one row per condition; {shown(data)} came."
        ) from error
