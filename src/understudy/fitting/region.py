"""Stage one: where the target's mass is, and how it is scaled there."""

import time
from collections.abc import Callable
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float
from scipy.optimize import minimize

from understudy.core import IngredientError, Target

Vector = Float[np.ndarray, " d"]
Matrix = Float[np.ndarray, "d d"]

# The program of this stage runs for milliseconds, so XLA should not spend seconds on it.
_QUICK = {"xla_backend_optimization_level": 0, "xla_llvm_disable_expensive_passes": True}


class Region(NamedTuple):
    """A mode with the Gaussian that its curvature suggests.

    Attributes:
        mean: the mode.
        factor: Cholesky factor of the inverse of minus the Hessian.
        evidence: Laplace's estimate of the log of the mass around it.
    """

    mean: Vector
    factor: Matrix
    evidence: float


class Search(NamedTuple):
    """What climbing from several starts found.

    Attributes:
        regions: modes that hold mass and have a valley between them, the heaviest first.
        ends: number of different places that the climbs ended at.
        gradients: gradient evaluations spent.
        compile_seconds: time spent compiling.
    """

    regions: tuple[Region, ...]
    ends: int
    gradients: int
    compile_seconds: float


class _Objective:
    """Minus the log density with its gradient in double precision, counted."""

    def __init__(self, target: Target):
        self.count = 0
        arrays, rest = eqx.partition(target, eqx.is_array)

        def evaluate(arrays, z):
            return jax.value_and_grad(lambda z: -eqx.combine(arrays, rest).log_density(z))(z)

        with jax.enable_x64(True):
            self.arrays = jax.tree.map(_double, arrays)
            start = jnp.zeros(target.dim)
            self.evaluate = jax.jit(evaluate).lower(self.arrays, start).compile(_QUICK)

    def __call__(self, z: Vector) -> tuple[float, Vector]:
        self.count += 1
        with jax.enable_x64(True):
            value, gradient = self.evaluate(self.arrays, np.asarray(z, float))
        value, gradient = float(value), np.asarray(gradient)
        fine = np.isfinite(value) and np.isfinite(gradient).all()
        return (value, gradient) if fine else (np.inf, np.zeros_like(gradient))


def find_regions(target: Target, seed: int = 0, starts: int = 8, spread: float = 2.0) -> Search:
    """Climb from several starts; keep the modes that hold mass by Laplace's approximation.

    Reference: Zhu, Byrd, Lu and Nocedal, "Algorithm 778: L-BFGS-B", 1997.

    Args:
        target: what we want draws from.
        seed: of the starts.
        starts: number of starts, uniform in [-spread, spread] in every coordinate; one more at zero.
        spread: how far the starts reach.
    """
    started = time.perf_counter()
    objective = _Objective(target)
    compiling = time.perf_counter() - started
    generator = np.random.default_rng(seed)
    points = [np.zeros(target.dim), *generator.uniform(-spread, spread, (starts, target.dim))]
    points = [z for z in points if np.isfinite(objective(z)[0])]
    if not points:
        raise IngredientError(
            f"The log density is not finite at any of {starts + 1} starts within {spread} of zero; "
            "check it there, or shift and scale the target so that its mass lies near zero."
        )
    ends = _distinct([_climb(objective, z) for z in points])
    regions = _separate(objective, [_laplace(objective, z) for z in ends])
    return Search(tuple(regions), len(ends), objective.count, compiling)


def _separate(objective: Callable, regions: list[Region], least: float = 0.01) -> list[Region]:
    """Leave out regions without mass and those that no valley parts from a heavier one."""
    kept: list[Region] = []
    for region in sorted(regions, key=lambda r: -r.evidence):
        heavy = not kept or region.evidence > kept[0].evidence + np.log(least)
        if heavy and all(_valley(objective, region.mean, other.mean) for other in kept):
            kept.append(region)
    return kept


def _valley(objective: Callable, one: Vector, other: Vector, depth: float = 1.0) -> bool:
    between = [objective(one + t * (other - one))[0] for t in np.linspace(0, 1, 17)]
    return max(between) > max(between[0], between[-1]) + depth


def _climb(objective: Callable, z: Vector) -> tuple[float, Vector]:
    options = {"maxiter": 1000, "maxcor": 20, "ftol": 1e-12, "gtol": 1e-5}
    found = minimize(objective, z, jac=True, method="L-BFGS-B", options=options)
    return float(found.fun), found.x


def _distinct(ends: list[tuple[float, Vector]], most: int = 6) -> list[Vector]:
    kept: list[tuple[float, Vector]] = []
    for value, z in sorted(ends, key=lambda end: end[0]):
        new = all(
            abs(value - v) > 0.01 or np.linalg.norm(z - o) > 0.1 * (1 + np.linalg.norm(o))
            for v, o in kept
        )
        if np.isfinite(value) and new and len(kept) < most:
            kept.append((value, z))
    return [z for _, z in kept]


def _laplace(objective: Callable, z: Vector, polish: int = 3) -> Region:
    value, gradient = objective(z)
    for _ in range(polish):
        values, vectors = _curvature(objective, z)
        step = vectors @ ((vectors.T @ gradient) / values)
        new_value, new_gradient = objective(z - step)
        if not new_value < value:
            break
        z, value, gradient = z - step, new_value, new_gradient
    values, vectors = _curvature(objective, z)
    values = _by_fall(objective, z, value, values, vectors)
    upper = np.linalg.qr((vectors / np.sqrt(values)).T, mode="r")
    factor = upper.T * np.where(np.diag(upper) < 0, -1, 1)
    evidence = -value + 0.5 * (z.size * np.log(2 * np.pi) - np.log(values).sum())
    return Region(z, factor, float(evidence))


def _by_fall(objective: Callable, z: Vector, value: float, values: Vector, vectors: Matrix) -> Vector:
    """Curvatures corrected where the log density does not fall by about a half at one deviation."""
    scales = 1 / np.sqrt(values)
    for i, vector in enumerate(vectors.T):
        for _ in range(60):
            step = scales[i] * vector
            fall = 0.5 * (objective(z + step)[0] + objective(z - step)[0]) - value
            if 0.05 <= fall <= 2:
                break
            scales[i] *= 2.0 if fall < 0.05 else 0.5
        else:
            raise IngredientError(
                "The log density does not fall away from its highest point in some direction, so it has "
                "no finite mass there (an improper posterior); give every parameter a proper prior."
            )
    return 1 / scales**2


def _curvature(objective: Callable, z: Vector) -> tuple[Vector, Matrix]:
    """Eigenvalues, made positive, and eigenvectors of the Hessian by differences of gradients."""
    steps = 1e-5 * np.maximum(1, np.abs(z))
    rows = [
        (objective(z + h * e)[1] - objective(z - h * e)[1]) / (2 * h)
        for h, e in zip(steps, np.eye(z.size), strict=True)
    ]
    hessian = np.stack(rows)
    values, vectors = np.linalg.eigh((hessian + hessian.T) / 2)
    # A direction without curvature says nothing about its scale; one is the scale of the starts.
    return np.where(values > 1e-12 * np.abs(values).max(), values, 1.0), vectors


def _double(leaf: jax.Array) -> jax.Array:
    return leaf.astype(jnp.float64) if jnp.issubdtype(leaf.dtype, jnp.floating) else leaf
