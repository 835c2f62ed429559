"""The weights of a network as one vector.

Layer after layer, W1, b1, W2, b2, and so on; every matrix has shape (inputs, outputs) and is read row by
row. Whoever draws weights and whoever evaluates a network at them goes through these functions.
"""

from collections.abc import Sequence

import jax.numpy as jnp
from jaxtyping import Array, Float

Layer = tuple[Float[Array, "_ _"], Float[Array, " _"]]


def layers_size(shapes: Sequence[tuple[int, int]]) -> int:
    """The length of the vector, for the (inputs, outputs) of every layer.

    Examples:
        >>> from understudy.networks import layers_size
        >>> layers_size([(3, 4), (4, 1)])
        21
    """
    return sum((inputs + 1) * outputs for inputs, outputs in shapes)


def join_layers(layers: Sequence[Layer]) -> Float[Array, " d"]:
    """One vector of all weights and biases.

    Examples:
        >>> import jax.numpy as jnp
        >>> from understudy.networks import join_layers, split_layers
        >>> z = jnp.arange(21.0)
        >>> bool((join_layers(split_layers(z, [(3, 4), (4, 1)])) == z).all())
        True
    """
    return jnp.concatenate([part for weight, bias in layers for part in (weight.ravel(), bias)])


def split_layers(z: Float[Array, " d"], shapes: Sequence[tuple[int, int]]) -> list[Layer]:
    """Weights and biases of every layer again, for the (inputs, outputs) of each.

    Examples:
        >>> import jax.numpy as jnp
        >>> from understudy.networks import split_layers
        >>> [weight.shape for weight, bias in split_layers(jnp.arange(21.0), [(3, 4), (4, 1)])]
        [(3, 4), (4, 1)]
    """
    layers, at = [], 0
    for inputs, outputs in shapes:
        middle, end = at + inputs * outputs, at + (inputs + 1) * outputs
        layers.append((z[at:middle].reshape(inputs, outputs), z[middle:end]))
        at = end
    return layers
