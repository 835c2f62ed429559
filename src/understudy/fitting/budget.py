"""What a fit may spend."""

import math
import time
from collections.abc import Callable

import numpy as np

from understudy.checks import whole


class Gradients(int):
    """A budget counted in gradient evaluations: ``budget=Gradients(500_000)``, or ``Gradients(5e5)``.

    Examples:
        >>> import understudy
        >>> budget = understudy.Gradients(500_000)
        >>> int(budget)
        500000
    """

    def __new__(cls, count: int | float) -> "Gradients":
        """So many gradients, a whole number."""
        exact = isinstance(count, float) and count.is_integer()
        return super().__new__(
            cls, whole("Gradients, a budget,", int(count) if exact else count, most=None)
        )


class Budget:
    """Wall time from now on, gradient evaluations, or both.

    Args:
        seconds: of wall time.
        gradients: evaluations of the log density's gradient.
        agreed: makes of this process's seconds those by which several processes decide.
    """

    def __init__(
        self,
        seconds: float = math.inf,
        gradients: float = math.inf,
        agreed: Callable[[float], float] = float,
    ):
        self.agreed = agreed
        self.started = time.perf_counter()
        self.seconds = seconds
        self.gradients = gradients
        self.count: Callable[[], int] = lambda: 0

    @classmethod
    def of(
        cls, budget: float | int | None, seconds: float, agreed: Callable[[float], float] = float
    ) -> "Budget":
        """The budget that a user's number stands for; ``seconds`` if there is none."""
        if isinstance(budget, Gradients):
            return cls(gradients=float(budget), agreed=agreed)
        return cls(seconds if budget is None else float(budget), agreed=agreed)

    def meter(self) -> "Meter":
        """Measures from now on what work costs."""
        return Meter(self)

    @property
    def left(self) -> str:
        """What is left of it, in words."""
        if math.isinf(self.seconds):
            return f"for {max(self.gradients - self.count(), 0):,.0f} more"
        left = max(self.seconds - (time.perf_counter() - self.started), 0)
        return f"at most {left // 60:.0f}:{left % 60:02.0f} left" if left else "is up"

    @property
    def share(self) -> float:
        """How much of it is spent, one where nothing is left."""
        elapsed = 0.0 if math.isinf(self.seconds) else self.agreed(time.perf_counter() - self.started)
        return max(elapsed / self.seconds, self.count() / self.gradients)


class Meter:
    """What a kind of work costs, so that the next of it ends in time.

    Args:
        budget: that pays for it.
    """

    def __init__(self, budget: Budget):
        self.budget, self.before = budget, budget.share

    def afford(self, wanted: int, done: int, until: float, least: int = 8) -> int:
        """As many units as are wanted, or as end before a share of the budget is spent.

        Args:
            wanted: units.
            done: units since the meter began.
            until: share of the budget.
            least: units that are given in any case.
        """
        price = max((self.budget.share - self.before) / max(done, 1), 1e-12)
        return int(np.clip((until - self.budget.share) / price, least, max(wanted, least)))
