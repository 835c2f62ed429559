"""What fitting a target gives back: draws, and every way to judge, improve and keep them."""

import dataclasses
import warnings
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from understudy import files
from understudy.checks import instance, one_of, random_key, whole
from understudy.core import ExplicitStudent, IngredientError, Key, Student, Target, Teacher
from understudy.evaluation.trust.check import Trust, default_teacher
from understudy.evaluation.trust.check import check as trust_check
from understudy.files.describing import StoreError, describe
from understudy.posterior import arviz, cost, improve
from understudy.posterior.cost import BreakEven, NutsCost
from understudy.posterior.exported import in_chunks
from understudy.posterior.program import CHUNK, flat, make_program, named
from understudy.posterior.stored import StoredTarget, stored


class Stage(eqx.Module):
    """One stage of a fit.

    Attributes:
        name: "region", "gaussian" or "flow".
        note: what it did, in words.
        seconds: run time without compilation.
        compile_seconds: time spent tracing and compiling.
        gradients: gradient evaluations of the target's log density.
        acceptance: of independence moves with the stage's student in equilibrium, 1 where it is the
            target itself.
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


class Posterior(eqx.Module):
    """A student and the target it stands in for; made by a fit, or by hand around any student.

    Attributes:
        target: what we want draws from.
        student: the sampler, over flat unconstrained vectors.
        teacher: improves draws in :meth:`refine` and :meth:`check`; None makes Hamiltonian moves scaled
            by the student's draws.
        stages: what each stage of the fit did.
        repeats: students of other seeds, whose disagreement :meth:`check` reports.
        seed: of the fit, and of what is random here where no key is given.
    """

    target: Target
    student: Student
    teacher: Teacher | None = None
    stages: tuple[Stage, ...] = ()
    repeats: tuple[Student, ...] = ()
    seed: int = 0

    def __check_init__(self):
        instance("target", Target, "from_numpyro(model, data)", self.target)
        instance("student", Student, "FullGaussian(dim)", self.student)
        if self.student.dim != self.target.dim:
            raise IngredientError(
                f"The student draws vectors of size {self.student.dim} and the target takes size "
                f"{self.target.dim}; give a student of the target's size."
            )

    @property
    def seconds(self) -> float:
        """Run time of all stages, without compilation."""
        return sum(stage.seconds for stage in self.stages)

    @property
    def compile_seconds(self) -> float:
        """Time spent compiling."""
        return sum(stage.compile_seconds for stage in self.stages)

    @property
    def gradients(self) -> int:
        """Gradient evaluations of the log density spent on the fit."""
        return sum(stage.gradients for stage in self.stages)

    @property
    def evaluations(self) -> int:
        """Evaluations of the log density without a gradient spent on the fit."""
        return sum(stage.evaluations for stage in self.stages)

    def sample(self, key: Key, n: int) -> dict[str, np.ndarray]:
        """Draw ``n`` values of every named site (of ``z`` where the target has no names).

        Draws are made a chunk at a time, so memory beyond the result is bounded and any ``n`` runs the
        same compiled program.
        """
        key, n = random_key(key), whole("n", n)
        if isinstance(self.target, StoredTarget):
            return self.target.program.loaded.sample(key, n)
        return in_chunks(partial(named, self.student, self.target), key, n, CHUNK)

    def draws(self, key: Key, n: int) -> Float[Array, "n d"]:
        """Draw ``n`` flat unconstrained vectors, those of :meth:`sample` with the same key."""
        draw = partial(flat, self.student, None)
        return jnp.asarray(in_chunks(draw, random_key(key), whole("n", n), CHUNK)["z"])

    def refine(
        self, key: Key, n: int, steps: int = 8, teacher: Teacher | None = None
    ) -> improve.Refined:
        """Draw ``n`` vectors and move each by ``steps`` calls of the teacher.

        The result holds nested R-hat (the one for many short chains) and ESS beside the draws.

        Args:
            key: random key.
            n: number of draws, each the end of a chain of its own.
            steps: calls of the teacher; nested R-hat needs at least 4.
            teacher: in place of the posterior's.
        """
        target = self._target()
        start, make, move = jax.random.split(random_key(key), 3)
        z = np.asarray(self.draws(start, whole("n", n) + improve.SUPERCHAINS))
        teacher = teacher or self.teacher or default_teacher(make, target, self.student)
        return improve.refine(move, target, self.student, teacher, z, whole("steps", steps, least=4))

    def resample(
        self,
        key: Key,
        n: int,
        method: str = "psis",
        candidates: int | None = None,
        moves: int = 32,
    ) -> improve.Resampled:
        """Draw ``n`` vectors corrected by the two densities; for students that have one.

        Args:
            key: random key.
            n: number of draws.
            method: "psis" picks among candidates with Pareto-smoothed importance weights,
                "independence" runs a Metropolis chain from every draw with the student as proposal.
            candidates: how many draws are weighed; None takes four for each draw.
            moves: Metropolis moves of each chain.
        """
        target, student = self._target(), self.student
        one_of("method", ("psis", "independence"), method)
        if not isinstance(student, ExplicitStudent):
            raise IngredientError(
                "resample needs a student with a density (log_prob) and this one has none; use "
                "refine(key, n, steps) instead."
            )
        start, pick = jax.random.split(random_key(key))
        if method == "independence":
            z = np.asarray(self.draws(start, n))
            return improve.independence_resample(pick, target, student, z, whole("moves", moves))
        count = 4 * max(whole("n", n), 256) if candidates is None else whole("candidates", candidates)
        z = np.asarray(self.draws(start, count))
        return improve.importance_resample(pick, target, student, z, n)

    def check(self, key: Key | None = None, **settings: Any) -> Trust:
        """Test the draws in several ways; see :func:`understudy.evaluation.trust.check.check`.

        Args:
            key: random key; None makes one of the seed.
            settings: of that function.
        """
        given = {"teacher": self.teacher, "repeats": self.repeats} | settings
        return trust_check(self._key(key), self._target(), self.student, **given)

    def to_arviz(
        self,
        key: Key,
        n: int = 4000,
        chains: int = 4,
        *,
        kind: arviz.Kind | None = None,
        predictive: bool = True,
        log_likelihood: bool = True,
    ) -> Any:
        """``n`` draws for ArviZ: posterior, sample_stats, predictions, likelihoods, data.

        ``sample_stats`` holds the log density of the target (``lp``) and of the student
        (``log_student``) at every draw. The draws are independent; chains are labels that tools expect.

        Args:
            key: random key.
            n: number of draws, a multiple of ``chains``.
            chains: number of labels.
            kind: "datatree" or "inferencedata"; None gives what the installed ArviZ uses.
            predictive: whether to draw new data, for NumPyro models.
            log_likelihood: whether to add the log likelihood of every datum, for NumPyro models.
        """
        target, draw, predict = self._target(), *jax.random.split(random_key(key))
        if whole("n", n) % whole("chains", chains):
            raise IngredientError(
                f"n is a multiple of chains={chains}, so that each has as many; {n} came."
            )
        if kind is not None:
            one_of("kind", ("datatree", "inferencedata"), kind)
        z = np.asarray(self.draws(draw, n))
        wanted = (kind, predictive, log_likelihood)
        return arviz.to_arviz(predict, target, self.student, z, chains, *wanted)

    def draws_per_second(self, n: int = 262_144) -> float:
        """Named draws per second, measured now and without compilation."""
        return cost.speed(self.sample, whole("n", n))

    def break_even(
        self, nuts: NutsCost | None = None, key: Key | None = None, chains: int = 4
    ) -> BreakEven:
        """From how many effective draws on the fit pays against NUTS on the same target.

        Args:
            nuts: what NUTS costs; None runs NumPyro's NUTS for a moment from the student's draws.
            key: random key; None makes one of the seed.
            chains: of NUTS, side by side.
        """
        key = self._key(key)
        if nuts is None:
            start = self.draws(key, whole("chains", chains))
            nuts = cost.measure_nuts(key, self._target(), start)
        return cost.break_even(self.seconds, self.draws_per_second(), nuts)

    def report(self, path: str | Path, trust: Trust | None = None, nuts: NutsCost | None = None) -> Path:
        """Write one self-contained HTML page: stages, costs, the trust table, marginals and pairs.

        Args:
            path: of the page.
            trust: what :meth:`check` gave; None checks now.
            nuts: what NUTS costs; None measures it now.
        """
        from understudy.report.posterior import write_posterior_report

        self._target()
        trust = trust or self.check()
        even = self.break_even(nuts)
        drawn = self.sample(self._key(None), CHUNK)
        latents = [site.name for site in getattr(self.target, "sites", ())]
        draws = {name: drawn[name] for name in [*latents, *drawn] if name in drawn}
        return write_posterior_report(path, self, trust, even, draws)

    def save(self, path: str | Path) -> None:
        """Write everything to one file for :func:`understudy.load`: no pickle, with a checksum.

        A model is a Python function, so the file holds its name and its data, and beside them the
        program that draws named sites, which needs no model.
        """
        files.save(path, self)

    def export(self, path: str | Path, platforms: Sequence[str] | None = None) -> None:
        """Write one file that draws named sites with jax and numpy alone.

        Read it with :func:`understudy.posterior.exported.load_exported`.

        Args:
            path: the file.
            platforms: "cpu", "cuda" and "tpu" or some of them; None takes the one in use.
        """
        if isinstance(self.target, StoredTarget):
            program = self.target.program
        else:
            program = make_program(self.student, self.target, platforms)
        files.replace_file(Path(path), program.file())

    def storable(self) -> "Posterior":
        """The posterior in a form that a file can hold."""
        target = stored(self.target, self.student)
        return dataclasses.replace(self, target=target, teacher=_storable(self.teacher))

    def restored(self, known: Mapping[str, Any], target: Any = None) -> "Posterior":
        """The posterior with its target, where what is known makes it again."""
        if not isinstance(self.target, StoredTarget):
            return self
        return dataclasses.replace(self, target=self.target.restored(known, target))

    def _target(self) -> Target:
        if isinstance(self.target, StoredTarget):
            raise IngredientError(self.target.sentence)
        return self.target

    def _key(self, key: Key | None) -> Key:
        return jax.random.key(self.seed) if key is None else random_key(key)


def _storable(teacher: Teacher | None) -> Teacher | None:
    try:
        describe(teacher, [], "teacher")
    except StoreError:
        warnings.warn(
            "The teacher cannot be written to a file and is left out; one is made when it is needed.",
            stacklevel=4,
        )
        return None
    return teacher
