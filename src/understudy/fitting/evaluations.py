"""Log densities and gradients at rows of a host array, by the one program that holds the target.

Most of the time to a first draw of a small model goes into compiling its gradient. So it is compiled
once, for a block of rows given in any coordinates, and everything that needs the target (climbing,
moving chains, weighing and judging draws) is made of calls of this program.
"""

import math
import time
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, PartitionSpec
from jaxtyping import Float

from understudy.backend import Options, backend
from understudy.checks import LARGEST_COUNT
from understudy.coordinates import Coordinates, plain_coordinates
from understudy.core import Target
from understudy.devices import (
    AXIS,
    agreed,
    check_alike,
    everywhere,
    in_rows,
    mesh_of_cores,
    on_each,
    platform,
    spans_hosts,
    split_rows,
    with_others,
)
from understudy.fitting.budget import Budget
from understudy.surroundings import double_precision, in_double, own_settings

BLOCK = 128
# Where a block takes longer than so many seconds it is smaller, and its rows come one after the other:
# those of a large data set do not fit in the processor's memory together.
_SLOW, SMALL = 0.15, 32
# Rows that are weighed at once where gradients are dear, and the part of a budget that they may cost.
_SLOWLY, _PART = 1024, 16
# Where it takes longer than so many seconds, cores gain more by sharing its rows than by threads.
_SHARED = 0.004


class Evaluations:
    """A target's log density and gradient at any number of rows, in any coordinates, counted.

    Args:
        target: whose log density is asked for.
        mesh: devices over which the rows of a block are spread; None is one device.
        split: whether the cores of a CPU may share a block that takes long enough.

    Attributes:
        block: rows of one call of the program.
        count: gradients so far.
        most: rows that may be weighed at once.
        double: whether they are computed in double precision.
    """

    def __init__(self, target: Target, mesh: Mesh | None = None, split: bool = False):
        self.count = 0
        self.block = BLOCK
        self.most = LARGEST_COUNT
        self.mesh = mesh
        self.dim = target.dim
        self.plain = plain_coordinates(np.zeros(self.dim), np.ones(self.dim))
        self._target, self._compiled = target, {}
        self._precision(double=backend().double)
        try:
            self._program(self.plain)
        except (TypeError, ValueError):  # the density insists on arrays of single precision
            self._precision(double=False)
            self._program(self.plain)
        seconds = agreed(min(self._seconds(), self._seconds()), mesh)
        if seconds > _SLOW:
            self.block, self._compiled, self.most = SMALL, {}, _SLOWLY
        shared = mesh_of_cores(self.block) if split and seconds > _SHARED else None
        if shared is not None:
            self.mesh, self._compiled = shared, {}
            self._precision(self.double)
        self._program(self.plain)

    @property
    def program(self) -> str:
        """What the compiler made of a block, in its own words."""
        return self._program(self.plain).as_text()

    @property
    def place(self) -> str:
        """Where gradients are computed, in words."""
        count = 1 if self.mesh is None else self.mesh.size
        return f"on {count} devices" if count > 1 else "on one device"

    @property
    def _rows(self) -> int:
        """Rows of one call, as many for each device."""
        count = 1 if self.mesh is None else self.mesh.size
        return -(-self.block // count) * count

    def spare(self, budget: Budget) -> None:
        """Let no more rows be weighed at once than a budget of gradients allows."""
        if math.isfinite(budget.gradients):
            self.most = min(self.most, max(_SLOWLY, int(budget.gradients / _PART)))

    @property
    def slow(self) -> bool:
        """Whether a gradient takes so long that one thinks twice."""
        return self.block < BLOCK

    def _seconds(self) -> float:
        """What one block takes."""
        begun = time.perf_counter()
        self(np.zeros((self.block, self.dim)))
        return time.perf_counter() - begun

    def _precision(self, double: bool) -> None:
        self.double = double
        self._settings = double_precision if double else own_settings
        with self._settings():
            target = in_double(self._target) if double else self._target
            self._arrays, self._rest = eqx.partition(target, eqx.is_array)
            if self.mesh is not None:
                self._arrays = everywhere(self._arrays, self.mesh)

    @property
    def _dtype(self) -> Any:
        return np.float64 if self.double else np.float32

    def _program(self, coordinates: Coordinates) -> Any:
        kind = jax.tree.structure(coordinates)
        if kind not in self._compiled:
            rows = jax.ShapeDtypeStruct((self._rows, self.dim), self._dtype)
            with self._settings():
                given = jax.tree.map(lambda leaf: np.asarray(leaf, self._dtype), coordinates)
                run, options = self._split()
                lowered = run.lower(self._arrays, given, rows)
                self._compiled[kind] = lowered.compile(options)
        return self._compiled[kind]

    def _split(self) -> tuple[Any, Options]:
        """The program, every device with its own rows, and how it is compiled."""
        if self.mesh is None:
            return jax.jit(self._run), None
        # Rows need nothing of each other, so that each device may go through its own one by one.
        whole, rows = PartitionSpec(), PartitionSpec(AXIS)
        places = {"in_specs": (whole, whole, rows), "out_specs": rows}
        split = jax.shard_map(self._run, mesh=self.mesh, check_vma=False, **places)
        # The host puts together what the devices of one process compute: nothing in the program waits.
        to = on_each(self.mesh) if spans_hosts(self.mesh) else in_rows(self.mesh, self._rows)
        return jax.jit(split, out_shardings=to), backend(platform(self.mesh)).split

    def _run(self, arrays: Any, coordinates: Coordinates, rows: Any) -> Any:
        target = eqx.combine(arrays, self._rest)

        def log_density(u):
            z, log_volume = coordinates.colour(u, jnp)
            return target.log_density(z) + log_volume

        one = jax.value_and_grad(log_density)
        return jax.lax.map(one, rows) if self.slow else jax.vmap(one)(rows)

    def __call__(
        self, u: Float[np.ndarray, "n d"], coordinates: Coordinates | None = None
    ) -> tuple[Float[np.ndarray, " n"], Float[np.ndarray, "n d"]]:
        """Log densities (minus infinity where they or their gradients are not finite) and gradients.

        Args:
            u: the rows.
            coordinates: in which they are given; None where they are draws themselves.
        """
        coordinates = coordinates or self.plain
        program = self._program(coordinates)
        parts = [
            self._block(program, coordinates, u[i : i + self.block])
            for i in range(0, len(u), self.block)
        ]
        log_p, slope = (np.concatenate(part) for part in zip(*parts, strict=True))
        fine = np.isfinite(log_p) & np.isfinite(slope).all(1) & np.isfinite(u).all(1)
        return np.where(fine, log_p, -np.inf), np.where(fine[:, None], slope, 0.0)

    def _block(self, program: Any, coordinates: Coordinates, u: np.ndarray) -> tuple:
        n = len(u)
        self.count += n
        rows = u if n == self._rows else np.resize(u, (self._rows, self.dim))
        with self._settings():
            given = jax.tree.map(lambda leaf: np.asarray(leaf, self._dtype), coordinates)
            rows = np.asarray(rows, self._dtype)
            if self.mesh is not None:
                check_alike([rows, *jax.tree.leaves(given)], self.mesh)
                given, rows = everywhere(given, self.mesh), split_rows(rows, self.mesh)
            with with_others(self.mesh):
                log_p, slope = jax.device_get(program(self._arrays, given, rows))
        return np.asarray(log_p, float)[:n], np.asarray(slope, float)[:n]
