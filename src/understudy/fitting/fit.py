"""Fit a target with no choices made by the user.

Chains find the mass: quasi-Newton paths from many starts, then Hamiltonian moves in coordinates that
follow the chains, until groups of them that began apart agree. The student learns their draws: a
Gaussian copula first, and where a judge sees it differ from the chains, flows that also help the chains
along. Where chains sit in modes that they do not leave, a mixture offers them draws and weighs them.
"""

import dataclasses
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.extend.core import ClosedJaxpr, Jaxpr, Literal
from jax.sharding import Mesh

from understudy import checks
from understudy.backend import cores
from understudy.checks import LARGEST_SEED, first_line, instance, one_positive, whole
from understudy.core import IngredientError, Target
from understudy.devices import Devices, agreed, is_first, mesh_of
from understudy.fitting import region
from understudy.fitting.budget import Budget, Gradients
from understudy.fitting.chains import Chains
from understudy.fitting.discrete import ADVICE, check_steps
from understudy.fitting.evaluations import Evaluations
from understudy.fitting.improper import check_ends
from understudy.fitting.improve import improve, prolong, spread
from understudy.fitting.judge import boundless, imprecise, judge
from understudy.fitting.keeping import Kept
from understudy.fitting.learning import Candidate, Learning
from understudy.fitting.profiles import check_profiles
from understudy.fitting.region import Region, copula
from understudy.fitting.starts import find_starts
from understudy.fitting.walls import find_walls
from understudy.fitting.weighing import nearly_right, with_margins
from understudy.posterior import Posterior, Stage
from understudy.posterior.draws import columns, keep_programs
from understudy.posterior.verdict import Verdict
from understudy.progress import Progress
from understudy.surroundings import own_settings
from understudy.teachers import hmc
from understudy.teachers.coordinated import InCoordinates
from understudy.training import Interrupted

_SECONDS = 120.0
# The share of the budget after which no other stage begins.
_LONG = 0.6
# Numbers kept of the chains, to finish draws from.
_KEPT = 4_000_000


def fit(
    target: Any,
    *,
    budget: float | int | None = None,
    seed: int = 0,
    seeds: int = 1,
    flows: bool = True,
    verbose: bool | None = None,
    cache: bool = True,
    devices: Devices = None,
    folder: str | Path | None = None,
    resume: bool = False,
) -> Posterior:
    """Fit a student to a target whose log density has a gradient.

    Args:
        target: what we want draws from, without conditions.
        budget: seconds of wall time, or ``Gradients(n)``, after which no new work is begun; None means
            two minutes.
        seed: of everything random.
        seeds: fits from different seeds, one after the other; the best is kept, and ``check`` reports
            how they disagree.
        flows: whether flows may be tried where a Gaussian copula does not do.
        verbose: show what is going on: a live line in a terminal or notebook, a line a stage elsewhere;
            None shows the live line only.
        cache: keep compiled programs in the user's cache folder, unless JAX was given another.
        devices: over which the chains are spread: how many, a list of ``jax.devices()``, or a mesh with
            one axis; None takes all cores of a CPU where a block of gradients takes long enough.
        folder: where every finished stage is kept, so that a fit that was cut off can go on; of several
            seeds, each in a folder of its own inside.
        resume: begin with the newest stage kept in ``folder``.

    Returns:
        The posterior; its ``verdict`` says whether the student's draws can be given as they are.

    Examples:
        >>> import jax.numpy as jnp, understudy
        >>> target = understudy.LogDensity(lambda z: -0.5 * jnp.sum((z - 1) ** 2), dim=2)
        >>> understudy.fit(target, verbose=False).sample(0, 1000)["z"].shape
        (1000, 2)
    """
    said = {} if verbose is None else {"verbose": verbose}
    for name, value in {"flows": flows, "cache": cache, "resume": resume, **said}.items():
        checks.flag(name, value)
    with Progress(1.0, verbose, "looking at the target"):
        seed, seeds = _checked(target, budget, seed, seeds)
    if cache:
        keep_programs()
    if seeds > 1:
        one = partial(fit, target, budget=budget, flows=flows, verbose=verbose, cache=cache)
        one = partial(one, resume=resume, devices=devices)
        return _best_of(one, range(seed, seed + seeds), folder)
    mesh = mesh_of(devices)
    first = is_first(mesh)
    with (
        own_settings(),
        Kept(folder, resume, target, seed, first) as kept,
        Progress(1.0, verbose if first else False, "compiling") as line,
    ):
        spent = Budget.of(budget, _SECONDS, partial(agreed, mesh=mesh))
        return _Fitting(target, spent, seed, flows, line, kept, mesh).run()


