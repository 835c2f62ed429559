"""How long an amortised model learns."""

from typing import Any

from understudy.checks import one_positive, whole

# Updates that stand for a second, where a choice of ours is made by the seconds of a budget.
_A_SECOND = 50


class Updates(int):
    """A budget of training counted in updates, so that no clock has a say: ``budget=Updates(2000)``.

    Examples:
        >>> import understudy
        >>> int(understudy.Updates(2000))
        2000
    """

    def __new__(cls, count: int) -> "Updates":
        """So many updates, a whole number."""
        return super().__new__(cls, whole("Updates, a budget,", count))


Length = float | Updates


def checked_length(budget: Any) -> Length:
    """Seconds, or updates."""
    return budget if isinstance(budget, Updates) else one_positive("budget", budget)


def in_seconds(length: Length) -> float:
    """The seconds of a length, about as many as its updates take."""
    return length / _A_SECOND if isinstance(length, Updates) else length


def share_of(length: Length, seconds: float, updates: int) -> float:
    """How much of a length lies behind, one at its end."""
    return (updates if isinstance(length, Updates) else seconds) / length
