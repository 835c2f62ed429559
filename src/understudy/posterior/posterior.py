"""What fitting a target gives back: draws, and every way to judge, improve and keep them."""

import dataclasses
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Float

from understudy import files
from understudy.checks import (
    LARGEST_COUNT,
    concrete_key,
    fits,
    flag,
    instance,
    one_of,
    same_size,
    several,
    shown,
    whole,
)
from understudy.checks import seed as seed_number
from understudy.core import ExplicitStudent, IngredientError, Key, Student, Target, Teacher
from understudy.devices import Devices, drawing_on, that_draw
from understudy.display import coordinate_names, entries, varying
from understudy.evaluation.trust import Trust, default_teacher
from understudy.evaluation.trust import check as trust_check
from understudy.evaluation.trust.calibration import Simulate
from understudy.evaluation.trust.weights import TAIL_BAD
from understudy.files import StoreError
from understudy.files.describing import describe
from understudy.files.exported import in_chunks, refuse_forked
from understudy.files.kinds import check_drawing
from understudy.posterior import arviz, cost
from understudy.posterior.cost import BreakEven, NutsCost
from understudy.posterior.draws import CHUNK, chunk_of, flat, named, named_rows
from understudy.posterior.export import checked_platforms, make_program
from understudy.posterior.prior import prior_draws
from understudy.posterior.refine import SUPERCHAINS, Refined, finished, refine
from understudy.posterior.resample import Resampled, importance_resample, independence_resample
from understudy.posterior.stages import Stage, Staged
from understudy.posterior.storing import StoredTarget, stored
from understudy.posterior.summary import (
    draws_to_look_at,
    explained,
    latents_first,
    summary,
)
from understudy.posterior.verdict import Verdict
from understudy.report.draws import marginals, pairs, predictions
from understudy.report.figures import Picture
from understudy.report.findings import trust_picture
from understudy.surroundings import in_double, in_own_precision

if TYPE_CHECKING:
    import pandas


# Candidates for each draw that is picked by weights, until they are enough, and draws at least.
_CANDIDATES, _FEWEST = (2, 8, 32), 1024