def _best_of(one: Callable[..., Posterior], seeds: Sequence[int], folder: Any) -> Posterior:
    """Fits of several seeds, each in a folder of its own; an interrupt keeps those that are finished."""
    finished: list[Posterior] = []
    outer = checks.folder(folder)
    for seed in seeds:
        try:
            finished.append(one(seed=seed, folder=outer and outer / f"seed-{seed}"))
        except KeyboardInterrupt as error:
            if not finished:
                raise
            cut = [error.result] if isinstance(error, Interrupted) else []
            message = "Interrupted; the exception's `result` is the best posterior fitted so far."
            raise Interrupted(message, _best([*finished, *cut])) from None
    return _best(finished)


def _best(every: Sequence[Posterior]) -> Posterior:
    """The first that is trusted, with the students of the others."""
    first, *others = sorted(every, key=lambda one: not one.trusted)
    return dataclasses.replace(first, repeats=tuple(one.student for one in others))


class _Found(NamedTuple):
    """What the stages have come to."""

    candidate: Any
    region: Region
    verdict: Verdict


class _Fitting:
    """One fit: its parts, and how the stages follow each other."""

    def __init__(
        self,
        target: Target,
        budget: Budget,
        seed: int,
        flows: bool,
        line: Progress,
        kept: Kept,
        mesh: Mesh | None,
    ):
        self.target, self.budget, self.seed, self.mesh = target, budget, seed, mesh
        self.flows, self.line, self.kept = flows, line, kept
        self.stages: list[Stage] = []
        self.found: _Found | None = None
        self.learning: Learning | None = None
        self._last, self._spent = time.perf_counter(), 0

    def run(self) -> Posterior:
        """The stages in their order; what was found so far goes with an interrupt."""
        try:
            self.search()
            assert self.found is not None
            if not self.found.verdict.trusted:
                self.doubt(self.found.region)
        except KeyboardInterrupt:
            if self.found is None:
                raise
            message = "Interrupted; the exception's `result` is the posterior as fitted so far."
            raise Interrupted(message, self.posterior()) from None
        return self.posterior()

    def search(self) -> None:
        """Find the mass, then the student."""
        self.evaluate = Evaluations(self.target, self.mesh, split=self.mesh is None)
        self.budget.count = lambda: self.evaluate.count
        self.evaluate.spare(self.budget)
        what = f"the log density and its gradient, {self.evaluate.place}"
        self.note("compile", what, compiling=True)
        self.chains = Chains(self.evaluate, self.seed)
        self.line.figures = self.figures
        self.begin()
        self.line.stage("chains settle", 0.3)
        found = region.settle(self.chains, self.walls, self.budget)
        self.note("settle", f"nested R-hat {found.agreement.r_hat:.3f}")
        self.line.stage("chains go on", 0.5)
        apart = None
        if not found.agreement.settled:
            self.doubt(found)
            apart = spread(self.chains, found, self.walls, self.budget, self.seed)
        if apart is not None:
            candidate, found = apart
            self.look("modes", f"{len(candidate.parts)} modes", candidate, found)
            return
        self.prepare(found)
        if found.agreement.settled:
            found = region.lengthen(self.chains, found, self.budget, self.walls, self.columns)
        else:
            found = region.refitted(found, self.walls)
        candidate = self.sharpened(copula(found), found)
        verdict = self.look("copula", f"{len(found.z)} draws of each chain", candidate, found)
        if imprecise(verdict) and self.budget.share < _LONG:
            found = self.go_on(found, candidate)
            note = f"{len(found.z)} draws of each"
            verdict = self.look("longer chains", note, self.sharpened(copula(found), found), found)
        if self.flows and not (verdict.trusted or imprecise(verdict)) and self.budget.share < _LONG:
            self.teach(found)

    def doubt(self, found: Region) -> None:
        """Where chains do not agree or no student is right, look whether the posterior is improper."""
        if self.walls is None and not self.evaluate.slow:
            check_profiles(self.target, found.z.reshape(-1, self.target.dim))

    def prepare(self, found: Region) -> None:
        """Let flows compile beside the chains, if a core is free and the copula will not do."""
        if self.flows and cores() > 1 and not nearly_right(self.evaluate, copula(found), found.z):
            self.learning = Learning(self.target.dim, self.seed)

    def begin(self) -> None:
        """Starts, walls and the first coordinates; or where an earlier fit was cut off."""
        cube = np.random.default_rng(self.seed).uniform(-2, 2, (512, self.target.dim))
        cube[::2] = np.abs(cube[::2]) / 2
        log_p, slope = self.evaluate(cube)
        check_steps(self.evaluate, cube, log_p, slope)
        self.walls = find_walls(self.evaluate, cube, np.isfinite(log_p))
        earlier = self.kept.read()
        if earlier is not None:
            region.go_on(self.chains, earlier, self.walls)
            self.note("resume", f"{len(earlier):,} draws of an earlier fit")
            return
        self.line.stage("looking for starts", 0.1)
        starts = find_starts(self.evaluate, self.target, self.seed, walls=self.walls)
        self.note("starts", f"{starts.paths} paths" + (", walls" if self.walls else ""))
        self.line.stage("chains warm up", 0.2)
        region.begin(self.chains, starts, self.walls)
        region.warm_up(self.chains, self.walls, self.budget, canyons=len(starts.early) > 0)
        self.note("warm-up", f"step {self.chains.step_size:.2f}")
        if self.walls is None:
            check_ends(self.evaluate, self.chains.z)

    def teach(self, found: Region) -> None:
        """Flows that learn from the chains and help them along."""
        self.line.stage("flows learn", 0.7)
        learning = self.learning or Learning(self.target.dim, self.seed)
        better = improve(self.chains, found, learning, self.walls, self.budget, self.columns, self.seed)
        region = better.region
        chosen = self.sharpened(better.candidate, region)
        note = f"{chosen.name}, acceptance {better.acceptance:.2f}"
        verdict = self.look("flow", note, chosen, region, better.acceptance)
        if imprecise(verdict) and self.budget.share < _LONG:
            longer = self.go_on(region, chosen)
            self.look("longer chains", f"{len(longer.z)} draws of each", chosen, longer)

    def sharpened(self, plain: Candidate, found: Region) -> Candidate:
        """The candidate with margins to the letter, unless that spoils tails which it has right."""
        matched = with_margins(self.seed, plain, self.evaluate, found.z)
        return next((one for one in (matched, plain) if self.judge(one, found).trusted), matched)

    def go_on(self, found: Region, candidate: Candidate) -> Region:
        """Chains that go on until they tell whether a candidate is right."""
        return prolong(self.chains, found, candidate, self.walls, self.budget, self.columns, self.seed)

    def judge(self, candidate: Any, found: Region) -> Verdict:
        """Hold a candidate against the chains and its own weights."""
        return judge(self.seed + 1, candidate, found.z, found.agreement, self.columns, self.chains)

    def look(
        self, name: str, note: str, candidate: Any, found: Region, acceptance: float = float("nan")
    ) -> Verdict:
        """Judge a candidate, keep what was found, and say so."""
        verdict = self.judge(candidate, found)
        if boundless(verdict):
            raise IngredientError(
                "The posterior looks improper: the chains spread over more orders of magnitude than any "
                f"data could tell apart. Give every parameter a proper prior; {ADVICE}."
            )
        self.found = _Found(candidate, found, verdict)
        self.kept.write(self.record())
        self.note(name, f"{note}, {'trusted' if verdict.trusted else 'not trusted'}", acceptance)
        return verdict

    def columns(self, z: np.ndarray) -> np.ndarray:
        """All numbers that a user sees of draws."""
        return columns(self.target, z)

    def record(self) -> np.ndarray:
        """Draws of the chains, as many as are kept."""
        assert self.found is not None
        flat = self.found.region.z.reshape(-1, self.target.dim)
        most = max(256, _KEPT // self.target.dim)
        return flat[np.linspace(0, len(flat) - 1, min(len(flat), most)).astype(int)]

    def posterior(self) -> Posterior:
        """What was found, for the user."""
        assert self.found is not None
        candidate, _, verdict = self.found
        moves = hmc(self.chains.step_size, self.chains.leapfrogs, jitter=0.5)
        result = Posterior(
            self.target,
            candidate.student,
            teacher=InCoordinates(moves, self.chains.home),
            stages=(*self.stages[:-1], dataclasses.replace(self.stages[-1], kept=True)),
            seed=self.seed,
            verdict=verdict,
            record=self.record(),
            double=self.evaluate.double,
        )
        self.line.close(verdict.sentence)
        return result

    def figures(self) -> dict[str, str]:
        """What the live line shows: gradients, agreement of the chains, held-out log q, time left."""
        seen = {name: f"{value:.4g}" for name, value in tuple(self.chains.seen.items())}
        return {"gradients": f"{self.evaluate.count:,}", **seen, "time": self.budget.left}

    def note(
        self, name: str, note: str, acceptance: float = float("nan"), compiling: bool = False
    ) -> None:
        """Keep what a stage cost and say what it did."""
        now, spent = time.perf_counter(), self.evaluate.count
        took = now - self._last
        seconds = (0.0, took) if compiling else (took, 0.0)
        self.stages.append(Stage(name, note, *seconds, spent - self._spent, acceptance))
        self._last, self._spent = now, spent
        self.line.say(f"{name}: {note}; {took:.1f} s")


def _checked(target: Any, budget: Any, seed: Any, seeds: Any) -> tuple[int, int]:
    """The first seed and how many, where nothing speaks against a fit."""
    instance("target", Target, "from_numpyro(model, data) or LogDensity(function, dim)", target)
    if budget is not None and not isinstance(budget, Gradients):
        one_positive("budget", budget)
    seeds = whole("seeds", seeds)
    seed = whole("seed", seed, least=0, most=LARGEST_SEED + 1 - seeds)
    _check_size(target)
    _check_gradient(target)
    return seed, seeds


def _check_size(target: Target) -> None:
    """Whether matrices of the target's size, such as the curvature at a start, can be held at all."""
    try:
        np.empty((4, target.dim, target.dim))
    except (MemoryError, ValueError) as error:
        raise IngredientError(
            f"fit holds matrices of the size of the target, and those of {target.dim:,} dimensions do "
            "not fit into memory; call train with a student such as DiagonalGaussian."
        ) from error


def _check_gradient(target: Target) -> None:
    """Trace the log density and its gradient, to name what JAX cannot do with it."""
    z = jax.ShapeDtypeStruct((target.dim,), jax.numpy.result_type(float))
    try:
        first, second = (jax.make_jaxpr(jax.value_and_grad(target.log_density))(z) for _ in range(2))
    except IngredientError:
        raise
    except Exception as error:
        raise IngredientError(
            f"The log density cannot be differentiated by JAX ({type(error).__name__}: "
            f"{first_line(error)}); write it with jax.numpy, without branches on values."
        ) from error
    if not _same([*first.consts, *_literals(first)], [*second.consts, *_literals(second)]):
        raise IngredientError(
            "The log density is another one when it is called again: it keeps draws of an earlier call, "
            "or draws numbers of its own; let it depend on its argument and on fixed data alone."
        )


def _literals(program: Any) -> Iterator[Any]:
    """The numbers that stand in a program itself, those of programs inside it too."""
    if isinstance(program, ClosedJaxpr):
        yield from _literals(program.jaxpr)
    elif isinstance(program, Jaxpr):
        for equation in program.eqns:
            yield from (np.asarray(one.val) for one in equation.invars if isinstance(one, Literal))
            for inner in jax.tree.leaves(equation.params, is_leaf=_is_program):
                yield from _literals(inner)


def _is_program(value: Any) -> bool:
    return isinstance(value, ClosedJaxpr | Jaxpr)


def _same(first: Sequence[Any], second: Sequence[Any]) -> bool:
    """Whether what two traces of a function took from outside is the same, and no trace's own."""
    if len(first) != len(second) or any(isinstance(one, jax.core.Tracer) for one in second):
        return False
    pairs = zip(first, second, strict=True)
    return all(a is b or np.array_equal(a, b, equal_nan=a.dtype.kind == "f") for a, b in pairs)
