"""Networks of images, shared by students, models and feedbacks: the shapes of the paper's appendix."""

from collections.abc import Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Scalar

from understudy.checks import random_key, shown, sizes, whole
from understudy.core import Condition, IngredientError, Key
from understudy.networks import Perceptron
from understudy.networks.convolutions import (
    BatchNormalisation,
    Convolution,
    Deconvolution,
    Form,
    Size,
    leaky,
)

ImageSize = Sequence[int]
"""Height and width of images, and their number of colours if they have several."""


def split_size(size: ImageSize) -> tuple[Size, int]:
    """Height and width, and the number of colours, one if it is not said."""
    found = sizes("size", size)
    if len(found) not in (2, 3) or found[2:] == [1]:
        raise IngredientError(
            "size is (height, width) for grey images, (height, width, colours) for others; "
            f"{shown(size)} came: grey images come without an axis of colours, images[..., 0]."
        )
    return (found[0], found[1]), (found[2] if len(found) == 3 else 1)


def with_colours(x: Float[Array, "..."], colours: int) -> Float[Array, "..."]:
    """Images with an axis of colours at the end, also where there is but one."""
    if colours > 1 and x.shape[-1] != colours:
        raise IngredientError(
            f"This network was built for images of {colours} colours, along the last axis; one of "
            f"shape {x.shape} came."
        )
    return x[..., None] if colours == 1 else x


class ConvolutionalFeatures(eqx.Module):
    """Strided convolutions of one image, as one vector; the activation of the last is left to do.

    Args:
        key: random key for the kernels.
        size: height and width of the images, and the number of colours if there are several.
        channels: of the layers.
        width: of the kernels.
        normalised: whether every layer is followed by batch normalisation.
        form: of the convolutions.
    """

    layers: list[Convolution]
    norms: list[BatchNormalisation]

    def __init__(
        self,
        key: Key,
        size: ImageSize,
        channels: Sequence[int] = (16, 32, 32),
        width: int = 5,
        normalised: bool = False,
        form: Form = "rows",
    ):
        channels = sizes("channels", channels, least=1)
        area, colours = split_size(size)
        keys = jax.random.split(random_key(key), len(channels))
        self.layers = []
        for one, c, o in zip(keys, [colours, *channels[:-1]], channels, strict=True):
            area = self.layers[-1].out if self.layers else area
            layer = Convolution(one, area, (c, o), width, 2, form, not normalised)  # pyright: ignore
            self.layers.append(layer)
        self.norms = [BatchNormalisation(o) for o in channels] if normalised else []

    @property
    def count(self) -> int:
        """How many numbers describe an image."""
        height, width = self.layers[-1].out
        return height * width * self.layers[-1].kernel.shape[-1]

    def __call__(self, x: Float[Array, "h w ..."]) -> Float[Array, " m"]:
        """The features of one image."""
        h = with_colours(x, self.layers[0].kernel.shape[2])
        for depth, layer in enumerate(self.layers):
            h = layer(h if depth == 0 else leaky(h))
            h = self.norms[depth](h) if self.norms else h
        return h.ravel()

    def settled(self, x: Float[Array, "b h w ..."]) -> "ConvolutionalFeatures":
        """The same with the normalisation's statistics of these images stored."""
        h, norms = with_colours(x, self.layers[0].kernel.shape[2]), []
        for depth, norm in enumerate(self.norms):
            h = jax.vmap(self.layers[depth])(h if depth == 0 else leaky(h))
            norms.append(norm.settled(h))
            h = jax.vmap(norms[-1])(h)
        return eqx.tree_at(lambda f: f.norms, self, norms)


class ImageNetwork(eqx.Module):
    """Convolutions, then a perceptron: from one image to a vector, a mean and a log scale say.

    Args:
        key: random key for the weights.
        size: height and width of the images, and the number of colours if there are several.
        outputs: how many numbers come out.
        hidden: widths of the perceptron's hidden layers.
        channels: of the convolutions.
    """

    features: ConvolutionalFeatures
    head: Perceptron

    def __init__(
        self,
        key: Key,
        size: ImageSize,
        outputs: int,
        hidden: Sequence[int] = (500,),
        channels: Sequence[int] = (16, 32, 32),
    ):
        first, second = jax.random.split(random_key(key))
        self.features = ConvolutionalFeatures(first, size, channels)
        widths = [self.features.count, *sizes("hidden", hidden), whole("outputs", outputs)]
        self.head = Perceptron(second, widths, leaky)

    def __call__(self, x: Condition) -> Float[Array, " out"]:
        """Apply to one image."""
        return self.head(leaky(self.features(x)))


