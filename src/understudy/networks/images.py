"""Networks of images, shared by students, models and feedbacks: the shapes of the paper's appendix."""

from collections.abc import Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Scalar

from understudy.checks import random_key, sizes, whole
from understudy.core import Condition, Key
from understudy.networks import Perceptron
from understudy.networks.convolutions import (
    BatchNormalisation,
    Convolution,
    Deconvolution,
    Form,
    Size,
    leaky,
)


class ConvolutionalFeatures(eqx.Module):
    """Strided convolutions of one image, as one vector; the activation of the last is left to do.

    Args:
        key: random key for the kernels.
        size: height and width of the images.
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
        size: Size,
        channels: Sequence[int] = (16, 32, 32),
        width: int = 5,
        normalised: bool = False,
        form: Form = "rows",
    ):
        channels = sizes("channels", channels)
        keys = jax.random.split(random_key(key), len(channels))
        self.layers = []
        for one, c, o in zip(keys, [1, *channels[:-1]], channels, strict=True):
            size = self.layers[-1].out if self.layers else size
            layer = Convolution(one, size, (c, o), width, 2, form, not normalised)  # pyright: ignore
            self.layers.append(layer)
        self.norms = [BatchNormalisation(o) for o in channels] if normalised else []

    @property
    def count(self) -> int:
        """How many numbers describe an image."""
        height, width = self.layers[-1].out
        return height * width * self.layers[-1].kernel.shape[-1]

    def __call__(self, x: Float[Array, "h w"]) -> Float[Array, " m"]:
        """The features of one image."""
        h = x[..., None]
        for depth, layer in enumerate(self.layers):
            h = layer(h if depth == 0 else leaky(h))
            h = self.norms[depth](h) if self.norms else h
        return h.ravel()

    def settled(self, x: Float[Array, "b h w"]) -> "ConvolutionalFeatures":
        """The same with the normalisation's statistics of these images stored."""
        h, norms = x[..., None], []
        for depth, norm in enumerate(self.norms):
            h = jax.vmap(self.layers[depth])(h if depth == 0 else leaky(h))
            norms.append(norm.settled(h))
            h = jax.vmap(norms[-1])(h)
        return eqx.tree_at(lambda f: f.norms, self, norms)


class ImageNetwork(eqx.Module):
    """Convolutions, then a perceptron: from one image to a vector, a mean and a log scale say.

    Args:
        key: random key for the weights.
        size: height and width of the images.
        outputs: how many numbers come out.
        hidden: widths of the perceptron's hidden layers.
        channels: of the convolutions.
    """

    features: ConvolutionalFeatures
    head: Perceptron

    def __init__(
        self,
        key: Key,
        size: Size,
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
        size: height and width of the image.
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
        size: Size,
        hidden: Sequence[int] = (500,),
        channels: Sequence[int] = (16, 32, 32),
        form: Form = "rows",
    ):
        channels = [1, *sizes("channels", channels)]
        steps = [size]
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

    def __call__(self, z: Float[Array, " d"]) -> Float[Array, "h w"]:
        """Decode one latent vector."""
        h = self.head(z).reshape(self.shape)
        for layer in self.layers:
            h = layer(leaky(h))
        return h[..., 0]


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
    key: Key, size: Size, channels: Sequence[int] = (32, 64, 128, 256)
) -> ConvolutionalFeatures:
    """The convolutions of the paper's critic and wild encoders: 3 x 3, batch normalised."""
    return ConvolutionalFeatures(key, size, channels, width=3, normalised=True, form="patches")
