"""Coordinates in which the draws of a flow are standard, for chains to move in.

Where a flow has learned most of a posterior, what is left is nearly standard in its noise, narrow necks
and long tails included, and Hamiltonian moves there go where moves along the draws themselves would
need tiny steps.

Reference: Hoffman et al., "NeuTra-lizing Bad Geometry in Hamiltonian Monte Carlo Using Neural
Transport", 2019.
"""

from functools import partial
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from understudy.coordinates import Coordinates
from understudy.fitting.evaluations import BLOCK
from understudy.numerics import in_blocks
from understudy.students.couplings import CouplingFlow
from understudy.surroundings import double_precision


class FlowCoordinates(NamedTuple):
    """The map from a flow's noise to z and back.

    Attributes:
        flow: from noise to nearly standard draws.
        inner: from there to z.
    """

    flow: CouplingFlow
    inner: Coordinates

    @property
    def dim(self) -> int:
        """Size of a draw."""
        return self.inner.dim

    def colour(self, u: Float[np.ndarray, "n d"]) -> tuple[np.ndarray, np.ndarray]:
        """From noise to z, and the log volume change; rows are draws."""
        return _in_blocks(_colour, self, u)

    def whiten(self, z: Float[np.ndarray, "n d"]) -> tuple[np.ndarray, np.ndarray]:
        """From z to noise, and log |dz/du|."""
        h, log_volume = self.inner.whiten(z)
        u, log_inside = _in_blocks(_whiten, self, h)
        return u, log_volume + log_inside

    def pull(self, u: Float[np.ndarray, "n d"], slope: Float[np.ndarray, "n d"]) -> np.ndarray:
        """Gradients in noise of a log density with these gradients in z, the volume's change in it."""
        return _in_blocks(_pull, self, u, slope)


def _in_blocks(function: Any, coordinates: FlowCoordinates, *rows: np.ndarray) -> Any:
    """A compiled function of rows, some at a time so that it is compiled once."""
    with double_precision():
        found = in_blocks(partial(function, *coordinates), *rows, block=BLOCK)
    return jax.tree.map(lambda part: part.astype(float), found)


def _carried(flow: CouplingFlow, inner: Coordinates, u: Array) -> tuple[Array, Array]:
    h, log_inside = flow.carry(u.astype(jnp.float32))
    z, log_volume = inner.colour(h.astype(float), jnp)
    return z, log_volume + log_inside


@eqx.filter_jit
def _colour(flow: CouplingFlow, inner: Coordinates, u: Array) -> tuple[Array, Array]:
    return _carried(flow, inner, u)


@eqx.filter_jit
def _whiten(flow: CouplingFlow, inner: Coordinates, h: Array) -> tuple[Array, Array]:
    return flow.carry_back(h.astype(jnp.float32))


@eqx.filter_jit
def _pull(flow: CouplingFlow, inner: Coordinates, u: Array, slope: Array) -> Array:
    def along(u):
        z, log_volume = _carried(flow, inner, u)
        return (z * slope).sum() + log_volume.sum()

    return jax.grad(along)(u)
