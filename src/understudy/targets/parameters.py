"""Named parameters with constraints, as one flat unconstrained vector."""

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Scalar
from numpyro.distributions import biject_to, constraints

from understudy.checks import shown
from understudy.core import IngredientError


class Parameter(NamedTuple):
    """One parameter: its name, the constraint on its values, their shape and that of free ones."""

    name: str
    support: Any
    shape: tuple[int, ...]
    free_shape: tuple[int, ...]


class Parameters(eqx.Module):
    """Maps flat unconstrained vectors to named parameters, with the log Jacobian of the map.

    Args:
        supports: for every name a shape such as ``()`` or ``(8,)`` (any real numbers), a constraint of
            NumPyro such as ``constraints.positive`` (one number), or a pair of constraint and shape.
    """

    every: tuple[Parameter, ...] = eqx.field(static=True)

    def __init__(self, supports: Mapping[str, Any]):
        if not supports:
            raise IngredientError(
                'parameters are named, such as {"mu": (), "tau": positive}; none came.'
            )
        for name in supports:
            if not isinstance(name, str) or not name.isidentifier():
                raise IngredientError(
                    'parameters are named as arguments of a function are, such as {"mu": ()}; '
                    f"{shown(name)} came."
                )
        self.every = tuple(_parameter(name, given) for name, given in supports.items())
        if not self.dim:
            raise IngredientError(
                f"The constraints leave no free number in {', '.join(supports)}; give a parameter that "
                "can take more than one value."
            )

    @property
    def dim(self) -> int:
        """Size of the flat vector."""
        return sum(math.prod(one.free_shape) for one in self.every)

    def constrain(self, z: Float[Array, " d"]) -> tuple[dict[str, Array], Scalar]:
        """The parameters by name, and the log of the map's volume change."""
        sizes = [math.prod(one.free_shape) for one in self.every]
        parts = jnp.split(z, np.cumsum(sizes)[:-1])
        values, log_det = {}, jnp.zeros(())
        for one, part in zip(self.every, parts, strict=True):
            transform, free = biject_to(one.support), part.reshape(one.free_shape)
            values[one.name] = transform(free)
            log_det += jnp.sum(transform.log_abs_det_jacobian(free, values[one.name]))
        return values, log_det

    def unconstrain(self, values: Mapping[str, Any]) -> Float[Array, " d"]:
        """The flat vector of these values."""
        free = [biject_to(one.support).inv(jnp.asarray(values[one.name], float)) for one in self.every]
        return jnp.concatenate([jnp.ravel(value) for value in free])


def _parameter(name: str, given: Any) -> Parameter:
    pair = isinstance(given, tuple) and len(given) == 2 and _is_support(given[0])
    support, shape = given if pair else (given, ()) if _is_support(given) else (constraints.real, given)
    if not (isinstance(shape, tuple) and all(isinstance(n, int | np.integer) and n > 0 for n in shape)):
        raise IngredientError(
            f"Parameter {name!r} is a shape such as (8,), a constraint such as constraints.positive, or "
            f"a pair of both; {shown(given)} came."
        )
    try:
        free = tuple(biject_to(support).inverse_shape(shape))
    except (NotImplementedError, ValueError, IndexError) as error:
        raise IngredientError(
            f"The constraint of parameter {name!r} has no map from free numbers to shape {shape}; take "
            "another of numpyro.distributions.constraints, or another shape."
        ) from error
    if not _is_open(support):
        raise IngredientError(
            f"The constraint of parameter {name!r} holds no number, {shown(support)}; give "
            "bounds of which the lower lies below the upper."
        )
    return Parameter(name, support, shape, free)


def _is_open(support: Any) -> bool:
    """Whether there are numbers between the bounds, where a constraint has two."""
    bounds = (getattr(support, name, None) for name in ("lower_bound", "upper_bound"))
    low, high = (None if isinstance(bound, jax.core.Tracer) else bound for bound in bounds)
    return low is None or high is None or bool(np.all(np.asarray(low) < np.asarray(high)))


def _is_support(given: Any) -> bool:
    return isinstance(given, constraints.Constraint)
