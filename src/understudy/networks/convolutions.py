"""Layers of networks of images, with convolutions written as matrix products.

On a CPU, XLA's own convolutions are slow, above all inside loops, and matrix products are not. A strided
convolution is therefore a product of windows of the image with a matrix made of its kernel. Two forms
give the same numbers: "patches" gathers every window (the matrix is the kernel), "rows" gathers rows of
blocks of columns, and its matrices are Toeplitz matrices along the width: more arithmetic, but a better
shape for it. The rows of a deconvolution are neighbours, so there XLA's convolution along one dimension
does without the gathering; it is fast in one layout only, which its own derivative does not keep. On
other machines XLA's own convolutions take the place of both.

Images have shape (height, width, channels); the padding is "SAME".
"""

from abc import abstractmethod
from collections.abc import Callable
from functools import partial
from typing import Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import paramax
from jax.custom_derivatives import SymbolicZero
from jaxtyping import Array, Float

from understudy.backend import backend
from understudy.checks import one_of, random_key, whole
from understudy.core import CONDITIONS, IngredientError, Key

Form = Literal["rows", "patches"]
Size = tuple[int, int]
# A matrix product with fewer columns than this wastes a vector unit.
NARROW = 32


def leaky(h: Float[Array, "*s"]) -> Float[Array, "*s"]:
    """Leaky ReLU of slope 0.2, the activation of the paper's networks of images."""
    return jax.nn.leaky_relu(h, 0.2)


class StridedLayer(eqx.Module):
    """A kernel, a bias, and how an image is walked over.

    Args:
        key: random key for the kernel.
        size: height and width of the larger image.
        channels: of the image and of the result.
        width: of the kernel, 5 say.
        stride: how many rows and columns of the larger image a step in the smaller one takes.
        form: how it is computed on a CPU; the numbers are the same.
        bias: whether to add one; needless before a normalisation.
    """

    kernel: Float[Array, "k k c o"]
    bias: Float[Array, " o"] | None
    size: Size = eqx.field(static=True)
    stride: int = eqx.field(static=True)
    form: Form = eqx.field(static=True)

    def __init__(
        self,
        key: Key,
        size: Size,
        channels: Size,
        width: int,
        stride: int = 2,
        form: Form = "rows",
        bias: bool = True,
    ):
        self.size = (whole("height", size[0]), whole("width", size[1]))
        self.stride = whole("stride", stride)
        self.form = one_of("form", ("rows", "patches"), form)  # pyright: ignore
        deviation = (2 / (1.04 * self.inputs(channels, width, stride))) ** 0.5
        self.kernel = deviation * jax.random.normal(random_key(key), (width, width, *channels))
        self.bias = jnp.zeros(channels[1]) if bias else None

    @staticmethod
    @abstractmethod
    def inputs(channels: Size, width: int, stride: int) -> int | float:
        """How many numbers of the image one number of the result is made of."""


