"""The program that draws named sites: compiled for use, or serialised to be used without its model."""

import hashlib
import json
from collections.abc import Callable, Sequence
from functools import cached_property, partial
from typing import Any

import equinox as eqx
import jax
import jax.export
import jax.numpy as jnp
import numpy as np
import paramax
from flowjax.bijections import AbstractBijection, Chain, Scan
from flowjax.distributions import AbstractDistribution, StandardNormal, Transformed
from jaxtyping import Array, ArrayLike, Float, UInt32

from understudy.core import Condition, Key, Student, Target
from understudy.data.files import cache_folder
from understudy.posterior.exported import MAGIC, Exported
from understudy.students import Flow

CHUNK = 16_384

Words = UInt32[Array, " 4"] | UInt32[np.ndarray, " 4"]


def keep_programs() -> None:
    """Keep compiled programs in the user's cache folder, unless JAX was given another."""
    if jax.config.jax_compilation_cache_dir is None:
        jax.config.update("jax_compilation_cache_dir", str(cache_folder() / "programs"))
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.2)


class Program(eqx.Module):
    """A serialised program ``(words, arrays) -> sites`` with its arrays.

    Attributes:
        code: StableHLO, as bytes.
        arrays: what the program reads: the student's weights, and data that deterministic sites use.
        header: chunk, shapes and dtypes of the sites, platforms, version of the calling convention.
    """

    code: np.ndarray
    arrays: tuple[np.ndarray, ...]
    header: dict[str, Any]

    @cached_property
    def loaded(self) -> Exported:
        """The program, ready to draw."""
        keep_programs()
        return Exported(self.header, list(self.arrays), self.code.tobytes())

    def file(self) -> list[bytes]:
        """The bytes of a file for :func:`understudy.posterior.exported.load_exported`."""
        parts = [json.dumps(self.header).encode(), b"\n"]
        parts += [array.tobytes() for array in self.arrays] + [self.code.tobytes()]
        digest = hashlib.sha256()
        for part in parts:
            digest.update(part)
        return [MAGIC, digest.hexdigest().encode(), b"\n", *parts]


class _Layers(AbstractBijection):
    """The layers of a flowjax ``Scan`` without their log determinants, which draws do not need.

    XLA does not see that a loop carries them in vain; they would take most of the time.
    """

    bijection: AbstractBijection
    shape: tuple[int, ...] = eqx.field(static=True)
    cond_shape: tuple[int, ...] | None = eqx.field(static=True)

    def transform_and_log_det(self, x: ArrayLike, condition: ArrayLike | None = None):
        return self._through(x, lambda layer, x: layer.transform(x, condition)), jnp.zeros(())

    def inverse_and_log_det(self, y: ArrayLike, condition: ArrayLike | None = None):
        return self._through(y, lambda layer, y: layer.inverse(y, condition), True), jnp.zeros(())

    def _through(self, x: ArrayLike, move: Callable, reverse: bool = False) -> Array:
        arrays, rest = eqx.partition(self.bijection, eqx.is_array)

        def step(x, arrays):
            return move(eqx.combine(arrays, rest), x), None

        # Two layers a turn draw twice as fast as one and compile twice as fast as all of four.
        return jax.lax.scan(step, jnp.asarray(x), arrays, reverse=reverse, unroll=2)[0]


class _Columns(Student):
    """A flow that keeps its draws as columns, so that loops over draws run along memory."""

    distribution: Transformed
    dim: int = eqx.field(static=True)

    def sample(self, key: Key, x: Condition, n: int) -> Float[Array, "n d"]:
        merged = paramax.unwrap(self.distribution).merge_transforms()
        outer = merged.bijection
        maps = outer.bijections if isinstance(outer, Chain) else (outer,)

        def through(column: Float[Array, " d"]) -> Float[Array, " d"]:
            for bijection in maps:
                column = bijection.transform(column)
            return column

        return jax.vmap(through, in_axes=1)(_noise(merged.base_dist, key, n))


def _noise(base: AbstractDistribution, key: Key, n: int) -> Float[Array, "d n"]:
    if isinstance(base, StandardNormal):
        return jax.random.normal(key, (*base.shape, n))
    return base.sample(key, (n,)).T


