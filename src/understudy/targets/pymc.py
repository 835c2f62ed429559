"""PyMC models as targets, through their JAX log density; needs the extra ``understudy[pymc]``."""

import math
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Scalar

from understudy.core import Condition, IngredientError, Target


class PyMCTarget(Target):
    """The posterior of a PyMC model over its unconstrained values. Made by :func:`from_pymc`.

    Reference: Abril-Pla et al., "PyMC: a modern, and comprehensive probabilistic programming framework
    in Python", 2023.
    """

    log_joint: Callable = eqx.field(static=True)
    outputs: Callable = eqx.field(static=True)
    names: tuple[str, ...] = eqx.field(static=True)
    shapes: tuple[tuple[int, ...], ...] = eqx.field(static=True)
    dim: int = eqx.field(static=True)

    def log_density(self, z: Float[Array, " d"], x: Condition = None) -> Scalar:
        """Log joint density of one flat unconstrained draw and the data, Jacobian included."""
        return jnp.asarray(self.log_joint(*self._values(z))[0], jnp.result_type(float))

    def constrain(self, z: Float[Array, " d"], x: Condition = None) -> dict[str, Array]:
        """The named variables of one flat draw on their own scale, deterministic ones included."""
        return dict(zip(self.names, map(jnp.asarray, self.outputs(*self._values(z))), strict=True))

    def _values(self, z: Float[Array, " d"]) -> list[Array]:
        sizes = [math.prod(shape) for shape in self.shapes]
        parts = jnp.split(z, np.cumsum(sizes)[:-1])
        return [part.reshape(shape) for part, shape in zip(parts, self.shapes, strict=True)]


def from_pymc(model: Any) -> PyMCTarget:
    """The posterior of a PyMC model, data included, as a target over flat vectors.

    Args:
        model: a ``pymc.Model`` with continuous free variables.
    """
    try:
        import pymc  # pyright: ignore[reportMissingImports]
        from pymc.sampling.jax import get_jaxified_graph  # pyright: ignore[reportMissingImports]
    except ImportError as error:
        raise IngredientError(
            "from_pymc needs PyMC; install it with: pip install 'understudy[pymc]'."
        ) from error
    if not isinstance(model, pymc.Model):
        raise IngredientError(f"from_pymc takes a pymc.Model; a {type(model).__name__} came.")
    _check_variables(model)
    start = model.initial_point()
    shapes = tuple(np.shape(start[value.name]) for value in model.value_vars)
    shown = [v for v in model.unobserved_value_vars if v not in set(model.value_vars)]
    untransformed = [
        v for v in model.value_vars if model.rvs_to_transforms[model.values_to_rvs[v]] is None
    ]
    return PyMCTarget(
        log_joint=get_jaxified_graph(inputs=model.value_vars, outputs=[model.logp()]),
        outputs=get_jaxified_graph(inputs=model.value_vars, outputs=[*untransformed, *shown]),
        names=tuple(v.name for v in [*untransformed, *shown]),
        shapes=shapes,
        dim=sum(math.prod(shape) for shape in shapes),
    )


def _check_variables(model: Any) -> None:
    if not model.free_RVs:
        raise IngredientError(
            "This PyMC model has no free variable to draw; give it one without observed=."
        )
    discrete = [v.name for v in model.discrete_value_vars]
    if discrete:
        raise IngredientError(
            f"Variable {discrete[0]!r} is discrete; sum it out (pymc_extras.marginalize), or write the "
            "log density yourself and choose a discrete student such as Autoregressive."
        )
