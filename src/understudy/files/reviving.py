"""Modules made again from their description: bare objects whose fields are set, nothing run.

What a description may name is in :mod:`understudy.files.allowed`.
"""

import functools
import importlib
import types
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from understudy.files.allowed import field_names, find_class, find_code, find_function
from understudy.files.errors import StoreError
from understudy.files.kinds import check_fields

_HASHABLE = (str, int, bool, float, complex, type(None))


def revive(node: Any, arrays: Sequence[np.ndarray], known: Mapping[str, Any]) -> Any:
    """Make a value again of its description.

    Args:
        node: the description.
        arrays: that it names by number, each at most once, so that what is made is no larger.
        known: the reader's own classes and functions by ``module:QualName``.
    """
    return _revive(node, _Once(arrays), known)


def to_jax(array: np.ndarray, weak: bool = False) -> jax.Array:
    """A JAX array of exactly this dtype, weakly typed if it was."""
    if jax.dtypes.canonicalize_dtype(array.dtype) != array.dtype:
        raise StoreError(
            f"it holds {array.dtype} arrays; first run jax.config.update('jax_enable_x64', True)"
        )
    if not weak:
        return jnp.asarray(array)
    blank = jnp.broadcast_to(jnp.asarray(array.dtype.type(0).item()), array.shape)
    return blank.at[...].set(array) if blank.dtype == array.dtype else jnp.asarray(array)


class _Once:
    """Arrays that are each given out once."""

    def __init__(self, arrays: Sequence[np.ndarray]):
        self._left = dict(enumerate(arrays))

    def take(self, index: Any) -> np.ndarray:
        if type(index) is not int or index not in self._left:
            raise StoreError(f"it names the array {index!r}, which it does not hold or has named before")
        return self._left.pop(index)


def _revive(node: Any, arrays: _Once, known: Mapping[str, Any]) -> Any:
    if isinstance(node, list):
        return [_revive(item, arrays, known) for item in node]
    if not isinstance(node, dict):
        return node
    for tag, reviver in _REVIVERS.items():
        if tag in node:
            return reviver(node, arrays, known)
    raise StoreError(f"it holds an entry of an unknown kind ({', '.join(node)[:80] or 'empty'})")


def _record(node: dict, arrays: _Once, known: Mapping) -> Any:
    cls = find_class(node["class"], known)
    fields = {name: _revive(field, arrays, known) for name, field in node["fields"].items()}
    unknown = sorted(set(fields) - set(field_names(cls)))
    if unknown:
        raise StoreError(
            f"its {node['class']} has a field {unknown[0]!r}, which this version does not know"
        )
    if issubclass(cls, tuple):
        return tuple.__new__(cls, [fields[name] for name in cls._fields])
    check_fields(cls, fields)
    made = object.__new__(cls)
    for name, field in fields.items():
        object.__setattr__(made, name, field)
    return made


def _numpy(node: dict, arrays: _Once, known: Mapping) -> Any:
    del known
    array = arrays.take(node["numpy"])
    return array[()] if node["scalar"] else array.copy()


def _key(node: dict, arrays: _Once, known: Mapping) -> jax.Array:
    del known
    return jax.random.wrap_key_data(jnp.asarray(arrays.take(node["key"])), impl=node["impl"])


def _closure(node: dict, arrays: _Once, known: Mapping) -> Callable:
    code = find_code(node["closure"], node["index"])
    cells = {name: _revive(cell, arrays, known) for name, cell in node["cells"].items()}
    module, _, qualname = node["closure"].partition(":")
    if code is None or set(code.co_freevars) != set(cells):
        raise StoreError(
            f"it needs {qualname} of {module} as it was in another version; install that version"
        )
    defaults, keyword_defaults = _revive(node["defaults"], arrays, known)
    closure = tuple(types.CellType(cells[name]) for name in code.co_freevars)
    made = types.FunctionType(
        code, vars(importlib.import_module(module)), code.co_name, defaults, closure
    )
    made.__kwdefaults__ = keyword_defaults
    return made


def _partial(node: dict, arrays: _Once, known: Mapping) -> functools.partial:
    function, args, keywords = (_revive(part, arrays, known) for part in node["partial"])
    return (jax.tree_util.Partial if node["tree"] else functools.partial)(function, *args, **keywords)


def _dict(node: dict, arrays: _Once, known: Mapping) -> dict:
    pairs = _revive(node["dict"], arrays, known)
    return {_hashable(key): value for key, value in pairs}


def _hashable(value: Any) -> Any:
    """A key of a dictionary or member of a set; hashing anything else could run what a file made."""
    if isinstance(value, tuple):
        return (
            value if type(value) is tuple and all(_hashable(v) is v for v in value) else _refuse(value)
        )
    return value if type(value) in (*_HASHABLE, bool) else _refuse(value)


def _refuse(value: Any) -> Any:
    raise StoreError(f"it has a {type(value).__name__} for a key, which a file cannot hold")


def _members(tag: str, make: Callable) -> Callable:
    return lambda n, a, k: make(map(_hashable, _revive(n[tag], a, k)))


_REVIVERS: dict[str, Callable[[dict, _Once, Mapping], Any]] = {
    "float": lambda n, a, k: float(n["float"]),
    "complex": lambda n, a, k: complex(n["complex"]),
    "array": lambda n, a, k: to_jax(a.take(n["array"]), n.get("weak", False)),
    "numpy": _numpy,
    "key": _key,
    "class": _record,
    "tuple": lambda n, a, k: tuple(_revive(n["tuple"], a, k)),
    "set": _members("set", set),
    "frozenset": _members("frozenset", frozenset),
    "dict": _dict,
    "slice": lambda n, a, k: slice(*_revive(n["slice"], a, k)),
    "dtype": lambda n, a, k: jnp.dtype(str(n["dtype"])),
    "partial": _partial,
    "unravel": lambda n, a, k: ravel_pytree(_revive(n["unravel"], a, k))[1],
    "function": lambda n, a, k: find_function(n["function"], k),
    "closure": _closure,
}
