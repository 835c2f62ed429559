"""Any JAX log density as a target."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float, Scalar

from understudy.checks import shown, whole
from understudy.core import Condition, IngredientError, Target, prepared


class LogDensity(Target):
    """Any JAX function ``z -> log p(z)`` or ``(z, x) -> log p(z | x)``, up to a constant.

    With named parameters the function takes them by name, ``(mu, tau) -> log p``, on their own scale;
    the Jacobian of the map from free numbers is added.

    Args:
        function: a log density of one flat vector, or of named parameters; JAX must be able to trace it.
        dim: the size of that vector, or the parameters: ``{"mu": (), "tau": constraints.positive}`` with
            shapes and constraints of ``numpyro.distributions``, see
            :class:`understudy.targets.parameters.Parameters`.
        conditional: whether the function takes the condition ``x`` as its second argument (with named
            parameters, by the name ``x``).
    """

    function: Callable
    parameters: Any
    dim: int = eqx.field(static=True)
    conditional: bool = eqx.field(static=True)

    def __init__(self, function: Callable, dim: int | Mapping[str, Any], conditional: bool = False):
        if not callable(function):
            raise IngredientError(
                f"LogDensity needs a function of one vector, such as lambda z: -z @ z / 2; "
                f"a {type(function).__name__} came."
            )
        self.function = function
        self.parameters = _named(dim) if isinstance(dim, Mapping) else None
        self.dim = self.parameters.dim if self.parameters else whole("dim, the size of a draw,", dim)
        self.conditional = conditional
        names = [one.name for one in self.parameters.every] if self.parameters else None
        _check_arguments(function, names, conditional)

    def log_density(self, z: Float[Array, " d"], x: Condition = None) -> Scalar:
        """The function's value, as a scalar."""
        given = (x,) if self.conditional else ()
        log_det = jnp.zeros(())
        if self.parameters is None:
            value = _array(self.function(z, *given))
        else:
            values, log_det = self.parameters.constrain(z)
            value = _array(self.function(**values, **({"x": x} if self.conditional else {})))
        if value.shape != ():
            raise IngredientError(
                f"A log density gives one number per draw; this one gives shape {value.shape} for a "
                f"draw of shape {z.shape}. Sum over the axes that are left (for example .sum())."
            )
        return (value + log_det).astype(jnp.result_type(float))

    def constrain(self, z: Float[Array, " d"], x: Condition = None) -> dict[str, Array]:
        """The parameters of one flat draw by name; ``z`` itself where they have none."""
        return {"z": z} if self.parameters is None else self.parameters.constrain(z)[0]

    def unconstrain(self, values: Mapping[str, Any]) -> Float[Array, " d"]:
        """The flat draw whose parameters have these values."""
        return (
            jnp.asarray(values["z"]) if self.parameters is None else self.parameters.unconstrain(values)
        )


def _named(supports: Mapping[str, Any]) -> Any:
    # NumPyro takes a second to import, and most targets do not need it.
    from understudy.targets.parameters import Parameters

    return Parameters(supports)


def _check_arguments(function: Callable, names: Sequence[str] | None, conditional: bool) -> None:
    if names is not None:
        names = [*names, "x"] if conditional else names
        if not _takes(function, 0, names):
            raise IngredientError(
                f"With named parameters the log density is a function of ({', '.join(names)}); this one "
                "takes other arguments; give it those names."
            )
    elif not _takes(function, 1 + conditional):
        wanted = "(z, x)" if conditional else "(z)"
        raise IngredientError(
            f"With conditional={conditional} the log density is a function of {wanted}; this "
            f"one takes other arguments; change it, or pass conditional={not conditional}."
        )


def _takes(function: Callable, count: int, names: Sequence[str] = ()) -> bool:
    try:
        inspect.signature(function).bind(*[None] * count, **dict.fromkeys(names))
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

    def prepared(self) -> "OfIndexed":
        """The same with its target prepared."""
        return OfIndexed(prepared(self.target))
