"""Modules as data: a JSON description and a list of arrays, and back without running stored code.

Describing walks over a pytree of modules; reviving makes bare objects and sets their fields. A file
can only name classes and functions of a short list of packages (or those the reader hands over), so
reading a file from a stranger runs nothing that the stranger wrote.
"""

import dataclasses
import functools
import importlib
import importlib.util
import math
import sys
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

_CLASSES = ("understudy", "equinox", "flowjax", "paramax")
_FUNCTIONS = (
    *(
        f"understudy.{name}"
        for name in ("core", "networks", "convolutions", "students", "targets", "teachers", "feedbacks")
    ),
    *(f"flowjax.{name}" for name in ("bijections", "distributions", "flows", "utils", "root_finding")),
    "equinox.nn",
    "paramax",
    "jax._src.numpy.vectorize",
)
_NAMESPACES = ("jax.nn", "jax.numpy", "jax.lax", "jax.scipy.special")
_TOUCH_THE_DISK = {"save", "savez", "load", "fromfile"}


class StoreError(ValueError):
    """A file that cannot be read or an object that cannot be written, with what to do instead."""


def describe(value: Any, arrays: list[np.ndarray], where: str) -> Any:
    """Describe a value as JSON, its arrays appended to ``arrays``; ``where`` names it in errors."""
    for test, describer in _DESCRIBERS:
        if test(value):
            return describer(value, arrays, where)
    raise StoreError(_refusal(where, value, "an equinox Module, an array, a number or a string"))


def revive(node: Any, arrays: Sequence[np.ndarray], known: Mapping[str, Any]) -> Any:
    """Make the value again; ``known`` holds the reader's own classes by ``module:QualName``."""
    if isinstance(node, list):
        return [revive(item, arrays, known) for item in node]
    if not isinstance(node, dict):
        return node
    reviver = next(reviver for tag, reviver in _REVIVERS.items() if tag in node)
    return reviver(node, arrays, known)


def name_of(thing: Any) -> str:
    """The name ``module:QualName`` of a class or function."""
    return f"{thing.__module__}:{thing.__qualname__}"


def is_key(value: Any) -> bool:
    """Whether a value is an array of typed random keys."""
    return isinstance(value, jax.Array) and jax.dtypes.issubdtype(value.dtype, jax.dtypes.prng_key)


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


def _is_record_class(cls: Any) -> bool:
    is_tuple = isinstance(cls, type) and issubclass(cls, tuple)
    return (
        hasattr(cls, "_fields") if is_tuple else isinstance(cls, type) and dataclasses.is_dataclass(cls)
    )


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
    present = [name for name in _field_names(cls) if hasattr(value, name)]
    fields = {name: describe(getattr(value, name), arrays, f"{where}.{name}") for name in present}
    return {"class": name_of(cls), "fields": fields}


def _field_names(cls: type) -> Sequence[str]:
    return cls._fields if issubclass(cls, tuple) else [field.name for field in dataclasses.fields(cls)]


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
    name = _public_name(value) or _module_name(value)
    if name is not None:
        return {"function": name}
    module = getattr(value, "__globals__", {}).get("__name__", "")
    index = _code_index(value, module) if _under(module, _FUNCTIONS) else None
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


def _public_name(value: Callable) -> str | None:
    for namespace in _NAMESPACES:
        for name, member in vars(importlib.import_module(namespace)).items():
            if member is value and _is_public(name):
                return f"{namespace}:{name}"
    return None


def _is_public(name: str) -> bool:
    return name.isidentifier() and not name.startswith("_") and name not in _TOUCH_THE_DISK


def _module_name(value: Callable) -> str | None:
    module = getattr(value, "__module__", None) or ""
    if module.startswith("jax."):
        return None
    members = vars(sys.modules[module]) if module in sys.modules else {}
    return next((f"{module}:{name}" for name, member in members.items() if member is value), None)


def _code_index(value: Callable, module: str) -> int | None:
    same = _codes(module, value.__code__.co_qualname)
    return same.index(value.__code__) if value.__code__ in same else None


def _codes(module: str, qualname: str) -> list[types.CodeType]:
    loader: Any = getattr(importlib.util.find_spec(module), "loader", None)
    top = loader.get_code(module) if hasattr(loader, "get_code") else None
    return [code for code in _nested(top) if code.co_qualname == qualname] if top else []


def _nested(code: types.CodeType) -> Iterator[types.CodeType]:
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield constant
            yield from _nested(constant)


def _under(module: str, roots: Sequence[str]) -> bool:
    return "__" not in module and any(module == root or module.startswith(f"{root}.") for root in roots)


def _lookup(name: str, roots: Sequence[str], known: Mapping[str, Any]) -> Any:
    """Find a class or function by name, among ``known`` or under ``roots``, by defined names alone."""
    if name in known:
        return known[name]
    module, _, qualname = name.partition(":")
    if not _under(module, roots):
        raise StoreError(
            f"it names {name}, which is not a part of understudy; pass it with classes=[...]"
        )
    owner = importlib.import_module(module)
    for part in qualname.split("."):
        owner = vars(owner)[part]
    return owner


