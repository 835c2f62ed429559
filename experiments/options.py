"""Settings of an experiment or a benchmark as options of a command line.

``Settings`` is a dataclass whose fields are made by :func:`option`. :func:`add_settings` turns every
field into an option, :func:`read_settings` makes the dataclass of what was given, and
:func:`check_settings`, called in ``__post_init__``, refuses values that cannot be. An experiment is a
module with ``Settings`` and ``run(settings, out, progress)``; :func:`run_with_settings` is its command.
"""

import argparse
import dataclasses
import difflib
import math
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from understudy.cli.parsing import Parser, number, path_word, whole_number

_NAMES = {int: "a whole number", float: "a finite number", bool: "True or False"}
_CONVERTERS: dict[type, Callable[[str], Any]] = {int: whole_number, float: number, Path: path_word}


def option(
    default: Any,
    help: str,
    *,
    least: int | float | None = None,
    most: int | float | None = None,
    shown: str | None = None,
    also: str | None = None,
) -> Any:
    """A field of a settings dataclass that is an option of the command line.

    Args:
        default: its value unless given.
        help: what it is, in a few words.
        least: the smallest value allowed.
        most: the largest value allowed.
        shown: how help shows the default, where the value itself says little (None, say).
        also: another word for it on the command line.
    """
    metadata = {"help": help, "least": least, "most": most, "shown": shown, "also": also}
    return dataclasses.field(default=default, metadata=metadata)


def check_settings(settings: Any) -> None:
    """Raise IngredientError for the first field whose value is of another type or out of its range."""
    from understudy.core import IngredientError

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


def add_settings(parser: argparse.ArgumentParser, settings: type) -> None:
    """Add an option for every field of a settings dataclass (its type, default and help)."""
    hints = typing.get_type_hints(settings)
    for field in dataclasses.fields(settings):
        kind, choices, _ = plain_type(hints[field.name])
        also = field.metadata.get("also")
        names = ["--" + field.name.replace("_", "-"), *([f"--{also}"] if also else [])]
        words: dict[str, Any] = {"dest": field.name, "default": argparse.SUPPRESS}
        words["help"] = _help(field, "preset" in hints)
        if kind is bool:
            parser.add_argument(*names, action=argparse.BooleanOptionalAction, **words)
        else:
            convert = _one_of(choices) if choices else _CONVERTERS.get(kind, kind)
            parser.add_argument(*names, type=convert, metavar=_metavar(kind, choices), **words)


def read_settings(namespace: argparse.Namespace, settings: type) -> Any:
    """The settings with what was given on the command line; the rest keeps its defaults."""
    names = {field.name for field in dataclasses.fields(settings)}
    return settings(**{name: value for name, value in vars(namespace).items() if name in names})


def run_with_settings(
    prog: str, module: Any, words: Sequence[str], out: Path
) -> tuple[Any, Path, Mapping[str, Any]]:
    """Run a module with ``Settings`` and ``run`` as a command whose last line is its figures.

    Args:
        prog: how the command is called, ``understudy demo`` say.
        module: its docstring is the help, its ``Settings`` the options, its ``run`` the work.
        words: of the command line, after ``prog``.
        out: where it writes unless told otherwise.

    Returns:
        The settings, the folder that was written and the figures that were printed.
    """
    parser = Parser(prog, (module.__doc__ or "").strip(), f"example:\n  {prog} --seed 1")
    add_settings(parser, module.Settings)
    place: dict[str, Any] = {"default": out, "help": "where to write (default: %(default)s)"}
    parser.add_argument("--out", type=path_word, metavar="FOLDER", **place)
    parser.add_argument("--quiet", action="store_true", help="print the last line of figures alone")
    given = parser.read(words)
    settings = read_settings(given, module.Settings)
    from understudy import files
    from understudy.cli.runs import make_writable
    from understudy.progress import working

    make_writable(given.out)
    progress = False if given.quiet else None
    with working(prog, progress):
        figures = module.run(settings, given.out, progress=progress)
    files.last_line(figures)
    return settings, given.out, figures


def _allowed(value: Any, kind: type, choices: tuple[Any, ...], limits: Mapping[str, Any]) -> bool:
    if choices:
        return value in choices
    if kind in (int, float):
        finite = isinstance(value, (int, kind)) and not isinstance(value, bool) and math.isfinite(value)
        return finite and _at_least(value, limits.get("least")) and _at_least(limits.get("most"), value)
    return isinstance(value, kind)


def _at_least(value: Any, least: Any) -> bool:
    return value is None or least is None or value >= least


def _expected(kind: type, choices: tuple[Any, ...], limits: Mapping[str, Any]) -> str:
    if choices:
        return "one of " + ", ".join(map(str, choices))
    words = [_NAMES.get(kind, f"a {kind.__name__}")]
    words += [f"of at least {limits['least']}"] if limits.get("least") is not None else []
    words += [f"of at most {limits['most']}"] if limits.get("most") is not None else []
    return words[0] + (" " + " and ".join(words[1:]) if words[1:] else "")


def _one_of(choices: Sequence[Any]) -> Callable[[str], Any]:
    by_name = {str(choice): choice for choice in choices}

    def convert(text: str) -> Any:
        if text in by_name:
            return by_name[text]
        near = difflib.get_close_matches(text, by_name, 1)
        hint = f", did you mean {near[0]}?" if near else ""
        raise argparse.ArgumentTypeError(f"one of {', '.join(by_name)} is expected; {text!r} came{hint}")

    return convert


def _metavar(kind: type, choices: Sequence[Any]) -> str:
    if choices:
        return "{" + ",".join(map(str, choices)) + "}"
    return {int: "N", float: "X", Path: "PATH"}.get(kind, "TEXT")


def _help(field: dataclasses.Field, presets: bool) -> str:
    shown = field.metadata.get("shown")
    if shown is None:
        nothing = "from the preset" if presets else "none"
        shown = nothing if field.default is None else field.default
    text = f"{field.metadata.get('help', field.name.replace('_', ' '))} (default: {shown})"
    return text.replace("%", "%%")
