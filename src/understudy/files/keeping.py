"""A folder in which work keeps itself while it runs, so that what was cut off can go on."""

import contextlib
from collections.abc import Mapping
from types import TracebackType
from typing import Any, TypeVar

from understudy import checks
from understudy.core import IngredientError
from understudy.files.fingerprint import fingerprint
from understudy.files.locking import locked

Kind = TypeVar("Kind", bound="KeptWork")


class KeptWork:
    """A folder that this process holds, with what the same work left there before; None is no folder.

    Args:
        what: "fit" or "training", for sentences.
        folder: where, or None.
        resume: whether to begin with what the folder holds.
        traces: names of the files by which earlier work is seen, as a pattern.
        seed: of the work, to recognise it.
        of: what it is of, by one name: a target, say.
        writes: whether this process is the one that does, of those that work together.
    """

    def __init__(
        self,
        what: str,
        folder: Any,
        resume: Any,
        traces: str,
        seed: int,
        of: Mapping[str, Any],
        writes: bool = True,
    ):
        self.folder, self.writes = checks.folder(folder), writes
        self.resume = checks.flag("resume", resume)
        if self.folder is None and resume:
            raise IngredientError(f"resume=True needs the folder of the {what}; folder=None came.")
        self._what, self._traces, self._held = what, traces, contextlib.ExitStack()
        self.marks = {"seed": seed, **{name: fingerprint(thing) for name, thing in of.items()}}

    def __enter__(self: Kind) -> Kind:
        if self.folder is None:
            return self
        if self.writes:
            self._held.enter_context(locked(self.folder))
        if not self.resume and any(self.folder.glob(self._traces)):
            self._held.close()
            raise IngredientError(
                f"{self.folder} holds a {self._what} already; pass resume=True to go on with it, or "
                "choose another folder."
            )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        self._held.close()

    def check_same(self, told: Mapping[str, Any]) -> None:
        """Refuse what other work left, by the marks that it kept."""
        if {name: told.get(name) for name in self.marks} != self.marks:
            other = " or ".join(reversed(self.marks))
            raise IngredientError(
                f"{self.folder} holds a {self._what} of another {other}; resume it with those it had, "
                "or choose another folder."
            )
