"""A module with a bit of everything that files hold."""

import functools
from collections.abc import Callable
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import paramax

from understudy.files.describing import is_array, is_key
from understudy.networks import Perceptron


class Pair(NamedTuple):
    first: object
    second: object


def double(x):
    return 2 * x


class Mine(eqx.Module):
    network: Perceptron
    rate: jax.Array
    key: jax.Array
    things: dict
    activation: Callable = eqx.field(static=True)
    frozen: object = None

    class Nested(eqx.Module):
        a: jax.Array


def mine(activation=jax.nn.relu):
    key = jax.random.key(3, impl="unsafe_rbg")
    things = {
        "bfloat16": jnp.arange(4, dtype=jnp.bfloat16) / 3,
        "float8": jnp.arange(3, dtype=jnp.float8_e4m3fn),
        "int4": jnp.arange(3, dtype=jnp.int4),
        "scalar": jnp.asarray(0.25),
        "weak": jnp.broadcast_to(jnp.asarray(0.5), (2, 3)),
        "numpy": np.arange(6.0).reshape(2, 3).T,
        "numpy scalar": np.float64(1 / 3),
        "empty": jnp.zeros((0, 2)),
        "complex": np.array([1 + 2j]),
        "keys": jax.random.split(jax.random.key(1), 3),
        "tuple keys": {(1, "a"): jnp.ones(1)},
        "plain": [1, True, None, 0.1, "text", float("inf"), 2j, (), (1, (2,))],
        "partial": functools.partial(jax.nn.leaky_relu, negative_slope=0.3),
        "slice": slice(1, None, 2),
        "dtype": np.dtype("bfloat16"),
        "pair": Pair(1, jnp.ones(2)),
        "set": frozenset({1}),
    }
    network = Perceptron(jax.random.key(0), [2, 3, 1], jnp.tanh)
    return Mine(network, jnp.asarray(0.1), key, things, activation, paramax.non_trainable(jnp.ones(2)))


def assert_same(a, b):
    assert jax.tree.structure(a) == jax.tree.structure(b)
    for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True):
        assert type(x) is type(y)
        if is_array(x):
            assert x.dtype == y.dtype
            assert x.shape == y.shape
            assert getattr(x, "weak_type", None) == getattr(y, "weak_type", None)
            x, y = (jax.random.key_data(v) if is_key(v) else v for v in (x, y))
            assert np.asarray(x).tobytes() == np.asarray(y).tobytes()
        elif not callable(x):
            assert x == y
