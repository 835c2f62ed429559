"""Several devices for one program: conditions or draws are spread over them, parameters are on each.

Nothing is written twice for it. XLA splits a program by where its arrays are, so that losses over sets
of draws, batch statistics and adapted steps are those of all devices together, up to the order of sums.
"""

from collections.abc import Sequence
from typing import Any

import jax
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec
from jaxtyping import PyTree

from understudy.checks import shown, whole
from understudy.core import IngredientError

AXIS = "devices"

Devices = int | Sequence[Any] | Mesh | None
"""How many, which, or a mesh with one axis; None is the default device alone."""


def mesh_of(devices: Devices) -> Mesh | None:
    """The mesh that a user's choice stands for; None for one device as JAX chooses it."""
    if devices is None or isinstance(devices, Mesh):
        if devices is not None and len(devices.axis_names) != 1:
            raise IngredientError(
                f"devices is a mesh with one axis; one with the axes {devices.axis_names} came."
            )
        return devices if devices is None else _mesh(list(devices.devices.flat))
    if isinstance(devices, Sequence) and not isinstance(devices, str):
        if not devices or not all(isinstance(one, jax.Device) for one in devices):
            raise IngredientError(f"devices is a list of jax.devices(); {shown(devices)} came.")
        return _mesh(list(devices))
    wanted, there = whole("devices", devices), jax.devices()
    if wanted > len(there):
        raise IngredientError(
            f"{wanted} devices are asked for and JAX sees {len(there)}; on a CPU, begin with "
            f'jax.config.update("jax_num_cpu_devices", {wanted}).'
        )
    return _mesh(there[:wanted])


def _mesh(devices: list[Any]) -> Mesh:
    return jax.make_mesh((len(devices),), (AXIS,), (AxisType.Auto,), devices=devices)


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
