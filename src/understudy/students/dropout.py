"""Stochastic regularisation read as a sampler of network weights."""

from collections.abc import Sequence
from typing import Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import paramax
from jaxtyping import Array, ArrayLike, Float

from understudy.checks import one_of, random_key, shown, sizes, vector
from understudy.core import Condition, IngredientError, Key, Student
from understudy.networks import join_layers, layers_size


class Dropout(Student):
    """Network weights under random noise, W = M diag(noise): dropout and its relatives.

    A draw is the vector of all weights that :class:`~understudy.targets.BayesianNetwork` reads, layer
    after layer (:func:`~understudy.networks.join_layers`). The noise has mean one and variance
    rate / (1 - rate); biases have none.

    References: Srivastava et al., "Dropout", 2014; Wan et al., "Regularization of Neural Networks using
    DropConnect", 2013; Gal and Ghahramani, "Dropout as a Bayesian Approximation", 2016.

    Args:
        key: random key for the weights (Glorot-scaled Gaussians; biases start at zero).
        shapes: shapes (out, in) of the weight matrices.
        rate: share of units or connections that is dropped, at least 0 and less than 1; one number, or
            one for each matrix (0 keeps a layer's inputs, for instance).
        noise: "units" drops inputs of a layer (dropout), "connections" drops single weights
            (DropConnect), "gaussian" multiplies single weights by Gaussian noise.

    Examples:
        >>> import jax
        >>> from understudy.students import Dropout
        >>> student = Dropout(jax.random.key(0), [(3, 4), (4, 1)], rate=0.1)
        >>> student.dim, student.sample(jax.random.key(1), None, 5).shape
        (23, (5, 23))
    """

    weights: list[Float[Array, "out in"]]
    biases: list[Float[Array, " out"]]
    rate: Float[Array, " layers"] | paramax.NonTrainable
    noise: Literal["units", "connections", "gaussian"] = eqx.field(static=True)
    dim: int = eqx.field(static=True)

    def __init__(
        self,
        key: Key,
        shapes: Sequence[tuple[int, int]],
        rate: ArrayLike = 0.5,
        noise: Literal["units", "connections", "gaussian"] = "units",
    ):
        _check_shapes(shapes)
        keys = jax.random.split(random_key(key), len(shapes))
        self.weights = [
            jax.random.normal(k, (out, size)) * (2 / (out + size)) ** 0.5
            for k, (out, size) in zip(keys, shapes, strict=True)
        ]
        self.biases = [jnp.zeros(out) for out, _ in shapes]
        self.rate = paramax.non_trainable(_check_rate(rate, len(shapes)))
        self.noise = one_of("noise", _NOISES, noise)
        self.dim = layers_size([(size, out) for out, size in shapes])

    def sample(self, key: Key, x: Condition, n: int) -> Float[Array, "n d"]:
        """Draw ``n`` noisy copies of all weights."""
        rates = paramax.unwrap(self.rate)
        draw = _NOISES[self.noise]

        def one(key: Key) -> Float[Array, " d"]:
            keys = jax.random.split(key, len(self.weights))
            layers = zip(keys, self.weights, self.biases, rates, strict=True)
            return join_layers([((w * draw(k, w.shape, rate)).T, b) for k, w, b, rate in layers])

        return jax.vmap(one)(jax.random.split(key, n))


def _units(key, shape, rate):
    return jax.random.bernoulli(key, 1 - rate, shape[1:]) / (1 - rate)


def _connections(key, shape, rate):
    return jax.random.bernoulli(key, 1 - rate, shape) / (1 - rate)


def _gaussian(key, shape, rate):
    return 1 + jnp.sqrt(rate / (1 - rate)) * jax.random.normal(key, shape)


_NOISES = {"units": _units, "connections": _connections, "gaussian": _gaussian}


def _check_rate(rate: ArrayLike, layers: int) -> Array:
    array = vector("rate", rate, layers)
    values = None if isinstance(array, jax.core.Tracer) else np.asarray(array)
    if values is not None and not np.all((values >= 0) & (values < 1)):
        raise IngredientError(f"rate is at least 0 and less than 1; {rate} came.")
    return array


def _check_shapes(shapes: Sequence[tuple[int, int]]) -> None:
    listed = isinstance(shapes, Sequence) and not isinstance(shapes, str)
    if not (listed and shapes and all(isinstance(s, Sequence) and len(s) == 2 for s in shapes)):
        raise IngredientError(
            f"shapes are (out, in) of every weight matrix, such as [(20, 3), (1, 20)]; "
            f"{shown(shapes)} came."
        )
    for shape in shapes:
        sizes("every shape in shapes", shape)
