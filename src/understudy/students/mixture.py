"""A mixture of students of one kind, each free to be anything with a density."""

from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float, Scalar

from understudy.checks import positive, vector
from understudy.core import Condition, ExplicitStudent, IngredientError, Key, StratifiedStudent
from understudy.students.common import stratify


class Mixture(ExplicitStudent, StratifiedStudent):
    """Draws from one of several students, q(z) = sum_k pi_k q_k(z).

    One flow has to stretch a bridge between separate modes; a mixture with a flow for each has none.

    Reference: Papamakarios, Nalisnick, Rezende, Mohamed and Lakshminarayanan, "Normalizing Flows for
    Probabilistic Modeling and Inference", 2021, section 5 (mixtures of flows).

    Args:
        components: explicit students that differ in their numbers alone.
        weights: their probabilities at the start, up to a factor; equal if None.

    Examples:
        >>> import jax
        >>> from understudy.students import Mixture, FullGaussian
        >>> student = Mixture([FullGaussian(2), FullGaussian(2, mean=3.0)])
        >>> student.sample(jax.random.key(1), None, 5).shape
        (5, 2)
    """

    components: ExplicitStudent
    logits: Float[Array, " k"]
    dim: int = eqx.field(static=True)

    def __init__(self, components: Sequence[ExplicitStudent], weights: ArrayLike | None = None):
        _check(components)
        self.components = _stack(components)
        weights = jnp.ones(len(components)) if weights is None else positive("weights", weights)
        self.logits = jnp.log(vector("weights", weights, len(components)))
        self.dim = components[0].dim

    def sample(self, key: Key, x: Condition, n: int) -> Float[Array, "n d"]:
        """Draw components at random, then from them."""
        key, gate = jax.random.split(key)
        return self._draw(key, x, jax.random.categorical(gate, self.logits, shape=(n,)))

    def stratified(
        self, key: Key, x: Condition, n: int
    ) -> tuple[Float[Array, "n d"], Float[Array, " n"]]:
        """Draw from every component, weighed by its probability."""
        branch, weights = stratify(self.logits, n)
        return self._draw(key, x, branch), weights

    def log_prob(self, z: Float[Array, " d"], x: Condition = None) -> Scalar:
        """Log density, summed over components."""
        return jax.nn.logsumexp(jax.nn.log_softmax(self.logits) + self.log_probs(z, x))

    def log_probs(self, z: Float[Array, " d"], x: Condition = None) -> Float[Array, " k"]:
        """Log density of each component."""
        return eqx.filter_vmap(lambda one: one.log_prob(z, x))(_on_device(self.components))

    def _draw(self, key: Key, x: Condition, branch: Array) -> Float[Array, "n d"]:
        n, keys = branch.shape[0], jax.random.split(key, self.logits.shape[0])
        components = _on_device(self.components)
        every = eqx.filter_vmap(lambda one, key: one.sample(key, x, n))(components, keys)
        return every[branch, jnp.arange(n)]


def _check(components: Any) -> None:
    if not isinstance(components, Sequence) or not components:
        raise IngredientError("Mixture takes a list of students, such as [flow_one, flow_two].")
    for student in components:
        if not isinstance(student, ExplicitStudent):
            raise IngredientError(
                "Mixture takes students with a density (log_prob), such as Gaussians and flows; "
                f"a {type(student).__name__} came."
            )
    first = _shapes(components[0])
    if any(_shapes(student) != first for student in components):
        raise IngredientError(
            "Mixture takes students that differ in their numbers alone; build all of them with the same "
            "class, sizes and settings."
        )


def _shapes(student: ExplicitStudent) -> tuple:
    leaves, structure = jax.tree.flatten(eqx.filter(student, _is_array))
    return structure, [(leaf.shape, leaf.dtype) for leaf in leaves]


def _stack(components: Sequence[ExplicitStudent]) -> ExplicitStudent:
    arrays = [eqx.filter(student, _is_array) for student in components]
    stacked = jax.tree.map(_stacked, *arrays)
    return eqx.combine(stacked, components[0])


def _stacked(*leaves: Any) -> Any:
    # Arrays of the host stay there: they may be more precise than the device's.
    return np.stack(leaves) if isinstance(leaves[0], np.ndarray) else jnp.stack(leaves)


def _is_array(leaf: Any) -> bool:
    return eqx.is_array(leaf) or isinstance(leaf, np.ndarray)


def _on_device(components: ExplicitStudent) -> ExplicitStudent:
    return jax.tree.map(lambda leaf: jnp.asarray(leaf) if _is_array(leaf) else leaf, components)
