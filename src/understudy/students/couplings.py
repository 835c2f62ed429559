"""A coupling flow that compiles, learns and draws fast, for draws that are nearly standard."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import paramax
from jaxtyping import Array, Bool, Float, Scalar

from understudy.checks import layer_count, number, positive, random_key, whole
from understudy.core import Condition, ExplicitStudent, IngredientError, Key
from understudy.numerics import log_standard

# Bounds that keep a wild parameter from overflowing; no draw of a trained flow comes near them.
_LARGEST = 40.0
_STRETCH = 4.0


class CouplingFlow(ExplicitStudent):
    """Noise, turned and stretched, goes through affine couplings and a curve in every coordinate.

    Every coupling has a straight part beside its network: a scale whose logarithm moves others' along a
    line, as in funnels and hierarchies, is told exactly.

    The turn is fixed: with the correlations of the draws in it the couplings work along the axes of the
    draws, which keeps the shape of funnels; without it they work on draws that are white already.

    Reference: Dinh, Sohl-Dickstein and Bengio, "Density estimation using Real NVP", 2017.

    Args:
        key: random key for the weights.
        dim: size of a draw.
        layers: number of couplings; two after each other have opposite halves.
        width: hidden units of each coupling's network.
        directions: orthonormal columns of the turn; None turns nothing.
        stretch: standard deviations along them.

    Examples:
        >>> import jax
        >>> from understudy.students import CouplingFlow
        >>> student = CouplingFlow(jax.random.key(0), dim=2)
        >>> student.sample(jax.random.key(1), None, 5).shape
        (5, 2)
    """

    enter: Float[Array, "l d w"]
    bias: Float[Array, "l w"]
    leave: Float[Array, "l w e"]
    straight: Float[Array, "l w e"]
    curves: Float[Array, "4 d"]
    directions: Any
    stretch: Any
    dim: int = eqx.field(static=True)

    def __init__(
        self,
        key: Key,
        dim: int,
        layers: int = 4,
        width: int = 32,
        directions: Float[Array, "d r"] | None = None,
        stretch: Float[Array, " r"] | None = None,
    ):
        self.dim = dim = whole("dim", dim)
        layers, width = layer_count("layers", layers), whole("width", width)
        first, second, third = jax.random.split(random_key(key), 3)
        self.enter = jax.random.normal(first, (layers, dim, width)) * np.sqrt(2 / dim)
        self.bias = jax.random.normal(third, (layers, width))
        self.leave = 0.01 * jax.random.normal(second, (layers, width, 2 * dim)) / np.sqrt(width)
        self.straight = jnp.zeros_like(self.leave)
        self.curves = jnp.zeros((4, dim))
        turn = (jnp.eye(dim)[:, :1], jnp.ones(1))
        if directions is not None or stretch is not None:
            turn = _checked_turn(directions, stretch, dim)
        self.directions, self.stretch = (paramax.non_trainable(part) for part in turn)

    def sample(self, key: Key, x: Condition, n: int) -> Float[Array, "n d"]:
        """Draw noise and transform it."""
        return self.sample_and_log_prob(key, n)[0]

    def sample_and_log_prob(self, key: Key, n: int) -> tuple[Float[Array, "n d"], Float[Array, " n"]]:
        """Draws and their log densities, for little more than the draws."""
        noise = jax.random.normal(key, (n, self.dim), self.bias.dtype)
        z, log_volume = self.carry(noise)
        return z, log_standard(noise) - log_volume

    def log_prob(self, z: Float[Array, " d"], x: Condition = None) -> Scalar:
        """Log density by the change of variables."""
        noise, log_volume = self.carry_back(z)
        return log_standard(noise) - log_volume

    def carry(self, noise: Float[Array, "*n d"]) -> tuple[Float[Array, "*n d"], Float[Array, "*n"]]:
        """From standard noise to draws, and the log of how volumes grow."""
        directions, stretch = paramax.unwrap((self.directions, self.stretch))
        h = noise + ((noise @ directions) * (stretch - 1)) @ directions.T

        def layer(carry, weights):
            h, log_det = carry
            shift, log_scale = _conditioned(h, weights)
            return (h * jnp.exp(log_scale) + shift, log_det + log_scale.sum(-1)), None

        start = (h, jnp.broadcast_to(jnp.log(stretch).sum(), h.shape[:-1]))
        (h, log_det), _ = jax.lax.scan(layer, start, self._weights)
        shift, log_scale, skew, log_tail = self.curves
        y, log_slope = _curve(h, skew, log_tail)
        return shift + jnp.exp(log_scale) * y, log_det + (log_slope + log_scale).sum(-1)

    def carry_back(self, z: Float[Array, "*n d"]) -> tuple[Float[Array, "*n d"], Float[Array, "*n"]]:
        """From draws to their noise, and the log of how volumes grow from there."""
        directions, stretch = paramax.unwrap((self.directions, self.stretch))
        shift, log_scale, skew, log_tail = self.curves
        h, log_slope = _curve((z - shift) * jnp.exp(-log_scale), -skew * jnp.exp(-log_tail), -log_tail)

        def layer(carry, weights):
            h, log_det = carry
            shift, log_scale = _conditioned(h, weights)
            return ((h - shift) * jnp.exp(-log_scale), log_det + log_scale.sum(-1)), None

        start = (h, (log_scale - log_slope).sum(-1))
        (h, log_det), _ = jax.lax.scan(layer, start, self._weights, reverse=True)
        noise = h + ((h @ directions) * (1 / stretch - 1)) @ directions.T
        return noise, log_det + jnp.log(stretch).sum()

    @property
    def _weights(self) -> tuple:
        return self.enter, self.bias, self.leave, self.straight, self._halves

    @property
    def _halves(self) -> Bool[np.ndarray, "l d"]:
        generator, rows = np.random.default_rng(0), []
        for _ in range(-(-len(self.bias) // 2)):
            half = generator.permutation(self.dim) < self.dim // 2
            rows += [half, ~half]
        return np.asarray(rows[: len(self.bias)])


def _conditioned(h: Array, weights: tuple) -> tuple[Array, Array]:
    enter, bias, leave, straight, mask = weights
    hidden = jnp.where(mask, h, 0.0) @ enter + bias
    moved = jnp.tanh(hidden) @ leave + hidden @ straight
    shift, stretch = (jnp.where(mask, 0.0, part) for part in jnp.split(moved, 2, -1))
    return shift, _STRETCH * jnp.tanh(stretch / _STRETCH)


def _curve(x: Array, skew: Array, log_tail: Array) -> tuple[Array, Array]:
    """The curve sinh(tail arcsinh(x) + skew), and the log of its slope."""
    size = jnp.abs(x)
    arcsinh = jnp.sign(x) * jnp.log1p(size + size**2 / (1 + jnp.sqrt(1 + size**2)))
    grown = jnp.exp(jnp.clip(jnp.exp(log_tail) * arcsinh + skew, -_LARGEST, _LARGEST))
    y = 0.5 * (grown - 1 / grown)
    return y, log_tail + 0.5 * (jnp.log1p(y**2) - jnp.log1p(x**2))


def _checked_turn(directions: Any, stretch: Any, dim: int) -> tuple[Array, Array]:
    if np.size(stretch):  # there may be none
        number("directions", directions)
        positive("stretch", stretch)
    turn = jnp.asarray(directions), jnp.asarray(stretch)
    if turn[0].shape != (dim, turn[1].size) or turn[1].ndim != 1:
        raise IngredientError(
            f"directions are columns of size {dim} and stretch has one number for each; shapes "
            f"{turn[0].shape} and {turn[1].shape} came."
        )
    return turn
