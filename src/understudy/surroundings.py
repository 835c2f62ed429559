"""What users set in JAX for their own code, and what holds inside the library.

Strict promotion of dtypes and a stop at the first NaN are of use where one's own code is looked at. Here
dtypes meet on purpose, and what is not finite is put aside rather than forbidden.
"""

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import jax

Function = TypeVar("Function", bound=Callable[..., Any])


@contextlib.contextmanager
def own_settings() -> Iterator[None]:
    """Compute with JAX's own rules for dtypes, and go on where a number is not finite."""
    with jax.numpy_dtype_promotion("standard"), jax.debug_nans(False), jax.debug_infs(False):
        yield


def with_own_settings(function: Function) -> Function:
    """The function under :func:`own_settings`."""

    @functools.wraps(function)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        with own_settings():
            return function(*args, **kwargs)

    return wrapped  # pyright: ignore[reportReturnType]
