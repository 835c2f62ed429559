"""One process at a time in a folder."""

import signal
import subprocess
import sys

import pytest

from understudy.files import StoreError, locked

pytest.importorskip("fcntl", reason="folders are locked where the system has flock")

HOLDER = """
import sys, time
from understudy.files import locked
with locked(sys.argv[1]):
    print("held", flush=True)
    time.sleep(60)
"""


def holder(folder):
    made = subprocess.Popen([sys.executable, "-c", HOLDER, str(folder)], stdout=subprocess.PIPE)
    assert made.stdout.readline() == b"held\n"
    return made


def test_a_second_process_gets_a_sentence_and_a_killed_one_leaves_nothing(tmp_path):
    folder = tmp_path / "run"
    first = holder(folder)
    try:
        with pytest.raises(StoreError, match="in use by another process"), locked(folder):
            pass
    finally:
        first.send_signal(signal.SIGKILL)
        first.wait()
        first.stdout.close()
    with locked(folder):
        pass
    assert list(folder.iterdir()) == []


def test_a_lock_ends_with_its_block_also_after_an_error(tmp_path):
    with pytest.raises(KeyError), locked(tmp_path):
        raise KeyError
    with locked(tmp_path), pytest.raises(StoreError, match="in use"), locked(tmp_path):
        pass


def test_a_folder_that_cannot_be_made_gets_a_sentence(tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(StoreError, match="choose another folder"), locked(tmp_path / "file"):
        pass
