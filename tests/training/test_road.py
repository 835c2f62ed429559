"""The road of an update: the files that ``train`` passes, in order, and no way back."""

import re
import sys
from pathlib import Path

import jax.numpy as jnp

import understudy
from understudy.feedbacks import InclusiveKL
from understudy.students import FullGaussian
from understudy.teachers import mala

SOURCE = str(Path(understudy.__file__).parent) + "/"
PAGE = Path(__file__).parents[2] / "docs" / "concepts" / "design.md"
ROAD = (
    *("training/loop.py", "batches.py", "training/update.py", "training/lesson.py"),
    *("students/gaussian.py", "teachers/kernels.py", "targets/density.py"),
    *("feedbacks/likelihood.py", "training/recording.py"),
)
BORDER = "training/border.py"
HELPERS = {"core.py", "checks.py", "backend.py", "devices.py", "surroundings.py", "progress.py"}
HELPERS |= {"feedbacks/common.py", "teachers/adapters.py"}
TARGET = understudy.LogDensity(lambda z: -0.5 * jnp.sum(z**2), dim=2)


def train():
    ingredients = FullGaussian(2), mala(0.3), InclusiveKL()
    understudy.train(TARGET, *ingredients, updates=3, progress=False)


def calls():
    """Pairs of files, caller and called, of calls from one file of the package into another."""
    found = set()

    def file_of(frame):
        while frame is not None and not frame.f_code.co_filename.startswith(SOURCE):
            frame = frame.f_back
        return None if frame is None else frame.f_code.co_filename.removeprefix(SOURCE)

    def look(frame, event, _):
        handed = frame.f_code.co_name in ("<lambda>", "<module>", "<genexpr>")
        if event == "call" and not handed and frame.f_code.co_filename.startswith(SOURCE):
            found.add((file_of(frame.f_back), file_of(frame)))

    train()  # what is imported when first used is imported
    sys.setprofile(look)
    try:
        train()
    finally:
        sys.setprofile(None)
    return {(a, b) for a, b in found if a is not None and a != b}


def test_an_update_passes_nine_files_and_never_goes_back():
    passed = calls()
    files = {file for pair in passed for file in pair}
    assert files - HELPERS - {BORDER, "__init__.py"} == set(ROAD)
    place = {file: i for i, file in enumerate(ROAD)}
    back = [(a, b) for a, b in passed if a in place and b in place and place[b] < place[a]]
    assert not back
    assert not [(a, b) for a, b in passed if a in HELPERS and b in place and place[b] < 4]


def test_the_page_has_the_road():
    told = PAGE.read_text().partition("## One road")[2].partition("## Decisions")[0]
    rows = re.findall(r"^ *\w+ +((?:\w+/)?[\w.]+(?:/\.\.\.)?)  ", told, re.MULTILINE)
    rooms = [file.rpartition("/")[0] if file.endswith("...") else file for file in rows]
    assert [file.startswith(room) for file, room in zip(ROAD, rooms, strict=True)] == [True] * 9
