"""Students that read their parameters off the condition."""

from collections.abc import Callable, Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.scipy.stats import norm
from jaxtyping import Array, Float, Scalar

from understudy.checks import function, sizes, whole
from understudy.core import Condition, ExplicitStudent, IngredientError, Key
from understudy.networks import Perceptron, flat


class GaussianEncoder(ExplicitStudent):
    """A diagonal Gaussian whose mean and log scale are a network of the condition, q(z | x).

    Reference: Kingma and Welling, "Auto-Encoding Variational Bayes", 2014.

    Args:
        network: a module that maps one condition to 2 * dim numbers: the mean, then the log scale.
        dim: size of a draw.
    """

    network: Callable[[Condition], Float[Array, " 2*d"]]
    dim: int = eqx.field(static=True)

    def __init__(self, network: Callable[[Condition], Float[Array, " 2*d"]], dim: int):
        self.network = function("network", network)
        self.dim = whole("dim", dim)

    def sample(self, key: Key, x: Condition, n: int) -> Float[Array, "n d"]:
        """Draw mean + scale * noise."""
        mean, log_scale = self._parameters(x)
        return mean + jnp.exp(log_scale) * jax.random.normal(key, (n, self.dim))

    def log_prob(self, z: Float[Array, " d"], x: Condition = None) -> Scalar:
        """Log density, a sum over coordinates."""
        mean, log_scale = self._parameters(x)
        return norm.logpdf(z, mean, jnp.exp(log_scale)).sum()

    def _parameters(self, x: Condition) -> tuple[Float[Array, " d"], Float[Array, " d"]]:
        output = self.network(x)
        if output.shape != (2 * self.dim,):
            raise IngredientError(
                f"The network of a Gaussian encoder returns {2 * self.dim} numbers (mean and log scale "
                f"of dim {self.dim}); shape {output.shape} came."
            )
        return output[: self.dim], output[self.dim :]


def gaussian_encoder(
    key: Key,
    dim: int,
    condition: Condition,
    hidden: Sequence[int] = (64, 64),
    activation: Callable = jax.nn.relu,
) -> GaussianEncoder:
    """A :class:`GaussianEncoder` with a multi-layer perceptron of the flattened condition.

    Args:
        key: random key for the weights.
        dim: size of a draw.
        condition: an example condition, for its shapes.
        hidden: widths of the hidden layers.
        activation: between layers.

    Examples:
        >>> import jax, jax.numpy as jnp
        >>> from understudy.students import gaussian_encoder
        >>> student = gaussian_encoder(jax.random.key(0), dim=2, condition=jnp.zeros(4))
        >>> student.sample(jax.random.key(1), jnp.ones(4), 5).shape
        (5, 2)
    """
    widths = [flat(condition).size, *sizes("hidden", hidden), 2 * whole("dim", dim)]
    return GaussianEncoder(_OnFlat(Perceptron(key, widths, activation)), dim)


class _OnFlat(eqx.Module):
    network: Perceptron

    def __call__(self, x: Condition) -> Float[Array, " out"]:
        return self.network(flat(x))
