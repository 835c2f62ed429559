"""Whether what a file gives for a module's fields is of the kinds that the module declares.

A description with a right checksum may still put a list where an array belongs, or arrays whose sizes do
not fit each other. That is noticed here, from the annotations of the class, before anything is used.
Only what can never work is refused: more axes than declared are what ``vmap`` makes of a module.
"""

import dataclasses
import math
import types
import typing
from collections.abc import Mapping
from typing import Any

import equinox as eqx
import jax
import numpy as np
from jaxtyping import AbstractArray

from understudy.core import Condition, Student
from understudy.files.errors import StoreError

_ARRAYS = (jax.Array, np.ndarray, np.generic)
_PLAIN = {bool: (bool,), int: (int,), float: (int, float), str: (str,), tuple: (tuple,), list: (list,)}
_PLAIN[dict] = (dict,)


def check_fields(cls: type, fields: Mapping[str, Any]) -> None:
    """Raise :class:`StoreError` if a field of one of our modules cannot be what its class declares.

    Args:
        cls: the class, of which only dataclasses of understudy are looked at.
        fields: what the file gives for its fields.
    """
    if not dataclasses.is_dataclass(cls) or not cls.__module__.startswith("understudy."):
        return
    sizes: dict[str, int] = {}
    for field in dataclasses.fields(cls):
        if field.name not in fields:
            continue
        value = fields[field.name]
        if not _may_be(value, field.type):
            raise StoreError(f"its {cls.__name__} has {_shown(value)} for {field.name}, which cannot be")
        if _is_array_type(field.type) and not _sizes_fit(value, field.type, sizes):
            raise StoreError(
                f"its {cls.__name__} has an array of shape {np.shape(value)} for {field.name}, which "
                "does not fit its other fields"
            )


def check_drawing(student: Student, x: Condition) -> None:
    """Raise :class:`StoreError` if a student that came from a file cannot draw, its shapes traced alone.

    Args:
        student: made of what the file holds.
        x: a condition as it will be given.
    """
    try:
        draws = jax.eval_shape(lambda: student.sample(jax.random.key(0), x, 2))
    except Exception as error:
        raise StoreError(f"its student cannot draw ({type(error).__name__})") from error
    if draws.shape != (2, student.dim):
        raise StoreError(f"its student of size {student.dim} draws an array of shape {draws.shape}")


def _may_be(value: Any, declared: Any) -> bool:
    """Whether a value may stand where this type is declared; what is not known here may be anything."""
    if declared in _PLAIN:
        return _is_plain(value, declared)
    if _is_array_type(declared):
        return isinstance(value, (*_ARRAYS, eqx.Module)) or value is None
    origin = typing.get_origin(declared)
    if origin is typing.Literal:
        return value in typing.get_args(declared)
    if origin in (typing.Union, types.UnionType):
        return any(_may_be(value, one) for one in typing.get_args(declared))
    if origin in (tuple, list, dict):
        return isinstance(value, origin)
    if isinstance(declared, type) and issubclass(declared, eqx.Module):
        return isinstance(value, eqx.Module) or value is None
    return declared is not types.NoneType or value is None


def _is_plain(value: Any, declared: type) -> bool:
    if isinstance(value, _ARRAYS):
        return declared in (bool, int, float)
    if isinstance(value, bool) and declared is not bool:
        return False
    return isinstance(value, _PLAIN[declared])


def _is_array_type(declared: Any) -> bool:
    return isinstance(declared, type) and issubclass(declared, AbstractArray | jax.Array | np.ndarray)


def _sizes_fit(value: Any, declared: Any, sizes: dict[str, int]) -> bool:
    """Whether an array has the axes declared, of the sizes that earlier fields gave their names."""
    if not isinstance(value, _ARRAYS) or not hasattr(declared, "dim_str"):
        return True
    names = declared.dim_str.split()
    if not all(name.isidentifier() or name.isdigit() for name in names):
        return True
    shape = np.shape(value)
    if len(shape) < len(names):
        return False
    own = shape[len(shape) - len(names) :]
    return all(
        size == (int(name) if name.isdigit() else sizes.setdefault(name, size))
        for name, size in zip(names, own, strict=True)
    )


def _shown(value: Any) -> str:
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    kind = type(value).__name__
    return f"{'an' if kind[0] in 'aeiou' else 'a'} {kind}"
