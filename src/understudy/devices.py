"""Several devices for one program: conditions or draws are spread over them, parameters are on each.

Nothing is written twice for it. XLA splits a program by where its arrays are, so that losses over sets
of draws, batch statistics and adapted steps are those of all devices together, up to the order of sums.
What is drawn or looked at in blocks is not split: whole blocks go to the devices in turn.
"""

import contextlib
import functools
import os
import zlib
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar
from typing import Any, TypeGuard

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec
from jaxtyping import PyTree

from understudy.backend import backend, see_cores
from understudy.checks import first_line, shown, whole
from understudy.core import IngredientError

AXIS = "devices"
# Seconds after which a process that is not heard of counts as dead.
_HEARTBEAT = 30
_DRAWING: ContextVar[tuple[Any, ...]] = ContextVar("devices that draw", default=())


see_cores()

Devices = int | Sequence[Any] | Mesh | None
"""How many, which, or a mesh with one axis; None is JAX's default device, or all cores of a CPU where a
program is large enough to gain by it."""


def mesh_of(devices: Devices) -> Mesh | None:
    """The mesh that a user's choice stands for; None for one device as JAX chooses it."""
    if devices is None or isinstance(devices, Mesh):
        if devices is not None and len(devices.axis_names) != 1:
            raise IngredientError(
                f"devices is a mesh with one axis; one with the axes {devices.axis_names} came."
            )
        return devices if devices is None else _mesh(list(devices.devices.flat))
    if isinstance(devices, Sequence) and not isinstance(devices, str):
        real = all(isinstance(one, jax.Device) for one in devices)
        if not devices or not real or len(set(devices)) < len(devices):
            raise IngredientError(
                f"devices is a list of some of jax.devices(), each once; {shown(devices)} came."
            )
        return _mesh(list(devices))
    wanted, there = whole("devices, if no mesh and no list of jax.devices(),", devices), jax.devices()
    if wanted > len(there):
        raise IngredientError(
            f"{wanted} devices are asked for and JAX sees {len(there)}; on a CPU, begin with "
            f'jax.config.update("jax_num_cpu_devices", {wanted}).'
        )
    return _mesh(there[:wanted])


def mesh_of_cores(rows: int) -> Mesh | None:
    """The cores of a CPU as devices, where there are several that can share so many rows."""
    if not backend().parts or jax.config.jax_default_device is not None:
        return None
    there = jax.local_devices()
    return _mesh(there) if len(there) > 1 and rows % len(there) == 0 else None


def _mesh(devices: list[Any]) -> Mesh:
    return jax.make_mesh((len(devices),), (AXIS,), (AxisType.Auto,), devices=devices)


def join_hosts(
    coordinator: str | None = None, processes: int | None = None, process: int | None = None
) -> None:
    """Make one machine of several processes: afterwards ``jax.devices()`` are those of all of them.

    Call it first, in every process, with the same program. ``train(..., devices=jax.devices())`` then
    runs over all; the first process alone writes progress, metrics and checkpoints.

    Args:
        coordinator: address of the first process, such as "10.0.0.1:1234"; None takes
            ``UNDERSTUDY_COORDINATOR``, or what JAX finds out from Slurm, Open MPI and the like.
        processes: how many there are; None takes ``UNDERSTUDY_PROCESSES``, or what JAX finds out.
        process: which of them this is, from 0 on; None takes ``UNDERSTUDY_PROCESS``, or what JAX finds.
    """
    coordinator = coordinator or os.environ.get("UNDERSTUDY_COORDINATOR")
    processes = _count("processes", processes, "UNDERSTUDY_PROCESSES", 1)
    process = _count("process", process, "UNDERSTUDY_PROCESS", 0)
    try:
        jax.distributed.initialize(coordinator, processes, process, heartbeat_timeout_seconds=_HEARTBEAT)
    except (RuntimeError, ValueError) as error:
        raise IngredientError(
            f"The processes cannot be joined ({first_line(error)}); give coordinator, processes and "
            "process, or set UNDERSTUDY_COORDINATOR, UNDERSTUDY_PROCESSES and UNDERSTUDY_PROCESS, "
            "before JAX is used."
        ) from error


def _count(name: str, value: Any, variable: str, least: int) -> int | None:
    if value is None and variable in os.environ:
        word = os.environ[variable]
        value, name = int(word) if word.isdecimal() else word, variable
    return None if value is None else whole(name, value, least=least)


def platform(mesh: Mesh) -> str:
    """The kind of a mesh's devices."""
    return mesh.devices.flat[0].platform


def spans_hosts(mesh: Mesh | None) -> TypeGuard[Mesh]:
    """Whether some devices of a mesh belong to other processes."""
    return mesh is not None and mesh.is_multi_process


def is_first(mesh: Mesh | None) -> bool:
    """Whether this process is the one that writes, of those with devices in a mesh."""
    return not spans_hosts(mesh) or jax.process_index() == 0


@contextlib.contextmanager
def with_others(mesh: Mesh | None) -> Iterator[None]:
    """Work that processes do together; a clear word where one of them is gone."""
    try:
        yield
    except jax.errors.JaxRuntimeError as error:
        if not spans_hosts(mesh):
            raise
        raise RuntimeError(
            "Another process of this run ended, or cannot be reached; start all of them again, "
            "with resume=True to go on from what was kept last."
        ) from error


