"""Networks that turn a data set, of whatever shape, into one vector: vectors, sets, series, images."""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from understudy.checks import one_of, whole
from understudy.core import Key
from understudy.networks.convolutions import Convolution, leaky
from understudy.networks.perceptrons import Perceptron

_PRODUCTS_UP_TO = 12
_LAGS = 3
_MAXIMA = 16
_NARROWEST = 1e-4
_PLACES, _CHANNELS = 4, 64
_PASSED_ON = 128


class Read(NamedTuple):
    """A data set as numbers of about unit size.

    Attributes:
        vector: everything that has a place of its own.
        rows: everything that comes in rows, padded to the largest number of them; None without rows.
        present: which rows are there.
        images: everything that is an image.
    """

    vector: Float[Array, " p"]
    rows: Float[Array, "n r"] | None = None
    present: Bool[Array, " n"] | None = None
    images: tuple[Float[Array, "h w c"], ...] = ()


class Summary(eqx.Module):
    """One vector for a data set: rows pooled or convolved, images convolved, and a perceptron of all.

    Reference: Zaheer et al., "Deep Sets", 2017; Chan et al., "A Likelihood-Free Inference Framework for
    Population Genetic Data using Exchangeable Neural Networks", 2018.

    Args:
        key: random key for the weights.
        example: a data set as it is read, for its shapes.
        kind: what rows are: a "set", whose order does not matter, or a "series".
        width: units of the hidden layers.
        outputs: size of the vector, to which what went into the perceptron is joined where it is short.
    """

    rows: Any
    images: tuple["Imaged", ...]
    network: Perceptron

    def __init__(self, key: Key, example: Read, kind: str = "set", width: int = 128, outputs: int = 64):
        one_of("kind", ("set", "series"), kind)
        first, second, *others = jax.random.split(key, 2 + len(example.images))
        makers = {"set": Pooled, "series": Convolved}
        self.rows = None if example.rows is None else makers[kind](first, example.rows.shape[1])
        images = zip(others, example.images, strict=True)
        self.images = tuple(Imaged(key, np.shape(image)) for key, image in images)
        size = example.vector.size + (0 if self.rows is None else self.rows.outputs)
        size += sum(image.outputs for image in self.images)
        self.network = Perceptron(second, [size, width, width, whole("outputs", outputs)])

    def __call__(self, read: Read) -> Float[Array, " m"]:
        """The summary of one data set."""
        parts = [read.vector]
        if self.rows is not None:
            parts.append(self.rows(read.rows, read.present))
        parts += [network(image) for network, image in zip(self.images, read.images, strict=True)]
        h = jnp.concatenate(parts)
        # A perceptron blurs what it is given; the flow sees the numbers themselves too.
        return jnp.concatenate([self.network(h), h[:_PASSED_ON]])


class Pooled(eqx.Module):
    """Means and maxima over the rows of a set, its columns' spreads and correlations, and its size.

    Args:
        key: random key for the weights.
        inputs: numbers in a row.
        width: units, and learnt features of a row.
    """

    weights: tuple[Float[Array, "i w"], Float[Array, "w w"]]
    biases: tuple[Float[Array, " w"], Float[Array, " w"]]
    outputs: int = eqx.field(static=True)

    def __init__(self, key: Key, inputs: int, width: int = 64):
        first, second = jax.random.split(key)
        enter = jax.random.normal(first, (inputs, width)) * np.sqrt(2 / inputs)
        self.weights = enter, jax.random.normal(second, (width, width)) * np.sqrt(2 / width)
        self.biases = jax.random.normal(second, (width,)), jnp.zeros(width)
        products = inputs * (inputs + 1) // 2 if inputs <= _PRODUCTS_UP_TO else inputs
        self.outputs = 1 + 2 * inputs + 2 * products + width + min(width, _MAXIMA)

    def __call__(
        self, rows: Float[Array, "n r"], present: Bool[Array, " n"]
    ) -> Float[Array, " outputs"]:
        """The pooled features of one set; rows that are not there do not count."""
        count = jnp.maximum(present.sum(), 1)
        features = rows
        # One product for all rows: a network mapped over rows takes twice as long to learn.
        for weight, bias in zip(self.weights, self.biases, strict=True):
            features = jax.nn.relu(features @ weight + bias)

        def mean(values):
            return jnp.where(present[:, None], values, 0.0).sum(0) / count

        largest = jnp.where(present[:, None], features[:, :_MAXIMA], 0.0).max(0)
        size = jnp.log(count / np.sqrt(len(rows)))[None]
        # Spreads can differ by decades, and no network finds a small one as a difference of squares.
        away = rows - mean(rows)
        spread = jnp.sqrt(mean(away**2) + _NARROWEST**2)
        shape = [jnp.log(spread), mean(_products(away / spread))]
        parts = [size, mean(rows), mean(_products(rows)), *shape, mean(features), largest]
        return jnp.concatenate(parts)


