"""Simulation-based calibration: is an amortised student right on average over simulated data?"""

from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Shaped

from understudy.checks import (
    calling,
    concrete_key,
    drawn,
    fits,
    function,
    instance,
    one_fraction,
    shown,
    whole,
)
from understudy.core import Condition, IngredientError, Key, Student
from understudy.evaluation.trust.findings import Effects, Finding
from understudy.evaluation.trust.gap import legendre
from understudy.programs import jit_of_few

TOLERANCE = 0.1
BINS = 20
_TOGETHER = 64  # simulations

Simulate = Callable[[Key], tuple[Array, Condition]]


def calibration(
    key: Key,
    simulate: Simulate,
    student: Student,
    *,
    simulations: int = 512,
    draws: int = 127,
    level: float = 0.01,
    names: Sequence[str] | None = None,
) -> Finding:
    """Ranks of the true z among the student's draws given its data; uniform if the student is right.

    Reference: Talts et al., "Validating Bayesian Inference Algorithms with Simulation-Based
    Calibration", 2018.

    Args:
        key: random key.
        simulate: from a key to a pair (z, x), z from the prior and x from the model given z.
        student: the amortised student.
        simulations: number of simulated data sets.
        draws: of the student for each of them.
        level: of the test, corrected for the number of coordinates.
        names: of the coordinates.

    Examples:
        >>> import jax, jax.numpy as jnp
        >>> from understudy.evaluation import calibration
        >>> from understudy.students import FullGaussian
        >>> def simulate(key):
        ...     return jax.random.normal(key, (1,)), jnp.zeros(1)
        >>> calibration(jax.random.key(0), simulate, FullGaussian(1)).verdict
        'ok'
    """
    instance("student", Student, "FullGaussian(dim)", student)
    check_simulate(simulate, student.dim)
    fits("simulations", whole("simulations", simulations, least=2), student.dim)
    fits("draws", whole("draws", draws), _TOGETHER * student.dim)
    level = one_fraction("level", level)
    if names is not None and not (isinstance(names, list | tuple) and len(names) == student.dim):
        raise IngredientError(
            f"names is a list of the names of {student.dim} coordinates; {shown(names)} came."
        )
    ranks = np.asarray(_ranks(concrete_key(key), simulate, student, simulations, draws))
    return calibration_of(ranks, draws, level, names)


def check_simulate(simulate: Simulate, dim: int) -> None:
    """Whether a user's function gives pairs whose first part is a draw; its shapes are traced alone."""
    what = "simulate is a function of a key to a pair (z, x)"
    with calling(what):
        z, _ = jax.eval_shape(function("simulate", simulate), jax.random.key(0))
        shape = jnp.shape(z)
    if shape != (dim,):
        raise IngredientError(f"{what} with z of shape {(dim,)}; one of shape {shape} came.")


def shapes_of(ranks: Shaped[np.ndarray, "m d"], draws: int) -> tuple[Float[np.ndarray, "m d"], Effects]:
    """Ranks among so many draws as shares, ties broken at random, and how far they are from uniform."""
    shares = (ranks + np.random.default_rng(0).uniform(size=ranks.shape)) / (draws + 1)
    size = legendre(shares).mean(1).ravel()
    return shares, Effects(size, np.full_like(size, len(ranks) ** -0.5), np.full_like(size, TOLERANCE))


def calibration_of(
    ranks: Int[np.ndarray, "m d"], draws: int, level: float, names: Sequence[str] | None = None
) -> Finding:
    """The finding of ranks of true values among so many draws each, one row a simulation."""
    simulations = len(ranks)
    jittered, effects = shapes_of(ranks, draws)
    size = effects.size
    verdict, worst = effects.verdict(level), effects.worst
    d = ranks.shape[1]
    shape, column = divmod(worst, d)
    name = names[column] if names else f"z[{column}]"
    shown = float(abs(size[worst]))
    said = _SAID[shape][int(size[worst] > 0)]
    words = {
        "ok": f"ranks of {simulations} simulated truths are uniform",
        "warn": f"the student's draws of {name} are {said}, by {shown:.2f} sd, which is little",
        "fail": f"the student's draws of {name} are {said}, by {shown:.2f} sd; train longer",
    }[verdict]
    edges = np.linspace(0, 1, BINS + 1)
    counts = np.stack([np.histogram(column, edges)[0] for column in jittered.T])
    return Finding("calibration", verdict, shown, words, {"edges": edges, "counts": counts})


_SAID = (
    ("too high", "too low"),
    ("too wide", "too narrow"),
    ("skewed", "skewed"),
    ("of another shape", "of another shape"),
)


@jit_of_few
def _ranks(
    key: Key, simulate: Simulate, student: Student, simulations: int, draws: int
) -> Int[Array, "m d"]:
    def one(key):
        world, own = jax.random.split(key)
        z, x = simulate(world)
        return (drawn(student, own, x, draws) < z).sum(0)

    return jax.lax.map(one, jax.random.split(key, simulations), batch_size=_TOGETHER)
