"""Stages of a fit or a training: what each did and what it cost."""

import equinox as eqx


class Stage(eqx.Module):
    """One stage of a fit.

    Attributes:
        name: of the stage, "settle" or "copula" say.
        note: what it did, in words.
        seconds: run time without compilation.
        compile_seconds: time spent tracing and compiling.
        gradients: gradient evaluations of the target's log density.
        acceptance: of independence moves with the stage's student, not a number where none were made.
        kept: whether the result is this stage's student.
        evaluations: evaluations of the log density without a gradient.
    """

    name: str
    note: str
    seconds: float
    compile_seconds: float
    gradients: int
    acceptance: float
    kept: bool = False
    evaluations: int = 0


class Staged:
    """What was made in stages, and what these cost together."""

    stages: tuple[Stage, ...]

    @property
    def seconds(self) -> float:
        """Run time of all stages, without compilation."""
        return sum((stage.seconds for stage in self.stages), 0.0)

    @property
    def compile_seconds(self) -> float:
        """Time spent compiling."""
        return sum((stage.compile_seconds for stage in self.stages), 0.0)
