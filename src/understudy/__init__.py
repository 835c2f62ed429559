"""understudy: amortised MCMC in JAX.

Train a sampler (the student) to stand in for a Markov chain (the teacher).
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from understudy import data, evaluation, feedbacks, methods, students, targets, teachers
    from understudy.auto import Gradients, Posterior, fit
    from understudy.core import CannotMoveError, Indexed, IngredientError
    from understudy.preparation import Minibatches
    from understudy.store import StoreError, load, save
    from understudy.targets import LogDensity
    from understudy.targets.numpyro import from_numpyro
    from understudy.targets.pymc import from_pymc
    from understudy.training import Fit, Interrupted

__version__ = "0.1.0"

_HOMES = {
    "CannotMoveError": "core",
    "Fit": "training",
    "Gradients": "auto",
    "Indexed": "core",
    "IngredientError": "core",
    "Interrupted": "training",
    "LogDensity": "targets",
    "Minibatches": "preparation",
    "Posterior": "auto",
    "StoreError": "store",
    "fit": "auto",
    "from_numpyro": "targets.numpyro",
    "from_pymc": "targets.pymc",
    "load": "store",
    "save": "store",
}

__all__ = [
    "CannotMoveError",
    "Fit",
    "Gradients",
    "Indexed",
    "IngredientError",
    "Interrupted",
    "LogDensity",
    "Minibatches",
    "Posterior",
    "StoreError",
    "data",
    "evaluation",
    "feedbacks",
    "fit",
    "from_numpyro",
    "from_pymc",
    "load",
    "methods",
    "save",
    "students",
    "targets",
    "teachers",
]


def __getattr__(name: str) -> Any:
    # JAX takes a second to import; `understudy --help` does not need it.
    if name not in __all__:
        raise AttributeError(f"module 'understudy' has no attribute {name!r}")
    home = importlib.import_module(f"understudy.{_HOMES.get(name, name)}")
    return getattr(home, name) if name in _HOMES else home


def __dir__() -> list[str]:
    return [*globals(), *__all__]
