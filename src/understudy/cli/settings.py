"""Experiments: one flat file each, with ``Settings``, ``run(settings, out, progress)`` and its figures.

``Settings`` is a dataclass whose fields are made by :func:`option`; the command line turns every field
into an option, and :func:`check`, called in ``__post_init__``, refuses values that cannot be.
"""

import dataclasses
import math
import types
import typing
from typing import Any

from understudy.core import IngredientError

__all__ = ["check", "option", "plain_type"]

_NAMES = {int: "a whole number", float: "a finite number", bool: "True or False"}


def option(
    default: Any,
    help: str,
    *,
    least: int | float | None = None,
    most: int | float | None = None,
    shown: str | None = None,
) -> Any:
    """A field of a settings dataclass that is an option of the command line.

    Args:
        default: its value unless given.
        help: what it is, in a few words.
        least: the smallest value allowed.
        most: the largest value allowed.
        shown: how help shows the default, where the value itself says little (None, say).
    """
    metadata = {"help": help, "least": least, "most": most, "shown": shown}
    return dataclasses.field(default=default, metadata=metadata)


def check(settings: Any) -> None:
    """Raise IngredientError for the first field whose value is of another type or out of its range."""
    hints = typing.get_type_hints(type(settings))
    for field in dataclasses.fields(settings):
        value = getattr(settings, field.name)
        kind, choices, optional = plain_type(hints[field.name])
        if (value is None and optional) or _allowed(value, kind, choices, field.metadata):
            continue
        expected = _expected(kind, choices, field.metadata)
        raise IngredientError(f"{field.name} is {expected}; {value!r} came.")


def plain_type(hint: Any) -> tuple[type, tuple[Any, ...], bool]:
    """The type of a field, its choices where it is a ``Literal``, and whether it may be None."""
    parts = typing.get_args(hint)
    if isinstance(hint, types.UnionType) or typing.get_origin(hint) is typing.Union:
        kind, choices, _ = plain_type(next(part for part in parts if part is not type(None)))
        return kind, choices, type(None) in parts
    if typing.get_origin(hint) is typing.Literal:
        return type(parts[0]), parts, False
    return hint, (), False


def _allowed(value: Any, kind: type, choices: tuple[Any, ...], limits: typing.Mapping[str, Any]) -> bool:
    if choices:
        return value in choices
    if kind in (int, float):
        number = isinstance(value, (int, kind)) and not isinstance(value, bool) and math.isfinite(value)
        return number and _at_least(value, limits.get("least")) and _at_least(limits.get("most"), value)
    return isinstance(value, kind)


def _at_least(value: Any, least: Any) -> bool:
    return value is None or least is None or value >= least


def _expected(kind: type, choices: tuple[Any, ...], limits: typing.Mapping[str, Any]) -> str:
    if choices:
        return "one of " + ", ".join(map(str, choices))
    words = [_NAMES.get(kind, f"a {kind.__name__}")]
    words += [f"of at least {limits['least']}"] if limits.get("least") is not None else []
    words += [f"of at most {limits['most']}"] if limits.get("most") is not None else []
    return words[0] + (" " + " and ".join(words[1:]) if words[1:] else "")
