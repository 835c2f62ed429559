"""Students of discrete variables; draws are floating-point vectors of whole numbers."""

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import paramax
from flowjax.bijections.masked_autoregressive import masked_autoregressive_mlp
from jaxtyping import Array, ArrayLike, Float, Scalar

from understudy.checks import fraction, layer_count, random_key, vector, whole
from understudy.core import Condition, DiscreteStudent, Key, Lesson, ProjectableStudent
from understudy.networks import flat
from understudy.students.common import features, pool

# Projection keeps probabilities this far from zero and one, so that log densities stay finite.
_MARGIN = 1e-6


class Bernoulli(DiscreteStudent, ProjectableStudent):
    """Independent coins, q(z) = prod_i p_i^z_i (1 - p_i)^(1 - z_i), z_i in {0, 1}.

    Reference: Bishop, "Pattern Recognition and Machine Learning", 2006, section 2.1.

    Args:
        dim: size of a draw.
        probability: start of the probabilities of one, one number or a vector.

    Examples:
        >>> import jax
        >>> from understudy.students import Bernoulli
        >>> student = Bernoulli(3)
        >>> student.sample(jax.random.key(1), None, 5).shape
        (5, 3)
    """

    logits: Float[Array, " d"]
    dim: int = eqx.field(static=True)

    def __init__(self, dim: int, probability: ArrayLike = 0.5):
        self.dim = dim = whole("dim", dim)
        probability = fraction("probability", probability)
        self.logits = jax.scipy.special.logit(vector("probability", probability, dim))

    def sample(self, key: Key, x: Condition, n: int) -> Float[Array, "n d"]:
        """Toss every coin ``n`` times."""
        return jax.random.bernoulli(key, jax.nn.sigmoid(self.logits), (n, self.dim)).astype(float)

    def log_prob(self, z: Float[Array, " d"], x: Condition = None) -> Scalar:
        """Log probability of one vector of zeros and ones."""
        return _log_coins(z, self.logits)

    def project(self, lessons: Lesson, rate: Scalar) -> "Bernoulli":
        """Move the probabilities towards the weighted means of the improved draws."""
        rows, weights, rate = pool(lessons, rate)
        probability = (1 - rate) * jax.nn.sigmoid(self.logits) + rate * (weights @ rows)
        return Bernoulli(self.dim, jnp.clip(probability, _MARGIN, 1 - _MARGIN))


class Categorical(DiscreteStudent, ProjectableStudent):
    """Independent dice, q(z) = prod_i p_i(z_i), z_i in {0, .., categories - 1}.

    Reference: Bishop, "Pattern Recognition and Machine Learning", 2006, section 2.2.

    Args:
        dim: size of a draw.
        categories: values each coordinate can take; they start equally probable.

    Examples:
        >>> import jax
        >>> from understudy.students import Categorical
        >>> student = Categorical(3, categories=4)
        >>> student.sample(jax.random.key(1), None, 5).shape
        (5, 3)
    """

    logits: Float[Array, "d categories"]
    dim: int = eqx.field(static=True)

    def __init__(self, dim: int, categories: int):
        self.dim = dim = whole("dim", dim)
        self.logits = jnp.zeros((dim, whole("categories", categories, least=2)))

    def sample(self, key: Key, x: Condition, n: int) -> Float[Array, "n d"]:
        """Roll every die ``n`` times."""
        return jax.random.categorical(key, self.logits, shape=(n, self.dim)).astype(float)

    def log_prob(self, z: Float[Array, " d"], x: Condition = None) -> Scalar:
        """Log probability of one vector of whole numbers."""
        index = jnp.round(z).astype(int)[:, None]
        return jnp.take_along_axis(jax.nn.log_softmax(self.logits), index, 1).sum()

    def project(self, lessons: Lesson, rate: Scalar) -> "Categorical":
        """Move the probabilities towards the weighted frequencies of the improved draws."""
        rows, weights, rate = pool(lessons, rate)
        table = jax.nn.one_hot(jnp.round(rows).astype(int), self.logits.shape[1])
        frequencies = jnp.einsum("m,mdc->dc", weights, table)
        probabilities = (1 - rate) * jax.nn.softmax(self.logits) + rate * frequencies
        logits = jnp.log(jnp.maximum(probabilities, _MARGIN))
        return eqx.tree_at(lambda student: student.logits, self, logits)


class Autoregressive(DiscreteStudent):
    """Coins that see the ones before them, q(z) = prod_i q(z_i | z_1, .., z_i-1, x), z_i in {0, 1}.

    One masked network gives all conditional probabilities at once; drawing takes ``dim`` passes.

    Reference: Germain, Gregor, Murray and Larochelle, "MADE: Masked Autoencoder for Distribution
    Estimation", 2015.

    Args:
        key: random key for the weights.
        dim: size of a draw.
        hidden: units of each hidden layer.
        depth: number of hidden layers.
        condition: an example condition, for its shapes; None if there is none.
        activation: between layers.

    Examples:
        >>> import jax
        >>> from understudy.students import Autoregressive
        >>> student = Autoregressive(jax.random.key(0), dim=9)
        >>> student.sample(jax.random.key(1), None, 5).shape
        (5, 9)
    """

    network: eqx.nn.MLP
    dim: int = eqx.field(static=True)
    condition_size: int = eqx.field(static=True)

    def __init__(
        self,
        key: Key,
        dim: int,
        hidden: int = 64,
        depth: int = 1,
        condition: Condition = None,
        activation: Callable = jax.nn.relu,
    ):
        self.dim = dim = whole("dim", dim)
        self.condition_size = flat(condition).size
        # Condition inputs, and hidden units that see nothing else, come before every coordinate.
        before = jnp.full(self.condition_size, -1)
        self.network = masked_autoregressive_mlp(
            jnp.concatenate([jnp.arange(dim), before]),
            jnp.arange(whole("hidden", hidden)) % dim - 1,
            jnp.arange(dim),
            depth=layer_count("depth", depth),
            activation=activation,
            key=random_key(key),
        )

    def sample(self, key: Key, x: Condition, n: int) -> Float[Array, "n d"]:
        """Toss the coins in order."""
        logits = self._logits(x)

        def draw(uniforms: Float[Array, " d"]) -> Float[Array, " d"]:
            def toss(i, z):
                return z.at[i].set(uniforms[i] < jax.nn.sigmoid(logits(z)[i]))

            return jax.lax.fori_loop(0, self.dim, toss, jnp.zeros(self.dim))

        return jax.vmap(draw)(jax.random.uniform(key, (n, self.dim)))

    def log_prob(self, z: Float[Array, " d"], x: Condition = None) -> Scalar:
        """Log probability of one vector of zeros and ones, in one pass."""
        return _log_coins(z, self._logits(x)(z))

    def _logits(self, x: Condition) -> Callable[[Float[Array, " d"]], Float[Array, " d"]]:
        network, condition = paramax.unwrap(self.network), features(x, self.condition_size)
        return lambda z: network(jnp.concatenate([z, condition]))


def _log_coins(z: Float[Array, " d"], logits: Float[Array, " d"]) -> Scalar:
    return jnp.sum(z * jax.nn.log_sigmoid(logits) + (1 - z) * jax.nn.log_sigmoid(-logits))
