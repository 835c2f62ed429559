"""Any JAX log density as a target."""

import inspect
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float, Scalar

from understudy.checks import shown, whole
from understudy.core import Condition, IngredientError, Target


class LogDensity(Target):
    """Any JAX function ``z -> log p(z)`` or ``(z, x) -> log p(z | x)``, up to a constant.

    Args:
        function: a log density of one flat vector; it must be traceable by JAX.
        dim: the size of that vector.
        conditional: whether the function takes the condition ``x`` as its second argument.
    """

    function: Callable
    dim: int = eqx.field(static=True)
    conditional: bool = eqx.field(static=True, default=False)

    def __check_init__(self):
        if not callable(self.function):
            raise IngredientError(
                f"LogDensity needs a function of one vector, such as lambda z: -z @ z / 2; "
                f"a {type(self.function).__name__} came."
            )
        whole("dim, the size of a draw,", self.dim)
        wanted = "(z, x)" if self.conditional else "(z)"
        if not _takes(self.function, 1 + self.conditional):
            raise IngredientError(
                f"With conditional={self.conditional} the log density is a function of {wanted}; this "
                f"one takes other arguments; change it, or pass conditional={not self.conditional}."
            )

    def log_density(self, z: Float[Array, " d"], x: Condition = None) -> Scalar:
        """The function's value, as a scalar."""
        value = _array(self.function(z, x) if self.conditional else self.function(z))
        if value.shape != ():
            raise IngredientError(
                f"A log density gives one number per draw; this one gives shape {value.shape} for a "
                f"draw of shape {z.shape}. Sum over the axes that are left (for example .sum())."
            )
        return value.astype(jnp.result_type(float))


def _takes(function: Callable, count: int) -> bool:
    try:
        inspect.signature(function).bind(*[None] * count)
    except TypeError:
        return False
    except ValueError:  # a builtin without a signature
        return True
    return True


def _array(value: Any) -> Array:
    try:
        return jnp.asarray(value)
    except (TypeError, ValueError) as error:
        raise IngredientError(
            f"A log density gives one number per draw; this one gives {shown(value)}."
        ) from error


class OfIndexed(Target):
    """A target whose conditions come with their row in the data set, as :class:`Indexed`."""

    target: Target
    dim: int = eqx.field(static=True)

    def __init__(self, target: Target):
        self.target = target
        self.dim = target.dim

    def log_density(self, z: Float[Array, " d"], x: Condition = None) -> Scalar:
        """The target's log density given the condition's value."""
        return self.target.log_density(z, x.value)
