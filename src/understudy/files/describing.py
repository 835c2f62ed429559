"""Modules as data: a JSON description and a list of arrays.

Describing walks over a pytree of modules. Classes and functions are described by name alone;
:mod:`understudy.files.reviving` makes the modules again.
"""

import functools
import math
import sys
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from understudy.files.allowed import codes, field_names, is_record_class, may_close, name_of, public_name
from understudy.files.errors import StoreError


def describe(value: Any, arrays: list[np.ndarray], where: str) -> Any:
    """Describe a value as JSON, its arrays appended to ``arrays``; ``where`` names it in errors."""
    for test, describer in _DESCRIBERS:
        if test(value):
            return describer(value, arrays, where)
    raise StoreError(_refusal(where, value, "an equinox Module, an array, a number or a string"))


def is_array(value: Any) -> bool:
    """Whether a value is an array of JAX or NumPy, or one number of NumPy's."""
    return isinstance(value, jax.Array | np.ndarray | np.generic)


def is_key(value: Any) -> bool:
    """Whether a value is an array of typed random keys."""
    return isinstance(value, jax.Array) and jax.dtypes.issubdtype(value.dtype, jax.dtypes.prng_key)


def _refusal(where: str, value: Any, instead: str) -> str:
    name = getattr(value, "__qualname__", type(value).__qualname__)
    kind = (
        "a lambda"
        if "<lambda>" in name
        else f"{name} (made inside a function)"
        if "<locals>" in name
        else name
    )
    return f"{where} is {kind}, which a file cannot hold; use {instead}, instead; nothing was written."


def _is_plain(value: Any) -> bool:
    return type(value) in (type(None), bool, int, str) or (type(value) is float and math.isfinite(value))


def _describe_array(value: Any, arrays: list, where: str) -> dict:
    del where
    if is_key(value):
        return {
            "key": _append(arrays, jax.random.key_data(value)),
            "impl": str(jax.random.key_impl(value)),
        }
    index = _append(arrays, value)
    if isinstance(value, jax.Array):
        return {"array": index, "weak": True} if value.weak_type else {"array": index}
    return {"numpy": index, "scalar": isinstance(value, np.generic)}


def _append(arrays: list, value: Any) -> int:
    arrays.append(np.asarray(value))
    return len(arrays) - 1


def _describe_record(value: Any, arrays: list, where: str) -> dict:
    cls = type(value)
    if "<locals>" in cls.__qualname__:
        raise StoreError(_refusal(where, cls, "a class defined at the top level of a module"))
    present = [name for name in field_names(cls) if hasattr(value, name)]
    fields = {name: describe(getattr(value, name), arrays, f"{where}.{name}") for name in present}
    return {"class": name_of(cls), "fields": fields}


def _describe_partial(value: functools.partial, arrays: list, where: str) -> dict:
    parts = (value.func, value.args, value.keywords)
    return {
        "partial": [describe(part, arrays, f"{where}.func") for part in parts],
        "tree": isinstance(value, jax.tree_util.Partial),
    }


@functools.cache
def _unravel_type() -> type:
    return type(ravel_pytree(())[1])


def _is_unravel(value: Any) -> bool:
    return type(value) is _unravel_type() and getattr(value.f, "__name__", "") == "unravel_pytree"


def _describe_unravel(value: Any, arrays: list, where: str) -> dict:
    """A jax unravelling function is described by an example of the tree that it makes."""
    structure, split = value.args
    if not hasattr(split, "args"):
        return {"unravel": describe(jax.tree.unflatten(structure, []), arrays, where)}
    dtype = split.args[3] if len(split.args) > 2 else None
    return {"unravel": describe(value(jnp.zeros(sum(split.args[0]), dtype)), arrays, where)}


def _describe_function(value: Callable, arrays: list, where: str) -> Any:
    name = public_name(value) or _module_name(value)
    if name is not None:
        return {"function": name}
    module = getattr(value, "__globals__", {}).get("__name__", "")
    index = _code_index(value, module) if may_close(module) else None
    if index is None:
        instead = "a named function of jax.nn or jax.numpy, or an equinox Module with a __call__"
        raise StoreError(_refusal(where, value, instead))
    cells = dict(
        zip(value.__code__.co_freevars, (c.cell_contents for c in value.__closure__ or ()), strict=True)
    )
    inside = {name: describe(cell, arrays, f"{where}.{name}") for name, cell in cells.items()}
    defaults = describe((value.__defaults__, value.__kwdefaults__), arrays, where)
    return {
        "closure": f"{module}:{value.__code__.co_qualname}",
        "index": index,
        "cells": inside,
        "defaults": defaults,
    }


def _module_name(value: Callable) -> str | None:
    module = getattr(value, "__module__", None) or ""
    if module.startswith("jax."):
        return None
    members = vars(sys.modules[module]) if module in sys.modules else {}
    return next((f"{module}:{name}" for name, member in members.items() if member is value), None)


def _code_index(value: Callable, module: str) -> int | None:
    same = codes(module, value.__code__.co_qualname)
    return same.index(value.__code__) if value.__code__ in same else None


_SEQUENCES = {tuple: "tuple", set: "set", frozenset: "frozenset"}

_DESCRIBERS: list[tuple[Callable[[Any], bool], Callable[[Any, list, str], Any]]] = [
    (_is_plain, lambda v, a, w: v),
    (lambda v: type(v) is float, lambda v, a, w: {"float": repr(v)}),
    (lambda v: type(v) is complex, lambda v, a, w: {"complex": repr(v)}),
    (is_array, _describe_array),
    (lambda v: is_record_class(type(v)), _describe_record),
    (lambda v: type(v) is list, lambda v, a, w: [describe(x, a, f"{w}[{i}]") for i, x in enumerate(v)]),
    (lambda v: type(v) in _SEQUENCES, lambda v, a, w: {_SEQUENCES[type(v)]: describe(list(v), a, w)}),
    (
        lambda v: type(v) is dict,
        lambda v, a, w: {"dict": describe([list(pair) for pair in v.items()], a, w)},
    ),
    (lambda v: type(v) is slice, lambda v, a, w: {"slice": describe([v.start, v.stop, v.step], a, w)}),
    (lambda v: isinstance(v, np.dtype), lambda v, a, w: {"dtype": v.name}),
    (lambda v: isinstance(v, functools.partial), _describe_partial),
    (_is_unravel, _describe_unravel),
    (callable, _describe_function),
]
