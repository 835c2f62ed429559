"""Any JAX log density as a target."""

from collections.abc import Callable

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float, Scalar

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
        if not isinstance(self.dim, int) or self.dim < 1:
            raise IngredientError(f"dim is the size of a draw, a positive integer; {self.dim!r} came.")

    def log_density(self, z: Float[Array, " d"], x: Condition = None) -> Scalar:
        """The function's value, as a scalar."""
        value = jnp.asarray(self.function(z, x) if self.conditional else self.function(z))
        if value.shape != ():
            raise IngredientError(
                f"A log density gives one number per draw; this one gives shape {value.shape} for a "
                f"draw of shape {z.shape}. Sum over the axes that are left (for example .sum())."
            )
        return value.astype(jnp.result_type(float))


class OfIndexed(Target):
    """A target whose conditions come with their row in the data set, as :class:`Indexed`."""

    target: Target

    @property
    def dim(self) -> int:
        """Size of a draw."""
        return self.target.dim

    def log_density(self, z: Float[Array, " d"], x: Condition = None) -> Scalar:
        """The target's log density given the condition's value."""
        return self.target.log_density(z, x.value)
