"""Appendix B: a transition that keeps p never takes its draws further from p.

KL[q_t || p] along real chains on the mixture of two Gaussians, by a histogram of many of them. Kernels
with an accept test keep p: from any start KL falls, and from p itself it stays zero. Langevin steps
without one keep a law of their own, and lead away from p to it.
"""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int
from scipy.stats import norm

from experiments.appendix.sizes import Sizes
from understudy.core import Key, Teacher, bind
from understudy.students import DiagonalGaussian
from understudy.targets import two_gaussians
from understudy.teachers import Langevin, hmc, mala

TARGET = two_gaussians()
START = DiagonalGaussian(1, 1.0, 0.5)
STARTS: dict[str, Callable[[Key, int], Float[Array, "n 1"]]] = {
    "N(1, 1/4)": lambda key, n: START.sample(key, None, n),
    "p itself": TARGET.sample,
}
EDGES = np.linspace(-9, 9, 121)
TRANSITIONS, SHOWN = 50, (0, 1, 2, 5, 10, 20, 50)
TEACHERS: dict[str, Teacher] = {
    "MALA, eta=0.1": mala(0.1),
    "MALA, eta=1": mala(1.0),
    "HMC, three steps of 0.5": hmc(0.5, 3),
    "Langevin, eta=0.1": Langevin(0.1),
    "Langevin, eta=1": Langevin(1.0),
}


def rows(sizes: Sizes) -> list[dict[str, Any]]:
    """Every kernel from both starts."""
    return [_row(name, start, sizes) for start in STARTS for name in TEACHERS]


def _row(name: str, start: str, sizes: Sizes) -> dict[str, Any]:
    first, rest = jax.random.split(jax.random.key(sizes.seed))
    z = STARTS[start](first, sizes.chains)
    counts = np.asarray(path(rest, TEACHERS[name], z))
    found = np.asarray([divergence(row) for row in counts])
    rises = np.diff(found[:, 0])
    worst = int(rises.argmax())
    error = float(np.hypot(*found[worst : worst + 2, 1]))
    return {
        "name": f"{name}, from {start}",
        "kernel": name,
        "start": start,
        "keeps_target": "Langevin" not in name,
        "transitions": list(SHOWN),
        "kl": [float(found[t, 0]) for t in SHOWN],
        "least": float(found[:, 0].min()),
        "largest_rise": float(rises.max()),
        "rise_error": error,
        "rises": bool(rises.max() > 3 * error),
    }


@eqx.filter_jit
def path(key: Key, teacher: Teacher, start: Float[Array, "n 1"]) -> Int[Array, "t bins"]:
    """How many chains are in every bin, before the first transition and after each."""
    proposal = bind(START, None)

    def step(z, key):
        moved = teacher.improve(key, TARGET.log_density, z, proposal).z
        return moved, jnp.histogram(moved, jnp.asarray(EDGES))[0]

    _, counts = jax.lax.scan(step, start, jax.random.split(key, TRANSITIONS))
    return jnp.concatenate([jnp.histogram(start, jnp.asarray(EDGES))[0][None], counts])


def divergence(counts: Any) -> tuple[float, float]:
    """KL from the counts of a histogram to the mixture, less its bias, and its standard error.

    The bias of the plug-in estimate is (occupied bins - 1) / 2n (Miller, 1955).
    """
    counts = np.asarray(counts, float)
    exact = np.diff(0.5 * norm.cdf(EDGES, -3) + 0.5 * norm.cdf(EDGES, 3))
    total, there = counts.sum(), counts > 0
    share = counts[there] / total
    ratio = np.log(share / exact[there])
    mean = share @ ratio
    bias = (there.sum() - 1) / (2 * total)
    return float(mean - bias), float(np.sqrt(share @ (ratio - mean) ** 2 / total) + bias)
