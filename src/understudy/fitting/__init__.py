"""How ``fit`` chooses: where the mass is, a Gaussian, a flow, and what they may spend."""

from understudy.fitting.charts import Chart, Whitened, assess
from understudy.fitting.fitting import Gradients, fit
from understudy.fitting.flow import MaskedCouplings, SinhArcsinh, coloured, small_flow
from understudy.fitting.region import Region, Search, find_regions

__all__ = [
    "Chart",
    "Gradients",
    "MaskedCouplings",
    "Region",
    "Search",
    "SinhArcsinh",
    "Whitened",
    "assess",
    "coloured",
    "find_regions",
    "fit",
    "small_flow",
]
