"""Words of the command line: one parser for all commands, whose mistakes are one sentence each."""

import argparse
import difflib
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import NoReturn

LARGEST_SEED = 2**63 - 1


class UsageError(ValueError):
    """Words that the command line does not understand, with what it does."""


class HelpPrinted(SystemExit):
    """The help was asked for and printed, so the command is done."""


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

    def exit(self, status: int = 0, message: str | None = None) -> NoReturn:
        """End after the help; a model's own ``sys.exit`` is told apart from this."""
        raise HelpPrinted(status)

    def read(self, words: Sequence[str]) -> argparse.Namespace:
        """Parse all words, or say which is unknown and what comes nearest."""
        namespace, unknown = self.parse_known_args(list(words))
        if unknown:
            options = [name for action in self._actions for name in action.option_strings]
            known = [name for name in options if name.startswith("--")]
            raise unknown_word(unknown[0].split("=")[0], f"an option of {self.prog}", known)
        return namespace


def unknown_word(word: str, what: str, known: Iterable[str]) -> UsageError:
    """An error that lists what is known and suggests what comes nearest."""
    known = list(known)
    near = difflib.get_close_matches(word, known, 1)
    hint = f"; did you mean {near[0]}?" if near else "."
    return UsageError(f"{_shown(word)} is not {what}, which can be {', '.join(known)}{hint}")


def whole_number(text: str) -> int:
    """A whole number from a word."""
    try:
        return int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"a whole number is expected; {_shown(text)} came") from None


def whole_between(least: int, most: int) -> Callable[[str], int]:
    """Reads a whole number from ``least`` to ``most``."""

    def convert(text: str) -> int:
        value = whole_number(text)
        if not least <= value <= most:
            raise argparse.ArgumentTypeError(
                f"a whole number from {least} to {most} is expected; {_shown(text)} came"
            )
        return value

    return convert


seed_number = whole_between(0, LARGEST_SEED)


def number(text: str) -> float:
    """A number from a word."""
    try:
        return float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"a number is expected; {_shown(text)} came") from None


def positive_number(text: str) -> float:
    """A positive and finite number from a word."""
    value = number(text)
    if not (value > 0 and math.isfinite(value)):
        raise argparse.ArgumentTypeError(f"a positive number is expected; {_shown(text)} came")
    return value


def path_word(text: str) -> Path:
    """The name of a file or a folder from a word."""
    if not text.strip() or "\0" in text:
        raise argparse.ArgumentTypeError(
            f"the name of a file or folder is expected; {_shown(text)} came"
        )
    return Path(text)


def name_table(title: str, rows: Mapping[str, str]) -> str:
    """Names and what they mean, one a line below a title."""
    width = max(map(len, rows))
    return "\n".join([f"{title}:", *(f"  {name:<{width}}  {text}" for name, text in rows.items())])


def _shown(text: str) -> str:
    return repr(text) if len(text) <= 60 else f"{text[:57]!r}..."