class Posterior(eqx.Module, Staged):
    """A student and the target it stands in for; made by a fit, or by hand around any student.

    Attributes:
        target: what we want draws from.
        student: the sampler, over flat unconstrained vectors.
        teacher: improves draws in :meth:`refine` and :meth:`check`; None makes Hamiltonian moves scaled
            by the student's draws.
        stages: what each stage of the fit did.
        repeats: students of other seeds, whose disagreement :meth:`check` reports.
        seed: of the fit, and of what is random here where no key is given.
        verdict: what the fit saw of its own student; None where nothing looked.
        record: draws of the chains that the student learnt from, one a row; None where there are none.
        double: whether to compute in double precision, as locations far from zero on their scale need.

    Examples:
        >>> import jax.numpy as jnp, understudy
        >>> from understudy.students import FullGaussian
        >>> target = understudy.LogDensity(lambda z: -0.5 * jnp.sum(z**2), dim=2)
        >>> result = understudy.Posterior(target, FullGaussian(2))
        >>> result.sample(0, 1000)["z"].shape
        (1000, 2)
    """

    target: Target
    student: Student
    teacher: Teacher | None = None
    stages: tuple[Stage, ...] = ()
    repeats: tuple[Student, ...] = ()
    seed: int = 0
    verdict: Verdict | None = None
    record: np.ndarray | None = None
    double: bool = eqx.field(static=True, default=False)

    def __check_init__(self):
        instance("target", Target, "from_numpyro(model, data)", self.target)
        instance("student", Student, "FullGaussian(dim)", self.student)
        if self.teacher is not None:
            instance("teacher", Teacher, "hmc(0.1)", self.teacher)
        several("repeats", Student, "FullGaussian(dim)", self.repeats)
        same_size(self.target, self.student, *self.repeats)
        several("stages", Stage, "Stage(...)", self.stages)
        seed_number("seed", self.seed)
        if self.verdict is not None:
            instance("verdict", Verdict, "that of another posterior", self.verdict)
        if self.record is not None and np.shape(self.record)[1:] != (self.target.dim,):
            raise IngredientError(
                f"record holds flat draws of size {self.target.dim}, one a row; "
                f"{shown(self.record)} came."
            )
        flag("double", self.double)

    @property
    def trusted(self) -> bool:
        """Whether the verdict trusts the draws; False where nothing looked.

        Of a fit these are the student's own; of one data set among many, what weights or chains make of
        them where the verdict chose so.
        """
        return self.verdict is not None and self.verdict.trusted

    @property
    def gradients(self) -> int:
        """Gradient evaluations of the log density spent on the fit."""
        return sum(stage.gradients for stage in self.stages)

    @property
    def evaluations(self) -> int:
        """Evaluations of the log density without a gradient spent on the fit."""
        return sum(stage.evaluations for stage in self.stages)

    @in_own_precision
    def sample(
        self, key: Key | int, n: int, finish: bool | None = None, devices: Devices = None
    ) -> dict[str, np.ndarray]:
        """Draw ``n`` values of every named site (of ``z`` where the target has no names).

        A student that the fit did not trust has its draws *finished*: they come from the chains it
        learnt from, moved on by the teacher. Then a draw costs some transitions, and a warning says so.
        Where the verdict chose weights, draws are picked by these among several times as many.

        Draws are made a chunk at a time, so memory beyond the result is bounded and any ``n`` runs the
        same compiled program. What is floating comes in float64, whatever JAX computes in: NumPy's sums
        over a million rows of float32 are wrong in the third digit.

        Args:
            key: random key, or a whole number.
            n: how many.
            finish: True finishes, False gives the student's own draws; None does as the verdict says.
            devices: which draw a chunk each in turn: how many, a list of ``jax.devices()``, or a mesh
                with one axis; None draws on one. The draws are the same on any number.
        """
        key, n = concrete_key(key), fits("n", whole("n", n), self.student.dim)
        with drawing_on(devices):
            if self._route(finish) != "student":
                return named_rows(self._target(), self._finished(key, n))
            if isinstance(self.target, StoredTarget):
                return self.target.program.loaded.sample(key, n, that_draw())
            return self._chunks(partial(named, self.student, self._target()), key, n)

    @in_own_precision
    def draws(
        self, key: Key | int, n: int, finish: bool | None = None, devices: Devices = None
    ) -> Float[np.ndarray, "n d"]:
        """Draw ``n`` flat unconstrained vectors, those of :meth:`sample` with the same arguments."""
        key, n = concrete_key(key), fits("n", whole("n", n), self.student.dim)
        with drawing_on(devices):
            if self._route(finish) != "student":
                return self._finished(key, n)
            return self._chunks(partial(flat, self.student, None), key, n)["z"]

    def _finished(self, key: Key, n: int) -> Float[np.ndarray, "n d"]:
        """Draws picked by weights where these were chosen and bear it, else moved on from the record."""
        assert self.record is not None
        target, student = self._target(), self.student
        by_weights = self.verdict is not None and self.verdict.route == "weights"
        if by_weights and isinstance(student, ExplicitStudent):
            for candidates in (part * max(n, _FEWEST) for part in _CANDIDATES):
                start, pick = jax.random.split(jax.random.fold_in(key, candidates))
                z = self.draws(start, candidates, finish=False)
                picked = importance_resample(pick, target, student, z, n)
                if picked.pareto_k < TAIL_BAD and picked.ess >= n:
                    return picked.z
        teacher = self.teacher or default_teacher(key, target, student)
        return finished(key, target, student, teacher, self.record, n)

    def _chunks(self, draw: Callable, key: Key, n: int) -> dict[str, np.ndarray]:
        return in_chunks(draw, key, n, chunk_of(self.student), that_draw())

    def _route(self, finish: bool | None) -> str:
        """Whose draws are given: as asked for, else as the verdict says."""
        usual = "student" if self._own_draws_stand else "finished"
        if finish is None:
            stored = isinstance(self.target, StoredTarget)
            if usual == "finished" and (stored or not self.trusted):
                assert self.verdict is not None
                warnings.warn(self.verdict.sentence, stacklevel=4)
            return "student" if stored or self.record is None else usual
        if flag("finish", finish) and self.record is None:
            raise IngredientError(
                "finish=True needs the draws of the chains that a fit keeps, and this posterior has "
                "none; use refine(key, n, steps)."
            )
        return "finished" if finish else "student"

    @in_own_precision
    def refine(
        self,
        key: Key | int,
        n: int,
        steps: int = 8,
        teacher: Teacher | None = None,
        devices: Devices = None,
    ) -> Refined:
        """Draw ``n`` vectors and move each by ``steps`` calls of the teacher.

        The result holds nested R-hat (the one for many short chains) and ESS beside the draws.

        Args:
            key: random key.
            n: number of draws, each the end of a chain of its own.
            steps: calls of the teacher; nested R-hat needs at least 4.
            teacher: in place of the posterior's.
            devices: over which blocks of chains go in turn; see :meth:`sample`.
        """
        target = self._target()
        if teacher is not None:
            instance("teacher", Teacher, "hmc(0.1)", teacher)
        steps = whole("steps", steps, 4)
        start, make, move = jax.random.split(concrete_key(key), 3)
        with drawing_on(devices):
            z = self.draws(start, whole("n", n, most=LARGEST_COUNT - SUPERCHAINS) + SUPERCHAINS, False)
            teacher = teacher or self.teacher or default_teacher(make, target, self.student)
            return refine(move, target, self.student, teacher, z, steps)

    @in_own_precision
    def resample(
        self,
        key: Key | int,
        n: int,
        method: str = "psis",
        candidates: int | None = None,
        moves: int = 32,
        devices: Devices = None,
    ) -> Resampled:
        """Draw ``n`` vectors corrected by the two densities; for students that have one.

        Args:
            key: random key.
            n: number of draws.
            method: "psis" picks among candidates with Pareto-smoothed importance weights,
                "independence" runs a Metropolis chain from every draw with the student as proposal.
            candidates: how many draws are weighed; None takes four for each draw.
            moves: Metropolis moves of each chain.
            devices: over which blocks of draws go in turn; see :meth:`sample`.
        """
        target, student = self._target(), self.student
        one_of("method", ("psis", "independence"), method)
        if not isinstance(student, ExplicitStudent):
            raise IngredientError(
                "resample needs a student with a density (log_prob) and this one has none; use "
                "refine(key, n, steps) instead."
            )
        start, pick = jax.random.split(concrete_key(key))
        with drawing_on(devices):
            if method == "independence":
                z = self.draws(start, n, finish=False)
                return independence_resample(pick, target, student, z, whole("moves", moves))
            count = 4 * max(whole("n", n), 256)
            count = count if candidates is None else whole("candidates", candidates)
            fits("n" if candidates is None else "candidates", count, student.dim)
            z = self.draws(start, count, finish=False)
            return importance_resample(pick, target, student, z, n)

    @in_own_precision
    def check(
        self,
        key: Key | int | None = None,
        *,
        teacher: Teacher | None = None,
        repeats: Sequence[Student] | None = None,
        simulate: Simulate | None = None,
        draws: int = 4096,
        turns: int = 3,
        level: float = 0.01,
        devices: Devices = None,
    ) -> Trust:
        """Test the draws in several ways; see :func:`understudy.evaluation.trust.check.check`.

        Args:
            key: random key; None makes one of the seed.
            teacher: whose moves should not change the draws; None takes the posterior's.
            repeats: students of other seeds; None takes the posterior's.
            simulate: from a key to (z, x), for the calibration of amortised students.
            draws: how many draws are tested, rounded up to a multiple of 256.
            turns: how often the teacher moves every draw.
            level: probability with which each test warns of a right student.
            devices: over which blocks of draws go in turn; see :meth:`sample`.
        """
        with drawing_on(devices):
            return trust_check(
                self._key(key),
                self._target(),
                self.student,
                teacher=self.teacher if teacher is None else teacher,
                repeats=self.repeats if repeats is None else repeats,
                simulate=simulate,
                draws=draws,
                turns=turns,
                level=level,
            )

    @in_own_precision
    def to_arviz(
        self,
        key: Key | int,
        n: int = 4000,
        chains: int = 4,
        *,
        kind: arviz.Kind = "datatree",
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
            kind: "datatree", or "inferencedata" for ArviZ before version 1.
            predictive: whether to draw new data, for models of NumPyro and PyMC.
            log_likelihood: whether to add the log likelihood of every datum, for the same models.
        """
        target, draw, predict = self._target(), *jax.random.split(concrete_key(key))
        if whole("n", n) % whole("chains", chains):
            raise IngredientError(
                f"n is a multiple of chains={chains}, so that each has as many; {n} came."
            )
        one_of("kind", ("datatree", "inferencedata"), kind)
        flag("predictive", predictive)
        flag("log_likelihood", log_likelihood)
        z = self.draws(draw, n)
        wanted = (kind, predictive, log_likelihood)
        return arviz.to_arviz(predict, target, self.student, z, chains, *wanted)

    @in_own_precision
    def predict(
        self, key: Key | int, *args: Any, draws: int = 1000, **kwargs: Any
    ) -> dict[str, np.ndarray]:
        """New data, one set for every draw: the posterior predictive, at other arguments if given.

        ``result.predict(key, x=new_covariates)`` draws the observed sites of the model at new
        covariates; arguments that are left out and without a default (the data) are None.

        Args:
            key: random key.
            args: what the model is called with; nothing takes what it was fitted to.
            draws: how many.
            kwargs: the same, by name.
        """
        target = self._target()
        if not isinstance(target, arviz.Observing):
            raise IngredientError(
                "predict needs a target made of a model, by from_numpyro(model, data) or "
                f"from_pymc(model); this one is a {type(target).__name__}."
            )
        draw, predict = jax.random.split(concrete_key(key))
        sites = named_rows(target, self.draws(draw, whole("draws", draws)))
        return target.predict(predict, sites, *args, **kwargs)

    def draws_per_second(self, n: int = 262_144) -> float:
        """Named draws per second, measured now and without compilation."""
        return cost.speed(partial(self.sample, finish=False), whole("n", n))

    @in_own_precision
    def break_even(
        self, nuts: NutsCost | None = None, key: Key | int | None = None, chains: int = 4
    ) -> BreakEven:
        """From how many effective draws on the fit pays against NUTS on the same target.

        Only a student whose own draws can be used is compared.

        Args:
            nuts: what NUTS costs; None runs NumPyro's NUTS for a moment from the student's draws.
            key: random key; None makes one of the seed.
            chains: of NUTS, side by side.
        """
        if not self._own_draws_stand:
            raise IngredientError(
                "break_even compares draws that can be used as they are, and those of this student "
                "cannot; finished draws cost weights or transitions of a chain."
            )
        if nuts is not None:
            instance("nuts", NutsCost, "NutsCost(1.0, 100.0)", nuts)
        nuts = nuts or self.nuts_cost(key, chains)
        return cost.break_even(self.seconds, self.draws_per_second(), nuts)

    @property
    def _own_draws_stand(self) -> bool:
        """Whether nothing speaks against the student's own draws."""
        return self.verdict is None or self.verdict.own

    @in_own_precision
    def nuts_cost(self, key: Key | int | None = None, chains: int = 4) -> NutsCost:
        """What NumPyro's NUTS costs on the same target, run for a moment from the student's draws.

        Args:
            key: random key; None makes one of the seed.
            chains: side by side.
        """
        key = self._key(key)
        start = self.draws(key, whole("chains", chains), finish=False)
        return cost.measure_nuts(key, self._target(), start)

    @in_own_precision
    def report(self, path: str | Path, trust: Trust | None = None, nuts: NutsCost | None = None) -> Path:
        """Write one self-contained HTML page: stages, costs, the trust table, marginals and pairs.

        Args:
            path: of the page.
            trust: what :meth:`check` gave; None checks now.
            nuts: what NUTS costs; None measures it now.
        """
        from understudy.report.posterior import write_posterior_report

        self._target()
        path = files.checked_path(path)
        if trust is not None:
            instance("trust", Trust, "result.check()", trust)
        if nuts is not None:
            instance("nuts", NutsCost, "NutsCost(1.0, 100.0)", nuts)
        trust = trust or self.check()
        nuts = nuts or self.nuts_cost()
        even = self.break_even(nuts) if self._own_draws_stand else None
        drawn = latents_first(self.target, self.sample(self._key(None), CHUNK))
        others = self._others({"NUTS": nuts.draws, "prior": self._prior()})
        shown = varying(entries(drawn)), others, coordinate_names(self.target)
        return write_posterior_report(path, self, trust, even, *shown)

    @in_own_precision
    def summary(self, key: Key | int | None = None, n: int = 4096) -> "pandas.DataFrame":
        """A table of every number that varies: mean, sd, quantiles, Monte Carlo standard error.

        The draws are the student's own where it is trusted, else those of the chains it learnt from. The
        standard error adds to that of ``n`` draws the error that the chains themselves have.

        Args:
            key: random key; None makes one of the seed.
            n: how many draws.

        Examples:
            >>> import jax.numpy as jnp, understudy
            >>> target = understudy.LogDensity(lambda z: -0.5 * jnp.sum((z - 1) ** 2), dim=2)
            >>> list(understudy.fit(target, verbose=False).summary().index)
            ['z[0]', 'z[1]']
        """
        return summary(self, self._key(key), whole("n", n, least=2))

    @in_own_precision
    def plot_marginals(self, key: Key | int | None = None, n: int = 4096) -> Picture:
        """A histogram of every number that varies, with the prior where the model can draw it."""
        drawn = varying(entries(draws_to_look_at(self, self._key(key), whole("n", n, least=2))))
        return marginals(drawn, self._others({"prior": self._prior()}))

    @in_own_precision
    def plot_pairs(self, *sites: str, key: Key | int | None = None, n: int = 4096) -> Picture:
        """Scatters of the first numbers of the draws against each other.

        Args:
            sites: whose numbers; none takes all sites in the model's order.
            key: random key; None makes one of the seed.
            n: how many draws.
        """
        drawn = draws_to_look_at(self, self._key(key), whole("n", n, least=2))
        for site in sites:
            one_of("sites", tuple(drawn), site)
        return pairs(varying(entries({name: drawn[name] for name in sites or drawn})))

    @in_own_precision
    def plot_predictive(self, key: Key | int | None = None, draws: int = 1000) -> Picture:
        """The data beside the range of new data: does the model explain what was seen?"""
        predicted = self.predict(self._key(key), draws=draws)
        target = self._target()
        assert isinstance(target, arviz.Observing)
        return predictions(predicted, target.observed())

    def plot_trust(self, trust: Trust | None = None) -> Picture:
        """What :meth:`check` looked at, test by test.

        Args:
            trust: what it gave; None checks now.
        """
        if trust is not None:
            instance("trust", Trust, "result.check()", trust)
        return trust_picture((trust or self.check()).findings, coordinate_names(self.target))

    @in_own_precision
    def __str__(self) -> str:
        return str(explained(self, self._key(None)))

    @in_own_precision
    def _repr_html_(self) -> str:
        return explained(self, self._key(None)).html()

    def __repr__(self) -> str:
        # Shown by debuggers and in traces too, so nothing is computed.
        kinds = f"{type(self.target).__name__}, {type(self.student).__name__}"
        return f"<Posterior of {self.target.dim} dimensions ({kinds}); print() explains it>"

    def _prior(self) -> np.ndarray:
        """Draws of the model's prior, none where it cannot be drawn from."""
        return prior_draws(self.target, self.seed, 2048)

    def _others(self, draws: Mapping[str, np.ndarray | None]) -> dict[str, dict[str, np.ndarray]]:
        """Columns of other flat draws, those of which there are some."""
        return {
            name: entries(named_rows(self._target(), z))
            for name, z in draws.items()
            if z is not None and len(z) > 1
        }

    @in_own_precision
    def save(self, path: str | Path) -> None:
        """Write everything to one file for :func:`understudy.load`: no pickle, with a checksum.

        A model is a Python function, so the file holds its name and its data, and beside them the
        program that draws named sites, which needs no model.
        """
        files.checked_path(path)
        files.save(path, self)

    @in_own_precision
    def export(self, path: str | Path, platforms: Sequence[str] | None = None) -> None:
        """Write one file that draws named sites with jax and numpy alone.

        Read it with :func:`understudy.load_exported`.

        Args:
            path: the file.
            platforms: "cpu", "cuda" and "tpu" or some of them; None takes the one in use.
        """
        path, platforms = files.checked_path(path), checked_platforms(platforms)
        if not isinstance(self.target, StoredTarget):
            make_program(self.student, self._target(), platforms).write(path)
        elif platforms is None or set(platforms) <= set(self.target.program.header["platforms"]):
            self.target.program.write(path)
        else:
            raise IngredientError(self.target.sentence)

    @in_own_precision
    def storable(self) -> "Posterior":
        """The posterior in a form that a file can hold."""
        target = stored(self.target, self.student, self.double)
        return dataclasses.replace(self, target=target, teacher=_storable(self.teacher))

    @in_own_precision
    def restored(self, known: Mapping[str, Any], target: Any = None) -> "Posterior":
        """The posterior with its target, where what is known makes it again."""
        _check_kinds(self)
        made = self.target
        if isinstance(made, StoredTarget):
            made = made.restored(known, target)
        check_drawing(self.student, None)
        return dataclasses.replace(self, target=made)

    def _target(self) -> Target:
        if isinstance(self.target, StoredTarget):
            raise IngredientError(self.target.sentence)
        return in_double(self.target) if self.double else self.target

    def _key(self, key: Key | int | None) -> Key:
        refuse_forked()
        return jax.random.key(self.seed) if key is None else concrete_key(key)


def _check_kinds(result: Posterior) -> None:
    """Whether the fields, as a file gave them, are of their kinds."""
    kinds = {"target": Target, "student": Student, "teacher": Teacher | None, "seed": int}
    for name, kind in kinds.items():
        if not isinstance(getattr(result, name, None), kind):
            raise StoreError(f"its {name} is a {type(getattr(result, name, None)).__name__}")
    for name, kind in {"stages": Stage, "repeats": Student}.items():
        several = getattr(result, name, ())
        if not isinstance(several, tuple) or not all(isinstance(one, kind) for one in several):
            raise StoreError(f"its {name} are not of the class {kind.__name__}")


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
