"""Appendix C: contrastive divergence with its residual, without it, and energy matching.

The target is a correlated Gaussian and the student a Gaussian that can be it, so that KL[q || p] is a
formula and its least value zero.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float, Scalar

from experiments.appendix.sizes import Sizes
from experiments.rows import mean_and_error
from understudy.core import Feedback
from understudy.feedbacks import ContrastiveDivergence, EnergyMatching
from understudy.students import FullGaussian
from understudy.targets import LogDensity
from understudy.teachers import mala
from understudy.training import train

COVARIANCE = jnp.array([[1.0, 0.9], [0.9, 1.0]])
PRECISION = jnp.linalg.inv(COVARIANCE)
TARGET = LogDensity(lambda z: -0.5 * z @ PRECISION @ z, 2)
START = FullGaussian(2, mean=1.5, scale=0.3)
FEEDBACKS: dict[str, Feedback] = {
    "with the residual, by a critic": ContrastiveDivergence(),
    "without the residual: the bound": ContrastiveDivergence(ratio=False),
    "energies alone: energy matching": EnergyMatching(),
}
LENGTHS, STEP, RATE = (1, 10), 0.1, 0.01


def rows(sizes: Sizes) -> list[dict[str, Any]]:
    """Every feedback with short and with longer chains."""
    return [
        _row(name, feedback, steps, sizes) for name, feedback in FEEDBACKS.items() for steps in LENGTHS
    ]


def _row(name: str, feedback: Feedback, steps: int, sizes: Sizes) -> dict[str, Any]:
    trained = train(
        TARGET,
        START,
        mala(STEP, steps=steps),
        feedback,
        updates=sizes.updates,
        repeats=sizes.repeats,
        seed=sizes.seed,
        average=0.99,
        optimiser=optax.adam(optax.cosine_decay_schedule(RATE, sizes.updates, 0.02)),
        progress=False,
    )
    student = trained.student
    scales = jnp.sqrt(jax.vmap(lambda factor: jnp.diag(factor @ factor.T))(_factors(student)))
    return {
        "name": f"{name}, T={steps}",
        "feedback": name,
        "transitions": steps,
        "kl_before": float(divergence(START.mean, START.factor)),
        **mean_and_error("kl", jax.vmap(divergence)(student.mean, _factors(student))),
        "mean_error": float(np.abs(student.mean).mean()),
        "scale": float(scales.mean()),
        "training_seconds": trained.seconds,
    }


def _factors(students: FullGaussian) -> Float[Array, "r d d"]:
    return eqx.filter_vmap(lambda student: student.factor)(students)


def divergence(mean: Float[Array, " d"], factor: Float[Array, "d d"]) -> Scalar:
    """KL[N(mean, L L') || p] for the target p."""
    spread = jnp.trace(PRECISION @ factor @ factor.T) + mean @ PRECISION @ mean - len(mean)
    log_ratio = jnp.linalg.slogdet(COVARIANCE)[1] - 2 * jnp.log(jnp.diag(factor)).sum()
    return 0.5 * (spread + log_ratio)
