"""Semi-implicit students: a Gaussian drawn at random, and then a draw from it."""

from collections.abc import Callable, Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from understudy.checks import function, random_key, sizes, whole
from understudy.core import Condition, Key, SemiImplicitStudent
from understudy.networks import Perceptron, flat
from understudy.networks.convolutions import leaky
from understudy.networks.images import ConvolutionalFeatures, ImageSize
from understudy.students.common import features as flat_features


class SemiImplicit(SemiImplicitStudent):
    """A Gaussian made of noise, z ~ N(m, s^2) with m, log s = f([features(x), e]) and e ~ N(0, I).

    The student is wild, since the mixture over e has no density, but every Gaussian in it has one.

    Reference: Yin and Zhou, "Semi-Implicit Variational Inference", 2018.

    Args:
        features: a module that maps one condition to a vector.
        head: a module that maps the features and the noise to 2 * dim numbers: the mean, then the log
            scale.
        dim: size of a draw.
        noise: number of Gaussian noises.
    """

    features: Callable[[Condition], Float[Array, " m"]]
    head: Callable[[Float[Array, " m+e"]], Float[Array, " 2*d"]]
    dim: int = eqx.field(static=True)
    noises: int = eqx.field(static=True)

    def __init__(self, features: Callable, head: Callable, dim: int, noise: int):
        self.features, self.head = function("features", features), function("head", head)
        self.dim, self.noises = whole("dim", dim), whole("noise", noise)

    def noise(self, key: Key, n: int) -> Float[Array, "n e"]:
        """Standard Gaussian."""
        return jax.random.normal(key, (n, self.noises))

    def components(
        self, noise: Float[Array, "n e"], x: Condition
    ) -> tuple[Float[Array, "n d"], Float[Array, "n d"]]:
        """Means and log scales of the Gaussians of these noises."""
        h = self.features(x)
        both = jax.vmap(lambda e: self.head(jnp.concatenate([h, e])))(noise)
        return both[:, : self.dim], both[:, self.dim :]


class _Flat(eqx.Module):
    size: int = eqx.field(static=True)

    def __call__(self, x: Condition) -> Float[Array, " m"]:
        return flat_features(x, self.size)


class _Active(eqx.Module):
    features: ConvolutionalFeatures

    def __call__(self, x: Condition) -> Float[Array, " m"]:
        return leaky(self.features(x))


def semi_implicit(
    key: Key,
    dim: int,
    noise: int = 8,
    hidden: Sequence[int] = (64, 64),
    condition: Condition = None,
    activation: Callable = jax.nn.relu,
) -> SemiImplicit:
    """A :class:`SemiImplicit` student with a multi-layer perceptron.

    Args:
        key: random key for the weights.
        dim: size of a draw.
        noise: number of Gaussian noises.
        hidden: widths of the hidden layers.
        condition: an example condition, for its shapes; None if there is none.
        activation: between layers.

    Examples:
        >>> import jax
        >>> from understudy.students import semi_implicit
        >>> student = semi_implicit(jax.random.key(0), dim=2)
        >>> student.sample(jax.random.key(1), None, 5).shape
        (5, 2)
    """
    size = flat(condition).size
    widths = [size + whole("noise", noise), *sizes("hidden", hidden), 2 * whole("dim", dim)]
    return SemiImplicit(_Flat(size), Perceptron(key, widths, activation), dim, noise)


def semi_implicit_encoder(
    key: Key,
    dim: int,
    size: ImageSize,
    noise: int = 32,
    hidden: Sequence[int] = (500,),
    channels: Sequence[int] = (16, 32, 32),
) -> SemiImplicit:
    """A :class:`SemiImplicit` encoder of images: the paper's Gaussian one, noise beside its features.

    Its settings are those of :func:`~understudy.students.image_encoder`, and the number of noises.
    """
    first, second = jax.random.split(random_key(key))
    features = ConvolutionalFeatures(first, size, channels)
    widths = [features.count + whole("noise", noise), *sizes("hidden", hidden), 2 * whole("dim", dim)]
    return SemiImplicit(_Active(features), Perceptron(second, widths, leaky), dim, noise)
