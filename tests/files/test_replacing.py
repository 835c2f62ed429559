"""Files replaced whole or not at all, and nothing left behind."""

import os
import signal
import subprocess
import sys
import textwrap

import numpy as np
import pytest

from understudy import files
from understudy.files import StoreError, replacing
from understudy.files.replacing import checked_path, clear_litter


@pytest.mark.parametrize("call", ["replace", "fsync"])
def test_a_failed_write_leaves_the_old_file(tmp_path, monkeypatch, call):
    path = tmp_path / "f"
    files.write(path, {"a": np.ones(2)}, {})
    before = path.read_bytes()

    def fail(*args):
        raise OSError("no space")

    monkeypatch.setattr(os, call, fail)
    with pytest.raises(StoreError, match="could not be written"):
        files.write(path, {"a": np.zeros(2)}, {})
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_a_file_is_written_where_files_have_one_name_alone(tmp_path, monkeypatch):
    def refuse(*args, **kwargs):
        raise OSError("not supported")

    monkeypatch.setattr(os, "link", refuse)
    files.replace_file(tmp_path / "f", [b"wh", b"ole"])
    assert (tmp_path / "f").read_bytes() == b"whole"
    assert list(tmp_path.iterdir()) == [tmp_path / "f"]


def test_an_interrupted_write_leaves_nothing(tmp_path, monkeypatch):
    def interrupt(*args):
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", interrupt)
    with pytest.raises(KeyboardInterrupt):
        files.write(tmp_path / "f", {}, {})
    assert list(tmp_path.iterdir()) == []


BAD_PATHS = ["", "  ", ".", 3, None, b"bytes", "nul\0inside", "\ud800", ["x"]]


@pytest.mark.parametrize("path", BAD_PATHS, ids=repr)
def test_a_path_that_names_no_file_gets_a_sentence(path):
    with pytest.raises(StoreError, match="path "):
        checked_path(path)
    if not isinstance(path, str):
        return
    calls = (
        lambda: files.save(path, 1.0),
        lambda: files.load(path),
        lambda: files.replace_file(path, [b""]),
        lambda: files.read_rows(path),
        lambda: files.append_row(path, {}),
    )
    for call in calls:
        with pytest.raises(StoreError, match="path "):
            call()


def test_a_long_name_can_be_written(tmp_path):
    files.replace_file(tmp_path / ("x" * 250), [b"a"])
    assert [len(file.name) for file in tmp_path.iterdir()] == [250]


def test_litter_of_a_killed_writer_goes_with_the_next_write(tmp_path):
    path = tmp_path / "a[1]*.bin"
    litter = tmp_path / ".a[1]*.bin.0123abcd.tmp"
    litter.write_bytes(b"half")
    others = [tmp_path / name for name in (".b.bin.0123abcd.tmp", ".a[1]*.bin.tmp", "notes.tmp")]
    for other in others:
        other.write_bytes(b"not ours")
    files.replace_file(path, [b"whole"])
    assert sorted(tmp_path.iterdir()) == sorted([path, *others])


WRITER = """
import sys, time
from pathlib import Path
from understudy.files import replace_file, replacing

def slowly():
    yield b"half"
    print("writing", flush=True)
    time.sleep(60)
    yield b"whole"

if sys.argv[2] == "named":
    replacing._nameless = lambda path: None
replace_file(Path(sys.argv[1]), slowly())
"""


@pytest.mark.parametrize("kind", ["named", "nameless"])
def test_a_live_writer_keeps_its_file_and_a_killed_one_loses_it(tmp_path, kind):
    if kind == "nameless" and replacing._nameless(tmp_path / "f") is None:
        pytest.skip("files have names here from the beginning")
    path = tmp_path / "f"
    code = textwrap.dedent(WRITER)
    words = [sys.executable, "-c", code, str(path), kind]
    with subprocess.Popen(words, stdout=subprocess.PIPE) as writer:
        assert writer.stdout.readline() == b"writing\n"
        files.replace_file(path, [b"other"])
        left = 2 if kind == "named" else 1
        assert len(list(tmp_path.iterdir())) == left, "the live writer's file stays"
        writer.send_signal(signal.SIGKILL)
        writer.wait()
    assert path.read_bytes() == b"other"
    assert len(list(tmp_path.iterdir())) == left, "a nameless file is gone with its writer"
    clear_litter(tmp_path, "f")
    assert list(tmp_path.iterdir()) == [path]
