"""A quick verdict: what was seen of a student, figure by figure, and how its draws can be given."""

from typing import NamedTuple

CHAIN_ERROR = "error of the chains"
"""Name of the figure that holds the standard error of the chains' means, in deviations."""


class Figure(NamedTuple):
    """One thing that was looked at.

    Attributes:
        name: what it is.
        value: what was seen.
        limit: what is allowed.
        about: "student", or "chains" (whether they agree), or "precision" (how well they tell); "own"
            where only draws used as they are would suffer, "data" where the data are what is odd.
    """

    name: str
    value: float
    limit: float
    about: str = "student"

    @property
    def fine(self) -> bool:
        """Whether the value is within the limit; what is not a number is not."""
        return bool(self.value <= self.limit)


# What is no fault of the draws that are given.
_NO_FAULT = ("own", "data")
_BY_ROUTE = {
    "": "The student is trusted: its draws agree with those of chains that agree.",
    "student": "The student is trusted: weights would change nothing of its draws.",
    "weights": "The draws are trusted: sample() picks them by weights that can be relied upon.",
    "chains": "The draws are trusted: sample() moves on those of short chains, which agree.",
}


class Verdict(NamedTuple):
    """Whether a student's draws can be given as they are, and if not, whether its chains' can.

    Attributes:
        figures: everything that was looked at.
        route: how draws are made where that was chosen for the data: the "student"'s own, picked by
            "weights", or of "chains"; empty where trust in the student decides.
    """

    figures: tuple[Figure, ...]
    route: str = ""

    @property
    def trusted(self) -> bool:
        """Whether every figure that tells of the draws is within its limit."""
        return all(figure.fine for figure in self.figures if figure.about not in _NO_FAULT)

    @property
    def own(self) -> bool:
        """Whether the student's own draws are those to use."""
        return self.trusted and self.route in ("", "student")

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
        odd = [f for f in self.figures if f.about == "data" and not f.fine]
        return " ".join([self._draws, *(f"The data are odd: {_over(figure)}." for figure in odd)])

    @property
    def _draws(self) -> str:
        if self.trusted:
            return _BY_ROUTE[self.route]
        worst = [_over(f) for f in self.figures if f.about not in _NO_FAULT and not f.fine]
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
            f"{f.name:<28} {f.value:10.3f}  at most {f.limit:<6g} {self._word(f)}" for f in self.figures
        ]
        return "\n".join([*rows, self.sentence])

    def _word(self, figure: Figure) -> str:
        repaired = f"mended by {self.route}" if self.trusted and figure.about == "own" else "not fine"
        return "fine" if figure.fine else repaired


def _over(figure: Figure) -> str:
    return f"{figure.name} {figure.value:.2g} (allowed {figure.limit:g})"
