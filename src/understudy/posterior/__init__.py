"""What one does with a result: draw, check, refine, resample, keep and hand over."""

from understudy.files.exported import load_exported
from understudy.posterior.posterior import Posterior
from understudy.posterior.stages import Stage
from understudy.posterior.writing import write_draws

__all__ = ["Posterior", "Stage", "load_exported", "write_draws"]
