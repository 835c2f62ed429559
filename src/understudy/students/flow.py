"""Normalising flows: students with flexible shapes and exact densities, built by flowjax."""

from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import paramax
from flowjax import flows
from flowjax.bijections import (
    AbstractBijection,
    Affine,
    Chain,
    RationalQuadraticSpline,
    TriangularAffine,
    Vmap,
)
from flowjax.distributions import AbstractDistribution, StandardNormal, Transformed
from jaxtyping import Array, ArrayLike, Float, Scalar

from understudy.checks import instance, layer_count, number, positive, random_key, vector, whole
from understudy.core import Condition, ExplicitStudent, IngredientError, Key
from understudy.networks import flat
from understudy.students.common import features
from understudy.surroundings import with_own_settings


class Flow(ExplicitStudent):
    """Any flowjax distribution over vectors, log q(z) = log base(f^-1(z)) + log |det df^-1/dz|.

    A conditional distribution sees the condition as one vector.

    Reference: Papamakarios, Nalisnick, Rezende, Mohamed and Lakshminarayanan, "Normalizing Flows for
    Probabilistic Modeling and Inference", 2021.

    Args:
        distribution: a flowjax distribution of shape (d,).

    Examples:
        >>> import jax, jax.numpy as jnp
        >>> from flowjax.distributions import Normal
        >>> from understudy.students import Flow
        >>> student = Flow(Normal(jnp.zeros(2)))
        >>> student.sample(jax.random.key(1), None, 5).shape
        (5, 2)
    """

    distribution: AbstractDistribution
    dim: int = eqx.field(static=True)

    def __init__(self, distribution: AbstractDistribution):
        instance("distribution", AbstractDistribution, "flowjax's StandardNormal((2,))", distribution)
        if distribution.ndim != 1:
            raise IngredientError(
                f"A flow draws vectors, so its distribution has shape (d,); {distribution.shape} came."
            )
        self.distribution = distribution
        self.dim = distribution.shape[0]

    def sample(self, key: Key, x: Condition, n: int) -> Float[Array, "n d"]:
        """Draw from the base and transform."""
        return self.distribution.sample(key, (n,), self._condition(x))

    def log_prob(self, z: Float[Array, " d"], x: Condition = None) -> Scalar:
        """Log density by the change of variables."""
        return self.distribution.log_prob(z, self._condition(x))

    def _condition(self, x: Condition) -> Float[Array, " m"] | None:
        shape = self.distribution.cond_shape
        return None if shape is None else features(x, shape[0])


def coupling_flow(
    key: Key,
    dim: int,
    layers: int = 4,
    condition: Condition = None,
    width: int = 50,
    knots: int = 8,
    mean: ArrayLike = 0.0,
    scale: ArrayLike = 1.0,
) -> Flow:
    """A flow of coupling layers, as fast to draw from as to evaluate; it starts as a Gaussian.

    Each layer transforms half of the coordinates with splines and affine maps that depend on the others.
    In one dimension there is nothing to couple and the flow is one spline.

    Reference: Durkan, Bekasov, Murray and Papamakarios, "Neural Spline Flows", 2019.

    Args:
        key: random key for the weights.
        dim: size of a draw.
        layers: number of layers.
        condition: an example condition, for its shapes; None if there is none.
        width: units of the hidden layer of each conditioner.
        knots: knots of each spline on (-4, 4); the tails are affine.
        mean: shift applied last, frozen: one number or a vector.
        scale: scale applied last, frozen: one number, a vector or a lower triangular matrix.

    Examples:
        >>> import jax
        >>> from understudy.students import coupling_flow
        >>> student = coupling_flow(jax.random.key(0), dim=2)
        >>> student.sample(jax.random.key(1), None, 5).shape
        (5, 2)
    """
    build = partial(flows.coupling_flow, invert=True)
    return _flow(build, key, dim, layers, condition, width, knots, mean, scale)


def autoregressive_flow(
    key: Key,
    dim: int,
    layers: int = 4,
    condition: Condition = None,
    width: int = 50,
    knots: int = 8,
    mean: ArrayLike = 0.0,
    scale: ArrayLike = 1.0,
    fast_sample: bool = False,
) -> Flow:
    """A flow of masked autoregressive layers, more flexible a layer; it starts as a Gaussian.

    Reference: Papamakarios, Pavlakou and Murray, "Masked Autoregressive Flow for Density Estimation",
    2017.

    Args:
        key: random key for the weights.
        dim: size of a draw.
        layers: number of layers.
        condition: an example condition, for its shapes; None if there is none.
        width: units of the hidden layer of each conditioner.
        knots: knots of each spline on (-4, 4); the tails are affine.
        mean: shift applied last, frozen: one number or a vector.
        scale: scale applied last, frozen: one number, a vector or a lower triangular matrix.
        fast_sample: if True a draw is one pass and a density ``dim`` passes; if False the other way.

    Examples:
        >>> import jax
        >>> from understudy.students import autoregressive_flow
        >>> student = autoregressive_flow(jax.random.key(0), dim=2)
        >>> student.sample(jax.random.key(1), None, 5).shape
        (5, 2)
    """
    build = partial(flows.masked_autoregressive_flow, invert=not fast_sample)
    return _flow(build, key, dim, layers, condition, width, knots, mean, scale)


@with_own_settings
def _flow(build, key, dim, layers, condition, width, knots, mean, scale) -> Flow:
    layer_count("layers", layers)
    for name, value in {"dim": dim, "width": width, "knots": knots}.items():
        whole(name, value)
    size = flat(condition).size or None
    base = StandardNormal((dim,))
    if dim == 1 and size is None:
        splines = eqx.filter_vmap(lambda: _spline(knots), axis_size=1)()
        inner = Transformed(base, Vmap(splines, in_axes=eqx.if_array(0)))
    else:
        settings = {"flow_layers": layers, "nn_width": width, "cond_dim": size}
        inner = _near_identity(
            build(random_key(key), base_dist=base, transformer=_spline(knots), **settings)
        )
    return Flow(Transformed(inner, paramax.non_trainable(_affine(dim, mean, scale))))


def _spline(knots: int) -> AbstractBijection:
    return Chain([RationalQuadraticSpline(knots=knots, interval=4), Affine()])


def _affine(dim: int, mean: ArrayLike, scale: ArrayLike) -> AbstractBijection:
    mean, scale = vector("mean", mean, dim), number("scale", scale)
    if scale.shape == (dim, dim):
        positive("the diagonal of scale", jnp.diag(scale))
        return eqx.tree_at(lambda a: a.triangular, TriangularAffine(mean, jnp.eye(dim)), jnp.tril(scale))
    scale = vector("scale", positive("scale", scale), dim)
    return eqx.tree_at(lambda a: a.scale, Affine(mean), scale)


def _near_identity(tree: AbstractDistribution) -> AbstractDistribution:
    def shrink(node):
        if not isinstance(node, eqx.nn.MLP):
            return node
        last = jax.tree.map(lambda v: 0.01 * v if eqx.is_inexact_array(v) else v, node.layers[-1])
        return eqx.tree_at(lambda network: network.layers[-1], node, last)

    return jax.tree.map(shrink, tree, is_leaf=lambda node: isinstance(node, eqx.nn.MLP))
