"""How ``fit`` chooses: starts, chains that agree, a student that learns from them, a judge."""

from understudy.fitting.budget import Gradients
from understudy.fitting.fit import fit

__all__ = ["Gradients", "fit"]