class Convolution(StridedLayer):
    """A strided convolution, out[i, j] = sum_tu kernel[t, u] image[s i + t - p, s j + u - p].

    The settings are those of every :class:`StridedLayer`; ``size`` is that of the image.
    """

    @staticmethod
    def inputs(channels: Size, width: int, stride: int) -> int | float:
        """A whole kernel of every channel."""
        del stride
        return width**2 * channels[0]

    @property
    def out(self) -> Size:
        """Height and width of the result."""
        return (-(-self.size[0] // self.stride), -(-self.size[1] // self.stride))

    def __call__(self, image: Float[Array, "h w c"]) -> Float[Array, "i j o"]:
        """Apply to one image."""
        k, _, c, o = self.kernel.shape
        (h, w), (i, j), s = self.size, self.out, self.stride
        starts, padded = _padding(h, k, s), _padding(w, k, s)
        if backend().convolutions == "own":
            out = _own(image, self.kernel, (starts, padded), strides=(s, s))
        elif self.form == "rows":
            image = jnp.pad(image, (starts, (0, 0), (0, 0)))
            place = _indicator(k, w, j, lambda q, j: q - s * j + padded[0])

            def block(seen, place):
                some = image[:, seen].reshape(len(image), -1)
                rows = jnp.concatenate([some[t : t + s * (i - 1) + 1 : s] for t in range(k)], 1)
                matrix = jnp.einsum("uqj,tuco->tqcjo", place, self.kernel)
                return (rows @ matrix.reshape(rows.shape[1], -1)).reshape(i, -1, o)

            made = [block(*given) for given in _blocks(place, max(2, -(-NARROW // o)))]
            out = jnp.concatenate(made, 1)
        else:
            image = jnp.pad(image, (starts, padded, (0, 0)))
            places = [(t, u) for t in range(k) for u in range(k)]
            rows = jnp.concatenate(
                [image[t : t + s * i - s + 1 : s, u : u + s * j - s + 1 : s] for t, u in places], 2
            ).reshape(i * j, k * k * c)
            out = (rows @ self.kernel.reshape(k * k * c, o)).reshape(i, j, o)
        return _biased(out, self.bias)


class Deconvolution(StridedLayer):
    """The transpose of a strided convolution: from a small image to one ``stride`` times larger.

    Every ``stride`` rows (and columns) of the result see the same few rows of the image, so one product
    makes them all: the sub-pixel form.

    Reference: Shi et al., "Real-Time Single Image and Video Super-Resolution", 2016.

    The settings are those of every :class:`StridedLayer`; ``size`` is that of the result. The form
    "rows" has derivatives in reverse mode alone (``jax.grad``, ``jax.jacrev``), "patches" in forward
    mode as well.
    """

    @staticmethod
    def inputs(channels: Size, width: int, stride: int) -> int | float:
        """On average, since the kernel reaches every ``stride``-th row and column of the result."""
        return width**2 * channels[0] / stride**2

    def __call__(self, image: Float[Array, "i j c"]) -> Float[Array, "h w o"]:
        """Apply to one image."""
        return self.apply(self.matrices(), image)

    def prepared(self) -> "PreparedDeconvolution":
        """The same with its matrices made, for many images and one kernel."""
        return PreparedDeconvolution(self, self.matrices())

    def matrices(self) -> list[Float[Array, "_ _"]]:
        """What rows (or windows) of an image are multiplied with, for every block of columns."""
        if backend().convolutions == "own":
            return []
        o, s = self.kernel.shape[3], self.stride
        down, across = (_reach(length, len(self.kernel), s)[0] for length in self.size)
        if self.form == "patches":
            matrix = jnp.einsum("tdr,uep,tuco->decrpo", down, across, self.kernel)
            return [matrix.reshape(-1, s * s * o)]
        made = [
            jnp.einsum("tdr,uqj,tuco->dqcrjo", down, place, self.kernel) for _, place in self._blocks()
        ]
        return [matrix.reshape(np.prod(matrix.shape[:3]), -1) for matrix in made]

    def apply(
        self, matrices: list[Float[Array, "_ _"]], image: Float[Array, "i j c"]
    ) -> Float[Array, "h w o"]:
        """Apply to one image, given the matrices."""
        o, (h, w), s, (i, j) = self.kernel.shape[3], self.size, self.stride, image.shape[:2]
        (down, near), (across, beside) = (_reach(length, len(self.kernel), s) for length in self.size)
        if backend().convolutions == "own":
            k, places = len(self.kernel), zip((h, w), (i, j), strict=True)
            before = [(k - 1 - _padding(length, k, s)[0], length - s * (n - 1)) for length, n in places]
            around = [(first, rest + k - 2 - first) for first, rest in before]
            out = _own(image, self.kernel[::-1, ::-1], around, lhs_dilation=(s, s))
        elif self.form == "patches":
            image = jnp.pad(image, (near, beside, (0, 0)))
            places = [(d, e) for d in range(down.shape[1]) for e in range(across.shape[1])]
            rows = jnp.concatenate([image[d : d + i, e : e + j] for d, e in places], 2)
            out = (rows.reshape(i * j, -1) @ matrices[0]).reshape(i, j, s, s, o)
            out = out.swapaxes(1, 2).reshape(i * s, j * s, o)
        else:
            made = [
                _neighbours_product(image[:, seen].reshape(i, -1), matrix, near).reshape(i * s, -1, o)
                for (seen, _), matrix in zip(self._blocks(), matrices, strict=True)
            ]
            out = jnp.concatenate(made, 1)
        return _biased(out[:h, :w], self.bias)

    def _blocks(self) -> list[tuple[slice, Float[np.ndarray, "k _ _"]]]:
        k, o, (_, w), s = len(self.kernel), self.kernel.shape[3], self.size, self.stride
        place = _indicator(k, -(-w // s), w, lambda q, w_: w_ - s * q + _padding(w, k, s)[0])
        return _blocks(place, max(2 * s, -(-NARROW // (s * o))))


class PreparedDeconvolution(eqx.Module):
    """A deconvolution with its matrices made."""

    layer: Deconvolution
    matrices: list[Float[Array, "_ _"]]

    def __call__(self, image: Float[Array, "i j c"]) -> Float[Array, "h w o"]:
        """Apply to one image."""
        return self.layer.apply(self.matrices, image)


class BatchNormalisation(eqx.Module):
    """Every channel with mean 0 and variance 1 over the batch, then scaled and shifted.

    In training the batch is the batch of conditions that the update maps over, so the mean and variance
    are those of the present batch. ``settled`` stores the statistics of a
    larger batch afterwards, in one pass; with them a network depends on one image alone.

    Reference: Ioffe and Szegedy, "Batch Normalization", 2015.

    Args:
        channels: how many.
    """

    gain: Float[Array, " c"]
    shift: Float[Array, " c"]
    stored: tuple[paramax.NonTrainable, paramax.NonTrainable] | None

    def __init__(self, channels: int):
        self.gain = jnp.ones(whole("channels", channels))
        self.shift = jnp.zeros(channels)
        self.stored = None

    def __call__(self, h: Float[Array, "*s c"]) -> Float[Array, "*s c"]:
        """Normalise one image's channels."""
        mean, variance = self._over_batch(h) if self.stored is None else paramax.unwrap(self.stored)
        return (h - mean) * (jax.lax.rsqrt(variance + 1e-5) * self.gain) + self.shift

    def settled(self, h: Float[Array, "b *s c"]) -> "BatchNormalisation":
        """The same with the statistics of these images stored."""
        axes = tuple(range(h.ndim - 1))
        stored = paramax.non_trainable((h.mean(axes), h.var(axes)))
        return eqx.tree_at(lambda n: n.stored, self, stored, is_leaf=lambda leaf: leaf is None)

    def _over_batch(self, h: Float[Array, "*s c"]) -> tuple[Float[Array, " c"], Float[Array, " c"]]:
        axes = tuple(range(h.ndim - 1))
        try:
            mean = jax.lax.pmean(h.mean(axes), CONDITIONS)
        except NameError as error:
            raise IngredientError(
                "This network normalises over a batch and was given one image; store the statistics of "
                "some training images first, with settled(images)."
            ) from error
        return mean, jax.lax.pmean(jnp.square(h - mean).mean(axes), CONDITIONS)


def _own(image, kernel, padding, strides=(1, 1), lhs_dilation=None):
    """XLA's own convolution of one image."""
    layout = ("NHWC", "HWIO", "NHWC")
    settings = {"lhs_dilation": lhs_dilation, "dimension_numbers": layout}
    return jax.lax.conv_general_dilated(image[None], kernel, strides, padding, **settings)[0]


def _biased(h: Float[Array, "h w o"], bias: Float[Array, " o"] | None) -> Float[Array, "h w o"]:
    return h if bias is None else h + bias


def _padding(length: int, width: int, stride: int) -> tuple[int, int]:
    """Zeros before and after, so that the result has ceil(length / stride) entries."""
    total = max((-(-length // stride) - 1) * stride + width - length, 0)
    return total // 2, total - total // 2


def _indicator(
    width: int, inputs: int, outputs: int, tap: Callable[[np.ndarray, np.ndarray], np.ndarray]
) -> Float[np.ndarray, "k i o"]:
    """Whether the kernel's entry u joins input i and output o: whether ``u == tap(i, o)``."""
    i, o = np.ogrid[:inputs, :outputs]
    return (np.arange(width)[:, None, None] == tap(i, o)).astype(np.float32)


def _blocks(
    place: Float[np.ndarray, "k i o"], columns: int
) -> list[tuple[slice, Float[np.ndarray, "k _ _"]]]:
    """Blocks of so many columns of the result: the inputs that each sees, and where they go."""
    made = []
    for first in range(0, place.shape[2], columns):
        mine = place[:, :, first : first + columns]
        seen = np.flatnonzero(mine.any((0, 2)))
        where = slice(seen[0], seen[-1] + 1)
        made.append((where, mine[:, where]))
    return made


def _reach(length: int, width: int, stride: int) -> tuple[Float[np.ndarray, "k d r"], tuple[int, int]]:
    """Which entry of the kernel joins input a + d and output stride a + r, and how far d reaches."""
    before, _ = _padding(length, width, stride)
    first = -((width - 1 - before) // stride)
    last = (stride - 1 + before) // stride
    taps = _indicator(width, last - first + 1, stride, lambda d, r: r - stride * (d + first) + before)
    return taps, (-first, last)


def _neighbours_product(
    rows: Float[Array, "i q"], matrix: Float[Array, "_ n"], near: Size
) -> Float[Array, "i n"]:
    """Every row, with ``near`` rows before and after it, multiplied with a matrix.

    The first part has the value and its derivative in the rows, the second the one in the matrix, which
    for a batch of images has to be one matrix product.
    """
    return _along_rows(rows, matrix, near) + _along_matrix(rows, matrix, near)


@partial(jax.custom_vjp, nondiff_argnums=(2,))
def _along_rows(rows, matrix, near):
    taps = matrix.reshape(sum(near) + 1, rows.shape[1], -1)
    layout = ("NWC", "WIO", "NWC")
    return jax.lax.conv_general_dilated(rows[None], taps, (1,), [near], dimension_numbers=layout)[0]


def _remembered(rows, matrix, near):
    return _along_rows(rows, matrix, near), matrix


def _transposed(near, matrix, gradient):
    taps = matrix.reshape(sum(near) + 1, -1, gradient.shape[1])[::-1].swapaxes(1, 2)
    return _neighbours_product(gradient, taps.reshape(-1, taps.shape[2]), near[::-1]), None


_along_rows.defvjp(_remembered, _transposed)


@partial(jax.custom_jvp, nondiff_argnums=(2,))
def _along_matrix(rows, matrix, near):
    return jnp.zeros((len(rows), matrix.shape[1]), rows.dtype)


@partial(_along_matrix.defjvp, symbolic_zeros=True)
def _changed_matrix(near, primals, tangents):
    (rows, matrix), (_, changed) = primals, tangents
    nothing = _along_matrix(rows, matrix, near)
    if isinstance(changed, SymbolicZero):
        return nothing, nothing
    padded = jnp.pad(rows, (near, (0, 0)))
    windows = [padded[d : d + len(rows)] for d in range(sum(near) + 1)]
    return nothing, jnp.concatenate(windows, 1) @ changed
