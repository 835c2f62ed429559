"""Files: trained modules, checkpoints and rows of results, checked on reading and without pickle.

A file is one valid safetensors file. Its metadata holds a description as JSON and the SHA-256 of the
whole file (computed with the digest's own 64 characters set to zero), so a flipped bit or a missing
end is noticed. Files are written beside their place and then renamed: a crash leaves the old one.
"""

import contextlib
import hashlib
import json
import math
import os
import secrets
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import jax
import ml_dtypes
import numpy as np
import safetensors
import safetensors.numpy
from jaxtyping import PyTree

from understudy.files.describing import StoreError, describe, is_key, name_of, revive, to_jax

FORMAT = 1

_ZEROS = b"0" * 64
_MARK = b'"sha256":"'
_DTYPES: dict[str, Any] = {
    **{"F16": np.float16, "F32": np.float32, "F64": np.float64, "C64": np.complex64, "BOOL": np.bool_},
    **{"I8": np.int8, "I16": np.int16, "I32": np.int32, "I64": np.int64},
    **{"U8": np.uint8, "U16": np.uint16, "U32": np.uint32, "U64": np.uint64},
    **{"BF16": ml_dtypes.bfloat16, "F8_E4M3": ml_dtypes.float8_e4m3fn, "F8_E5M2": ml_dtypes.float8_e5m2},
}
_NATIVE = {np.dtype(dtype) for dtype in _DTYPES.values()}


def save(path: str | Path, module: PyTree) -> None:
    """Write a student, a model or any other pytree of modules to one file.

    Args:
        path: the file; its folder is made if need be.
        module: modules, arrays, random keys, numbers, strings and containers of them. Functions are
            stored by name, so lambdas are refused.
    """
    _check_path(path)
    module = module.storable() if hasattr(module, "storable") else module
    arrays: list[np.ndarray] = []
    try:
        description = describe(module, arrays, type(module).__name__)
    except RecursionError as error:
        raise StoreError(
            f"This {type(module).__name__} refers to itself and cannot be written."
        ) from error
    write(path, {str(i): array for i, array in enumerate(arrays)}, {"module": description})


def load(path: str | Path, classes: Sequence[Any] = (), target: Any = None) -> Any:
    """Read what :func:`save` wrote; nothing of the file is run.

    Args:
        path: the file.
        classes: your own module classes (and functions) that the file may name; those of understudy,
            equinox, flowjax, paramax, jax.nn and jax.numpy are known already. For a posterior also its
            NumPyro model.
        target: of a posterior, in place of the one that the file describes.
    """
    _check_path(path)
    arrays, description = read(path)
    known = {name_of(cls): cls for cls in classes} | {
        f"__main__:{cls.__qualname__}": cls for cls in classes
    }
    try:
        made = revive(description["module"], [arrays[str(i)] for i in range(len(arrays))], known)
        return made.restored(known, target) if hasattr(made, "restored") else made
    except StoreError as error:
        raise StoreError(f"{path} cannot be loaded: {error}.") from error
    except Exception as error:
        raise StoreError(
            f"{path} cannot be loaded: it does not describe a module of this version ({error!r}); "
            f"make it again with understudy.files.saving.save."
        ) from error


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
    place = raw.index(_MARK) + len(_MARK)
    replace_file(Path(path), [raw[:place], _digest(raw, place), raw[place + 64 :]])


def read(path: str | Path) -> tuple[dict[str, np.ndarray], dict]:
    """Read what :func:`write` wrote, or raise :class:`StoreError` if a single bit is not as written."""
    raw = _bytes(path)
    size = int.from_bytes(raw[:8], "little")
    place = raw[: 8 + size].find(_MARK) + len(_MARK)
    if place < len(_MARK):
        raise StoreError(
            f"{path} was not written by understudy, or its beginning is damaged; choose another file or "
            f"make it again."
        )
    if raw[place : place + 64] != _digest(raw, place):
        raise StoreError(
            f"{path} is damaged (its SHA-256 does not fit); use a copy of it or make it again."
        )
    try:
        return _parse(raw, 8 + size, path)
    except StoreError:
        raise
    except Exception as error:
        raise StoreError(
            f"{path} has contents that understudy does not write ({error!r}); choose another file."
        ) from error


