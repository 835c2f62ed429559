"""Draw from an exported posterior with jax and numpy alone; this file and inspecting.py can be copied.

The file has a first line with a SHA-256 of all that follows, a second line of JSON (chunk, sites,
inputs, arrays) and then the arrays and a serialised StableHLO program. Reading it runs nothing; no
pickle. The program is looked at in a process of its own before it is used.
"""

import contextlib
import dataclasses
import functools
import hashlib
import json
import math
import operator
import os
import stat
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import jax
import jax.export
import jax.numpy as jnp
import numpy as np

try:
    from understudy.files.errors import StoreError
except ImportError:  # this file was copied
    StoreError = ValueError

MAGIC = b"understudy posterior 1 "
PLATFORMS = ("cpu", "cuda", "rocm", "tpu")

_LARGEST_FILE = 2**29
_LARGEST_HEADER = 2**24
_LARGEST_CHUNK = 2**20
_LARGEST_SITES = 2**30
_LARGEST_TENSOR = 2**28
_SECONDS = 300
_ELEMENTS = {
    **{"float16": "f16", "bfloat16": "bf16", "float32": "f32", "float64": "f64", "bool": "i1"},
    **{"int8": "i8", "int16": "i16", "int32": "i32", "int64": "i64"},
    **{"uint8": "ui8", "uint16": "ui16", "uint32": "ui32", "uint64": "ui64"},
    **{"complex64": "complex<f32>", "complex128": "complex<f64>"},
}


class Exported:
    """Named draws of a posterior, from a file written by ``result.export(path)``.

    Attributes:
        sites: shape of one draw of every site by name.
        inputs: shape of the data that draws are made for, by name; a first axis may be the largest of
            several. Empty where the data were given before.
    """

    def __init__(self, header: Mapping[str, Any], arrays: list[np.ndarray], code: bytes):
        check_program(header, arrays, code)
        self.sites = {name: tuple(shape) for name, shape in header["sites"].items()}
        self._inputs = header.get("inputs", [])
        self.inputs = {one["name"]: tuple(one["shape"]) for one in self._inputs}
        self._chunk = header["chunk"]
        dtypes = {*header["dtypes"].values(), *(array.dtype.name for array in arrays)}
        self._wide = bool(jax.config.jax_enable_x64) or bool(dtypes & {"float64", "int64", "uint64"})
        with jax.enable_x64(self._wide):
            program = jax.jit(_program(header, arrays, code).call)
        self._draw = lambda given, words: program(words, [*given, *arrays])

    def sample(
        self, key: Any, n: int, devices: Sequence[Any] = (), /, **data: Any
    ) -> dict[str, np.ndarray]:
        """Draw ``n`` values of every site.

        Args:
            key: a random key such as ``jax.random.key(0)``, or a whole number.
            n: how many.
            devices: some of ``jax.devices()``, on which chunks are drawn in turn; none is the default.
            data: what the draws are made for, by the names in :attr:`inputs`; NaN where a number is
                missing.
        """
        given = _given(self._inputs, data)
        if not isinstance(devices, list | tuple) or not all(isinstance(d, jax.Device) for d in devices):
            raise StoreError(f"devices is a list of some of jax.devices(); {_shown(devices)} came.")
        with jax.enable_x64(self._wide):
            draw = functools.partial(self._draw, given)
            return in_chunks(draw, key, n, self._chunk, devices)


def _given(inputs: list[dict[str, Any]], data: Mapping[str, Any]) -> list[np.ndarray]:
    """Data as the program takes them: all of its inputs, rows padded to the largest number of them."""
    names = [one["name"] for one in inputs]
    if set(data) != set(names):
        wanted = ", ".join(f"{name}=" for name in names) or "no data"
        raise StoreError(f"This file draws given {wanted}; {', '.join(data) or 'none'} came.")
    arrays = [_array(name, data[name]) for name in names]
    for one, array in zip(inputs, arrays, strict=True):
        _check_given(one, array)
    counts = {len(a) for one, a in zip(inputs, arrays, strict=True) if one["least"] is not None}
    if len(counts) > 1:
        raise StoreError(f"All data have as many rows; {sorted(counts)} came.")
    return [_padded(one, array) for one, array in zip(inputs, arrays, strict=True)]


def _array(name: str, value: Any) -> np.ndarray:
    try:
        return np.asarray(value)
    except Exception as error:
        raise StoreError(f"{name} is an array of numbers; {_shown(value)} came.") from error


