"""What a run was made of as one digest: classes, static fields, settings inside functions, arrays."""

import dataclasses
import functools
import hashlib
from collections.abc import Iterator, Mapping
from typing import Any

import jax
import numpy as np

_DEPTH = 30


def fingerprint(contents: Any, structure: Any = ()) -> str:
    """A digest that changes when any setting does.

    Functions count by name, by what they closed over and by their defaults, so that the rate inside an
    optimiser of optax is seen.

    Args:
        contents: told apart by everything, the values of arrays included.
        structure: told apart by all but the values of arrays, which change during a training.
    """
    digest = hashlib.sha256()
    for tree, values in ((contents, True), (structure, False)):
        for piece in _pieces(tree, values, ()):
            digest.update(piece)
            digest.update(b"|")
    return digest.hexdigest()


def _pieces(value: Any, values: bool, above: tuple[int, ...]) -> Iterator[bytes]:
    if id(value) in above or len(above) > _DEPTH:
        return
    inside = (*above, id(value))
    yield type(value).__qualname__.encode()
    if isinstance(value, jax.Array | np.ndarray | np.generic):
        yield from _of_array(value, values)
    elif isinstance(value, str | bytes | int | float | complex | None):
        yield repr(value).encode()
    else:
        for name, part in _parts(value):
            yield name.encode()
            yield from _pieces(part, values, inside)


def _of_array(value: Any, values: bool) -> Iterator[bytes]:
    if jax.dtypes.issubdtype(value.dtype, jax.dtypes.prng_key):
        value = jax.random.key_data(value)
    yield f"{value.dtype}{value.shape}".encode()
    if values:
        yield np.asarray(value).tobytes()


def _parts(value: Any) -> Iterator[tuple[str, Any]]:
    """Named parts of a container, a module or a function; nothing for what has none."""
    if isinstance(value, Mapping):
        yield from ((str(name), part) for name, part in value.items())
    elif isinstance(value, list | tuple):
        yield from ((str(i), part) for i, part in enumerate(value))
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        names = [field.name for field in dataclasses.fields(value)]
        yield from ((name, getattr(value, name)) for name in names if hasattr(value, name))
    elif isinstance(value, functools.partial):
        yield from (("function", value.func), ("args", value.args), ("keywords", value.keywords))
    elif callable(value):
        yield from _of_function(value)


def _of_function(value: Any) -> Iterator[tuple[str, Any]]:
    value = getattr(value, "__wrapped__", value)
    owner = getattr(value, "__self__", None)
    value = getattr(value, "__func__", value)
    yield "name", f"{getattr(value, '__module__', '')}:{getattr(value, '__qualname__', '')}"
    yield "owner", None if isinstance(owner, type(jax)) else owner
    yield "defaults", (getattr(value, "__defaults__", None), getattr(value, "__kwdefaults__", None))
    for i, cell in enumerate(getattr(value, "__closure__", None) or ()):
        try:
            yield f"cell {i}", cell.cell_contents
        except ValueError:  # a cell that is not filled yet
            yield f"cell {i}", None
