"""A conditional flow of spline couplings: what a student of many data sets is made of."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Scalar

from understudy.checks import layer_count, one_positive, random_key, whole
from understudy.core import Condition, ExplicitStudent, Key
from understudy.networks import flat
from understudy.numerics import log_standard
from understudy.students.common import features

# Bounds that keep a wild parameter from overflowing; a scale e^-12 of the prior's is narrow enough.
_LOG_SCALE = 12.0
_LEAST_WIDTH, _LEAST_SLOPE = 1e-3, 1e-3


class SplineFlow(ExplicitStudent):
    """Couplings that shift, scale and bend half of the numbers given the other half and the condition.

    A layer carries y = spline((z - shift) / scale), with a rational-quadratic spline on (-width, width)
    that goes on as a straight line of slope one. Both directions have a closed form, so drawing costs
    what a density costs.

    Reference: Durkan, Bekasov, Murray and Papamakarios, "Neural Spline Flows", 2019.

    Args:
        key: random key for the weights.
        dim: size of a draw.
        condition: an example condition, for its size; None if there is none.
        layers: number of couplings.
        width: units of the two hidden layers of each coupling's network.
        bins: of each spline.
        reach: the splines bend what lies between minus this and this.

    Examples:
        >>> import jax, jax.numpy as jnp
        >>> from understudy.students import SplineFlow
        >>> student = SplineFlow(jax.random.key(0), 2, jnp.zeros(3), layers=2, width=8)
        >>> student.sample(jax.random.key(1), jnp.ones(3), 5).shape
        (5, 2)
    """

    enter: Float[Array, "l i w"]
    enter_bias: Float[Array, "l w"]
    middle: Float[Array, "l w w"]
    middle_bias: Float[Array, "l w"]
    leave: Float[Array, "l w o"]
    leave_bias: Float[Array, "l o"]
    dim: int = eqx.field(static=True)
    condition_size: int = eqx.field(static=True)
    bins: int = eqx.field(static=True)
    reach: float = eqx.field(static=True)

    def __init__(
        self,
        key: Key,
        dim: int,
        condition: Condition = None,
        layers: int = 8,
        width: int = 128,
        bins: int = 10,
        reach: float = 5.0,
    ):
        self.dim, self.bins = whole("dim", dim), whole("bins", bins, least=2)
        layers, width = layer_count("layers", layers), whole("width", width)
        self.reach = one_positive("reach", reach)
        self.condition_size = int(flat(condition).size)
        inputs = dim // 2 + self.condition_size
        outputs = (dim - dim // 2) * (3 * bins + 1)
        first, second, third = jax.random.split(random_key(key), 3)
        self.enter = jax.random.normal(first, (layers, inputs, width)) * np.sqrt(2 / max(inputs, 1))
        self.middle = jax.random.normal(second, (layers, width, width)) * np.sqrt(2 / width)
        self.leave = 0.01 * jax.random.normal(third, (layers, width, outputs)) / np.sqrt(width)
        self.enter_bias, self.middle_bias = jnp.zeros((layers, width)), jnp.zeros((layers, width))
        self.leave_bias = jnp.zeros((layers, outputs))

    def sample(self, key: Key, x: Condition, n: int) -> Float[Array, "n d"]:
        """Draw noise and transform it."""
        return self.sample_and_log_prob(key, x, n)[0]

    def sample_and_log_prob(
        self, key: Key, x: Condition, n: int
    ) -> tuple[Float[Array, "n d"], Float[Array, " n"]]:
        """Draws and their log densities, for little more than the draws."""
        noise = jax.random.normal(key, (n, self.dim))

        def layer(carry, weights):
            z, log_det = carry
            *weights, order, back = weights
            kept, moved = self._halves(z, order)
            moved, change = _unbend(moved, *self._bends(kept, weights), self.reach)
            return (jnp.concatenate([kept, moved], -1)[:, back], log_det + change.sum(-1)), None

        start = (noise, jnp.zeros(n))
        (z, log_det), _ = jax.lax.scan(layer, start, self._layers(x), reverse=True)
        return z, log_standard(noise) - log_det

    def log_prob(self, z: Float[Array, " d"], x: Condition = None) -> Scalar:
        """Log density by the change of variables."""

        def layer(carry, weights):
            z, log_det = carry
            *weights, order, back = weights
            kept, moved = self._halves(z, order)
            moved, change = _bend(moved, *self._bends(kept, weights), self.reach)
            return (jnp.concatenate([kept, moved], -1)[back], log_det + change.sum(-1)), None

        (noise, log_det), _ = jax.lax.scan(layer, (z, jnp.zeros(())), self._layers(x))
        return log_standard(noise) + log_det

    def _layers(self, x: Condition) -> tuple:
        """What each layer needs; the condition's part of the first product is made here for all."""
        order, half = self._orders(), self.dim // 2
        context = features(x, self.condition_size)
        # One product for all layers: of many small ones the training took half as long again.
        wide = jnp.moveaxis(self.enter[:, half:], 0, 1)
        wide = wide.reshape(self.condition_size, self.enter_bias.size)
        offsets = (context @ wide).reshape(self.enter_bias.shape) + self.enter_bias
        weights = (self.enter[:, :half], offsets, self.middle, self.middle_bias)
        return (*weights, self.leave, self.leave_bias, order, np.argsort(order, 1))

    def _orders(self) -> Int[np.ndarray, "l d"]:
        """For every layer, the numbers that it leaves alone and then those that it moves."""
        generator, rows = np.random.default_rng(0), []
        for _ in range(-(-len(self.enter_bias) // 2)):
            order = generator.permutation(self.dim)
            rows += [order, order[::-1]]
        return np.stack(rows[: len(self.enter_bias)])

    def _halves(self, z: Array, order: Array) -> tuple[Array, Array]:
        ordered = z[..., order]
        return ordered[..., : self.dim // 2], ordered[..., self.dim // 2 :]

    def _bends(self, kept: Array, weights: list[Array]) -> tuple[Array, Array]:
        """Shift and log scale of what is moved, and the unconstrained splines, from the rest."""
        enter, offset, middle, middle_bias, leave, leave_bias = weights
        h = jax.nn.relu(kept @ enter + offset)
        h = jax.nn.relu(h @ middle + middle_bias)
        raw = (h @ leave + leave_bias).reshape(
            *kept.shape[:-1], self.dim - self.dim // 2, 3 * self.bins + 1
        )
        return raw[..., :2], raw[..., 2:]


def _affine(raw: Array) -> tuple[Array, Array]:
    return raw[..., 0], _LOG_SCALE * jnp.tanh(raw[..., 1] / _LOG_SCALE)


def _knots(raw: Array, reach: float) -> tuple[Array, Array, Array]:
    """Places, heights and slopes of the knots; the outermost are the corners of the spline's square."""
    bins = (raw.shape[-1] + 1) // 3
    least = _LEAST_WIDTH
    sizes = [
        least + (1 - least * bins) * jax.nn.softmax(part, -1)
        for part in (raw[..., :bins], raw[..., bins : 2 * bins])
    ]
    places, heights = (_corners(2 * reach * size, reach) for size in sizes)
    inner = _LEAST_SLOPE + jax.nn.softplus(raw[..., 2 * bins :] + np.log(np.expm1(1 - _LEAST_SLOPE)))
    one = jnp.ones_like(inner[..., :1])
    return places, heights, jnp.concatenate([one, inner, one], -1)


def _corners(sizes: Array, reach: float) -> Array:
    start = jnp.full_like(sizes[..., :1], -reach)
    end = jnp.full_like(start, reach)
    return jnp.concatenate([start, start + jnp.cumsum(sizes[..., :-1], -1), end], -1)


def _piece(value: Array, edges: Array, knots: tuple[Array, Array, Array]) -> list[Array]:
    """Corner, size and slopes of the bin in which a value lies: x, y, width, height, slope, next."""
    inside = (value[..., None] >= edges[..., 1:-1]).sum(-1)
    # A product with a row of zeros and a one is faster than a gather, and its gradient much so.
    pick = jax.nn.one_hot(inside, edges.shape[-1] - 1, dtype=value.dtype)
    places, heights, slopes = knots
    parts = [places[..., :-1], heights[..., :-1], jnp.diff(places), jnp.diff(heights)]
    parts += [slopes[..., :-1], slopes[..., 1:]]
    return [(pick * part).sum(-1) for part in parts]


def _bend(z: Array, affine: Array, splines: Array, reach: float) -> tuple[Array, Array]:
    """From draws towards noise, and the log of the slope."""
    shift, log_scale = _affine(affine)
    y = (z - shift) * jnp.exp(-log_scale)
    inside = jnp.abs(y) < reach
    held = jnp.where(inside, y, 0.0)
    knots = _knots(splines, reach)
    x0, y0, width, height, slope, after = _piece(held, knots[0], knots)
    steep = height / width
    share = (held - x0) / width
    both = share * (1 - share)
    below = steep + (slope + after - 2 * steep) * both
    bent = y0 + height * (steep * share**2 + slope * both) / below
    top = after * share**2 + 2 * steep * both + slope * (1 - share) ** 2
    log_slope = 2 * jnp.log(steep) + jnp.log(top) - 2 * jnp.log(below)
    return jnp.where(inside, bent, y), jnp.where(inside, log_slope, 0.0) - log_scale


def _unbend(y: Array, affine: Array, splines: Array, reach: float) -> tuple[Array, Array]:
    """From noise towards draws, and the log of the slope of that map."""
    shift, log_scale = _affine(affine)
    inside = jnp.abs(y) < reach
    held = jnp.where(inside, y, 0.0)
    knots = _knots(splines, reach)
    x0, y0, width, height, slope, after = _piece(held, knots[1], knots)
    steep = height / width
    rise = held - y0
    twist = slope + after - 2 * steep
    a = height * (steep - slope) + rise * twist
    b = height * slope - rise * twist
    c = -steep * rise
    share = 2 * c / (-b - jnp.sqrt(jnp.maximum(b**2 - 4 * a * c, 0.0)))
    both = share * (1 - share)
    below = steep + twist * both
    top = after * share**2 + 2 * steep * both + slope * (1 - share) ** 2
    log_slope = 2 * jnp.log(steep) + jnp.log(top) - 2 * jnp.log(below)
    x = jnp.where(inside, share * width + x0, y)
    return x * jnp.exp(log_scale) + shift, log_scale - jnp.where(inside, log_slope, 0.0)
