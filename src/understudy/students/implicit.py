"""Students that are networks of noise: easy to draw from, no density."""

from collections.abc import Callable, Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Float

from understudy.checks import random_key, sizes, whole
from understudy.core import Condition, Key, StratifiedStudent, Student
from understudy.networks import Perceptron, flat
from understudy.students.common import features, stratify


class Implicit(Student):
    """A network that warps noise into draws, z = f([noise, x]), noise ~ N(0, I).

    Reference: Li, Turner and Liu, "Approximate Inference with Amortised MCMC", 2017, example 1.

    Args:
        key: random key for the weights.
        dim: size of a draw.
        noise: number of Gaussian noises.
        hidden: widths of the hidden layers.
        condition: an example condition, for its shapes; None if there is none.
        activation: between layers.

    Examples:
        >>> import jax
        >>> from understudy.students import Implicit
        >>> student = Implicit(jax.random.key(0), dim=2)
        >>> student.sample(jax.random.key(1), None, 5).shape
        (5, 2)
    """

    network: Perceptron
    dim: int = eqx.field(static=True)
    noise: int = eqx.field(static=True)
    condition_size: int = eqx.field(static=True)

    def __init__(
        self,
        key: Key,
        dim: int,
        noise: int = 3,
        hidden: Sequence[int] = (20, 20),
        condition: Condition = None,
        activation: Callable = jax.nn.relu,
    ):
        self.dim = dim = whole("dim", dim)
        self.noise = whole("noise", noise)
        self.condition_size = flat(condition).size
        widths = [noise + self.condition_size, *sizes("hidden", hidden), dim]
        self.network = Perceptron(key, widths, activation)

    def sample(self, key: Key, x: Condition, n: int) -> Float[Array, "n d"]:
        """Warp ``n`` noises."""
        noise = jax.random.normal(key, (n, self.noise))
        condition = features(x, self.condition_size)
        return jax.vmap(lambda e: self.network(jnp.concatenate([e, condition])))(noise)


class Gated(StratifiedStudent):
    """Several networks and a learnt gate that chooses one, z = f_k([noise, x]), k ~ softmax(gate(x)).

    The gate lets a wild student hold separate modes, each with its own probability; where there is
    a condition, the logits are linear in it.

    Reference: Jacobs, Jordan, Nowlan and Hinton, "Adaptive Mixtures of Local Experts", 1991.

    Args:
        key: random key for the weights.
        dim: size of a draw.
        branches: number of networks.
        noise: number of Gaussian noises.
        hidden: widths of the hidden layers of each network.
        condition: an example condition, for its shapes; None if there is none.
        activation: between layers.
        spread: standard deviation of the branches' centres at the start.

    Examples:
        >>> import jax
        >>> from understudy.students import Gated
        >>> student = Gated(jax.random.key(0), dim=2, branches=4)
        >>> student.sample(jax.random.key(1), None, 5).shape
        (5, 2)
    """

    networks: Perceptron
    logits: Float[Array, " k"]
    gate: Float[Array, "k m"]
    dim: int = eqx.field(static=True)
    noise: int = eqx.field(static=True)

    def __init__(
        self,
        key: Key,
        dim: int,
        branches: int = 8,
        noise: int = 3,
        hidden: Sequence[int] = (20, 20),
        condition: Condition = None,
        activation: Callable = jax.nn.relu,
        spread: ArrayLike = 1.0,
    ):
        self.dim = dim = whole("dim", dim)
        self.noise = whole("noise", noise)
        size = flat(condition).size
        self.logits = jnp.zeros(whole("branches", branches))
        self.gate = jnp.zeros((branches, size))
        weights, centres = jax.random.split(random_key(key))
        widths = [noise + size, *sizes("hidden", hidden), dim]
        networks = eqx.filter_vmap(lambda k: Perceptron(k, widths, activation))(
            jax.random.split(weights, branches)
        )
        biases = spread * jax.random.normal(centres, (branches, dim))
        self.networks = eqx.tree_at(lambda tree: tree.biases[-1], networks, biases)

    def sample(self, key: Key, x: Condition, n: int) -> Float[Array, "n d"]:
        """Let the gate choose a network for each of ``n`` noises."""
        key, gate = jax.random.split(key)
        branch = jax.random.categorical(gate, self._gate_logits(x), shape=(n,))
        noise = jax.random.normal(key, (n, 1, self.noise))
        # Running every network costs less memory than gathering one set of weights per draw.
        draws = self._run(jnp.broadcast_to(noise, (n, self.logits.size, self.noise)), x)
        return jnp.take_along_axis(draws, branch[:, None, None], 1)[:, 0]

    def stratified(
        self, key: Key, x: Condition, n: int
    ) -> tuple[Float[Array, "n d"], Float[Array, " n"]]:
        """Draw from every network, weighed by the gate's probabilities."""
        _, weights = stratify(self._gate_logits(x), n)
        branches = self.logits.size
        noise = jax.random.normal(key, (-(-n // branches), branches, self.noise))
        return self._run(noise, x).reshape(-1, self.dim)[:n], weights

    def _gate_logits(self, x: Condition) -> Float[Array, " k"]:
        return self.logits + self.gate @ features(x, self.gate.shape[1])

    def _run(self, noise: Float[Array, "m k e"], x: Condition) -> Float[Array, "m k d"]:
        condition = features(x, self.gate.shape[1])

        def branch(network: Perceptron, e: Float[Array, "m e"]) -> Float[Array, "m d"]:
            return jax.vmap(lambda row: network(jnp.concatenate([row, condition])))(e)

        return eqx.filter_vmap(branch, in_axes=(0, 1), out_axes=1)(self.networks, noise)
