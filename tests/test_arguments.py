"""Every argument of what is public, given what it cannot be, gets one sentence of ours."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

OURS = {"IngredientError", "CannotMoveError", "StoreError"}
# A path or an address is a word, and a target may be given any condition that it does not look at.
WORDS = ("executor_of(workers=a word)", "fit(folder=a word)", "train(folder=a word)")


@pytest.fixture(scope="module")
def answers(tmp_path_factory):
    places = [str(Path(__file__).parent.parent), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
    run = subprocess.run(
        [sys.executable, "-m", "tests.argument_cases"],
        capture_output=True,
        text=True,
        cwd=tmp_path_factory.mktemp("word"),
        env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, places))},
    )
    assert run.returncode == 0, run.stderr[-2000:]
    return json.loads(run.stdout)


def test_each_is_taken_or_answered_by_one_sentence(answers):
    assert len(answers) > 7000
    for name, (kind, sentence) in answers.items():
        if kind != "nothing":
            assert kind in OURS, f"{name}: {kind}: {sentence}"
            assert "\n" not in sentence, name
            assert 20 < len(sentence) < 420, f"{name}: {sentence}"
            assert sentence[-1] in ".)", f"{name}: {sentence}"


def test_no_word_or_object_is_taken_where_none_belongs(answers):
    wrong = ("=a word)", "=an object)", "=an array of objects)", "=a thing that fails)")
    taken = [name for name, (kind, _) in answers.items() if kind == "nothing" and name.endswith(wrong)]
    assert [name for name in taken if name not in WORDS and not name.startswith("Stream(")] == []
