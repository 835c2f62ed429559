"""understudy: amortised MCMC in JAX.

Train a sampler (the student) to stand in for a Markov chain (the teacher).

``fit(target)`` chooses everything and gives a :class:`Posterior`; ``amortise(model, observed="y")`` does
so for every data set and gives an :class:`Amortised`; ``train(target, student, teacher, feedback)``
trains what you composed and gives a :class:`Trained`. The four contracts are
:class:`Target`, :class:`Student`, :class:`Teacher` and :class:`Feedback`.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from understudy import (
        amortising,
        data,
        evaluation,
        feedbacks,
        methods,
        networks,
        students,
        targets,
        teachers,
    )
    from understudy.amortising import Amortised, Updates, amortise
    from understudy.batches import Binarised, Minibatches, Stream
    from understudy.core import (
        CannotMoveError,
        Divergence,
        ExplicitStudent,
        Feedback,
        Indexed,
        IngredientError,
        Projection,
        Student,
        Target,
        Teacher,
    )
    from understudy.files import StoreError, load, save
    from understudy.fitting import Gradients, fit
    from understudy.posterior import Posterior, load_exported
    from understudy.targets import LogDensity
    from understudy.targets.numpyro import from_numpyro
    from understudy.targets.pymc import from_pymc
    from understudy.training import Interrupted, Trained, train

__version__ = "0.1.0"

_HOMES = {
    "Amortised": "amortising",
    "Binarised": "batches",
    "CannotMoveError": "core",
    "Divergence": "core",
    "ExplicitStudent": "core",
    "Feedback": "core",
    "Gradients": "fitting",
    "Indexed": "core",
    "IngredientError": "core",
    "Interrupted": "training",
    "LogDensity": "targets",
    "Minibatches": "batches",
    "Posterior": "posterior",
    "Projection": "core",
    "StoreError": "files",
    "Stream": "batches",
    "Student": "core",
    "Target": "core",
    "Teacher": "core",
    "Trained": "training",
    "Updates": "amortising",
    "amortise": "amortising",
    "fit": "fitting",
    "from_numpyro": "targets.numpyro",
    "from_pymc": "targets.pymc",
    "load": "files",
    "load_exported": "posterior",
    "save": "files",
    "train": "training",
}

__all__ = [
    "Amortised",
    "Binarised",
    "CannotMoveError",
    "Divergence",
    "ExplicitStudent",
    "Feedback",
    "Gradients",
    "Indexed",
    "IngredientError",
    "Interrupted",
    "LogDensity",
    "Minibatches",
    "Posterior",
    "Projection",
    "StoreError",
    "Stream",
    "Student",
    "Target",
    "Teacher",
    "Trained",
    "Updates",
    "amortise",
    "amortising",
    "data",
    "evaluation",
    "feedbacks",
    "fit",
    "from_numpyro",
    "from_pymc",
    "load",
    "load_exported",
    "methods",
    "networks",
    "save",
    "students",
    "targets",
    "teachers",
    "train",
]


def __getattr__(name: str) -> Any:
    # JAX takes a second to import; `understudy --help` does not need it.
    if name not in __all__:
        raise AttributeError(f"module 'understudy' has no attribute {name!r}")
    home = importlib.import_module(f"understudy.{_HOMES.get(name, name)}")
    return getattr(home, name) if name in _HOMES else home


def __dir__() -> list[str]:
    return [*globals(), *__all__]