def _bytes(path: str | Path) -> bytes:
    try:
        return Path(path).read_bytes()
    except FileNotFoundError as error:
        raise StoreError(f"{path} does not exist; check the name or save to it first.") from error
    except OSError as error:
        raise StoreError(f"{path} cannot be read ({error}); check its permissions.") from error


def _digest(raw: bytes, place: int) -> bytes:
    digest = hashlib.sha256(raw[:place])
    digest.update(_ZEROS)
    digest.update(memoryview(raw)[place + 64 :])
    return digest.hexdigest().encode()


def _parse(raw: bytes, end: int, path: str | Path) -> tuple[dict[str, np.ndarray], dict]:
    metadata = json.loads(raw[8:end])["__metadata__"]
    if int(metadata["format"]) > FORMAT:
        raise StoreError(
            f"{path} has format {metadata['format']}, newer than the format {FORMAT} known here; "
            f"update understudy."
        )
    odd = json.loads(metadata["dtypes"])
    arrays = {name: _unpack(entry, odd.get(name)) for name, entry in safetensors.deserialize(raw)}
    return arrays, json.loads(metadata["description"])


def _native(name: str, array: Any) -> np.ndarray:
    array = np.asarray(array, order="C")
    if array.dtype.hasobject or array.dtype.kind in "USMm":
        raise StoreError(
            f"The array {name} has dtype {array.dtype}; store numbers only; nothing was written."
        )
    return array.astype(array.dtype.newbyteorder("="), copy=False)


def _pack(array: np.ndarray) -> np.ndarray:
    return array if array.dtype in _NATIVE else np.frombuffer(array.tobytes(), np.uint8)


def _unpack(entry: dict, odd: list | None) -> np.ndarray:
    dtype, shape = odd or (_DTYPES[entry["dtype"]], entry["shape"])
    return np.frombuffer(entry["data"], jax.numpy.dtype(dtype)).reshape(shape)


def _check_path(path: Any) -> None:
    if not isinstance(path, str | Path):
        raise StoreError(f"path is the name of a file; {path!r} came.")


def replace_file(path: Path, pieces: Sequence[bytes]) -> None:
    """Write a file whole or not at all: a temporary one, flushed, takes its place."""
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(temporary, "xb") as file:
            file.writelines(pieces)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except OSError as error:
        raise StoreError(
            f"{path} could not be written ({error}); check the folder and its free space."
        ) from error
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)


def write_checkpoint(folder: str | Path, step: int, tree: PyTree, description: dict) -> Path:
    """Write the arrays of a tree to ``checkpoint-00001200.safetensors``, say; keep the newest two."""
    leaves = _array_leaves(tree)
    keys = {path: str(jax.random.key_impl(leaf)) for path, leaf in leaves.items() if is_key(leaf)}
    arrays = {
        path: np.asarray(jax.random.key_data(x) if path in keys else x) for path, x in leaves.items()
    }
    path = Path(folder) / f"checkpoint-{step:08d}.safetensors"
    write(path, arrays, {"step": step, "keys": keys, "order": list(arrays), "description": description})
    for old in set(_checkpoints(folder)[2:]) - {path}:
        old.unlink(missing_ok=True)
    return path


def read_checkpoint(folder: str | Path, like: PyTree) -> tuple[int, PyTree, dict] | None:
    """The newest valid checkpoint as (step, tree, description), or None where there is none.

    Args:
        folder: where :func:`write_checkpoint` wrote.
        like: a tree of the same structure; everything but the arrays is taken from it.
    """
    for path in _checkpoints(folder):
        try:
            arrays, inside = read(path)
        except StoreError as error:
            warnings.warn(f"A checkpoint was skipped: {error}", stacklevel=2)
            continue
        _compare(path, arrays, inside, _array_leaves(like))
        return inside["step"], _fill(arrays, like), inside["description"]
    return None


def _checkpoints(folder: str | Path) -> list[Path]:
    return sorted(
        Path(folder).glob("checkpoint-*.safetensors"), key=lambda p: (len(p.name), p.name), reverse=True
    )


