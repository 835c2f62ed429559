"""Fit a target by its log density alone, and what to do with the result."""

import inspect
from collections.abc import Callable
from typing import Any

from understudy import training
from understudy.auto.charts import Chart, Whitened, assess
from understudy.auto.fitting import Gradients, fit_auto
from understudy.auto.flow import MaskedCouplings, SinhArcsinh, coloured, small_flow
from understudy.auto.region import Region, Search, find_regions
from understudy.auto.result import Posterior, Stage
from understudy.core import Feedback, IngredientError, Student, Target, Teacher
from understudy.training import Fit

__all__ = [
    "Chart",
    "Gradients",
    "MaskedCouplings",
    "Posterior",
    "Region",
    "Search",
    "SinhArcsinh",
    "Stage",
    "Whitened",
    "assess",
    "coloured",
    "find_regions",
    "fit",
    "fit_auto",
    "small_flow",
]


def fit(
    target: Target,
    student: Student | Callable | None = None,
    teacher: Teacher | None = None,
    feedback: Feedback | None = None,
    data: Any = None,
    **settings: Any,
) -> Posterior | Fit:
    """Train a student to stand in for a Markov chain on a target.

    ``fit(target)`` chooses everything and gives a :class:`Posterior`; its settings (``budget``,
    ``seed``, ``seeds``, ...) are those of :func:`fit_auto`. ``fit(target, student, teacher, feedback)``
    trains what you composed and gives a :class:`understudy.Fit`; its settings (``updates``,
    ``particles``, ...) are those of :func:`understudy.training.fit`.

    Args:
        target: what we want draws from.
        student: the sampler to train, or a function of a key that makes one.
        teacher: the Markov kernel that improves its draws.
        feedback: the divergence, or projection, by which it learns.
        data: conditions of an amortised fit; see :func:`understudy.training.fit`.
        **settings: of one of the two.
    """
    given: dict[str, Any] = {"student": student, "teacher": teacher, "feedback": feedback}
    missing = [name for name, ingredient in given.items() if ingredient is None]
    if len(missing) == 3 and data is None:
        return fit_auto(target, **_known(settings))
    if missing:
        raise IngredientError(
            f"fit(target) alone chooses everything; with an ingredient or data given, name all three "
            f"(student, teacher, feedback): {' and '.join(missing)} missing."
        )
    return training.fit(target, **given, data=data, **settings)


def _known(settings: dict[str, Any]) -> dict[str, Any]:
    allowed = [name for name in inspect.signature(fit_auto).parameters if name != "target"]
    for name in settings:
        if name not in allowed:
            raise IngredientError(
                f"Unknown setting {name!r}; fit(target) takes {', '.join(allowed)}. To train a student "
                "of your own, name student, teacher and feedback too."
            )
    return settings