def _for_drawing(student: Student) -> Student:
    def lighter(node: Any) -> Any:
        if _is_scan(node):
            return _Layers(bijection=node.bijection, shape=node.shape, cond_shape=node.cond_shape)
        if _is_flow(node):
            inner = jax.tree.map(lighter, node.distribution, is_leaf=_is_scan)
            return _Columns(distribution=inner, dim=node.dim)
        return node

    return jax.tree.map(lighter, student, is_leaf=lambda node: _is_scan(node) or _is_flow(node))


def _is_scan(node: Any) -> bool:
    return isinstance(node, Scan)


def _is_flow(node: Any) -> bool:
    return (
        isinstance(node, Flow)
        and isinstance(node.distribution, Transformed)
        and node.distribution.cond_shape is None
    )


@eqx.filter_jit
def flat(student: Student, target: Any, words: Words) -> dict[str, Float[Array, "n d"]]:
    """A chunk of flat draws; four words make the key."""
    del target
    return {"z": _for_drawing(student).sample(_key(words), None, CHUNK)}


@eqx.filter_jit
def named(student: Student, target: Any, words: Words) -> dict[str, Array]:
    """A chunk of draws of the named sites (of ``z`` where the target has no names)."""
    z = _for_drawing(student).sample(_key(words), None, CHUNK)
    return jax.vmap(partial(constrained, target))(z)


def in_blocks(function: Callable, z: Float[np.ndarray, "n d"], block: int = 4096) -> Any:
    """``function`` of blocks of rows, put together as numpy arrays: one shape, so one compilation."""
    padded = np.concatenate([z, np.broadcast_to(z[-1:], (-len(z) % block, z.shape[1]))])
    parts = [function(jnp.asarray(rows)) for rows in padded.reshape(-1, block, z.shape[1])]
    return jax.tree.map(lambda *leaves: np.concatenate(leaves)[: len(z)], *parts)


@eqx.filter_jit
def name_rows(target: Target, z: Float[Array, "n d"]) -> dict[str, Array]:
    """The named sites of flat draws."""
    return jax.vmap(partial(constrained, target))(z)


def constrained(target: Target, z: Float[Array, " d"]) -> dict[str, Array]:
    """The named sites of one flat draw."""
    constrain: Callable | None = getattr(target, "constrain", None)
    return {"z": z} if constrain is None else constrain(z)


def make_program(student: Student, target: Target, platforms: Sequence[str] | None = None) -> Program:
    """Serialise the program that draws a chunk of named sites; data that no site needs stay out.

    Args:
        student: draws flat vectors.
        target: names their parts.
        platforms: "cpu", "cuda" and "tpu" or some of them; None takes the one in use, for which the
            draws are then the same bit for bit.
    """
    arrays, rest = eqx.partition((student, target), eqx.is_array)
    leaves, structure = jax.tree.flatten(arrays)

    def draw(words: Words, arrays: list[Array], names: Sequence[int]) -> dict[str, Array]:
        whole = [jnp.zeros_like(leaf) for leaf in leaves]
        for i, array in zip(names, arrays, strict=True):
            whole[i] = array
        student, target = eqx.combine(jax.tree.unflatten(structure, whole), rest)
        return named(student, target, words)

    names = list(range(len(leaves)))
    exported = _exported(partial(draw, names=names), leaves, platforms)
    used = [i - 1 for i in exported.module_kept_var_idx if i > 0]
    if used != names:
        exported = _exported(partial(draw, names=used), [leaves[i] for i in used], platforms)
    return _program(exported, [np.asarray(leaves[i]) for i in used])


def _exported(
    draw: Callable, arrays: list[Array], platforms: Sequence[str] | None
) -> jax.export.Exported:
    return jax.export.export(jax.jit(draw), platforms=platforms)(np.zeros(4, np.uint32), arrays)


def _program(exported: jax.export.Exported, arrays: list[np.ndarray]) -> Program:
    shapes = jax.tree.unflatten(exported.out_tree, exported.out_avals)
    header = {
        "chunk": CHUNK,
        "sites": {name: list(value.shape[1:]) for name, value in shapes.items()},
        "dtypes": {name: value.dtype.name for name, value in shapes.items()},
        "arrays": [[array.dtype.name, list(array.shape)] for array in arrays],
        "platforms": list(exported.platforms),
        "calling_convention": exported.calling_convention_version,
    }
    return Program(np.frombuffer(exported.mlir_module_serialized, np.uint8), tuple(arrays), header)


def _key(words: Words) -> Key:
    # This generator makes normals several times faster than the others do on a CPU.
    return jax.random.wrap_key_data(jnp.asarray(words)[:2], impl="threefry2x32")
