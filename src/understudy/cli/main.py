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
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from understudy.cli import commands
from understudy.cli.parsing import Parser, UsageError, number, summary, unknown_word, whole_number

EXPERIMENTS = {
    "bnn": "experiments.bnn",
    "imputation": "experiments.imputation",
    "mixture": "experiments.mixture",
    "mnist": "experiments.mnist",
    "toys": "experiments.toys",
}
BENCHMARKS = {"posteriors": "benchmarks.posteriors"}

_EXAMPLES = """\
examples:
  understudy demo                               train a student in half a minute and look at it
  understudy reproduce mixture --preset quick   the paper's first experiment, made small
  understudy report runs/demo                   one HTML page about a run
  understudy fit model.py:model --data d.json   fit a NumPyro model with no settings, to runs/posterior
  understudy sample runs/posterior -n 100000 --out draws.nc
  understudy check runs/posterior               whether to trust the draws
  understudy reproduce mixture --help           every option, with its default

Every command that trains prints its figures as one JSON object in its last line.
UNDERSTUDY_DEBUG=1 or --debug shows the whole traceback of an error.
"""


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
    _experiment("understudy demo", "understudy.cli.demo", "demo", words)


def reproduce(words: Sequence[str]) -> None:
    """Run an experiment of the paper again."""
    _named("reproduce", summary(reproduce), "experiment", EXPERIMENTS, words)


def bench(words: Sequence[str]) -> None:
    """Measure understudy beside its rivals."""
    _named("bench", summary(bench), "benchmark", BENCHMARKS, words)


def _named(command: str, what: str, kind: str, known: dict[str, str], words: Sequence[str]) -> None:
    first = next(iter(known))
    parser = Parser(f"understudy {command}", what, _names_help(command, kind, known))
    if not words or words[0] in ("-h", "--help"):
        parser.usage = f"understudy {command} {kind.upper()} [options]"
        parser.print_help()
        return
    name = words[0]
    if name.startswith("-"):
        raise UsageError(f"Name the {kind} first: understudy {command} {first} {name}.")
    if name not in known:
        raise unknown_word(name, f"{'an' if kind[0] in 'aeio' else 'a'} {kind}", known)
    _experiment(f"understudy {command} {name}", known[name], name, words[1:])


def report(words: Sequence[str]) -> None:
    """Write one self-contained HTML page about a run."""
    parser = Parser("understudy report", summary(report), "example:\n  understudy report runs/demo")
    parser.add_argument("run", type=Path, help="the folder of a run; report.html is written into it")
    parser.add_argument("--model", metavar="FILE:NAME", help="where the model of a posterior is now")
    given = parser.read(words)
    if commands.is_posterior(given.run):
        print(commands.report_posterior(given.run, given.model))
        return
    from understudy.report import write_report

    print(write_report(given.run))


COMMANDS: dict[str, Callable[[Sequence[str]], None]] = {
    "demo": demo,
    "reproduce": reproduce,
    "bench": bench,
    "report": report,
    "fit": commands.fit,
    "sample": commands.sample,
    "check": commands.check,
}


def add_settings(parser: argparse.ArgumentParser, settings: type) -> None:
    """Add an option for every field of a settings dataclass (its type, default and help)."""
    hints = typing.get_type_hints(settings)
    from understudy.cli.settings import plain_type

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
    from experiments.rows import last_line

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
    from understudy.files.saving import StoreError

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


_CONVERTERS: dict[type, Callable[[str], Any]] = {int: whole_number, float: number}


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


def _table(title: str, rows: dict[str, str]) -> str:
    width = max(map(len, rows))
    return "\n".join([f"{title}:", *(f"  {name:<{width}}  {text}" for name, text in rows.items())])


def _commands_help() -> str:
    commands = _table("commands", {name: summary(run) for name, run in COMMANDS.items()})
    return f"{commands}\n\n{_EXAMPLES}"


def _names_help(command: str, kind: str, known: dict[str, str]) -> str:
    rows = {name: f"options: understudy {command} {name} --help" for name in known}
    first = next(iter(known))
    return _table(f"{kind}s", rows) + f"\n\nexample:\n  understudy {command} {first} --preset quick"


if __name__ == "__main__":
    sys.exit(main())
