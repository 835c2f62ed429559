"""understudy: amortised MCMC in JAX.

Train a sampler (the student) to stand in for a Markov chain (the teacher).
"""

from understudy import evaluation, feedbacks, methods, students, targets, teachers
from understudy.core import CannotMoveError, Indexed, IngredientError
from understudy.store import StoreError, load, save
from understudy.targets import LogDensity
from understudy.training import Fit, Interrupted, Minibatches, fit

__version__ = "0.1.0"

__all__ = [
    "CannotMoveError",
    "Fit",
    "Indexed",
    "IngredientError",
    "Interrupted",
    "LogDensity",
    "Minibatches",
    "StoreError",
    "evaluation",
    "feedbacks",
    "fit",
    "load",
    "methods",
    "save",
    "students",
    "targets",
    "teachers",
]
