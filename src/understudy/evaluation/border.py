"""The border of the measures: draws and settings are looked at before a compiled program meets them."""

import functools
import inspect
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from understudy.checks import flag, is_numeric, optional, positive, random_key, shown, whole
from understudy.core import IngredientError

Function = TypeVar("Function", bound=Callable[..., Any])

_KINDS = {1: "an array of numbers", 2: "an array of draws, one a row"}


def of_draws(*names: str, axes: int = 2, paired: bool = False) -> Callable[[Function], Function]:
    """Make a measure answer in a sentence where what it compares are no sets of draws.

    Its other arguments are looked at by their names and defaults: a key, whole numbers, flags, and
    positive numbers that may be left out.

    Args:
        names: of the arguments that are draws; where they have rows, all are as wide.
        axes: how many axes each has, one or two.
        paired: whether each row of one goes with a row of the other.
    """

    def wrap(function: Function) -> Function:
        signature = inspect.signature(function)

        @functools.wraps(function)
        def checked(*args: Any, **kwargs: Any) -> Any:
            bound = signature.bind(*args, **kwargs)
            given = bound.arguments
            shapes = [_shape(name, given[name], axes) for name in names if name in given]
            if len({shape[not paired :] for shape in shapes}) > 1:
                came = " and ".join(map(str, shapes))
                like = "of one shape" if paired else "draws of one size"
                raise IngredientError(f"{' and '.join(names)} are {like}; shapes {came} came.")
            for name in given.keys() - set(names):
                given[name] = _setting(name, signature.parameters[name].default, given[name])
            return function(*bound.args, **bound.kwargs)

        return checked  # pyright: ignore[reportReturnType]

    return wrap


def _setting(name: str, default: Any, value: Any) -> Any:
    if name == "key":
        return random_key(value)
    if isinstance(default, bool):
        return flag(name, value)
    if isinstance(default, int):
        return whole(name, value)
    if isinstance(default, str):
        if not isinstance(value, str):
            raise IngredientError(f"{name} is a word, such as {default!r}; {shown(value)} came.")
        return value
    if default is not None:
        return value
    number = optional(positive, name, value)
    if np.ndim(number):
        raise IngredientError(f"{name} is one positive number; {shown(value)} came.")
    return number


def _shape(name: str, value: Any, axes: int) -> tuple[int, ...]:
    is_array = is_numeric(value) and value.dtype != bool
    if not is_array or value.ndim != axes or not value.shape[0]:
        came = f"shape {value.shape}" if is_array else shown(value)
        raise IngredientError(f"{name} is {_KINDS[axes]}; {came} came.")
    return value.shape
