"""Any JAX log density as a target."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Scalar

from understudy.checks import first_line, instance, shown, takes, whole
from understudy.core import Condition, IngredientError, Target, prepared
from understudy.surroundings import with_own_settings


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

    Examples:
        >>> import jax.numpy as jnp, understudy
        >>> from numpyro.distributions import constraints
        >>> flat = understudy.LogDensity(lambda z: -0.5 * jnp.sum(z**2), dim=3)
        >>> named = understudy.LogDensity(
        ...     lambda mu, tau: -tau - 0.5 * mu @ mu,
        ...     {"mu": (2,), "tau": constraints.positive},
        ... )
        >>> flat.dim, named.dim
        (3, 3)
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
        if not isinstance(conditional, bool):
            raise IngredientError(f"conditional is True or False; {shown(conditional)} came.")
        self.function = function
        self.parameters = _named(dim) if isinstance(dim, Mapping) else None
        self.dim = self.parameters.dim if self.parameters else whole("dim, the size of a draw,", dim)
        self.conditional = conditional
        names = [one.name for one in self.parameters.every] if self.parameters else None
        _check_arguments(function, names, conditional)

    @with_own_settings
    def log_density(self, z: Float[Array, " d"], x: Condition = None) -> Scalar:
        """The function's value, as a scalar."""
        if self.parameters is None:
            given = (x,) if self.conditional else ()
            value, log_det = _array(_called(self.function, (z, *given), {})), jnp.zeros(())
        else:
            values, log_det = self.parameters.constrain(z)
            given = {"x": x} if self.conditional else {}
            value = _array(_called(self.function, (), values | given))
        if value.shape != ():
            raise IngredientError(
                f"A log density gives one number per draw; this one gives shape {value.shape} for a "
                f"draw of shape {z.shape}. Sum over the axes that are left (for example .sum())."
            )
        if jnp.issubdtype(value.dtype, jnp.complexfloating):
            raise IngredientError("A log density gives one real number per draw; this one is complex.")
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
        if not takes(function, 0, names):
            raise IngredientError(
                f"With named parameters the log density is a function of ({', '.join(names)}); this one "
                "takes other arguments; give it those names."
            )
    elif not takes(function, 1 + conditional):
        wanted = "(z, x)" if conditional else "(z)"
        raise IngredientError(
            f"With conditional={conditional} the log density is a function of {wanted}; this "
            f"one takes other arguments; change it, or pass conditional={not conditional}."
        )


def _called(function: Callable, args: tuple, kwargs: Mapping[str, Any]) -> Any:
    """The function's value, or a sentence about what it does that JAX cannot trace."""
    try:
        return function(*args, **kwargs)
    except IngredientError:
        raise
    except RecursionError as error:
        raise IngredientError("The log density calls itself without end; let it stop.") from error
    except (jax.errors.TracerArrayConversionError, jax.errors.TracerIntegerConversionError) as error:
        raise IngredientError(
            "The log density calls NumPy, or another library that JAX cannot trace, on a draw; write it "
            "with jax.numpy (import jax.numpy as jnp) and jax.scipy."
        ) from error
    except jax.errors.ConcretizationTypeError as error:
        raise IngredientError(
            "The log density asks in Python for the value of a draw (if, while, float(), bool()), which "
            "JAX does not know while it traces; use jnp.where or jax.lax.cond."
        ) from error
    except Exception as error:
        raise IngredientError(
            f"The log density raises {type(error).__name__} ({first_line(error)}) at a draw; "
            "it must give a number for every vector of its size."
        ) from error


def _array(value: Any) -> Array:
    try:
        return jnp.asarray(value)
    except Exception as error:
        raise IngredientError(
            f"A log density gives one number per draw; this one gives {shown(value)}."
        ) from error


class OfIndexed(Target):
    """A target whose conditions come with their row in the data set, as :class:`Indexed`."""

    target: Target
    dim: int = eqx.field(static=True)

    def __init__(self, target: Target):
        self.target = instance("target", Target, "LogDensity(function, dim)", target)
        self.dim = target.dim

    def log_density(self, z: Float[Array, " d"], x: Condition = None) -> Scalar:
        """The target's log density given the condition's value."""
        return self.target.log_density(z, x.value)

    def prepared(self) -> "OfIndexed":
        """The same with its target prepared."""
        return OfIndexed(prepared(self.target))
