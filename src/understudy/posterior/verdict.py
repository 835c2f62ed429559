"""A quick verdict: what a fit saw of its own student, figure by figure."""

from typing import NamedTuple

CHAIN_ERROR = "error of the chains"
"""Name of the figure that holds the standard error of the chains' means, in deviations."""


class Figure(NamedTuple):
    """One thing that was looked at.

    Attributes:
        name: what it is.
        value: what was seen.
        limit: what is allowed.
        about: "student", or "chains" (whether they agree), or "precision" (how well they tell).
    """

    name: str
    value: float
    limit: float
    about: str = "student"

    @property
    def fine(self) -> bool:
        """Whether the value is within the limit; what is not a number is not."""
        return bool(self.value <= self.limit)


class Verdict(NamedTuple):
    """Whether a student's draws can be given as they are, and if not, whether its chains' can.

    Attributes:
        figures: everything that was looked at.
    """

    figures: tuple[Figure, ...]

    @property
    def trusted(self) -> bool:
        """Whether every figure is within its limit."""
        return all(figure.fine for figure in self.figures)

    @property
    def agreed(self) -> bool:
        """Whether the chains that the student learnt from agree with each other."""
        return all(figure.fine for figure in self.figures if figure.about == "chains")

    @property
    def chain_error(self) -> float:
        """Standard error of the chains' means, the largest, in deviations; zero where none was seen."""
        return max((figure.value for figure in self.figures if figure.name == CHAIN_ERROR), default=0.0)

    @property
    def sentence(self) -> str:
        """The verdict in one sentence."""
        if self.trusted:
            return "The student is trusted: its draws agree with those of chains that agree."
        worst = [f"{f.name} {f.value:.2g} (allowed {f.limit:g})" for f in self.figures if not f.fine]
        if self.agreed:
            return (
                f"The student is not trusted ({'; '.join(worst)}), so sample() finishes its draws by "
                "teacher transitions; finish=False gives the student's own."
            )
        return (
            f"Not converged: the chains do not agree with each other ({'; '.join(worst)}). Give a "
            "larger budget, or look for modes, flat directions or scales that are hard to tell apart."
        )

    def __str__(self) -> str:
        rows = [
            f"{f.name:<28} {f.value:10.3f}  at most {f.limit:<6g} {'fine' if f.fine else 'not fine'}"
            for f in self.figures
        ]
        return "\n".join([*rows, self.sentence])
