"""The user's model and its data, from the words of the command line."""

import contextlib
import difflib
import hashlib
import importlib
import importlib.util
import inspect
import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from understudy.cli.parsing import UsageError

LARGEST_DATA = 2**30


def load_model(name: str) -> Callable:
    """A model by ``file.py:name`` or ``package.module:name``."""
    place, _, function = name.rpartition(":")
    if not place or not function:
        raise UsageError(f"A model is named file.py:function or package.module:function; {name!r} came.")
    module = _module(place)
    found = getattr(module, function, None)
    if found is None:
        names = [
            n
            for n, v in vars(module).items()
            if inspect.isfunction(v) and v.__module__ == module.__name__
        ]
        near = difflib.get_close_matches(function, names, 1)
        hint = f"; did you mean {near[0]}?" if near else f"; it has {', '.join(names) or 'no function'}."
        raise UsageError(f"{place} has no function {function!r}{hint}")
    if not inspect.isfunction(found):
        raise UsageError(
            f"{name} is a {type(found).__name__}; name a function that calls numpyro.sample."
        )
    if inspect.isgeneratorfunction(found) or inspect.iscoroutinefunction(found):
        raise UsageError(f"{name} only makes a generator or a coroutine; take its yield or async out.")
    return found


def absolute_name(name: str) -> str:
    """The name of a model, whatever folder one is in."""
    place, colon, function = name.rpartition(":")
    return f"{os.path.abspath(place)}{colon}{function}" if place.endswith(".py") else name


@contextlib.contextmanager
def users_code(place: str) -> Iterator[None]:
    """Around code of the user: it cannot end the program, move it, or write into its output.

    Args:
        place: where the code is, for sentences.
    """
    folder, paths = os.getcwd(), list(sys.path)
    try:
        with contextlib.redirect_stdout(sys.stderr):
            yield
    except SystemExit as error:
        raise UsageError(
            f"{place} ended the program (exit with {error.code!r}); take that call out of it."
        ) from error
    finally:
        os.chdir(folder)
        sys.path[:] = [*paths, *(path for path in sys.path if path not in paths)]


def read_data(path: Path | None) -> bytes:
    """The bytes of a data file; of no file, an empty dictionary."""
    if path is None:
        return b"{}"
    try:
        with open(path, "rb", opener=_opened) as file:
            raw = file.read(LARGEST_DATA + 1)
    except OSError as error:
        raise UsageError(f"--data {path} cannot be read ({error.strerror}); check the name.") from error
    if len(raw) > LARGEST_DATA:
        raise UsageError(
            f"--data {path} holds more than {LARGEST_DATA:,} bytes; call understudy.fit from Python."
        )
    return raw


def _opened(path: str, flags: int) -> int:
    """A handle on a file, or on what another program writes; a pipe without a writer is empty."""
    handle = os.open(path, flags | getattr(os, "O_NONBLOCK", 0))
    if hasattr(os, "O_NONBLOCK"):
        os.set_blocking(handle, True)
    return handle


def from_json(raw: bytes) -> Any:
    """What JSON says; a name that comes twice is an error, as one of its values would be lost."""
    return json.loads(raw, object_pairs_hook=_named_once)


def _named_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"{next(name for name in names if names.count(name) > 1)!r} comes twice")
    return made


def parse_data(path: Path | None, raw: bytes) -> dict[str, Any]:
    """Data by name from JSON: numbers stay numbers, lists become arrays."""
    try:
        data = from_json(raw)
    except ValueError as error:
        raise UsageError(f"--data {path} is not JSON ({error}); see understudy fit --help.") from error
    except RecursionError as error:
        raise UsageError(
            f"--data {path} has lists within lists without end; write arrays of numbers."
        ) from error
    if not isinstance(data, dict):
        raise UsageError(
            f"--data {path} holds a {type(data).__name__}; write a dictionary of the model's arguments."
        )
    return {name: _value(name, value) for name, value in data.items()}


def digest(path: Path | None, raw: bytes) -> str | None:
    """SHA-256 of the data, None where there are none."""
    return None if path is None else hashlib.sha256(raw).hexdigest()


def check_arguments(model: Callable, data: Mapping[str, Any]) -> None:
    """Whether the data are just what the model takes."""
    parameters = inspect.signature(model).parameters.values()
    names = [p.name for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
    open_ended = any(p.kind is p.VAR_KEYWORD for p in parameters)
    unknown = [name for name in data if name not in names and not open_ended]
    if unknown:
        takes = ", ".join(names) or "nothing"
        raise UsageError(
            f"The data hold {unknown[0]!r}, which {model.__name__} does not take; it takes {takes}."
        )
    needed = [p.name for p in parameters if p.name in names and p.default is p.empty]
    missing = [name for name in needed if name not in data]
    if missing:
        raise UsageError(
            f"{model.__name__} needs {missing[0]!r}, which the data do not hold; they hold "
            f"{', '.join(data) or 'nothing'}."
        )


def _module(place: str) -> ModuleType:
    path = Path(place)
    is_file = path.suffix == ".py"
    if is_file and ("\0" in place or not path.is_file()):
        raise UsageError(f"{place} does not exist; give the file of the model.")
    folder = str(path.resolve().parent if is_file else Path.cwd())
    sys.path.insert(0, folder)
    try:
        with users_code(place):
            return _from_file(path) if is_file else importlib.import_module(place)
    except UsageError:
        raise
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        first = (str(error).strip().splitlines() or [""])[0]
        raise UsageError(
            f"{place} cannot be imported ({type(error).__name__}: {first}); mend it, or name another."
        ) from error
    finally:
        with contextlib.suppress(ValueError):
            sys.path.remove(folder)


def _from_file(path: Path) -> ModuleType:
    name = path.stem if path.stem not in sys.modules else f"_model_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def _value(name: str, value: Any) -> Any:
    import numpy as np

    try:
        array = np.asarray(value)
    except ValueError as error:
        deep = "maximum number of dimension" in str(error)
        reason = "are nested too deeply; write" if deep else "have rows of different lengths; make them"
        raise UsageError(f"Data {name!r} {reason} {'plain arrays' if deep else 'equal'}.") from error
    if array.dtype.kind not in "fiub":
        raise UsageError(
            f"Data {name!r} are numbers or arrays of numbers; {str(value)[:40]!r} came, leave it out or "
            "make numbers of it."
        )
    if not np.isfinite(array).all():
        raise UsageError(f"Data {name!r} hold a value that is not finite; drop it or fill it in.")
    return array if array.ndim else value
