"""One file of arrays and a description: every bit counts."""

import json
import tracemalloc

import jax
import ml_dtypes
import numpy as np
import pytest
import safetensors.numpy

from understudy import files
from understudy.files import StoreError, container
from understudy.networks import Perceptron


def test_files_are_plain_safetensors(tmp_path):
    arrays = {"a": np.arange(3.0), "b": np.array(True), "big endian": np.arange(3, dtype=">i4")}
    files.write(tmp_path / "f", arrays, {"note": 'é "sha256":"'})
    plain = safetensors.numpy.load_file(tmp_path / "f")
    back, description = files.read(tmp_path / "f")
    assert description == {"note": 'é "sha256":"'}
    for name, array in arrays.items():
        np.testing.assert_array_equal(plain[name], array)
        np.testing.assert_array_equal(back[name], array)
    with pytest.raises(StoreError, match="numbers only"):
        files.write(tmp_path / "g", {"a": np.array(["x"])}, {})


def test_bfloat16_is_stored_as_such(tmp_path):
    files.write(tmp_path / "f", {"a": np.ones(2, ml_dtypes.bfloat16)}, {})
    assert b'"BF16"' in (tmp_path / "f").read_bytes()
    assert files.read(tmp_path / "f")[0]["a"].dtype == ml_dtypes.bfloat16


def damage(raw, trial, rng):
    if trial % 2:
        place, bit = rng.integers(len(raw)), rng.integers(8)
        return raw[:place] + bytes([raw[place] ^ (1 << bit)]) + raw[place + 1 :]
    return raw[: rng.integers(len(raw))] if trial % 4 else raw + b"\0" * int(rng.integers(1, 5))


def test_no_damaged_file_loads(tmp_path):
    path = tmp_path / "f"
    files.save(path, Perceptron(jax.random.key(0), [2, 3, 1]))
    raw, rng, caught = path.read_bytes(), np.random.default_rng(0), 0
    for trial in range(200):
        path.write_bytes(damage(raw, trial, rng))
        with pytest.raises(StoreError, match=r"damaged|not written"):
            files.load(path)
        caught += 1
    path.write_bytes(raw)
    files.load(path)
    assert caught == 200


def test_every_bit_of_the_beginning_counts(tmp_path):
    path = tmp_path / "f"
    files.write(path, {}, {})
    raw = path.read_bytes()
    for place in range(len(raw)):
        path.write_bytes(raw[:place] + bytes([raw[place] ^ 1]) + raw[place + 1 :])
        with pytest.raises(StoreError):
            files.read(path)


def test_foreign_missing_and_newer_files(tmp_path, monkeypatch):
    safetensors.numpy.save_file({"a": np.ones(2)}, tmp_path / "foreign")
    with pytest.raises(StoreError, match="was not written by understudy"):
        files.read(tmp_path / "foreign")
    with pytest.raises(StoreError, match="does not exist"):
        files.read(tmp_path / "missing")
    with pytest.raises(StoreError, match="cannot be read"):
        files.read(tmp_path)
    files.write(tmp_path / "rows", {}, {"not": "a module"})
    with pytest.raises(StoreError, match="does not describe a module"):
        files.load(tmp_path / "rows")
    monkeypatch.setattr(container, "FORMAT", 2)
    files.write(tmp_path / "newer", {}, {})
    monkeypatch.undo()
    with pytest.raises(StoreError, match="update understudy"):
        files.read(tmp_path / "newer")


def sealed(header: dict, body: bytes) -> bytes:
    """A file with a right digest around any header."""
    header["__metadata__"] = {"format": "1", "dtypes": "{}", "description": "{}", "sha256": "0" * 64} | (
        header.get("__metadata__", {})
    )
    text = json.dumps(header, separators=(",", ":")).encode()
    raw = len(text).to_bytes(8, "little") + text + body
    place = raw.index(b'"sha256":"') + 10
    return raw[:place] + container._digest(raw, place) + raw[place + 64 :]


def entry(shape, start, stop, dtype="F32"):
    return {"dtype": dtype, "shape": shape, "data_offsets": [start, stop]}


HOSTILE = {
    "an array of terabytes": ({"a": entry([10**12], 0, 4 * 10**12)}, b"1234"),
    "a shape of terabytes over four bytes": ({"a": entry([10**12], 0, 4)}, b"1234"),
    "a negative size": ({"a": entry([-1], 0, 4)}, b"1234"),
    "two arrays over the same bytes": ({"a": entry([1], 0, 4), "b": entry([1], 0, 4)}, b"1234"),
    "bytes that belong to nothing": ({"a": entry([1], 0, 4)}, b"12345678"),
    "an odd dtype of terabytes": (
        {"a": entry([4], 0, 4, "U8"), "__metadata__": {"dtypes": '{"a": ["int4", [1000000000000]]}'}},
        b"1234",
    ),
    "objects": (
        {"a": entry([8], 0, 8, "U8"), "__metadata__": {"dtypes": '{"a": ["O", [1]]}'}},
        b"12345678",
    ),
    "a deep description": ({"__metadata__": {"description": "[" * 200_000}}, b""),
    "a description that is a list": ({"__metadata__": {"description": "[]"}}, b""),
    "a description that is not JSON": ({"__metadata__": {"description": "{"}}, b""),
    "a format that is no number": ({"__metadata__": {"format": "x"}}, b""),
    "entries of another kind": ({"a": 5}, b""),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_headers_with_a_right_digest_are_refused(tmp_path, name):
    (tmp_path / "f").write_bytes(sealed(*HOSTILE[name]))
    with pytest.raises(StoreError, match="has contents that understudy does not write"):
        files.read(tmp_path / "f")


def test_a_header_larger_than_any_that_is_written_is_refused(tmp_path, monkeypatch):
    path = tmp_path / "f"
    files.write(path, {}, {"note": "x" * 5000})
    monkeypatch.setattr(container, "LARGEST_HEADER", 1000)
    with pytest.raises(StoreError, match="not written by understudy"):
        files.read(path)
    with pytest.raises(StoreError, match="as arrays, not as lists"):
        files.write(path, {}, {"note": list(range(1000))})


def test_a_large_damaged_file_is_refused_before_it_is_held(tmp_path, monkeypatch):
    path, size = tmp_path / "f", 2**24
    files.write(path, {"a": np.zeros(size, np.uint8)}, {})
    monkeypatch.setattr(container, "_LARGE", 2**20)
    assert len(files.read(path)[0]["a"]) == size
    raw = bytearray(path.read_bytes())
    raw[-1] ^= 1
    path.write_bytes(raw)
    del raw
    tracemalloc.start()
    with pytest.raises(StoreError, match="is damaged"):
        files.read(path)
    largest = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert largest < size / 2


def test_what_is_no_file_is_not_waited_for(tmp_path):
    import os

    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", "/dev/zero"):
        with pytest.raises(StoreError, match="cannot be read"):
            files.read(path)
