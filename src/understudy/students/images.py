"""Encoders of images: a Gaussian one, and the two wild ones of the paper."""

from collections.abc import Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from understudy.checks import one_fraction, random_key, sizes, whole
from understudy.core import Condition, IngredientError, Key, Student
from understudy.networks import Perceptron
from understudy.networks.convolutions import leaky
from understudy.networks.images import (
    ConvolutionalFeatures,
    ImageNetwork,
    ImageSize,
    wild_features,
)
from understudy.students.encoders import GaussianEncoder


def image_encoder(
    key: Key,
    dim: int,
    size: ImageSize,
    hidden: Sequence[int] = (500,),
    channels: Sequence[int] = (16, 32, 32),
) -> GaussianEncoder:
    """The paper's Gaussian encoder of images: 5 x 5 convolutions of stride 2, then a perceptron.

    Args:
        key: random key for the weights.
        dim: size of a draw.
        size: height and width of the images, and the number of colours if there are several.
        hidden: widths of the perceptron's hidden layers.
        channels: of the convolutions.

    Examples:
        >>> import jax, jax.numpy as jnp
        >>> from understudy.students import image_encoder
        >>> student = image_encoder(jax.random.key(0), 2, (8, 8), hidden=(16,), channels=(4, 8))
        >>> student.sample(jax.random.key(1), jnp.ones((8, 8)), 5).shape
        (5, 2)
    """
    return GaussianEncoder(ImageNetwork(key, size, 2 * whole("dim", dim), hidden, channels), dim)


class WildImageEncoder(Student):
    """A student whose convolutions of the image are batch normalised: train in batches, then settle."""

    features: eqx.AbstractVar[ConvolutionalFeatures]

    def settled(self, x: Float[Array, "b h w ..."]) -> "WildImageEncoder":
        """The same with the statistics of these images stored, for use after training."""
        return eqx.tree_at(lambda student: student.features, self, self.features.settled(x))


class NoisyEncoder(WildImageEncoder):
    """CNN-G: features of the image split into h, mu and log sigma; z = f([h, mu + sigma noise]).

    The Gaussian noise passes through a perceptron, so the draws have no density. The convolutions are
    batch normalised: train in batches, then call :meth:`settled`.

    Reference: Li, Turner and Liu, "Approximate Inference with Amortised MCMC", 2017, appendix E.2.

    Args:
        key: random key for the weights.
        dim: size of a draw.
        size: height and width of the images, and the number of colours if there are several.
        noise: number of Gaussian noises.
        hidden: widths of the perceptron's hidden layers.
        channels: of the convolutions.
    """

    features: ConvolutionalFeatures
    head: Perceptron
    dim: int = eqx.field(static=True)
    noise: int = eqx.field(static=True)

    def __init__(
        self,
        key: Key,
        dim: int,
        size: ImageSize,
        noise: int = 32,
        hidden: Sequence[int] = (500, 500),
        channels: Sequence[int] = (32, 64, 128, 256),
    ):
        first, second = jax.random.split(random_key(key))
        self.dim, self.noise = whole("dim", dim), whole("noise", noise)
        self.features = wild_features(first, size, channels)
        count = self.features.count
        if count <= 2 * noise:
            raise IngredientError(
                f"Two numbers per noise come out of the image's {count} features, and some are left; "
                f"{noise} noises came; ask for fewer, or for more channels."
            )
        self.head = Perceptron(second, [count - noise, *sizes("hidden", hidden), dim], leaky)

    def sample(self, key: Key, x: Condition, n: int) -> Float[Array, "n d"]:
        """Warp ``n`` noises whose mean and scale come from the image."""
        mean, log_scale, h = jnp.split(self.features(x), [self.noise, 2 * self.noise])
        noises = mean + jnp.exp(log_scale) * jax.random.normal(key, (n, self.noise))
        return jax.vmap(lambda e: self.head(jnp.concatenate([leaky(h), e])))(noises)


class DropoutEncoder(WildImageEncoder):
    """CNN-B: features of the image times Bernoulli noise, z = f(features * mask / (1 - rate)).

    The convolutions are batch normalised: train in batches, then call :meth:`settled`.

    Reference: Li, Turner and Liu, "Approximate Inference with Amortised MCMC", 2017, appendix E.2.

    Args:
        key: random key for the weights.
        dim: size of a draw.
        size: height and width of the images, and the number of colours if there are several.
        rate: how likely a feature is dropped.
        hidden: widths of the perceptron's hidden layers.
        channels: of the convolutions.
    """

    features: ConvolutionalFeatures
    head: Perceptron
    rate: float = eqx.field(static=True)
    dim: int = eqx.field(static=True)

    def __init__(
        self,
        key: Key,
        dim: int,
        size: ImageSize,
        rate: float = 0.5,
        hidden: Sequence[int] = (500, 500),
        channels: Sequence[int] = (32, 64, 128, 256),
    ):
        first, second = jax.random.split(random_key(key))
        self.dim, self.rate = whole("dim", dim), one_fraction("rate", rate)
        self.features = wild_features(first, size, channels)
        self.head = Perceptron(second, [self.features.count, *sizes("hidden", hidden), dim], leaky)

    def sample(self, key: Key, x: Condition, n: int) -> Float[Array, "n d"]:
        """Drop features at random, ``n`` times."""
        h = leaky(self.features(x)) / (1 - self.rate)
        kept = jax.random.bernoulli(key, 1 - self.rate, (n, h.size))
        return jax.vmap(lambda mask: self.head(h * mask))(kept)
