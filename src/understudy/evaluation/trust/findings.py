"""What a check found: a verdict, a figure and a sentence for every test."""

from dataclasses import dataclass, field
from html import escape
from typing import Literal, NamedTuple

import numpy as np
from jaxtyping import Bool, Float
from scipy.stats import norm

Verdict = Literal["ok", "warn", "fail"]


@dataclass(frozen=True)
class Finding:
    """What one test found.

    Attributes:
        name: of the test.
        verdict: "ok", "warn" (seen, but small or harmless) or "fail" (do not trust the draws).
        figure: the number that decided.
        words: what was measured, what it means and what to do, in a sentence or two.
        pictures: small arrays to draw.
    """

    name: str
    verdict: Verdict
    figure: float
    words: str
    pictures: dict[str, np.ndarray] = field(default_factory=dict, repr=False)


@dataclass(frozen=True)
class Trust:
    """Whether draws can be trusted; printed as a table with a line for each test.

    Attributes:
        findings: one for each test that could be made.
        seconds: how long the tests took, compilation included.
        gradients: gradient evaluations by the climbs and, unless a teacher was given, by the moves.

    Examples:
        >>> import jax, jax.numpy as jnp, understudy
        >>> from understudy.evaluation import check
        >>> from understudy.students import FullGaussian
        >>> target = understudy.LogDensity(lambda z: -0.5 * jnp.sum(z**2), dim=2)
        >>> trust = check(jax.random.key(0), target, FullGaussian(2))
        >>> trust.trusted, trust["drift"].verdict
        (True, 'ok')
    """

    findings: tuple[Finding, ...]
    seconds: float = 0.0
    gradients: int = 0

    @property
    def verdicts(self) -> dict[str, Verdict]:
        """The verdict of every test by its name."""
        return {finding.name: finding.verdict for finding in self.findings}

    @property
    def trusted(self) -> bool:
        """Whether no test failed."""
        return all(finding.verdict != "fail" for finding in self.findings)

    def __getitem__(self, name: str) -> Finding:
        """The finding of a test by its name."""
        return next(finding for finding in self.findings if finding.name == name)

    def __str__(self) -> str:
        width = max((len(finding.name) for finding in self.findings), default=0)
        lines = [
            f"{f.name:<{width}}  {f.figure:>7.3f}  {f.verdict:<4}  {f.words}" for f in self.findings
        ]
        end = "trusted" if self.trusted else "not trusted"
        return "\n".join([*lines, end])

    def _repr_html_(self) -> str:
        cells = [(f.name, f"{f.figure:.3f}", f.verdict, f.words) for f in self.findings]
        lines = ["".join(f"<td>{escape(cell)}</td>" for cell in row) for row in cells]
        body = "".join(f"<tr>{line}</tr>" for line in lines)
        return f"<table>{body}</table><p>{'trusted' if self.trusted else 'not trusted'}</p>"


class Effects(NamedTuple):
    """Sizes of effects with their standard errors, and the size below which each is harmless."""

    size: Float[np.ndarray, " m"]
    error: Float[np.ndarray, " m"]
    tolerance: Float[np.ndarray, " m"]

    @property
    def t(self) -> Float[np.ndarray, " m"]:
        """Effects over their standard errors."""
        return self.size / np.maximum(self.error, 1e-12)

    def significant(self, level: float) -> Bool[np.ndarray, " m"]:
        """Which are not zero, at a level corrected for how many there are."""
        return np.abs(self.size) > self._margin(level)

    def material(self, level: float) -> Bool[np.ndarray, " m"]:
        """Which are certainly larger than their tolerance, at a level corrected for their number."""
        return np.abs(self.size) - self.tolerance > self._margin(level)

    def verdict(self, level: float) -> Verdict:
        """Fail where one is material, warn where one is significant."""
        if self.material(level).any():
            return "fail"
        return "warn" if self.significant(level).any() else "ok"

    @property
    def worst(self) -> int:
        """The one furthest beyond its tolerance, in standard errors; else the most significant."""
        beyond = (np.abs(self.size) - self.tolerance) / np.maximum(self.error, 1e-12)
        return int(np.argmax(beyond if (beyond > 0).any() else np.abs(self.t)))

    def _margin(self, level: float) -> np.ndarray:
        return norm.isf(level / (2 * max(self.size.size, 1))) * self.error


def joined(*effects: Effects) -> Effects:
    """Several groups of effects as one."""
    return Effects(*(np.concatenate(parts) for parts in zip(*effects, strict=True)))