def _check_given(one: Mapping[str, Any], array: np.ndarray) -> None:
    shape, least = tuple(one["shape"]), one["least"]
    short = least is not None and array.ndim == len(shape) and least <= len(array) <= shape[0]
    if array.dtype.kind not in "fiub" or (array.shape[short:] != shape[short:]):
        rows = "" if least is None else f", its first number at least {least}"
        raise StoreError(
            f"{one['name']} is an array of numbers of shape {shape}{rows}; one of shape {array.shape} "
            f"and dtype {array.dtype} came."
        )
    if np.isinf(array).any() or (np.isnan(array).any() and not one["missing"]):
        raise StoreError(f"{one['name']} holds numbers that are not finite; fill them in.")


def _padded(one: Mapping[str, Any], array: np.ndarray) -> np.ndarray:
    shape, dtype = tuple(one["shape"]), jnp.dtype(one["dtype"])
    whole = np.full(shape, np.nan if jnp.issubdtype(dtype, jnp.floating) else 0, dtype)
    whole[tuple(slice(0, n) for n in array.shape)] = array
    return whole


def load_exported(path: str | Path) -> Exported:
    """Read an exported posterior; a file of which a single bit has changed is refused.

    The program inside may compute, in bounded memory, with linear algebra and random numbers on a list,
    and can reach neither files nor network nor code of this machine. What cannot be promised of a file
    from a stranger: that its numbers are draws of what it says, and that ``sample`` ends, since a loop
    without end looks like a long one. Draw from such a file in a process that can be stopped.

    Args:
        path: the file.
    """
    if not isinstance(path, str | os.PathLike) or not str(path).strip():
        raise StoreError(
            f"path is the name of a file written by result.export(path); {_shown(path)} came."
        )
    try:
        raw = _bytes(path)
    except (OSError, ValueError, MemoryError) as error:
        why = getattr(error, "strerror", None) or str(error) or "it does not fit into memory"
        raise StoreError(f"{str(path)!r} cannot be read ({why}); check the name.") from error
    return parse(raw, str(path))


def _bytes(path: str | os.PathLike) -> bytes:
    """What a regular file holds; whether it is of ours is seen before all of it is read."""
    # A pipe would be waited for.
    handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    with open(handle, "rb") as file:
        seen = os.fstat(handle)
        if not stat.S_ISREG(seen.st_mode):
            raise OSError("it is not a file")
        if seen.st_size > _LARGEST_FILE:
            raise OSError(f"it holds {seen.st_size:,} bytes, more than the {_LARGEST_FILE:,} allowed")
        start = file.read(len(MAGIC))
        return start + file.read(seen.st_size - len(start)) if start == MAGIC else start


def parse(raw: bytes, name: str = "The file") -> Exported:
    """Make an exported posterior of the bytes of its file."""
    whole = memoryview(raw)
    start = len(MAGIC) + 65
    digest, rest = bytes(whole[len(MAGIC) : start]), whole[start:]
    if not raw.startswith(MAGIC):
        raise StoreError(f"{name} is not an exported posterior; write one with result.export(path).")
    if hashlib.sha256(rest).hexdigest().encode() + b"\n" != digest:
        raise StoreError(
            f"{name} is damaged (its SHA-256 does not fit); use a copy of it or export again."
        )
    try:
        end = raw.find(b"\n", start, start + _LARGEST_HEADER)
        if end < 0:
            raise StoreError(f"its header takes more than {_LARGEST_HEADER:,} bytes")
        header = json.loads(raw[start:end])
        arrays, code = _unpacked(header["arrays"], whole[end + 1 :])
        return Exported(header, arrays, code)
    except StoreError as error:
        raise StoreError(f"{name} cannot be used: {error}; export again.") from error
    except Exception as error:
        raise StoreError(
            f"{name} has contents that understudy does not write ({type(error).__name__}); export again."
        ) from error


def packed(header: Mapping[str, Any], arrays: Iterable[np.ndarray], code: bytes) -> list[bytes]:
    """The bytes of a file for :func:`load_exported`, in pieces."""
    parts = [json.dumps(header).encode(), b"\n", *(array.tobytes() for array in arrays), code]
    size = sum(map(len, parts))
    if size > _LARGEST_FILE - 2**10:
        raise StoreError(
            f"The program and its arrays take {size:,} bytes, more than the {_LARGEST_FILE:,} that "
            "load_exported reads; keep the posterior with save(path), or take a smaller student."
        )
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part)
    return [MAGIC, digest.hexdigest().encode(), b"\n", *parts]


