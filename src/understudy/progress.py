"""One live line that says what is going on, in terminals and notebooks.

A thread draws it anew twice a second, so that it lives while a program compiles or a long step runs.
Where nobody watches (a pipe, a file) nothing is drawn; what is worth a line there is said by
:meth:`Progress.say`.
"""

import contextlib
import os
import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import Any

_SECONDS = 0.5

Figures = Callable[[], Mapping[str, Any]]

_stack: list["Progress"] = []


def is_watched() -> bool:
    """Whether someone looks at the output while it is made: a terminal, or a notebook."""
    return sys.stderr.isatty() or _in_notebook()


def _in_notebook() -> bool:
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return type(shell).__name__ == "ZMQInteractiveShell"


class Progress:
    """A live line with a bar; the innermost of several is the one that moves.

    Args:
        total: what is done at the end; None shows a clock alone.
        show: False shows nothing; True draws the bar where someone watches and says lines elsewhere;
            None only draws.
        title: what is going on at first, "compiling" say.
        unit: of the total, "updates" say; none shows a share of it.
        figures: called whenever the line is drawn, for what stands at its end.
    """

    def __init__(
        self,
        total: float | int | None,
        show: bool | None = None,
        title: str = "",
        unit: str = "",
        figures: Figures | None = None,
    ):
        self.drawn = show is not False and is_watched()
        self.said = bool(show) and not self.drawn
        self.figures: Figures = figures or dict
        self._bar: Any = None
        if self.drawn:
            self._bar = _bar(
                total=total,
                desc=title,
                leave=False,
                bar_format=_layout(total, unit),
            )
            self._draw()
            _stack.append(self)
            self._ended = threading.Event()
            self._thread = threading.Thread(target=self._tick, daemon=True)
            self._thread.start()

    def stage(self, title: str, done: float | int | None = None) -> None:
        """Say what is going on now, and how much of the total lies behind."""
        if self._bar is not None:
            self._bar.set_description_str(title, refresh=False)
            if done is not None:
                self._bar.n = max(self._bar.n, done)
            self._draw()

    def begin_clock(self) -> None:
        """Count the time from now on, after compiling say."""
        if self._bar is not None:
            done = self._bar.n
            self._bar.reset()
            self._bar.n = self._bar.initial = done

    def to(self, done: float | int) -> None:
        """So much of the total lies behind."""
        if self._bar is not None:
            self._bar.n = done if self._bar.total is None else min(done, self._bar.total)
            self._draw()

    def say(self, line: str) -> None:
        """Print a line where no bar is drawn; nothing where none was asked for."""
        if self.said:
            print(line, file=sys.stderr, flush=True)

    def close(self, last: str = "") -> None:
        """Take the line away, and leave a last one in its place if there is one."""
        if self._bar is not None:
            self._ended.set()
            self._thread.join()
            _stack.remove(self)
            self._bar.close()
            self._bar = None
        if last and (self.drawn or self.said):
            print(last, file=sys.stderr, flush=True)

    def __enter__(self) -> "Progress":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def _tick(self) -> None:
        while not self._ended.wait(_SECONDS):
            if _stack and _stack[-1] is self:
                self._draw()

    def _draw(self) -> None:
        bar = self._bar
        if bar is not None:
            with contextlib.suppress(RuntimeError):  # a dictionary that changed while it was read
                words = [f"{name} {value}" for name, value in self.figures().items()]
                bar.set_postfix_str(", ".join(words), refresh=False)
            bar.refresh()


def _layout(total: float | int | None, unit: str) -> str:
    if total is None:
        return "{desc} {elapsed}{postfix}"
    counts = f" {{n_fmt}}/{{total_fmt}} {unit}, {{remaining}} left" if unit else ""
    return f"{{desc}} {{percentage:3.0f}}% |{{bar:20}}| {{elapsed}}{counts}{{postfix}}"


@contextlib.contextmanager
def working(title: str, show: bool | None = None) -> Iterator[None]:
    """A clock under everything that a piece of work prints and shows.

    Args:
        title: of the work.
        show: False shows nothing, None shows the clock where someone watches.
    """
    with Progress(None, show, title) as line:
        if not line.drawn:
            yield
            return
        from tqdm.contrib import DummyTqdmFile

        # What is printed goes above the line.
        above: Any = DummyTqdmFile(sys.stdout)
        with contextlib.redirect_stdout(above):
            yield


def _bar(**settings: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a notebook without widgets gets a bar of text, and a warning
        from tqdm.auto import tqdm

        return tqdm(file=sys.stderr, **settings, **_size())


def _size() -> dict[str, Any]:
    """The terminal's own size, unless it says that it has none, as some in containers do."""
    with contextlib.suppress(OSError, ValueError):
        if not os.get_terminal_size(sys.stderr.fileno()).columns:
            return {"ncols": 100, "nrows": 24}
    return {"dynamic_ncols": True}