class ImageDecoder(eqx.Module):
    """A perceptron, then deconvolutions: from a latent vector to the logits (or means) of an image.

    Args:
        key: random key for the weights.
        dim: size of the latent vector.
        size: height and width of the image, and the number of colours if there are several.
        hidden: widths of the perceptron's hidden layers.
        channels: of the layers, as of the encoder that it mirrors.
        form: of the deconvolutions.
    """

    head: Perceptron
    layers: list[Deconvolution]
    shape: tuple[int, int, int] = eqx.field(static=True)

    def __init__(
        self,
        key: Key,
        dim: int,
        size: ImageSize,
        hidden: Sequence[int] = (500,),
        channels: Sequence[int] = (16, 32, 32),
        form: Form = "rows",
    ):
        area, colours = split_size(size)
        channels = [colours, *sizes("channels", channels, least=1)]
        steps = [area]
        for _ in channels[1:]:
            steps.append((-(-steps[-1][0] // 2), -(-steps[-1][1] // 2)))
        keys = jax.random.split(random_key(key), len(channels))
        self.shape = (*steps[-1], channels[-1])
        widths = [whole("dim", dim), *sizes("hidden", hidden), int(np.prod(self.shape))]
        self.head = Perceptron(keys[0], widths, leaky)
        pairs = list(zip(channels[1:], channels[:-1], steps, strict=False))[::-1]
        self.layers = [
            Deconvolution(k, to, (c, o), 5, 2, form)  # pyright: ignore[reportCallIssue]
            for k, (c, o, to) in zip(keys[1:], pairs, strict=True)
        ]

    def prepared(self) -> "ImageDecoder":
        """The same with the matrices of its deconvolutions made, for many latent vectors."""
        return eqx.tree_at(lambda d: d.layers, self, [layer.prepared() for layer in self.layers])

    def __call__(self, z: Float[Array, " d"]) -> Float[Array, "h w ..."]:
        """Decode one latent vector."""
        h = self.head(z).reshape(self.shape)
        for layer in self.layers:
            h = layer(leaky(h))
        return h[..., 0] if h.shape[-1] == 1 else h


class ImageCritic(eqx.Module):
    """A scalar function of a draw and its image: convolutions of the image, a perceptron on both.

    Reference: Li, Turner and Liu, "Approximate Inference with Amortised MCMC", 2017, appendix E.2.
    """

    features: ConvolutionalFeatures
    head: Perceptron

    def __call__(self, z: Float[Array, " d"], x: Condition) -> Scalar:
        """The critic's value at one draw."""
        return self.head(jnp.concatenate([z, leaky(self.features(x))]))[0]


class ImageCriticBuilder(eqx.Module):
    """Builds an :class:`ImageCritic`, for feedbacks that need one.

    Args:
        channels: of the convolutions, which are batch normalised.
        hidden: widths of the perceptron's hidden layers.
    """

    channels: tuple[int, ...] = eqx.field(static=True, converter=tuple, default=(32, 64, 128, 256))
    hidden: tuple[int, ...] = eqx.field(static=True, converter=tuple, default=(500, 500))

    def __call__(self, key: Key, dim: int, x: Condition) -> ImageCritic:
        """Create the critic for draws of size ``dim`` and images like ``x``."""
        first, second = jax.random.split(random_key(key))
        features = wild_features(first, x.shape, self.channels)
        return ImageCritic(features, Perceptron(second, [dim + features.count, *self.hidden, 1], leaky))


def wild_features(
    key: Key, size: ImageSize, channels: Sequence[int] = (32, 64, 128, 256)
) -> ConvolutionalFeatures:
    """The convolutions of the paper's critic and wild encoders: 3 x 3, batch normalised."""
    return ConvolutionalFeatures(key, size, channels, width=3, normalised=True, form="patches")
