"""A small flow that compiles, learns and draws fast, for targets near a Gaussian once whitened.

XLA spends its time per operation, whatever the size, so the maps here are made of few: masks in place
of splits and permutations, and all settings of a kind in one array.
"""

from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import paramax
from flowjax.bijections import AbstractBijection, Chain, TriangularAffine
from flowjax.distributions import StandardNormal, Transformed
from jaxtyping import Array, ArrayLike, Bool, Float

from understudy.core import Key
from understudy.students import Flow

# Bounds that keep a wild parameter from overflowing; no draw of a trained flow comes near them.
_LARGEST = 40.0
_STRETCH = 2.0


class SinhArcsinh(AbstractBijection):
    """Moves, stretches, skews and fattens a number, y = a + b sinh(c arcsinh(x) + e).

    Reference: Jones and Pewsey, "Sinh-arcsinh distributions", 2009.

    Args:
        dim: size of the vector it transforms, number by number; the identity at the start.
    """

    parameters: Float[Array, "4 d"]
    shape: tuple[int, ...] = eqx.field(static=True)
    cond_shape: ClassVar[None] = None  # pyright: ignore[reportIncompatibleVariableOverride]

    def __init__(self, dim: int):
        self.shape = (dim,)
        self.parameters = jnp.zeros((4, dim))

    def transform_and_log_det(self, x: ArrayLike, condition: ArrayLike | None = None):
        """The transformed vector and the log of its derivative."""
        shift, log_scale, skew, log_tail = self.parameters
        y, log_slope = _sinh_arcsinh(jnp.asarray(x), skew, log_tail)
        return shift + jnp.exp(log_scale) * y, jnp.sum(log_slope + log_scale)

    def inverse_and_log_det(self, y: ArrayLike, condition: ArrayLike | None = None):
        """The inverse has the same form."""
        shift, log_scale, skew, log_tail = self.parameters
        inner = (jnp.asarray(y) - shift) * jnp.exp(-log_scale)
        x, log_slope = _sinh_arcsinh(inner, -skew * jnp.exp(-log_tail), -log_tail)
        return x, jnp.sum(log_slope - log_scale)


class MaskedCouplings(AbstractBijection):
    """Layers in which half of the coordinates shift and scale the other half.

    Reference: Dinh, Sohl-Dickstein and Bengio, "Density estimation using Real NVP", 2017.

    Args:
        key: random key for the weights.
        dim: size of the vector it transforms.
        layers: number of layers; two after each other have opposite halves.
        width: hidden units of each layer's network.
    """

    enter: Float[Array, "l d w"]
    bias: Float[Array, "l w"]
    leave: Float[Array, "l w e"]
    shape: tuple[int, ...] = eqx.field(static=True)
    cond_shape: ClassVar[None] = None  # pyright: ignore[reportIncompatibleVariableOverride]

    def __init__(self, key: Key, dim: int, layers: int, width: int):
        self.shape = (dim,)
        first, second, third = jax.random.split(key, 3)
        self.enter = jax.random.normal(first, (layers, dim, width)) * np.sqrt(2 / dim)
        self.bias = jax.random.normal(third, (layers, width))
        self.leave = 0.01 * jax.random.normal(second, (layers, width, 2 * dim)) / np.sqrt(width)

    @property
    def _halves(self) -> Bool[np.ndarray, "l d"]:
        return _halves(self.shape[0], len(self.bias))

    def transform(self, x: ArrayLike, condition: ArrayLike | None = None):
        """The transformed vector alone, for drawing: half the work, as nothing is masked."""
        x, weights = jnp.asarray(x), (self.enter, self.bias, self.leave)
        for half, enter, bias, leave in zip(self._halves, *weights, strict=True):
            given, moved = np.flatnonzero(half), np.flatnonzero(~half)
            hidden = jnp.tanh(_rows(enter, given).T @ _rows(x, given) + bias)
            shift = _rows(leave.T, moved) @ hidden
            log_scale = _bounded(_rows(leave.T, moved + len(half)) @ hidden)
            changed = _rows(x, moved) * jnp.exp(log_scale) + shift
            x = _rows(jnp.concatenate([_rows(x, given), changed]), np.argsort(np.r_[given, moved]))
        return x

    def transform_and_log_det(self, x: ArrayLike, condition: ArrayLike | None = None):
        """Apply the layers in turn."""

        def layer(carry, weights):
            x, log_det = carry
            shift, log_scale = self._conditioned(x, weights)
            return (x * jnp.exp(log_scale) + shift, log_det + log_scale), None

        return self._run(layer, x, reverse=False)

    def inverse_and_log_det(self, y: ArrayLike, condition: ArrayLike | None = None):
        """Undo the layers from the last to the first."""

        def layer(carry, weights):
            y, log_det = carry
            shift, log_scale = self._conditioned(y, weights)
            return ((y - shift) * jnp.exp(-log_scale), log_det - log_scale), None

        return self._run(layer, y, reverse=True)

    def _run(self, layer, start, reverse: bool):
        start, weights = jnp.asarray(start), (self.enter, self.bias, self.leave, self._halves)
        carry = (start, jnp.zeros_like(start))
        (end, log_det), _ = jax.lax.scan(layer, carry, weights, reverse=reverse)
        return end, log_det.sum()

    def _conditioned(self, x, weights):
        enter, bias, leave, mask = weights
        hidden = jnp.tanh(jnp.where(mask, x, 0.0) @ enter + bias)
        # Slices, since the index arithmetic of a reshape would keep what follows from being vectorised.
        shift, stretch = (jnp.where(mask, 0.0, part) for part in jnp.split(hidden @ leave, 2))
        return shift, _bounded(stretch)


def small_flow(key: Key, dim: int, layers: int = 4, width: int = 32) -> Flow:
    """Coupling layers and then a sinh-arcsinh map of every coordinate; almost standard at the start.

    Args:
        key: random key for the weights.
        dim: size of a draw.
        layers: number of coupling layers.
        width: hidden units of each.
    """
    each = SinhArcsinh(dim)
    outer = Chain([MaskedCouplings(key, dim, layers, width), each]) if dim > 1 and layers else each
    return Flow(Transformed(StandardNormal((dim,)), outer))


def coloured(flow: Any, mean: Float[Array, " d"], factor: Float[Array, "d d"]) -> Flow:
    """The flow of mean + factor u, where u is a draw of ``flow``."""
    outer = TriangularAffine(mean, jnp.eye(flow.dim))
    outer = eqx.tree_at(lambda a: a.triangular, outer, jnp.tril(factor))
    return Flow(Transformed(flow.distribution, paramax.non_trainable(outer)))


def _halves(dim: int, layers: int) -> np.ndarray:
    generator, rows = np.random.default_rng(0), []
    for _ in range(-(-layers // 2)):
        half = generator.permutation(dim) < dim // 2
        rows += [half, ~half]
    return np.asarray(rows[:layers])


def _rows(values, which: np.ndarray):
    return jnp.stack([values[i] for i in which])


def _bounded(stretch):
    return _STRETCH * jnp.tanh(stretch / _STRETCH)


def _sinh_arcsinh(x, skew, log_tail):
    size = jnp.abs(x)
    arcsinh = jnp.sign(x) * jnp.log1p(size + size**2 / (1 + jnp.sqrt(1 + size**2)))
    grown = jnp.exp(jnp.clip(jnp.exp(log_tail) * arcsinh + skew, -_LARGEST, _LARGEST))
    y = 0.5 * (grown - 1 / grown)
    return y, log_tail + 0.5 * (jnp.log1p(y**2) - jnp.log1p(x**2))
