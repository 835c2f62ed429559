"""Damaged, truncated, swapped and hostile files, with right checksums where that is possible."""

import hashlib
import json

import numpy as np

from understudy.files import container
from understudy.files.exported import MAGIC


def reseal(raw: bytes) -> bytes:
    """A file of arrays with its digest made right again, if it still has a place for one."""
    place = raw.find(b'"sha256":"') + 10
    return raw[:place] + container._digest(raw, place) + raw[place + 64 :] if place > 9 else raw


def reseal_export(raw: bytes) -> bytes:
    """An exported posterior with its digest made right again."""
    rest = raw.partition(b"\n")[2]
    return MAGIC + hashlib.sha256(rest).hexdigest().encode() + b"\n" + rest


def flipped(raw: bytes, rng: np.random.Generator) -> bytes:
    """Up to three bytes changed."""
    made = bytearray(raw)
    for _ in range(int(rng.integers(1, 4))):
        made[int(rng.integers(len(made)))] ^= int(rng.integers(1, 256))
    return bytes(made)


def cut(raw: bytes, rng: np.random.Generator) -> bytes:
    """The beginning of a file."""
    return raw[: int(rng.integers(len(raw)))]


def swapped(raw: bytes, rng: np.random.Generator) -> bytes:
    """Two pieces of a file in each other's place."""
    a, b, c = sorted(int(i) for i in rng.integers(len(raw), size=3))
    return raw[:a] + raw[b:c] + raw[a:b] + raw[c:]


DAMAGE = (flipped, cut, swapped)


def other_header(raw: bytes, rng: np.random.Generator) -> bytes:
    """An exported posterior whose header has another value somewhere, with a right digest."""
    first, head, body = raw.split(b"\n", 2)
    header = json.loads(head)
    name = str(rng.choice(list(header)))
    header[name] = [None, -1, 10**15, "x", [], {}, ["cpu", 5], [["float32", [10**13]]]][
        int(rng.integers(8))
    ]
    return reseal_export(b"\n".join([first, json.dumps(header).encode(), body]))
