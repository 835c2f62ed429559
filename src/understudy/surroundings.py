"""What users set in JAX for their own code, and what holds inside the library.

Strict promotion of dtypes and a stop at the first NaN are of use where one's own code is looked at. Here
dtypes meet on purpose, and what is not finite is put aside rather than forbidden.
"""

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import jax

from understudy.backend import plain_algebra
from understudy.checks import first_line
from understudy.core import IngredientError

Function = TypeVar("Function", bound=Callable[..., Any])


@contextlib.contextmanager
def own_settings() -> Iterator[None]:
    """JAX's own rules for dtypes, plain linear algebra, and no stop where a number is not finite."""
    with (
        jax.numpy_dtype_promotion("standard"),
        jax.debug_nans(False),
        jax.debug_infs(False),
        enough_memory(),
        plain_algebra(),
    ):
        yield


@contextlib.contextmanager
def enough_memory() -> Iterator[None]:
    """Say in a sentence that what was asked for does not fit into memory, on the host or a device."""
    try:
        yield
    except (MemoryError, jax.errors.JaxRuntimeError) as error:
        first = first_line(error)
        if not (isinstance(error, MemoryError) or "RESOURCE_EXHAUSTED" in first):
            raise
        raise IngredientError(
            f"What was asked for does not fit into memory ({first}); ask for fewer draws, particles, "
            "repeats or dimensions at a time."
        ) from error


def in_own_precision(method: Function) -> Function:
    """The method under :func:`own_settings`, in double precision where its owner's ``double`` is so."""

    @functools.wraps(method)
    def wrapped(self: Any, *args: Any, **kwargs: Any) -> Any:
        with double_precision() if self.double else own_settings():
            return method(self, *args, **kwargs)

    return wrapped  # pyright: ignore[reportReturnType]


def with_own_settings(function: Function) -> Function:
    """The function under :func:`own_settings`."""

    @functools.wraps(function)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        with own_settings():
            return function(*args, **kwargs)

    return wrapped  # pyright: ignore[reportReturnType]


@contextlib.contextmanager
def double_precision() -> Iterator[None]:
    """Arrays of 64 bits, for this thread and this block: float32 loses a scale far from zero."""
    with own_settings(), jax.enable_x64(True):
        yield


def in_double(tree: Any) -> Any:
    """The same module with its floating-point arrays in double precision."""
    import equinox as eqx
    import jax.numpy as jnp

    def wide(leaf: Any) -> Any:
        floating = eqx.is_array(leaf) and jnp.issubdtype(leaf.dtype, jnp.floating)
        return jnp.asarray(leaf, jnp.float64) if floating else leaf

    return jax.tree.map(wide, tree)
