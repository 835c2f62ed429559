"""The program that draws named sites, and what makes it fast."""

from collections.abc import Callable
from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import paramax
from flowjax.bijections import AbstractBijection, Chain, Scan
from flowjax.distributions import AbstractDistribution, StandardNormal, Transformed
from jaxtyping import Array, ArrayLike, Float, UInt32

from understudy.checks import drawn
from understudy.core import Condition, Key, Named, Student, Target
from understudy.data.files import cache_folder
from understudy.numerics import in_blocks
from understudy.programs import jit_of_few
from understudy.students import Flow
from understudy.surroundings import double_precision, in_double

CHUNK = 16_384

Words = UInt32[Array, " 4"] | UInt32[np.ndarray, " 4"]


def keep_programs() -> None:
    """Keep compiled programs in the user's cache folder, unless JAX was given another."""
    if jax.config.jax_compilation_cache_dir is None:
        jax.config.update("jax_compilation_cache_dir", str(cache_folder() / "programs"))
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.2)


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


def chunk_of(student: Student) -> int:
    """How many draws are made at a time: as many as the student says, if it does."""
    return getattr(student, "chunk", CHUNK)


@jit_of_few
def flat(student: Student, target: Any, words: Words) -> dict[str, Float[Array, "n d"]]:
    """A chunk of flat draws; four words make the key."""
    del target
    return {"z": drawn(_for_drawing(student), _key(words), None, chunk_of(student))}


@jit_of_few
def named(student: Student, target: Any, words: Words) -> dict[str, Array]:
    """A chunk of draws of the named sites (of ``z`` where the target has no names)."""
    z = drawn(_for_drawing(student), _key(words), None, chunk_of(student))
    return jax.vmap(partial(constrained, target))(z)


def named_rows(target: Target, z: Float[np.ndarray, "n d"]) -> dict[str, np.ndarray]:
    """The named sites of flat draws; what is floating in float64, as sums over rows need it."""
    return {name: widened(value) for name, value in in_blocks(partial(_name_rows, target), z).items()}


def widened(value: np.ndarray) -> np.ndarray:
    """Floating numbers as float64, others as they are."""
    value = np.asarray(value)
    return value.astype(np.float64) if jnp.issubdtype(value.dtype, jnp.floating) else value


@jit_of_few
def _name_rows(target: Target, z: Float[Array, "n d"]) -> dict[str, Array]:
    return jax.vmap(partial(constrained, target))(z)


def columns(target: Target, z: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n c"]:
    """All numbers of the named sites of draws that are not constant, as columns in double precision."""
    with double_precision():
        sites = in_blocks(partial(_name_rows, in_double(target)), z)
    values = [np.reshape(value, (len(z), -1)) for value in sites.values()]
    table = np.concatenate([v.astype(float) for v in values if v.dtype.kind in "fiub"], 1)
    return table[:, np.ptp(table, axis=0) > 0]


def constrained(target: Target, z: Float[Array, " d"]) -> dict[str, Array]:
    """The named sites of one flat draw."""
    return target.constrain(z) if isinstance(target, Named) else {"z": z}


def _key(words: Words) -> Key:
    # This generator makes normals several times faster than the others do on a CPU.
    return jax.random.wrap_key_data(jnp.asarray(words)[:2], impl="threefry2x32")
