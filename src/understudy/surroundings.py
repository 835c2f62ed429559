"""What users set in JAX for their own code, and what holds inside the library.

Strict promotion of dtypes and a stop at the first NaN are of use where one's own code is looked at. Here
dtypes meet on purpose, and what is not finite is put aside rather than forbidden.
"""

import contextlib
import functools
import itertools
import threading
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import jax

Function = TypeVar("Function", bound=Callable[..., Any])

# Compiled programs take memory maps, of which a process has some 65,000, and a fit makes hundreds.
_FITS_A_TIME = 10
_fits, _running, _door = itertools.count(1), 0, threading.Lock()


@contextlib.contextmanager
def own_settings() -> Iterator[None]:
    """Compute with JAX's own rules for dtypes, and go on where a number is not finite."""
    with jax.numpy_dtype_promotion("standard"), jax.debug_nans(False), jax.debug_infs(False):
        yield


@contextlib.contextmanager
def one_of_many_fits() -> Iterator[None]:
    """A fit among others of this process: before every tenth, what JAX has compiled is forgotten.

    Every target brings programs of its own, and JAX would keep them until the process ends. Nothing is
    forgotten while another thread is in the middle of a fit.
    """
    global _running
    with _door:
        if next(_fits) % _FITS_A_TIME == 0 and _running == 0:
            jax.clear_caches()
        _running += 1
    try:
        yield
    finally:
        with _door:
            _running -= 1


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
