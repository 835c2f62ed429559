"""Students that read their parameters off the condition."""

from collections.abc import Callable, Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.scipy.stats import norm
from jaxtyping import Array, Float, Scalar

from understudy.checks import function, instance, sizes, whole
from understudy.core import Condition, ExplicitStudent, IngredientError, Key
from understudy.networks import Perceptron, flat
from understudy.students.splines import SplineFlow


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
        self.dim = dim = whole("dim", dim)

    def sample(self, key: Key, x: Condition, n: int) -> Float[Array, "n d"]:
        """Draw mean + scale * noise."""
        mean, log_scale = self.parameters(x)
        return mean + jnp.exp(log_scale) * jax.random.normal(key, (n, self.dim))

    def log_prob(self, z: Float[Array, " d"], x: Condition = None) -> Scalar:
        """Log density, a sum over coordinates."""
        mean, log_scale = self.parameters(x)
        return norm.logpdf(z, mean, jnp.exp(log_scale)).sum()

    def parameters(self, x: Condition) -> tuple[Float[Array, " d"], Float[Array, " d"]]:
        """Mean and log scale for one condition."""
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


class FlowEncoder(ExplicitStudent):
    """A Gaussian encoder whose noise comes from a flow: z = m + s e, e ~ flow(. | m, log s), m, s of x.

    With a flow that begins near the standard Gaussian the student begins as the encoder inside, which
    may have been trained before.

    Reference: Rezende and Mohamed, "Variational Inference with Normalizing Flows", 2015.

    Args:
        place: the Gaussian encoder.
        flow: a student with a density whose condition is one vector of 2 * dim numbers: the mean, then
            the log scale.
    """

    place: GaussianEncoder
    flow: ExplicitStudent
    dim: int = eqx.field(static=True)

    def __init__(self, place: GaussianEncoder, flow: ExplicitStudent):
        self.place = instance("place", GaussianEncoder, "image_encoder(key, 2, (8, 8))", place)
        self.flow = instance("flow", ExplicitStudent, "SplineFlow(key, 2, jnp.zeros(4))", flow)
        if flow.dim != place.dim:
            raise IngredientError(
                f"place draws vectors of size {place.dim} and flow of size {flow.dim}; build both for "
                "one size."
            )
        self.dim = place.dim

    def sample(self, key: Key, x: Condition, n: int) -> Float[Array, "n d"]:
        """Draw noise from the flow and put it where the Gaussian is."""
        mean, log_scale = self.place.parameters(x)
        noise = self.flow.sample(key, jnp.concatenate([mean, log_scale]), n)
        return mean + jnp.exp(log_scale) * noise

    def log_prob(self, z: Float[Array, " d"], x: Condition = None) -> Scalar:
        """Log density of the noise, less the log of the scale."""
        mean, log_scale = self.place.parameters(x)
        noise = (z - mean) * jnp.exp(-log_scale)
        return self.flow.log_prob(noise, jnp.concatenate([mean, log_scale])) - log_scale.sum()


def flow_encoder(key: Key, place: GaussianEncoder, layers: int = 4, width: int = 64) -> FlowEncoder:
    """A :class:`FlowEncoder` with a :class:`~understudy.students.SplineFlow`, nearly the encoder given.

    Args:
        key: random key for the weights of the flow.
        place: the Gaussian encoder.
        layers: number of couplings.
        width: units of the two hidden layers of each coupling's network.

    Examples:
        >>> import jax, jax.numpy as jnp
        >>> from understudy.students import flow_encoder, gaussian_encoder
        >>> first, second = jax.random.split(jax.random.key(0))
        >>> place = gaussian_encoder(first, dim=2, condition=jnp.zeros(4))
        >>> student = flow_encoder(second, place, layers=2, width=8)
        >>> student.sample(jax.random.key(1), jnp.ones(4), 5).shape
        (5, 2)
    """
    instance("place", GaussianEncoder, "image_encoder(key, 2, (8, 8))", place)
    return FlowEncoder(place, SplineFlow(key, place.dim, jnp.zeros(2 * place.dim), layers, width))


class _OnFlat(eqx.Module):
    network: Perceptron

    def __call__(self, x: Condition) -> Float[Array, " out"]:
        return self.network(flat(x))
