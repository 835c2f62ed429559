"""The border of the measures: sets of draws are looked at before a compiled program meets them."""

import functools
import inspect
from collections.abc import Callable
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from understudy.checks import shown
from understudy.core import IngredientError

Function = TypeVar("Function", bound=Callable[..., Any])

_KINDS = {1: "an array of numbers", 2: "an array of draws, one a row"}


def of_draws(*names: str, axes: int = 2) -> Callable[[Function], Function]:
    """Make a measure answer in a sentence where what it compares are no sets of draws.

    Args:
        names: of the arguments that are draws; where they have rows, all are as wide.
        axes: how many axes each has, one or two.
    """

    def wrap(function: Function) -> Function:
        signature = inspect.signature(function)

        @functools.wraps(function)
        def checked(*args: Any, **kwargs: Any) -> Any:
            given = signature.bind(*args, **kwargs).arguments
            widths = [_shape(name, given[name], axes)[1:] for name in names if name in given]
            if len(set(widths)) > 1:
                came = " and ".join(str(*width) for width in widths)
                raise IngredientError(f"{' and '.join(names)} are draws of one size; sizes {came} came.")
            return function(*args, **kwargs)

        return checked  # pyright: ignore[reportReturnType]

    return wrap


def _shape(name: str, value: Any, axes: int) -> tuple[int, ...]:
    is_array = isinstance(value, jax.Array | np.ndarray) and jnp.issubdtype(value.dtype, jnp.number)
    if not is_array or value.ndim != axes or not value.shape[0]:
        came = f"shape {value.shape}" if is_array else shown(value)
        raise IngredientError(f"{name} is {_KINDS[axes]}; {came} came.")
    return value.shape
