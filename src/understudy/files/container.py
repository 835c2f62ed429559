"""One file of named arrays and a JSON description, with a digest of every bit.

It is a valid safetensors file. Its metadata hold the description and the SHA-256 of the whole file
(computed with the digest's own 64 characters set to zero), so a flipped bit or a missing end is noticed.
Nothing is allocated because a file says so: sizes are compared with the bytes that are there.
"""

import hashlib
import json
import math
import os
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import ml_dtypes
import numpy as np
import safetensors.numpy

from understudy.checks import first_line
from understudy.files.errors import StoreError
from understudy.files.plain import plain
from understudy.files.replacing import read_file, replace_file

FORMAT = 1
LARGEST_HEADER = 2**24
"""Bytes of names, shapes and description together; JSON takes twenty times as much once it is read."""

_DAMAGED = "{} is damaged (its SHA-256 does not fit); use a copy of it or make it again."
# Bytes of a file whose digest is looked at in pieces, before the whole is in memory.
_LARGE = 2**28
_ZEROS = b"0" * 64
_MARK = b'"sha256":"'
_DTYPES: dict[str, Any] = {
    **{"F16": np.float16, "F32": np.float32, "F64": np.float64, "C64": np.complex64, "BOOL": np.bool_},
    **{"I8": np.int8, "I16": np.int16, "I32": np.int32, "I64": np.int64},
    **{"U8": np.uint8, "U16": np.uint16, "U32": np.uint32, "U64": np.uint64},
    **{"BF16": ml_dtypes.bfloat16, "F8_E4M3": ml_dtypes.float8_e4m3fn, "F8_E5M2": ml_dtypes.float8_e5m2},
}
_NATIVE = {np.dtype(dtype) for dtype in _DTYPES.values()}


def write(path: str | Path, arrays: dict[str, np.ndarray], description: dict) -> None:
    """Write named arrays and a JSON description as one safetensors file with a digest."""
    arrays = {name: _native(name, array) for name, array in arrays.items()}
    packed = {name: _pack(array) for name, array in arrays.items()}
    odd = {
        name: [array.dtype.name, array.shape]
        for name, array in arrays.items()
        if array.dtype not in _NATIVE
    }
    metadata = {
        "description": json.dumps(description, default=plain),
        "dtypes": json.dumps(odd),
        "format": str(FORMAT),
        "sha256": _ZEROS.decode(),
    }
    raw = safetensors.numpy.save(packed, metadata)
    if int.from_bytes(raw[:8], "little") > LARGEST_HEADER:
        raise StoreError(
            f"The description of what is to be written takes more than {LARGEST_HEADER:,} bytes; give "
            "many numbers as arrays, not as lists; nothing was written."
        )
    place = raw.index(_MARK) + len(_MARK)
    replace_file(path, [raw[:place], _digest(raw, place), raw[place + 64 :]])


def read(path: str | Path) -> tuple[dict[str, np.ndarray], dict]:
    """Read what :func:`write` wrote, or raise :class:`StoreError` if a single bit is not as written."""
    raw = read_file(path, look=partial(_look, path))
    start = _beginning(raw[: 8 + LARGEST_HEADER], path)
    if raw[start.place : start.place + 64] != _digest(raw, start.place):
        raise StoreError(_DAMAGED.format(path))
    try:
        return _parse(raw, start.end, path)
    except StoreError:
        raise
    except Exception as error:
        raise StoreError(
            f"{path} has contents that understudy does not write ({short(error)}); choose another file."
        ) from error


class _Beginning(NamedTuple):
    """Where a file's digest stands, and where its header ends."""

    place: int
    end: int


def _beginning(raw: bytes, path: str | Path) -> _Beginning:
    size = int.from_bytes(raw[:8], "little")
    place = raw[: 8 + size].find(_MARK) + len(_MARK)
    if place < len(_MARK) or size > LARGEST_HEADER:
        raise StoreError(
            f"{path} was not written by understudy, or its beginning is damaged; choose another file or "
            f"make it again."
        )
    return _Beginning(place, 8 + size)


def _look(path: str | Path, file: Any) -> None:
    """Refuse a file that is not ours by its beginning, and a large damaged one before it is held."""
    head = file.read(8)
    head += file.read(min(int.from_bytes(head, "little"), LARGEST_HEADER))
    place = _beginning(head, path).place
    if os.fstat(file.fileno()).st_size < _LARGE:
        return
    digest = hashlib.sha256(head[:place] + _ZEROS + head[place + 64 :])
    while piece := file.read(2**20):
        digest.update(piece)
    if digest.hexdigest().encode() != head[place : place + 64]:
        raise StoreError(_DAMAGED.format(path))


def is_whole(path: str | Path) -> bool:
    """Whether a file can be read and every bit is as it was written."""
    try:
        read(path)
    except StoreError:
        return False
    return True


def short(error: BaseException) -> str:
    """An error of another library in one line."""
    return f"{type(error).__name__}: {first_line(error)}"


def _digest(raw: bytes, place: int) -> bytes:
    digest = hashlib.sha256(raw[:place])
    digest.update(_ZEROS)
    digest.update(memoryview(raw)[place + 64 :])
    return digest.hexdigest().encode()


def _parse(raw: bytes, end: int, path: str | Path) -> tuple[dict[str, np.ndarray], dict]:
    header = json.loads(raw[8:end])
    metadata = header.pop("__metadata__")
    if int(metadata["format"]) > FORMAT:
        raise StoreError(
            f"{path} has format {metadata['format']}, newer than the format {FORMAT} known here; "
            f"update understudy."
        )
    odd, description = json.loads(metadata["dtypes"]), json.loads(metadata["description"])
    if not isinstance(description, dict):
        raise TypeError("the description is not a dictionary")
    body = memoryview(raw)[end:]
    _check_places([entry["data_offsets"] for entry in header.values()], len(body))
    arrays = {name: _unpack(entry, odd.get(name), body) for name, entry in header.items()}
    return arrays, description


def _check_places(places: list[list[int]], size: int) -> None:
    """Whether the arrays fill the file one after the other, none over another."""
    at = 0
    for start, stop in sorted(places):
        if start != at or stop < start:
            raise ValueError("its arrays overlap or leave gaps")
        at = stop
    if at != size:
        raise ValueError("its arrays do not fill it")


def _unpack(entry: dict, odd: list | None, body: memoryview) -> np.ndarray:
    start, stop = entry["data_offsets"]
    dtype, shape = odd or (_DTYPES[entry["dtype"]], entry["shape"])
    dtype = jax.numpy.dtype(dtype)
    if dtype.hasobject or not all(type(n) is int and n >= 0 for n in shape):
        raise ValueError("an array has no numbers or no shape")
    if dtype.itemsize * math.prod(shape) != stop - start:
        raise ValueError("an array is larger or smaller than its shape")
    return np.frombuffer(body[start:stop], dtype).reshape(shape)


def _native(name: str, array: Any) -> np.ndarray:
    array = np.asarray(array, order="C")
    if array.dtype.hasobject or array.dtype.kind in "USMm":
        raise StoreError(
            f"The array {name} has dtype {array.dtype}; store numbers only; nothing was written."
        )
    return array.astype(array.dtype.newbyteorder("="), copy=False)


def _pack(array: np.ndarray) -> np.ndarray:
    return array if array.dtype in _NATIVE else np.frombuffer(array.tobytes(), np.uint8)
