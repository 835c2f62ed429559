"""Someone who watches a terminal is never left in the dark; a pipe gets a line a stage."""

import subprocess
import sys

import pytest

from tests.terminal import watch
from understudy.progress import Progress

FIT = """
import jax.numpy as jnp, understudy
understudy.fit
banana = lambda z: -0.5 * z[0] ** 2 - 0.5 * jnp.sum(((z[1:] - z[0] ** 2) / 0.3) ** 2)
target = understudy.LogDensity(banana, dim=3)
print("BEGIN", flush=True)
result = understudy.fit(target, budget=20, cache=False)
print("END", flush=True)
"""

TRAIN = """
import jax.numpy as jnp, understudy
from understudy.feedbacks import EnergyDistance
from understudy.students import Gated
from understudy.teachers import Compose, TemperedTransition, mala
import jax
target = understudy.LogDensity(lambda z: -0.5 * jnp.sum(z**2), dim=2)
understudy.train
student = Gated(jax.random.key(0), dim=2, branches=4)
print("BEGIN", flush=True)
teacher = Compose(TemperedTransition(), mala(0.2, steps=5))
understudy.train(target, student, teacher, EnergyDistance(), updates=600)
print("END", flush=True)
"""


def calmer(code):
    """What a terminal saw, the second time where the first was silent: a busy machine halts anyone."""
    seen = watch(code)
    return seen if seen.silence <= 2 else watch(code)


def test_a_terminal_is_never_silent_during_a_fit():
    seen = calmer(FIT)
    assert "END" in seen.text, seen.text
    assert seen.silence <= 2
    for word in ("compiling", "chains settle", "gradients", "R-hat", "left"):
        assert word in seen.text, seen.text[-2000:]


def test_a_terminal_is_never_silent_during_a_training():
    seen = calmer(TRAIN)
    assert "END" in seen.text, seen.text
    assert seen.silence <= 2
    for word in ("compiling", "training", "updates", "loss"):
        assert word in seen.text, seen.text[-2000:]


@pytest.mark.slow
def test_a_pipe_gets_a_line_a_stage_where_asked_and_nothing_else():
    code = FIT.replace("cache=False", "cache=False, verbose=True")
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    lines = ran.stderr.splitlines()
    assert [line.split(":")[0] for line in lines[:4]] == ["compile", "starts", "warm-up", "settle"]
    assert "\r" not in ran.stderr
    assert len(lines) < 12


def test_nothing_is_said_where_nothing_was_asked_for(capsys):
    with Progress(10, None, "work") as line:
        line.stage("more", 5)
        line.say("a line")
        line.close("the last")
    with Progress(10, False, "work") as line:
        line.say("a line")
    assert capsys.readouterr() == ("", "")


def test_lines_are_said_in_a_pipe(capsys):
    with Progress(10, True, "work") as line:
        line.stage("more", 5)
        line.say("a line")
        line.close("the last")
    assert capsys.readouterr().err == "a line\nthe last\n"
