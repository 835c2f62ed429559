"""The command line: a command is one file of this folder with a function ``command(words)``.

What is heavy is imported inside commands, so that help and mistakes answer at once.
"""

import contextlib
import importlib
import os
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NoReturn

from understudy.cli.parsing import HelpPrinted, Parser, UsageError, name_table, unknown_word
from understudy.progress import working

COMMANDS = {
    "demo": "Teach a sampler two modes, fit a model beside NUTS, and look at both: a minute.",
    "fit": "Fit a NumPyro model with no settings.",
    "amortise": "Train one student for every data set of a NumPyro model.",
    "infer": "Draw for data sets that came, with a verdict for each.",
    "sample": "Draw from a fitted posterior into a file of netCDF, NumPy or CSV.",
    "check": "Say whether the draws of a posterior or an amortised model can be trusted.",
    "report": "Write one self-contained HTML page about a run.",
}

_EXAMPLES = """\
examples:
  understudy demo                               a minute: two modes, a model beside NUTS, a report
  understudy report runs/demo                   one HTML page about a run
  understudy fit model.py:model --data d.json   fit a NumPyro model with no settings, to runs/posterior
  understudy sample runs/posterior -n 100000 --out draws.nc
  understudy check runs/posterior --model model.py:model
  understudy amortise model.py:model --observed y --out runs/lm
  understudy infer runs/lm data.json --model model.py:model
  understudy fit --help                         every option, with its default

Commands that train or check print their figures as one JSON object in the last line.
UNDERSTUDY_DEBUG=1 or --debug shows the whole traceback of an error.
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code: 0, 2 for bad input, 1 where no chain can move."""
    return guarded(_dispatch, argv)


def guarded(dispatch: Callable[[list[str]], None], argv: Sequence[str] | None = None) -> int:
    """Run a function of a command line's words; what may go wrong becomes a sentence and a code."""
    words = list(sys.argv[1:] if argv is None else argv)
    debug = "--debug" in words or os.environ.get("UNDERSTUDY_DEBUG", "0") not in ("", "0")
    with warnings.catch_warnings(), _no_way_out():
        warnings.showwarning = _show_warning
        try:
            dispatch([word for word in words if word != "--debug"])
        except HelpPrinted:
            raise
        except (Exception, KeyboardInterrupt, SystemExit) as error:
            code = None if debug else exit_code(error)
            if code is None:
                raise
            _say(_sentence(error))
            return code
    return 0


@contextlib.contextmanager
def _no_way_out() -> Iterator[None]:
    """Keep a model's code from ending the command, or becoming another, with nothing done."""
    ways, own = {name: getattr(os, name) for name in ("_exit", "execv", "execve")}, os.getpid()

    def refusing(leave: Callable) -> Callable:
        def refuse(*words: Any) -> NoReturn:
            if os.getpid() != own:  # a child that was forked may
                leave(*words)
            raise SystemExit(words[0])

        return refuse

    try:
        for name, leave in ways.items():
            setattr(os, name, refusing(leave))
        yield
    finally:
        for name, leave in ways.items():
            setattr(os, name, leave)


def exit_code(error: BaseException) -> int | None:
    """The code of an expected error, None for one that deserves its traceback."""
    if isinstance(error, KeyboardInterrupt):
        return 130
    if isinstance(error, UsageError | OSError | SystemExit):
        return 2
    if isinstance(error, MemoryError):
        return 1
    from understudy.core import CannotMoveError, IngredientError
    from understudy.files import StoreError

    if isinstance(error, CannotMoveError):
        return 1
    return 2 if isinstance(error, IngredientError | StoreError) else None


def _dispatch(words: list[str]) -> None:
    table = name_table("commands", COMMANDS)
    parser = Parser(
        "understudy", "Train a sampler to stand in for a Markov chain.", f"{table}\n\n{_EXAMPLES}"
    )
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
        load(f"understudy.cli.{words[at]}", words[at + 1 :]).command(words[at + 1 :])


def load(module: str, words: Sequence[str]) -> Any:
    """Import what a command needs, under a clock where someone watches: JAX takes a while."""
    quiet = {"-h", "--help", "--quiet"} & {*words}
    with working("loading", False if quiet else None):
        return importlib.import_module(module)


def _sentence(error: BaseException) -> str:
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.filename} cannot be used ({error.strerror}); choose another path."
    if isinstance(error, SystemExit):
        return "The model's code ended the program; take the call that does it out of it."
    if isinstance(error, MemoryError):
        return "There is not enough memory for this; ask for less at a time."
    return " ".join(str(error).split()) or "Interrupted."


def _say(sentence: str) -> None:
    sys.stdout.flush()
    print(f"understudy: {sentence}", file=sys.stderr, flush=True)


def _show_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    _say(f"warning: {' '.join(str(message).split())}")
