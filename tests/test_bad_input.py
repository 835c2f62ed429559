"""Bad input gets one sentence of ours, never a traceback from the machinery.

The cases run in a process of their own, without the type checks of the test suite, as users meet them.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.bad_input_cases import CASES

OURS = {"IngredientError", "CannotMoveError", "StoreError"}
# Signatures are written out, so Python itself names a keyword that is in none.
UNKNOWN = {"an unknown setting", "learning_rate"}


@pytest.fixture(scope="module")
def answers():
    run = subprocess.run(
        [sys.executable, "-m", "tests.bad_input_cases"],
        capture_output=True,
        text=True,
        cwd=Path(__file__).parent.parent,
        env=dict(os.environ),
    )
    assert run.returncode == 0, run.stderr[-2000:]
    return json.loads(run.stdout)


def test_there_are_many_cases(answers):
    assert set(answers) == set(CASES)
    assert len(CASES) > 700


@pytest.mark.parametrize("name", CASES)
def test_the_answer_is_one_sentence_of_ours(answers, name):
    kind, sentence = answers[name]
    if name in UNKNOWN:
        assert kind == "TypeError"
        assert "unexpected keyword argument" in sentence
        return
    assert kind in OURS, f"{kind}: {sentence}"
    assert "\n" not in sentence
    assert 25 < len(sentence) < 400
    assert sentence[-1] in ".)"
    assert sentence.count(" ") > 4
