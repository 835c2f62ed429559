"""Networks shared by students, models and feedbacks."""

from collections.abc import Callable, Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from understudy.checks import function, random_key, shown, sizes, whole
from understudy.core import Condition, IngredientError, Key


class Perceptron(eqx.Module):
    """A multi-layer perceptron with any widths, ``[3, 20, 20, 1]`` say.

    Args:
        key: random key for the weights (Glorot-scaled Gaussians; biases start at zero).
        widths: sizes of the input, the hidden layers and the output.
        activation: between layers.

    Examples:
        >>> import jax
        >>> from understudy.networks import Perceptron
        >>> network = Perceptron(jax.random.key(0), [3, 16, 2])
        >>> network(jax.numpy.ones(3)).shape
        (2,)
    """

    weights: list[Float[Array, "out in"]]
    biases: list[Float[Array, " out"]]
    activation: Callable = eqx.field(static=True)

    def __init__(
        self,
        key: Key,
        widths: Sequence[int],
        activation: Callable = jax.nn.relu,
    ):
        widths = sizes("widths", widths)
        if len(widths) < 2:
            raise IngredientError(
                f"widths are the sizes of input, hidden layers and output, such as [3, 20, 1]; "
                f"{widths} came."
            )
        keys = jax.random.split(random_key(key), len(widths) - 1)
        pairs = list(zip(widths[1:], widths[:-1], strict=True))
        self.weights = [
            jax.random.normal(k, shape) * (2 / sum(shape)) ** 0.5
            for k, shape in zip(keys, pairs, strict=True)
        ]
        self.biases = [jnp.zeros(out) for out, _ in pairs]
        self.activation = function("activation", activation)

    def __call__(self, h: Float[Array, " in"]) -> Float[Array, " out"]:
        """Apply the network to one vector."""
        for weight, bias in zip(self.weights[:-1], self.biases[:-1], strict=True):
            h = self.activation(weight @ h + bias)
        return self.weights[-1] @ h + self.biases[-1]


class Critic(eqx.Module):
    """A function of a draw and its condition: discriminator, density ratio or test function.

    Args:
        key: random key for the weights.
        dim: size of a draw.
        x: an example condition, for its shapes.
        hidden: widths of the hidden layers.
        activation: between layers.
        outputs: how many values it has; None makes it a scalar.

    Examples:
        >>> import jax
        >>> from understudy.networks import Critic
        >>> critic = Critic(jax.random.key(0), dim=2, x=None)
        >>> critic(jax.numpy.ones(2), None).shape
        ()
    """

    network: Perceptron
    outputs: int | None = eqx.field(static=True)

    def __init__(
        self,
        key: Key,
        dim: int,
        x: Condition,
        hidden: Sequence[int] = (64, 64),
        activation: Callable = jax.nn.softplus,
        outputs: int | None = None,
    ):
        values = 1 if outputs is None else whole("outputs", outputs)
        widths = [whole("dim", dim) + flat(x).size, *sizes("hidden", hidden), values]
        self.network = Perceptron(key, widths, activation)
        self.outputs = outputs

    def __call__(self, z: Float[Array, " d"], x: Condition = None) -> Float[Array, "..."]:
        """The critic's value at one draw."""
        values = self.network(jnp.concatenate([z, flat(x)]))
        return values[0] if self.outputs is None else values


def flat(x: Condition) -> Float[Array, " m"]:
    """All numbers of a condition as one vector, empty for None.

    Examples:
        >>> import jax.numpy as jnp
        >>> from understudy.networks import flat
        >>> flat((jnp.ones(2), jnp.ones((2, 2)))).shape
        (6,)
    """
    try:
        leaves = [jnp.ravel(jnp.asarray(leaf)) for leaf in jax.tree.leaves(x)]
        if any(map(jnp.iscomplexobj, leaves)):
            raise TypeError("complex")
        leaves = [leaf.astype(float) for leaf in leaves]
    except Exception as error:
        raise IngredientError(
            f"A condition is made of arrays of numbers, as one datum is; {shown(x)} came."
        ) from error
    return jnp.concatenate(leaves) if leaves else jnp.zeros(0)
