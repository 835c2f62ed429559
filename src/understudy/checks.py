"""Settings checked at the border: each becomes what the ingredients need, or a sentence."""

from collections.abc import Callable, Iterable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float, Int

from understudy.core import IngredientError


def whole(name: str, value: Any, least: int = 1) -> int:
    """A whole number that shapes the program (a size, a count), ``least`` or more."""
    if not isinstance(value, int | np.integer) or isinstance(value, bool) or value < least:
        raise IngredientError(f"{name} is a whole number, {least} or more; {value!r} came.")
    return int(value)


def count(name: str, value: Any, least: int = 1) -> Int[Array, "..."]:
    """A whole number, ``least`` or more, as a leaf that can change without recompiling."""
    if _fails(value, lambda v: (v >= least) & (v == np.round(v))):
        raise IngredientError(f"{name} must be a whole number, {least} or more; {value} came.")
    return jnp.asarray(value, dtype=jnp.int32)


def number(value: ArrayLike) -> Float[Array, "..."]:
    """Any number as a leaf."""
    return jnp.asarray(value, float)


def optional_number(value: ArrayLike | None) -> Float[Array, "..."] | None:
    """Any number as a leaf; None leaves the choice to the ingredient."""
    return None if value is None else number(value)


def positive(name: str, value: Any) -> Float[Array, "..."]:
    """A positive number as a leaf."""
    if _fails(value, lambda v: (v > 0) & np.isfinite(v)):
        raise IngredientError(f"{name} must be positive and finite, such as 0.1; {value} came.")
    return number(value)


def fraction(name: str, value: Any) -> Float[Array, "..."]:
    """A number strictly between 0 and 1 as a leaf."""
    if _fails(value, lambda v: (v > 0) & (v < 1)):
        raise IngredientError(f"{name} must lie between 0 and 1, such as 0.6; {value} came.")
    return number(value)


def vector(name: str, value: ArrayLike, dim: int) -> Float[Array, " d"]:
    """One number or a vector as a vector of size ``dim``."""
    array = number(value)
    if array.shape not in {(), (1,), (dim,)}:
        raise IngredientError(
            f"{name} is one number or a vector of size {dim} (the student's dim); "
            f"shape {array.shape} came."
        )
    return jnp.broadcast_to(array, (dim,))


def one_of(name: str, choices: Iterable[str], came: str) -> str:
    """One of a few words."""
    if came not in choices:
        allowed = ", ".join(repr(choice) for choice in choices)
        raise IngredientError(f"{name} is one of {allowed}; {came!r} came.")
    return came


def _fails(value: Any, holds: Callable[[np.ndarray], Any]) -> bool:
    if isinstance(value, jax.core.Tracer):
        return False
    try:
        return not bool(np.all(holds(np.asarray(value))))
    except TypeError:
        return True
