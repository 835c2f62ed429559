"""Checkpoints: the arrays of a running training in a folder, the newest two kept."""

import contextlib
import re
import warnings
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jaxtyping import PyTree

from understudy.files.container import is_whole, read, write
from understudy.files.describing import is_array, is_key
from understudy.files.errors import StoreError
from understudy.files.replacing import clear_litter
from understudy.files.reviving import to_jax

_KEPT = 2
_NAME = re.compile(r"checkpoint-(\d{8,18})\.safetensors")


def write_checkpoint(folder: str | Path, step: int, tree: PyTree, description: dict) -> Path:
    """Write the arrays of a tree to ``checkpoint-00001200.safetensors``, say; keep the newest two."""
    leaves = _array_leaves(tree)
    keys = {path: str(jax.random.key_impl(leaf)) for path, leaf in leaves.items() if is_key(leaf)}
    arrays = {
        path: np.asarray(jax.random.key_data(x) if path in keys else x) for path, x in leaves.items()
    }
    path = Path(folder) / f"checkpoint-{step:08d}.safetensors"
    clear_litter(folder, "checkpoint-*.safetensors")
    write(path, arrays, {"step": step, "keys": keys, "order": list(arrays), "description": description})
    _prune(Path(folder), path)
    return path


def read_checkpoint(folder: str | Path, like: PyTree) -> tuple[int, PyTree, dict] | None:
    """The newest valid checkpoint as (step, tree, description), or None where there is none.

    Args:
        folder: where :func:`write_checkpoint` wrote.
        like: a tree of the same structure; everything but the arrays is taken from it.
    """
    for path in _checkpoints(Path(folder)):
        try:
            arrays, inside = _read(path)
        except StoreError as error:
            warnings.warn(f"A checkpoint was skipped: {error}", stacklevel=2)
            continue
        _compare(path, arrays, inside, _array_leaves(like))
        return inside["step"], _fill(arrays, like), inside["description"]
    return None


def _prune(folder: Path, newest: Path) -> None:
    """Remove all but the newest two, and what stands before the one just written and is damaged."""
    every = _checkpoints(folder)
    damaged = [path for path in every[: every.index(newest)] if not is_whole(path)]
    whole = [path for path in every if path not in damaged]
    for old in {*damaged, *whole[_KEPT:]} - {newest}:
        with contextlib.suppress(OSError):
            old.unlink()


def _checkpoints(folder: Path) -> list[Path]:
    found = [path for path in folder.glob("checkpoint-*") if _NAME.fullmatch(path.name)]
    return sorted((path for path in found if path.is_file()), key=_step, reverse=True)


def _step(path: Path) -> int:
    found = _NAME.fullmatch(path.name)
    assert found is not None
    return int(found[1])


def _read(path: Path) -> tuple[dict[str, np.ndarray], dict]:
    arrays, inside = read(path)
    kinds = {"step": int, "keys": dict, "order": list, "description": dict}
    whole = all(type(inside.get(name)) is kind for name, kind in kinds.items())
    if not whole or inside["step"] != _step(path) or set(inside["order"]) != set(arrays):
        raise StoreError(f"{path} is not the checkpoint of the step in its name; remove it.")
    return arrays, inside


def _array_leaves(tree: PyTree) -> dict[str, Any]:
    pairs = jax.tree_util.tree_flatten_with_path(tree)[0]
    return {jax.tree_util.keystr(path): leaf for path, leaf in pairs if is_array(leaf)}


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
        return _restore(arrays[jax.tree_util.keystr(path)], leaf) if is_array(leaf) else leaf

    return jax.tree_util.tree_map_with_path(replace, like)


def _restore(array: np.ndarray, leaf: Any) -> Any:
    if is_key(leaf):
        return jax.random.wrap_key_data(to_jax(array), impl=jax.random.key_impl(leaf))
    if isinstance(leaf, jax.Array):
        return to_jax(array, leaf.weak_type)
    return array[()] if isinstance(leaf, np.generic) else array.copy()
