"""What one does with a result: draw, check, refine, resample, keep and hand over."""

from understudy.posterior.exported import load_exported
from understudy.posterior.posterior import Posterior, Stage

__all__ = ["Posterior", "Stage", "load_exported"]