def here(tree: PyTree) -> PyTree:
    """Arrays that are whole on every device, as arrays of this process that any device may take."""

    def own(leaf: Any) -> Any:
        if not isinstance(leaf, jax.Array) or len(leaf.sharding.device_set) == 1:
            return leaf
        if jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.prng_key):
            words = own(jax.random.key_data(leaf))
            return jax.random.wrap_key_data(words, impl=jax.random.key_impl(leaf))
        return jnp.asarray(np.asarray(leaf.addressable_data(0)))

    return jax.tree.map(own, tree)


def everywhere(tree: PyTree, mesh: Mesh) -> PyTree:
    """Arrays that every process holds alike, whole on every device of a mesh."""
    return jax.tree.map(lambda leaf: _placed(leaf, on_each(mesh)), tree)


def split_rows(array: np.ndarray, mesh: Mesh) -> jax.Array:
    """Rows that every process holds alike, each on the device whose share they are."""
    return _placed(array, in_rows(mesh, len(array)))


def _placed(array: Any, sharding: NamedSharding) -> jax.Array:
    if not sharding.mesh.is_multi_process:
        return jax.device_put(array, sharding)
    if isinstance(array, jax.Array):
        if array.sharding == sharding:
            return array
        if jax.dtypes.issubdtype(array.dtype, jax.dtypes.prng_key):
            words = _placed(jax.random.key_data(array), sharding)
            return jax.random.wrap_key_data(words, impl=jax.random.key_impl(array))
    array = np.asarray(array)
    return jax.make_array_from_callback(array.shape, sharding, lambda index: array[index])


def agreed(value: float, mesh: Mesh | None) -> float:
    """The first process's value in every process: of clocks, for decisions that all take alike."""
    if not spans_hosts(mesh):
        return value
    return float(_gathered(np.float64(value), mesh)[0])


def check_alike(arrays: Sequence[np.ndarray], mesh: Mesh | None) -> None:
    """Stop where processes that ought to compute the same no longer do."""
    if not spans_hosts(mesh):
        return
    mark = 0
    for array in arrays:
        mark = zlib.crc32(np.ascontiguousarray(array).tobytes(), mark)
    if len(set(_gathered(np.float64(mark), mesh).tolist())) > 1:
        raise RuntimeError(
            "The processes of this run no longer compute the same; run them on machines of one kind "
            "with the same program and data, or in one process."
        )


def _gathered(value: np.float64, mesh: Mesh) -> np.ndarray:
    """The number that each device's process holds, in the order of the devices."""
    with jax.enable_x64(True), with_others(mesh):
        split = NamedSharding(mesh, PartitionSpec(AXIS))
        own = jax.make_array_from_callback((mesh.size,), split, lambda _: np.full(1, value))
        return np.asarray(_gathering(mesh)(own))


@functools.cache
def _gathering(mesh: Mesh) -> Callable[[jax.Array], jax.Array]:
    return jax.jit(lambda every: every, out_shardings=on_each(mesh))


def on_each(mesh: Mesh) -> NamedSharding:
    """Whole on every device."""
    return NamedSharding(mesh, PartitionSpec())


def in_rows(mesh: Mesh, rows: int) -> NamedSharding:
    """Split along the first axis, if the devices divide its ``rows``."""
    return NamedSharding(mesh, PartitionSpec(AXIS if rows % mesh.size == 0 else None))


def spread(arrays: PyTree, axis: int = 0) -> PyTree:
    """Arrays split along an axis over the devices of the mesh that is set, as they are without one.

    An axis that the number of devices does not divide is left whole.
    """
    count = jax.sharding.get_abstract_mesh().shape.get(AXIS, 1)

    def split(leaf):
        if not hasattr(leaf, "ndim") or leaf.ndim <= axis or leaf.shape[axis] % count:
            return leaf
        return jax.lax.with_sharding_constraint(leaf, PartitionSpec(*[None] * axis, AXIS))

    return arrays if count == 1 else jax.tree.map(split, arrays)


@contextlib.contextmanager
def drawing_on(devices: Devices) -> Iterator[None]:
    """Blocks of rows inside go to these devices in turn; None leaves it as it was."""
    mesh = mesh_of(devices)
    if mesh is None:
        yield
        return
    before = _DRAWING.set(tuple(mesh.devices.flat))
    try:
        yield
    finally:
        _DRAWING.reset(before)


def that_draw() -> tuple[Any, ...]:
    """The devices of :func:`drawing_on`, none outside of it."""
    return _DRAWING.get()


def in_turn(function: Callable[..., Any], blocks: Sequence[Any]) -> list[Any]:
    """``function(i, block)`` of every block as numpy arrays, each on the next of the devices that draw.

    A block is one run of one program, so the numbers are the same on any number of devices.
    """
    devices, wide = that_draw(), bool(jax.config.jax_enable_x64)
    if len(devices) < 2:
        with jax.default_device(devices[0]) if devices else contextlib.nullcontext():
            return [jax.device_get(function(i, block)) for i, block in enumerate(blocks)]

    def run(i: int) -> Any:
        # Settings that a user made for a block of code do not reach other threads by themselves.
        with (
            jax.default_device(devices[i % len(devices)]),
            jax.enable_x64(wide),
            jax.numpy_dtype_promotion("standard"),
            jax.debug_nans(False),
        ):
            return jax.device_get(function(i, blocks[i]))

    with ThreadPoolExecutor(len(devices)) as pool:
        return list(pool.map(run, range(len(blocks))))
