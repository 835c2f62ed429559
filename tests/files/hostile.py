"""Damaged, truncated, swapped and hostile files, with right checksums where that is possible."""

import hashlib
import json
from collections.abc import Callable, Iterator
from typing import Any

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


def mixed(raw: bytes, other: bytes, rng: np.random.Generator) -> bytes:
    """The beginning of one file and the end of another."""
    return raw[: int(rng.integers(1, len(raw)))] + other[int(rng.integers(len(other))) :]


def other_program(change: Callable) -> Callable[[bytes, np.random.Generator], bytes]:
    """An exported posterior with something done to all but its header; seal it again."""

    def changed(raw: bytes, rng: np.random.Generator) -> bytes:
        first, head, body = raw.split(b"\n", 2)
        return b"\n".join([first, head, change(body, rng)])

    return changed


NAMES = (
    *("os:system", "builtins:eval", "subprocess:Popen", "jax.numpy:zeros", "jax:jit", "numpy:memmap"),
    *("understudy.files.saving:load", "understudy.targets.numpyro:from_numpyro", "__main__:main"),
    *("understudy.posterior.posterior:Posterior", "understudy.students.gaussian:FullGaussian"),
)
"""What a file may not name, or not where it is put."""


def _unfit(rng: np.random.Generator) -> Any:
    name, number = str(rng.choice(NAMES)), int(rng.integers(4))
    return [
        *(None, -1, 10**30, 1e308, float("nan"), "x", "", [], {}, True, name, {"array": number}),
        *({"function": name}, {"class": name, "fields": {}}, {"numpy": number, "scalar": False}),
        *({"partial": [{"function": name}, {"tuple": []}, {"dict": []}], "tree": False},),
        *({"closure": name, "index": 0, "cells": {}, "defaults": [None, None]}, {"dtype": "O"}),
        *({"unravel": {"array": number}}, {"key": number, "impl": "threefry2x32"}, [[[[0]]]] * 50),
        *({"slice": [0, 10**18, 1]}, {"set": [{"tuple": []}]}, {"float": "inf"}, {"complex": "1j"}),
    ][int(rng.integers(25))]


def _places(tree: Any) -> Iterator[tuple[Any, Any]]:
    """Every container inside a tree of JSON with every place in it."""
    items = tree.items() if isinstance(tree, dict) else enumerate(tree)
    for place, inside in items:
        yield tree, place
        if isinstance(inside, dict | list):
            yield from _places(inside)


def other_description(raw: bytes, rng: np.random.Generator) -> bytes:
    """A saved file with one or two entries of its description replaced, left out or renamed; seal it."""
    size = int.from_bytes(raw[:8], "little")
    header = json.loads(raw[8 : 8 + size])
    inside = json.loads(header["__metadata__"]["description"])
    for _ in range(int(rng.integers(1, 3))):
        places = list(_places(inside))
        owner, place = places[int(rng.integers(len(places)))]
        if isinstance(owner, dict) and rng.integers(4) == 0:
            owner[str(rng.choice(["class", "function", "closure", "x"]))] = owner.pop(place)
        else:
            owner[place] = _unfit(rng)
    header["__metadata__"]["description"] = json.dumps(inside)
    head = json.dumps(header, separators=(",", ":")).encode()
    head += b" " * (-len(head) % 8)
    return len(head).to_bytes(8, "little") + head + raw[8 + size :]
