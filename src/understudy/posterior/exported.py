"""Draw from an exported posterior with jax and numpy alone.

The file has a first line with a SHA-256 of all that follows, a second line of JSON (chunk, sites,
arrays) and then the arrays and a serialised StableHLO program. Reading it runs nothing; no pickle.
"""

import dataclasses
import hashlib
import json
import math
import os
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import jax
import jax.export
import jax.numpy as jnp
import numpy as np

MAGIC = b"understudy posterior 1 "


class Exported:
    """Named draws of a posterior, from a file written by ``result.export(path)``.

    Attributes:
        sites: shape of one draw of every site by name.
    """

    def __init__(self, header: Mapping[str, Any], arrays: list[np.ndarray], code: bytes):
        self.sites = {name: tuple(shape) for name, shape in header["sites"].items()}
        self._chunk = int(header["chunk"])
        program = jax.jit(_program(header, arrays, code).call)
        self._draw = lambda words: program(words, arrays)

    def sample(self, key: Any, n: int) -> dict[str, np.ndarray]:
        """Draw ``n`` values of every site.

        Args:
            key: a random key such as ``jax.random.key(0)``, or a whole number.
            n: how many.
        """
        return in_chunks(self._draw, key, n, self._chunk)


def load_exported(path: str | Path) -> Exported:
    """Read an exported posterior; a file of which a single bit has changed is refused.

    Args:
        path: the file.
    """
    raw = Path(path).read_bytes()
    return parse(raw, str(path))


def parse(raw: bytes, name: str = "The file") -> Exported:
    """Make an exported posterior of the bytes of its file."""
    first, _, rest = raw.partition(b"\n")
    if not first.startswith(MAGIC):
        raise ValueError(f"{name} is not an exported posterior; write one with result.export(path).")
    if hashlib.sha256(rest).hexdigest().encode() != first.removeprefix(MAGIC):
        raise ValueError(
            f"{name} is damaged (its SHA-256 does not fit); use a copy of it or export again."
        )
    head, _, body = rest.partition(b"\n")
    header, arrays, at = json.loads(head), [], 0
    for dtype, shape in header["arrays"]:
        arrays.append(np.frombuffer(body, dtype, math.prod(shape), at).reshape(shape))
        at += arrays[-1].nbytes
    return Exported(header, arrays, body[at:])


def _program(header: Mapping[str, Any], arrays: list[np.ndarray], code: bytes) -> jax.export.Exported:
    """The program, put in the place of an empty one with the same arguments and results.

    ``jax.export.deserialize`` would need one more package, and this also outlives its file format.
    """

    def blank(words: Any, arrays: Any) -> dict[str, jax.Array]:
        rows = header["chunk"]
        return {
            name: jnp.zeros((rows, *shape), header["dtypes"][name])
            for name, shape in header["sites"].items()
        }

    words = np.zeros(4, np.uint32)
    template = jax.export.export(jax.jit(blank, keep_unused=True))(words, arrays)
    return dataclasses.replace(
        template,
        mlir_module_serialized=code,
        platforms=tuple(header["platforms"]),
        calling_convention_version=header["calling_convention"],
    )


def in_chunks(draw: Callable, key: Any, n: int, chunk: int) -> dict[str, np.ndarray]:
    """Rows of ``draw(words)``, a chunk at a time and a chunk on every core, ``n`` in all."""
    seed = _words(key)

    def rows(i: int) -> dict[str, np.ndarray]:
        words = np.random.SeedSequence([*seed, i]).generate_state(4)
        return {name: np.asarray(value) for name, value in draw(words).items()}

    first = rows(0)
    out = {name: np.empty((n, *value.shape[1:]), value.dtype) for name, value in first.items()}

    def fill(i: int, values: Mapping[str, np.ndarray] | None = None) -> None:
        for name, value in (values or rows(i)).items():
            place = out[name][i * chunk : (i + 1) * chunk]
            place[...] = value[: len(place)]

    fill(0, first)
    with ThreadPoolExecutor(_cores()) as pool:
        list(pool.map(fill, range(1, -(-n // chunk))))
    return out


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _words(key: Any) -> list[int]:
    if isinstance(key, jax.Array) and jax.dtypes.issubdtype(key.dtype, jax.dtypes.prng_key):
        key = jax.random.key_data(key)
    return [int(word) for word in np.atleast_1d(np.asarray(key)).ravel()]