def check_program(header: Mapping[str, Any], arrays: list[np.ndarray], code: bytes) -> None:
    """Raise unless a program is one that draws what its header says, and does nothing besides."""
    try:
        wanted = _wanted_type(header, arrays)
    except (KeyError, TypeError, AttributeError, ValueError, OverflowError) as error:
        raise StoreError("its header does not describe a program that draws") from error
    here = jax.default_backend()
    platforms = ["cuda" if name == "gpu" else name for name in header["platforms"]]
    if ("cuda" if here == "gpu" else here) not in platforms:
        raise StoreError(
            f"it was exported for {', '.join(platforms)} and runs on {here} here; name both platforms"
        )
    if inspected(code, max(_LARGEST_TENSOR, _site_bytes(header))) not in wanted:
        raise StoreError("its program takes or gives other arrays than its header says")


def _site_bytes(header: Mapping[str, Any]) -> int:
    return sum(
        header["chunk"] * math.prod(shape) * jnp.dtype(header["dtypes"][name]).itemsize
        for name, shape in header["sites"].items()
    )


def _wanted_type(header: Mapping[str, Any], arrays: list[np.ndarray]) -> list[str]:
    """The types that the program's function may have, after a look at every entry of the header."""
    chunk, sites, dtypes = header["chunk"], header["sites"], header["dtypes"]
    least = jax.export.minimum_supported_calling_convention_version
    most = jax.export.maximum_supported_calling_convention_version
    right = (
        type(chunk) is int
        and 1 <= chunk <= _LARGEST_CHUNK
        and bool(sites)
        and set(sites) == set(dtypes)
        and all(type(n) is int and n >= 0 for shape in sites.values() for n in shape)
        and _site_bytes(header) <= _LARGEST_SITES
        and [[a.dtype.name, list(a.shape)] for a in arrays] == [list(one) for one in header["arrays"]]
        and all(_is_input(one) for one in header.get("inputs", []))
        and bool(header["platforms"])
        and set(header["platforms"]) <= {*PLATFORMS, "gpu"}
        and type(header["calling_convention"]) is int
        and least <= header["calling_convention"] <= most
    )
    if not right:
        raise ValueError("header")
    inputs = [_tensor(one["shape"], one["dtype"]) for one in header.get("inputs", [])]
    given = ["tensor<4xui32>", *inputs, *(_tensor(a.shape, a.dtype.name) for a in arrays)]
    made = [_tensor((chunk, *sites[name]), dtypes[name]) for name in sorted(sites)]
    results = made[0] if len(made) == 1 else f"({', '.join(made)})"
    # A program for several platforms is told first which one it runs on.
    return [f"({', '.join(more + given)}) -> {results}" for more in ([], ["tensor<i32>"])]


def _is_input(one: Mapping[str, Any]) -> bool:
    shape, least = one["shape"], one["least"]
    return (
        type(one["name"]) is str
        and one["dtype"] in _ELEMENTS
        and all(type(n) is int and n >= 0 for n in shape)
        and math.prod(shape) * jnp.dtype(one["dtype"]).itemsize <= _LARGEST_TENSOR
        and (least is None or (type(least) is int and bool(shape) and 0 <= least <= shape[0]))
        and type(one["missing"]) is bool
    )


def _tensor(shape: Iterable[int], dtype: str) -> str:
    return f"tensor<{''.join(f'{n}x' for n in shape)}{_ELEMENTS[dtype]}>"


_own: dict[tuple[str, int], str] = {}


def inspected(code: bytes, largest: int = _LARGEST_TENSOR) -> str:
    """The types of a program's function; it is looked at in another process, once.

    Args:
        code: a portable artifact of StableHLO.
        largest: bytes that one of its arrays may take.
    """
    place = (hashlib.sha256(code).hexdigest(), largest)
    if place not in _own:
        _own[place] = _inspect(code, largest)
    return _own[place]


def _inspect(code: bytes, largest: int) -> str:
    script = str(Path(__file__).with_name("inspecting.py"))
    command = [sys.executable, "-I", script, json.dumps([p for p in sys.path if p]), str(largest)]
    try:
        ran = subprocess.run(command, input=code, capture_output=True, timeout=_SECONDS, check=False)
        answer = json.loads(ran.stdout.splitlines()[-1]) if ran.returncode == 0 else {}
    except (OSError, ValueError, IndexError, subprocess.SubprocessError) as error:
        raise StoreError(f"its program could not be looked at ({type(error).__name__})") from error
    if "main" not in answer:
        raise StoreError(answer.get("refused", "its program cannot be parsed"))
    return answer["main"]