def _revive_record(node: dict, arrays: Sequence, known: Mapping) -> Any:
    cls = _lookup(node["class"], _CLASSES, known)
    if not _is_record_class(cls) or (node["class"] not in known and name_of(cls) != node["class"]):
        raise StoreError(
            f"it names {node['class']}, which is not a module class; pass it with classes=[...]"
        )
    fields = {name: revive(field, arrays, known) for name, field in node["fields"].items()}
    unknown = sorted(set(fields) - set(_field_names(cls)))
    if unknown:
        raise StoreError(
            f"its {node['class']} has a field {unknown[0]!r}, which this version does not know"
        )
    if issubclass(cls, tuple):
        return tuple.__new__(cls, [fields[name] for name in cls._fields])
    made = object.__new__(cls)
    for name, field in fields.items():
        object.__setattr__(made, name, field)
    return made


def _revive_array(node: dict, arrays: Sequence, known: Mapping) -> jax.Array:
    del known
    return to_jax(arrays[node["array"]], node.get("weak", False))


def _revive_numpy(node: dict, arrays: Sequence, known: Mapping) -> Any:
    del known
    return arrays[node["numpy"]][()] if node["scalar"] else arrays[node["numpy"]].copy()


def _revive_key(node: dict, arrays: Sequence, known: Mapping) -> jax.Array:
    del known
    return jax.random.wrap_key_data(jnp.asarray(arrays[node["key"]]), impl=node["impl"])


def _revive_function(node: dict, arrays: Sequence, known: Mapping) -> Callable:
    del arrays
    module, _, name = node["function"].partition(":")
    if module in _NAMESPACES and _is_public(name):
        found = vars(importlib.import_module(module))[name]
    else:
        found = _lookup(node["function"], _FUNCTIONS, known)
        module = module if node["function"] not in known else found.__module__
    if not callable(found) or (module not in _NAMESPACES and found.__module__ != module):
        raise StoreError(f"it names {node['function']}, which is not a function that a file may name")
    return found


def _revive_closure(node: dict, arrays: Sequence, known: Mapping) -> Callable:
    module, _, qualname = node["closure"].partition(":")
    codes = _codes(module, qualname) if _under(module, _FUNCTIONS) else []
    cells = {name: revive(cell, arrays, known) for name, cell in node["cells"].items()}
    if len(codes) <= node["index"] or set(codes[node["index"]].co_freevars) != set(cells):
        raise StoreError(
            f"it needs {qualname} of {module} as it was in another version; install that version"
        )
    code = codes[node["index"]]
    defaults, keyword_defaults = revive(node["defaults"], arrays, known)
    closure = tuple(types.CellType(cells[name]) for name in code.co_freevars)
    made = types.FunctionType(
        code, vars(importlib.import_module(module)), code.co_name, defaults, closure
    )
    made.__kwdefaults__ = keyword_defaults
    return made


def _revive_partial(node: dict, arrays: Sequence, known: Mapping) -> functools.partial:
    function, args, keywords = (revive(part, arrays, known) for part in node["partial"])
    return (jax.tree_util.Partial if node["tree"] else functools.partial)(function, *args, **keywords)


_SEQUENCES = {tuple: "tuple", set: "set", frozenset: "frozenset"}

_DESCRIBERS: list[tuple[Callable[[Any], bool], Callable[[Any, list, str], Any]]] = [
    (_is_plain, lambda v, a, w: v),
    (lambda v: type(v) is float, lambda v, a, w: {"float": repr(v)}),
    (lambda v: type(v) is complex, lambda v, a, w: {"complex": repr(v)}),
    (lambda v: isinstance(v, jax.Array | np.ndarray | np.generic), _describe_array),
    (lambda v: _is_record_class(type(v)), _describe_record),
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

_REVIVERS: dict[str, Callable[[dict, Sequence, Mapping], Any]] = {
    "float": lambda n, a, k: float(n["float"]),
    "complex": lambda n, a, k: complex(n["complex"]),
    "array": _revive_array,
    "numpy": _revive_numpy,
    "key": _revive_key,
    "class": _revive_record,
    "tuple": lambda n, a, k: tuple(revive(n["tuple"], a, k)),
    "set": lambda n, a, k: set(revive(n["set"], a, k)),
    "frozenset": lambda n, a, k: frozenset(revive(n["frozenset"], a, k)),
    "dict": lambda n, a, k: dict(revive(n["dict"], a, k)),
    "slice": lambda n, a, k: slice(*revive(n["slice"], a, k)),
    "dtype": lambda n, a, k: jnp.dtype(n["dtype"]),
    "partial": _revive_partial,
    "unravel": lambda n, a, k: ravel_pytree(revive(n["unravel"], a, k))[1],
    "function": _revive_function,
    "closure": _revive_closure,
}