def _array_leaves(tree: PyTree) -> dict[str, Any]:
    pairs = jax.tree_util.tree_flatten_with_path(tree)[0]
    return {jax.tree_util.keystr(path): leaf for path, leaf in pairs if _is_array(leaf)}


def _is_array(leaf: Any) -> bool:
    return isinstance(leaf, jax.Array | np.ndarray | np.generic)


def _compare(path: Path, arrays: dict[str, np.ndarray], inside: dict, leaves: dict[str, Any]) -> None:
    stored = {
        n: _signature(arrays[n].shape, arrays[n].dtype, inside["keys"].get(n)) for n in inside["order"]
    }
    wanted = {name: _signature_of(leaf) for name, leaf in leaves.items()}
    for name in [*wanted, *stored]:
        if stored.get(name) != wanted.get(name):
            raise StoreError(
                f"{path} does not fit this run: {name} is {stored.get(name, 'absent')} in the file and "
                f"{wanted.get(name, 'absent')} here, so the settings of the run have changed; use the "
                f"old settings or another folder."
            )


def _signature(shape: tuple[int, ...], dtype: Any, impl: str | None) -> str:
    return f"{dtype}{list(shape)}" + (f" of {impl} keys" if impl else "")


def _signature_of(leaf: Any) -> str:
    if not is_key(leaf):
        return _signature(leaf.shape, leaf.dtype, None)
    data = jax.random.key_data(leaf)
    return _signature(data.shape, data.dtype, str(jax.random.key_impl(leaf)))


def _fill(arrays: dict[str, np.ndarray], like: PyTree) -> PyTree:
    def replace(path: tuple, leaf: Any) -> Any:
        return _restore(arrays[jax.tree_util.keystr(path)], leaf) if _is_array(leaf) else leaf

    return jax.tree_util.tree_map_with_path(replace, like)


def _restore(array: np.ndarray, leaf: Any) -> Any:
    if is_key(leaf):
        return jax.random.wrap_key_data(to_jax(array), impl=jax.random.key_impl(leaf))
    if isinstance(leaf, jax.Array):
        return to_jax(array, leaf.weak_type)
    return array[()] if isinstance(leaf, np.generic) else array.copy()


def append_row(path: str | Path, row: dict) -> None:
    """Append one row to a file of JSON lines; what is not finite becomes null."""
    line = json.dumps(plain(row), allow_nan=False) + "\n"
    try:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        with open(path, "ab+") as file:
            _drop_torn_line(file)
            file.write(line.encode())
            file.flush()
    except OSError as error:
        raise StoreError(
            f"{path} could not be written ({error}); check the folder and its free space."
        ) from error


def read_rows(path: str | Path) -> list[dict]:
    """All rows of a file of JSON lines, but for a last line that was cut short; none if missing."""
    if not Path(path).exists():
        return []
    lines = _bytes(path).split(b"\n")[:-1]
    try:
        return [json.loads(line) for line in lines]
    except ValueError as error:
        raise StoreError(
            f"{path} is damaged: a line is not JSON ({error}); remove that line."
        ) from error


def keep_rows(path: str | Path, wanted: Callable[[dict], bool]) -> None:
    """Drop the rows that are not wanted; the file is replaced whole or not at all."""
    if Path(path).exists():
        kept = [row for row in read_rows(path) if wanted(row)]
        replace_file(Path(path), [(json.dumps(row) + "\n").encode() for row in kept])


def truncate_rows(path: str | Path, step: int) -> None:
    """Drop the rows after ``step``, as a resumed run writes them again."""
    keep_rows(path, lambda row: row.get("step", step) <= step)


def _drop_torn_line(file: Any) -> None:
    size = file.seek(0, os.SEEK_END)
    file.seek(max(size - 1, 0))
    if file.read(1) != b"\n":
        file.seek(0)
        file.truncate(file.read().rfind(b"\n") + 1)


def plain(value: Any) -> Any:
    """A value as JSON takes it: arrays as lists, numbers that are not finite as None."""
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if _is_array(value):
        return plain(np.asarray(value).tolist())
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if value is None or isinstance(value, bool | int | str):
        return value
    return str(value)
