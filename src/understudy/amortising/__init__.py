"""How ``amortise`` chooses: reading a model's data, simulating, teaching, finishing, judging."""

from understudy.amortising.amortise import amortise
from understudy.amortising.amortised import Amortised, Samples
from understudy.amortising.budget import Updates
from understudy.amortising.simulators import Pairs, PriorSimulator, Simulator

__all__ = ["Amortised", "Pairs", "PriorSimulator", "Samples", "Simulator", "Updates", "amortise"]
