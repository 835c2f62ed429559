"""A program in a pseudo-terminal: what it wrote, and how long it was silent at most."""

import itertools
import os
import pty
import select
import subprocess
import sys
import time
from typing import NamedTuple


class Seen(NamedTuple):
    """What a terminal saw: all text, and the longest time in seconds without any."""

    text: str
    silence: float


def watch(code: str, marks: tuple[str, str] = ("BEGIN", "END"), seconds: float = 300) -> Seen:
    """Run code in a terminal of 120 columns; silence is measured between two marks that it prints."""
    parent, child = pty.openpty()
    env = os.environ | {"COLUMNS": "120", "TERM": "xterm"}
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=child, stdout=child, stderr=child, env=env
    ) as run:
        os.close(child)
        times, parts, text, ended = [], [], "", False
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            ready, _, _ = select.select([parent], [], [], 1.0)
            if ready:
                try:
                    part = os.read(parent, 65_536)
                except OSError:  # the program has ended
                    break
                parts.append(part)
                text = b"".join(parts).decode(errors="replace")
                if marks[0] in text and not ended:
                    times.append(time.monotonic())
                ended = marks[1] in text
            elif run.poll() is not None:
                break
        run.kill()
    os.close(parent)
    gaps = [b - a for a, b in itertools.pairwise(times)]
    return Seen(text, max(gaps, default=float("inf")))