def _unpacked(entries: Any, body: memoryview) -> tuple[list[np.ndarray], bytes]:
    """The arrays and what follows them; a size is compared with the bytes that are there."""
    arrays, at = [], 0
    for name, shape in entries:
        if name not in _ELEMENTS or not all(type(n) is int and n >= 0 for n in shape):
            raise StoreError("an array has no numbers or no shape")
        dtype = jnp.dtype(name)
        size = dtype.itemsize * math.prod(shape)
        if size > len(body) - at:
            raise StoreError("an array is larger than the file")
        arrays.append(np.frombuffer(body[at : at + size], dtype).reshape(shape))
        at += size
    return arrays, bytes(body[at:])


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
    inputs = [np.zeros(one["shape"], jnp.dtype(one["dtype"])) for one in header.get("inputs", [])]
    template = jax.export.export(jax.jit(blank, keep_unused=True))(words, [*inputs, *arrays])
    return dataclasses.replace(
        template,
        mlir_module_serialized=code,
        platforms=tuple(header["platforms"]),
        calling_convention_version=header["calling_convention"],
    )


def in_chunks(
    draw: Callable, key: Any, n: int, chunk: int, devices: Sequence[Any] = ()
) -> dict[str, np.ndarray]:
    """Rows of ``draw(words)``, a chunk at a time and a chunk on every core, ``n`` in all.

    Where devices are named, chunks go to them in turn. A chunk is one run of one program, so the draws
    are the same on any number of them.

    What is floating comes in float64: sums over many rows of float32 lose what the rows hold.
    """
    n = _count(n)
    refuse_forked()
    seed, wide = _words(key), bool(jax.config.jax_enable_x64)

    def rows(i: int) -> dict[str, np.ndarray]:
        words = np.random.SeedSequence([*seed, i]).generate_state(4)
        # Settings that a user made for a block of code do not reach other threads by themselves.
        with (
            jax.default_device(devices[i % len(devices)]) if devices else contextlib.nullcontext(),
            jax.enable_x64(wide),
            jax.numpy_dtype_promotion("standard"),
            jax.debug_nans(False),
        ):
            return {name: np.asarray(value) for name, value in draw(words).items()}

    first = rows(0)
    out = {name: _room(n, value) for name, value in first.items()}

    def fill(i: int, values: Mapping[str, np.ndarray] | None = None) -> None:
        for name, value in (values or rows(i)).items():
            place = out[name][i * chunk : (i + 1) * chunk]
            place[...] = value[: len(place)]

    fill(0, first)
    if n > chunk:
        with ThreadPoolExecutor(max(_cores(), len(devices))) as pool:
            list(pool.map(fill, range(1, -(-n // chunk))))
    return out


def _count(n: Any) -> int:
    with contextlib.suppress(TypeError):
        if not isinstance(n, bool) and operator.index(n) > 0:
            return operator.index(n)
    raise StoreError(f"n is a whole number, 1 or more; {_shown(n)} came.")


def _room(n: int, example: np.ndarray) -> np.ndarray:
    dtype = np.float64 if jnp.issubdtype(example.dtype, jnp.floating) else example.dtype
    try:
        return np.empty((n, *example.shape[1:]), dtype)
    except (MemoryError, ValueError, OverflowError) as error:
        raise StoreError(f"n = {n:,} draws do not fit into memory; draw fewer at a time.") from error


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _words(key: Any) -> list[int]:
    if isinstance(key, jax.Array) and jax.dtypes.issubdtype(key.dtype, jax.dtypes.prng_key):
        key = jax.random.key_data(key)
    with contextlib.suppress(Exception):
        words = np.atleast_1d(np.asarray(key))
        if words.dtype.kind in "iu" and words.size and (words >= 0).all():
            return [int(word) for word in words.ravel()]
        if type(key) is int and key >= 0:
            return [key]
    raise StoreError(
        f"key is a random key such as jax.random.key(0), or a whole number; {_shown(key)} came."
    )


def _shown(value: Any) -> str:
    try:
        return " ".join(repr(value).split())[:80]
    except Exception:  # what a user's class does
        return f"a {type(value).__name__}"


_forked = False


def refuse_forked() -> None:
    """Raise where this process was forked from one that used JAX, whose threads did not come along."""
    if _forked:
        raise RuntimeError(
            "This process was forked after JAX had started, and would wait for ever for threads that "
            "did not come along; start it with multiprocessing.get_context('spawn') instead."
        )


def _note_fork(is_running: Callable[[], bool]) -> None:
    global _forked
    _forked = _forked or is_running()


@functools.cache
def _watch_forks() -> None:
    from jax._src import xla_bridge

    is_running: Any = getattr(xla_bridge, "backends_are_initialized", None)
    if is_running is not None and hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=functools.partial(_note_fork, is_running))


_watch_forks()