class Convolved(eqx.Module):
    """Means of a series, of products of neighbours, and pooled convolutions of it.

    Args:
        key: random key for the weights.
        inputs: numbers at each time.
        width: channels.
    """

    first: eqx.nn.Conv1d
    second: eqx.nn.Conv1d
    outputs: int = eqx.field(static=True)

    def __init__(self, key: Key, inputs: int, width: int = 32):
        keys = jax.random.split(key)
        self.first = eqx.nn.Conv1d(inputs + 1, width, 5, padding="SAME", key=keys[0])
        self.second = eqx.nn.Conv1d(width, width, 5, padding="SAME", dilation=4, key=keys[1])
        self.outputs = 1 + inputs * (2 + _LAGS) + 4 * width + 2 * inputs

    def __call__(
        self, rows: Float[Array, "n r"], present: Bool[Array, " n"]
    ) -> Float[Array, " outputs"]:
        """The features of one series; times that are not there do not count."""
        there = present[:, None].astype(float)
        count = jnp.maximum(present.sum(), 1)
        values = rows * there
        one = jax.nn.relu(self.first(jnp.concatenate([values, there], 1).T)).T * there
        two = jax.nn.relu(self.second(one.T)).T * there
        lagged = [(values[lag:] * values[: len(rows) - lag]).sum(0) / count for lag in range(_LAGS + 1)]
        last = values[count - 1]
        parts = [jnp.log(count / len(rows))[None], values.sum(0) / count, *lagged, values[0], last]
        parts += [one.sum(0) / count, two.sum(0) / count, one.max(0), two.max(0)]
        return jnp.concatenate(parts)


class Imaged(eqx.Module):
    """Strided convolutions of an image, until a few places are left.

    Args:
        key: random key for the weights.
        shape: height, width and channels of the image.
        width: channels after the first convolution; they double with every further one.
    """

    layers: tuple[Convolution, ...]
    outputs: int = eqx.field(static=True)

    def __init__(self, key: Key, shape: tuple[int, ...], width: int = 16):
        size, channels, layers = shape[:2], shape[2], []
        while max(size) > _PLACES:
            key, own = jax.random.split(key)
            layers.append(Convolution(own, size, (channels, width), 5))  # pyright: ignore[reportCallIssue]
            size, channels, width = layers[-1].out, width, min(2 * width, _CHANNELS)
        self.layers, self.outputs = tuple(layers), size[0] * size[1] * channels

    def __call__(self, image: Float[Array, "h w c"]) -> Float[Array, " outputs"]:
        """The features of one image, place by place."""
        for layer in self.layers:
            image = leaky(layer(image))
        return image.ravel()


def _products(rows: Float[Array, "n r"]) -> Float[Array, "n q"]:
    inputs = rows.shape[1]
    if inputs > _PRODUCTS_UP_TO:
        return rows**2
    i, j = np.triu_indices(inputs)
    return rows[:, i] * rows[:, j]
