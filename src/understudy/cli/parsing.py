"""Words of the command line: one parser for all commands, whose mistakes are one sentence each."""

import argparse
import difflib
from collections.abc import Callable, Iterable, Sequence
from typing import NoReturn


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


def unknown_word(word: str, what: str, known: Iterable[str]) -> UsageError:
    """An error that lists what is known and suggests what comes nearest."""
    known = list(known)
    near = difflib.get_close_matches(word, known, 1)
    hint = f"; did you mean {near[0]}?" if near else "."
    return UsageError(f"{word!r} is not {what}, which can be {', '.join(known)}{hint}")


def whole_number(text: str) -> int:
    """A whole number from a word."""
    try:
        return int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"a whole number is expected; {text!r} came") from None


def number(text: str) -> float:
    """A number from a word."""
    try:
        return float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"a number is expected; {text!r} came") from None


def summary(function: Callable) -> str:
    """The first line of a docstring."""
    return (function.__doc__ or "").strip().splitlines()[0]
