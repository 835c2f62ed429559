"""Known methods by name: each is a choice of ingredients for :func:`understudy.train`.

Keyword arguments beyond those named go to ``train``: updates, particles, seed, optimiser, folder, ...
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float

from understudy.batches import Minibatches
from understudy.checks import shown
from understudy.core import (
    ExplicitStudent,
    Feedback,
    Indexed,
    IngredientError,
    Key,
    Student,
    Target,
    Teacher,
)
from understudy.feedbacks import (
    AdversarialELBO,
    Copy,
    EnergyDistance,
    ExclusiveKL,
    InclusiveKL,
    LearntStein,
    SquaredDistance,
)
from understudy.students import ChainTable, Particles
from understudy.targets import OfIndexed
from understudy.teachers import SVGD, Identity, mala
from understudy.training import Trained, train

Maker = Callable[[Key], Student]


def amc(
    target: Target,
    student: Student,
    teacher: Teacher | None = None,
    feedback: Feedback | None = None,
    data: Any = None,
    **settings: Any,
) -> Trained:
    """Amortised MCMC: inclusive KL if the student has a density, energy distance if it is wild.

    Reference: Li, Turner and Liu, "Approximate Inference with Amortised MCMC", 2017.

    Examples:
        >>> import jax.numpy as jnp, understudy
        >>> from understudy import methods
        >>> from understudy.students import FullGaussian
        >>> target = understudy.LogDensity(lambda z: -0.5 * jnp.sum((z - 1) ** 2), dim=2)
        >>> methods.amc(target, FullGaussian(2), updates=50, progress=False).sample(0, 5).shape
        (5, 2)
    """
    wild = not isinstance(student, ExplicitStudent)
    if feedback is None:
        feedback = EnergyDistance() if wild else InclusiveKL()
    teacher = _langevin() if teacher is None else teacher
    return train(target, student, teacher, feedback, data, **settings)


def vi(target: Target, student: Student | Maker, data: Any = None, **settings: Any) -> Trained:
    """Variational inference: no teacher, exclusive KL.

    Reference: Kucukelbir et al., "Automatic Differentiation Variational Inference", 2017.

    Examples:
        >>> import jax.numpy as jnp, understudy
        >>> from understudy import methods
        >>> from understudy.students import FullGaussian
        >>> target = understudy.LogDensity(lambda z: -0.5 * jnp.sum((z - 1) ** 2), dim=2)
        >>> methods.vi(target, FullGaussian(2), updates=50, progress=False).sample(0, 5).shape
        (5, 2)
    """
    return train(target, student, Identity(), ExclusiveKL(), data, **settings)


def vae(model: Target, encoder: Student, data: Any, **settings: Any) -> Trained:
    """Variational auto-encoder: variational inference, and theta ascends the same bound.

    Reference: Kingma and Welling, "Auto-Encoding Variational Bayes", 2014.
    """
    return train(model, encoder, Identity(), ExclusiveKL(), data, **_learning(settings))


def avb(model: Target, encoder: Student, data: Any, **settings: Any) -> Trained:
    """Adversarial variational Bayes: the bound's KL term is estimated by a critic.

    Reference: Mescheder, Nowozin and Geiger, "Adversarial Variational Bayes", 2017.
    """
    return train(model, encoder, Identity(), AdversarialELBO(), data, **_learning(settings))


def mcmc_vi(
    model: Target, encoder: Student, data: Any, teacher: Teacher | None = None, **settings: Any
) -> Trained:
    """The paper's MCMC-VI: the encoder by the exclusive KL, theta from the teacher's draws."""
    teacher = _langevin() if teacher is None else teacher
    return train(model, encoder, teacher, ExclusiveKL(), data, **_learning(settings))


def amortised_svgd(target: Target, student: Student, data: Any = None, **settings: Any) -> Trained:
    """Amortised SVGD: one deterministic Stein step, squared distance.

    Reference: Wang and Liu, "Learning to Draw Samples", 2016.
    """
    return train(target, student, SVGD(), SquaredDistance(), data, **settings)


def operator_vi(target: Target, student: Student, data: Any = None, **settings: Any) -> Trained:
    """Operator variational inference: a Stein discrepancy with a learnt test function.

    Reference: Ranganath, Altosaar, Tran and Blei, "Operator Variational Inference", 2016.
    """
    return train(target, student, Identity(), LearntStein(), data, **settings)


def persistent_mcmc(
    model: Target,
    data: Any,
    teacher: Teacher | None = None,
    chains: int = 1,
    batch_size: int = 64,
    **settings: Any,
) -> Trained:
    """Persistent MCMC: chains per datum go on from update to update, and theta learns from them."""
    if not isinstance(data, jax.Array | np.ndarray) or data.ndim == 0:
        raise IngredientError(f"data is an array with one row per datum; {shown(data)} came.")
    of_rows = OfIndexed(model)
    table = ChainTable(data.shape[0], chains, of_rows.dim)
    rows = Minibatches(Indexed(jnp.arange(data.shape[0]), jnp.asarray(data)), batch_size)
    settings = {"particles": chains, **_learning(settings)}
    teacher = _langevin() if teacher is None else teacher
    return train(of_rows, table, teacher, Copy(), rows, **settings)


def mcmc(
    target: Target, start: Float[Array, "n d"], teacher: Teacher | None = None, **settings: Any
) -> Trained:
    """MCMC itself: the student's parameters are its draws, which the teacher replaces.

    Examples:
        >>> import jax.numpy as jnp, understudy
        >>> from understudy import methods
        >>> target = understudy.LogDensity(lambda z: -0.5 * jnp.sum((z - 1) ** 2), dim=2)
        >>> methods.mcmc(target, jnp.zeros((10, 2)), updates=50, progress=False).student.z.shape
        (10, 2)
    """
    student, teacher = Particles(start), _langevin() if teacher is None else teacher
    return train(target, student, teacher, Copy(), particles=len(student.z), **settings)


def _langevin() -> Teacher:
    return mala(0.1, steps=5, target_acceptance=0.6)


def _learning(settings: dict[str, Any]) -> dict[str, Any]:
    return {"model_optimiser": optax.adam(1e-3), **settings}
