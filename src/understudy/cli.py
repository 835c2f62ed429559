"""The command line: ``understudy demo``, ``understudy reproduce mixture``, ``understudy report RUN``.

A command is one function of its words, listed in :data:`COMMANDS`; an experiment is one module, listed
in :data:`EXPERIMENTS`, whose ``Settings`` become options. What is heavy is imported inside commands.
"""

import argparse
import dataclasses
import difflib
import importlib
import os
import shutil
import sys
import typing
import warnings
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn

EXPERIMENTS = {
    "bnn": "understudy.experiments.bnn",
    "mixture": "understudy.experiments.mixture",
    "toys": "understudy.experiments.toys",
}

_EXAMPLES = """\
examples:
  understudy demo                               train a student in half a minute and look at it
  understudy reproduce mixture --preset quick   the paper's first experiment, made small
  understudy report runs/demo                   one HTML page about a run
  understudy reproduce mixture --help           every option, with its default

Every command that trains prints its figures as one JSON object in its last line.
UNDERSTUDY_DEBUG=1 or --debug shows the whole traceback of an error.
"""


class UsageError(ValueError):
    """Words that the command line does not understand, with what it does."""


class Parser(argparse.ArgumentParser):
    """An argument parser whose mistakes are one sentence each, with what is allowed."""

    def __init__(self, prog: str, description: str, epilog: str = ""):
        super().__init__(
            prog=prog,
            description=description,
            epilog=epilog,
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )

    def error(self, message: str) -> NoReturn:
        """Raise instead of printing the usage."""
        raise UsageError(f"{message.removeprefix('argument ')} (see {self.prog} --help).")

    def read(self, words: Sequence[str]) -> argparse.Namespace:
        """Parse all words, or say which is unknown and what comes nearest."""
        namespace, unknown = self.parse_known_args(list(words))
        if unknown:
            options = [name for action in self._actions for name in action.option_strings]
            known = [name for name in options if name.startswith("--")]
            raise unknown_word(unknown[0].split("=")[0], f"an option of {self.prog}", known)
        return namespace


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code: 0, 2 for bad input, 1 where no chain can move."""
    words = list(sys.argv[1:] if argv is None else argv)
    debug = "--debug" in words or os.environ.get("UNDERSTUDY_DEBUG", "0") not in ("", "0")
    with warnings.catch_warnings():
        warnings.showwarning = _show_warning
        try:
            _dispatch([word for word in words if word != "--debug"])
        except (Exception, KeyboardInterrupt) as error:
            code = None if debug else _exit_code(error)
            if code is None:
                raise
            _say(_sentence(error))
            return code
    return 0


def demo(words: Sequence[str]) -> None:
    """Train a student on a two-mode mixture in half a minute, and look at what it learnt."""
    _experiment("understudy demo", "understudy.experiments.demo", "demo", words)


def reproduce(words: Sequence[str]) -> None:
    """Run an experiment of the paper again."""
    parser = Parser("understudy reproduce", _summary(reproduce), _experiments_help())
    if not words or words[0] in ("-h", "--help"):
        parser.usage = "understudy reproduce EXPERIMENT [options]"
        parser.print_help()
        return
    name = words[0]
    if name.startswith("-"):
        first = next(iter(EXPERIMENTS))
        raise UsageError(f"Name the experiment first: understudy reproduce {first} {name}.")
    if name not in EXPERIMENTS:
        raise unknown_word(name, "an experiment", EXPERIMENTS)
    _experiment(f"understudy reproduce {name}", EXPERIMENTS[name], name, words[1:])


def report(words: Sequence[str]) -> None:
    """Write one self-contained HTML page about a run."""
    parser = Parser("understudy report", _summary(report), "example:\n  understudy report runs/demo")
    parser.add_argument("run", type=Path, help="the folder of a run; report.html is written into it")
    given = parser.read(words)
    from understudy.report import write_report

    print(write_report(given.run))


COMMANDS: dict[str, Callable[[Sequence[str]], None]] = {
    "demo": demo,
    "reproduce": reproduce,
    "report": report,
}


def add_settings(parser: argparse.ArgumentParser, settings: type) -> None:
    """Add an option for every field of a settings dataclass (its type, default and help)."""
    hints = typing.get_type_hints(settings)
    from understudy.experiments import plain_type

    for field in dataclasses.fields(settings):
        kind, choices, _ = plain_type(hints[field.name])
        name = "--" + field.name.replace("_", "-")
        words: dict[str, Any] = {"dest": field.name, "default": argparse.SUPPRESS}
        words["help"] = _help(field, "preset" in hints)
        if kind is bool:
            parser.add_argument(name, action=argparse.BooleanOptionalAction, **words)
        else:
            convert = _one_of(choices) if choices else _CONVERTERS.get(kind, kind)
            parser.add_argument(name, type=convert, metavar=_metavar(kind, choices), **words)


def read_settings(namespace: argparse.Namespace, settings: type) -> Any:
    """The settings with what was given on the command line; the rest keeps its defaults."""
    names = {field.name for field in dataclasses.fields(settings)}
    return settings(**{name: value for name, value in vars(namespace).items() if name in names})


def unknown_word(word: str, what: str, known: Iterable[str]) -> UsageError:
    """An error that lists what is known and suggests what comes nearest."""
    known = list(known)
    near = difflib.get_close_matches(word, known, 1)
    hint = f"; did you mean {near[0]}?" if near else "."
    return UsageError(f"{word!r} is not {what}, which can be {', '.join(known)}{hint}")


def _dispatch(words: list[str]) -> None:
    parser = Parser("understudy", "Train a sampler to stand in for a Markov chain.", _commands_help())
    parser.usage = "understudy [--version] [--debug] COMMAND [options]"
    parser.add_argument("--version", action="store_true", help="print the version and stop")
    parser.add_argument("--debug", action="store_true", help="show the traceback of an error")
    at = next((i for i, word in enumerate(words) if not word.startswith("-")), len(words))
    if parser.read(words[:at]).version:
        from importlib.metadata import version

        print(f"understudy {version('understudy')}")
    elif at == len(words):
        parser.print_help()
    elif words[at] not in COMMANDS:
        raise unknown_word(words[at], "a command", COMMANDS)
    else:
        COMMANDS[words[at]](words[at + 1 :])


def _experiment(prog: str, module_name: str, name: str, words: Sequence[str]) -> None:
    module: ModuleType = importlib.import_module(module_name)
    from understudy.experiments.rows import last_line

    parser = Parser(prog, (module.__doc__ or "").strip(), f"example:\n  {prog} --seed 1")
    add_settings(parser, module.Settings)
    place = {"default": Path("runs", name), "help": "where to write (default: %(default)s)"}
    parser.add_argument("--out", type=Path, metavar="FOLDER", **place)
    parser.add_argument("--quiet", action="store_true", help="print the last line of figures alone")
    given = parser.read(words)
    settings = read_settings(given, module.Settings)
    given.out.mkdir(parents=True, exist_ok=True)
    figures = module.run(settings, given.out, progress=False if given.quiet else None)
    if getattr(settings, "preset", "") == "paper":
        _publish(given.out, Path("results"), name)
    last_line(figures)


def _publish(out: Path, results: Path, name: str) -> None:
    """Rows and picture of a full run also go to ``results``, where the documents read them."""
    results.mkdir(exist_ok=True)
    for file in (f"{name}.jsonl", f"{name}.png"):
        if (out / file).exists() and out.resolve() != results.resolve():
            shutil.copyfile(out / file, results / file)


def _exit_code(error: BaseException) -> int | None:
    """The code of an expected error, None for one that deserves its traceback."""
    if isinstance(error, KeyboardInterrupt):
        return 130
    if isinstance(error, UsageError | OSError):
        return 2
    from understudy.core import CannotMoveError, IngredientError
    from understudy.store import StoreError

    if isinstance(error, CannotMoveError):
        return 1
    return 2 if isinstance(error, IngredientError | StoreError) else None


def _sentence(error: BaseException) -> str:
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.filename} cannot be used ({error.strerror}); choose another path."
    return " ".join(str(error).split()) or "Interrupted."


def _say(sentence: str) -> None:
    sys.stdout.flush()
    print(f"understudy: {sentence}", file=sys.stderr, flush=True)


def _show_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    _say(f"warning: {' '.join(str(message).split())}")


def _whole(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"a whole number is expected; {text!r} came") from None


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"a number is expected; {text!r} came") from None


_CONVERTERS: dict[type, Callable[[str], Any]] = {int: _whole, float: _number}


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


def _summary(function: Callable) -> str:
    return (function.__doc__ or "").strip().splitlines()[0]


def _table(title: str, rows: dict[str, str]) -> str:
    width = max(map(len, rows))
    return "\n".join([f"{title}:", *(f"  {name:<{width}}  {text}" for name, text in rows.items())])


def _commands_help() -> str:
    commands = _table("commands", {name: _summary(run) for name, run in COMMANDS.items()})
    return f"{commands}\n\n{_EXAMPLES}"


def _experiments_help() -> str:
    rows = {name: f"options: understudy reproduce {name} --help" for name in EXPERIMENTS}
    return _table("experiments", rows) + "\n\nexample:\n  understudy reproduce mixture --preset quick"


if __name__ == "__main__":
    sys.exit(main())
