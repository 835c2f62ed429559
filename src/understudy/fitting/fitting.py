"""Fit a target with no choices made by the user.

Three stages, each kept only if it is nearer to the target than the one before it: the *region* (climb
from several starts, Gaussian by curvature), a full *Gaussian* that follows the moments of Hamiltonian
moves, and a *flow* on the Gaussian's whitening, taught by Hamiltonian and independence moves. Where the
climbs end at several modes, each gets its own Gaussian and flow, and the student is their mixture.
"""

import dataclasses
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from understudy.checks import LARGEST_SEED, fraction, one_positive, positive, shown, whole
from understudy.core import IngredientError, Target
from understudy.fitting import stages
from understudy.fitting.charts import JUDGED, Assembled, Chart, Whitened, assemble, assess
from understudy.fitting.flow import coloured, small_flow
from understudy.fitting.region import Search, find_regions
from understudy.fitting.stages import Budget
from understudy.posterior import Posterior, Stage
from understudy.posterior.draws import keep_programs, named
from understudy.students import FullGaussian
from understudy.training import Training
from understudy.training.recording import watch
from understudy.training.update import State

# Cheaper to compile than the default generator, and nothing here is split across machines.
_KEYS = "unsafe_rbg"
# Past this acceptance another round of a flow changes less than its draws can show.
_FINE = 0.9


class Gradients(int):
    """A budget counted in gradient evaluations: ``budget=Gradients(500_000)``."""


class Choices(NamedTuple):
    """Everything that can be set by hand."""

    seeds: int
    starts: int
    gaussian_updates: int
    flow_updates: int
    rounds: int
    layers: int
    width: int
    rate: float
    enough: float


class _Found(NamedTuple):
    stage: Stage
    charts: list[Chart]
    built: list[Assembled]


def fit(
    target: Target,
    *,
    budget: float | int | None = None,
    seed: int = 0,
    seeds: int = 1,
    starts: int = 8,
    gaussian_updates: int = 300,
    flow_updates: int = 1500,
    rounds: int = 3,
    layers: int = 4,
    width: int = 32,
    rate: float = 6e-3,
    enough: float = 0.985,
    verbose: bool | None = None,
    cache: bool = True,
) -> Posterior:
    """Fit a student to a target whose log density has a gradient; every choice can be set by hand.

    Args:
        target: what we want draws from, without conditions.
        budget: seconds of wall time, or ``Gradients(n)``, after which no new work is begun; None means
            no limit.
        seed: of everything random.
        seeds: students fitted side by side in one program; ``check`` reports how they disagree.
        starts: places from which the first stage climbs.
        gaussian_updates: updates of the Gaussian; zero leaves it out.
        flow_updates: updates of the flow in a round; zero leaves it out.
        rounds: rounds of the flow at most; each must be nearer to the target than the one before.
        layers: coupling layers of the flow.
        width: hidden units of each layer.
        rate: learning rate of the flow at the start of a round.
        enough: independence acceptance at which no more work is begun.
        verbose: print one line a stage; None prints in a terminal only.
        cache: keep compiled programs in the user's cache folder, unless JAX was given another.
    """
    choices = Choices(seeds, starts, gaussian_updates, flow_updates, rounds, layers, width, rate, enough)
    _check(target, budget, seed, choices)
    if cache:
        keep_programs()
    shown = sys.stderr.isatty() if verbose is None else verbose
    with jax.default_prng_impl(_KEYS):
        found = _Fitting(target, _budget(budget), seed, choices, shown).run()
    best = max(found, key=lambda f: f.stage.acceptance)
    students = sorted(best.built, key=lambda one: -one.acceptance)
    return Posterior(
        target,
        students[0].student,
        stages=tuple(dataclasses.replace(f.stage, kept=f is best) for f in found),
        repeats=tuple(one.student for one in students[1:]),
        seed=seed,
    )


class _Fitting:
    """One fit: what it was asked for, and how the stages follow each other."""

    def __init__(self, target: Target, budget: Budget, seed: int, choices: Choices, shown: bool):
        self.target, self.budget, self.seed = target, budget, seed
        self.choices, self.shown = choices, shown
        self.key = jax.random.key(seed)

    def run(self) -> list[_Found]:
        """The stages that were needed, in their order."""
        found = [self.region()]
        if self.done(found):
            return found
        ahead = self.ahead(found[0].charts) if self.choices.flow_updates else None
        if self.choices.gaussian_updates:
            found.append(self.gaussian(found[0].charts))
        if ahead is not None and not self.done(found):
            best = max(found, key=lambda f: f.stage.acceptance)
            found.append(self.flow(best.charts, ahead))
        return found

    def done(self, found: Sequence[_Found]) -> bool:
        """Whether the best so far is good enough, or nothing is left to spend."""
        return max(f.stage.acceptance for f in found) >= self.choices.enough or not self.budget.left

    def region(self) -> _Found:
        """Climb, and take the curvature at every mode."""
        started = time.perf_counter()
        search = find_regions(self.target, self.seed, self.choices.starts)
        self.budget.spent += search.gradients
        ran = time.perf_counter() - started - search.compile_seconds
        charts = [Chart(region.mean, region.factor) for region in search.regions]
        self.modes = len(charts)
        charts = charts * self.choices.seeds
        standard = [FullGaussian(self.target.dim)] * len(charts)
        return self.finish("region", _climbed(search, self.choices.starts), charts, standard,
                           ran, search.compile_seconds, search.gradients)  # fmt: skip

    def gaussian(self, charts: list[Chart]) -> _Found:
        """Follow the moments of Hamiltonian moves."""
        before, started = self.budget.spent, time.perf_counter()
        training = stages.gaussian_training(Whitened(self.target), self.seed, self.repeats(charts))
        training.compile(stages.QUICK)
        waited = time.perf_counter() - started
        steps = stages.gaussian_steps
        callbacks = [
            stages.spending(self.budget, steps, stages.GAUSSIAN_LEAPFROGS),
            stages.keep_scale,
            stages.growing(steps),
        ]
        updates = self.choices.gaussian_updates
        state = in_charts(training.state, charts, training.repeats)
        learnt = training.run(state, updates, 50, [watch, *callbacks])
        students = stages.unstack(learnt.student, training.repeats)
        charts = [chart.after(one) for chart, one in zip(charts, students, strict=True)]
        standard = [FullGaussian(self.target.dim)] * len(charts)
        reached = int(jnp.max(steps(learnt.state)))
        note = f"full covariance by moments, {_done(learnt)} updates, T up to {reached}"
        return self.finish("gaussian", note, charts, standard,
                           learnt.seconds, waited, self.budget.spent - before)  # fmt: skip

    def flow(self, charts: list[Chart], ahead: "Future[Training]") -> _Found:
        """Teach a flow in rounds, for as long as they help."""
        before, started = self.budget.spent, time.perf_counter()
        training = ahead.result()
        waited = time.perf_counter() - started
        state = in_charts(training.state, charts, training.repeats)
        best, seconds, size = None, 0.0, self.choices.flow_updates
        for i in range(self.choices.rounds):
            state, ran, done = self.round(training, state, i * size, size)
            seconds += ran
            note = (
                f"{self.choices.layers} coupling layers, {done} updates in {i + 1} round{'s' * (i > 0)}"
            )
            students = stages.unstack(state.student, training.repeats)
            found = self.finish("flow", note, charts, students, seconds, waited,
                                self.budget.spent - before, say=False, updates=done)  # fmt: skip
            gain = found.stage.acceptance - (best.stage.acceptance if best else 0.0)
            best = found if best is None or gain > 0 else best
            if gain < 0.01 or found.stage.acceptance > _FINE or not self.budget.left:
                break
        assert best is not None
        return self.say(best)

    def round(
        self, training: Training, state: State, begin: int, updates: int
    ) -> tuple[State, float, int]:
        """One round: the state after it, seconds it ran, and updates done by then."""
        callbacks = [
            stages.spending(self.budget, stages.flow_steps, stages.FLOW_LEAPFROGS, begin),
            stages.cooling(begin, updates, self.choices.rate),
        ]
        state = stages.paced(state, 0.0, self.choices.rate)
        learnt = training.run(state, begin + updates, 100, [watch, *callbacks])
        return learnt.state, learnt.seconds, _done(learnt)

    def ahead(self, charts: list[Chart]) -> "Future[Training]":
        """Compile the flow's update, and the programs that draw from it, while others run."""
        pool = ThreadPoolExecutor(1)
        future = pool.submit(self.prepare_flow, self.repeats(charts))
        pool.shutdown(wait=False)
        return future

    def prepare_flow(self, repeats: int | None) -> Training:
        """The flow's training, compiled."""
        white = Whitened(self.target)
        with jax.default_prng_impl(_KEYS):
            make = _maker(self.target.dim, self.choices)
            training = stages.flow_training(white, make, self.seed, repeats)
            training.compile(stages.QUICK)
            flow = make(self.key)
            if self.modes == 1:
                assess(self.key, white, flow)
        if self.modes == 1:
            drawer = coloured(flow, white.mean, white.factor)
            named(drawer, self.target, jnp.zeros(4, jnp.uint32))
        return training

    def repeats(self, charts: Sequence[Chart]) -> int | None:
        """Trainings side by side: one for each seed and mode."""
        return None if len(charts) == 1 else len(charts)

    def finish(
        self, name, note, charts, students, seconds, waited, gradients, say=True, updates=0
    ) -> _Found:
        """Put the students of each seed together and judge them."""
        started = time.perf_counter()
        groups = [slice(i, i + self.modes) for i in range(0, len(charts), self.modes)]
        built = [assemble(self.key, self.target, charts[g], students[g]) for g in groups]
        waited += time.perf_counter() - started
        acceptance = float(np.mean([one.acceptance for one in built]))
        # Independence moves weigh a start and a candidate each; judging weighs fresh draws.
        evaluations = 2 * updates * stages.PARTICLES * len(charts) + JUDGED * len(groups)
        stage = Stage(name, note, seconds, waited, gradients, acceptance, evaluations=evaluations)
        found = _Found(stage, charts, built)
        return self.say(found) if say else found

    def say(self, found: _Found) -> _Found:
        """Print the stage's line."""
        stage = found.stage
        if self.shown:
            print(
                f"{stage.name}: {stage.note}; independence acceptance {stage.acceptance:.3f}, "
                f"{stage.gradients:,} gradients, {stage.seconds:.1f} s + {stage.compile_seconds:.1f} s "
                "compiling",
                file=sys.stderr,
            )
        return found


def in_charts(state: State, charts: Sequence[Chart], repeats: int | None) -> State:
    """The state of a training on a whitened target, with other coordinates."""
    mean, factor = (np.stack(parts) for parts in zip(*charts, strict=True))
    new = (mean[0], factor[0]) if repeats is None else (mean, factor)
    where = lambda s: (s.target.mean, s.target.factor)  # noqa: E731
    return eqx.tree_at(where, state, tuple(jnp.asarray(v, float) for v in new))


def _maker(dim: int, choices: Choices) -> Callable:
    return lambda key: small_flow(key, dim, choices.layers, choices.width)


def _climbed(search: Search, starts: int) -> str:
    modes = len(search.regions)
    parts = f"{modes} modes with a valley between them" if modes > 1 else "one region"
    return f"{starts + 1} starts ended at {search.ends} place{'s' * (search.ends > 1)}, {parts}"


def _done(learnt: Any) -> int:
    return int(learnt.history["step"][-1]) if len(learnt.history) else 0


def _budget(budget: float | int | None) -> Budget:
    if isinstance(budget, Gradients):
        return Budget(gradients=int(budget))
    return Budget() if budget is None else Budget(float(budget))


def _check(target: Any, budget: Any, seed: Any, choices: Choices) -> None:
    if not isinstance(target, Target):
        raise IngredientError(
            "target is a Target such as from_numpyro(model, data) or LogDensity(function, dim); "
            f"a {type(target).__name__} came."
        )
    if budget is not None:
        one_positive("budget", budget)
    whole("seed", seed, least=0, most=LARGEST_SEED)
    for name in ("seeds", "rounds", "width"):
        whole(name, getattr(choices, name))
    for name in ("starts", "gaussian_updates", "flow_updates", "layers"):
        whole(name, getattr(choices, name), least=0)
    positive("rate", choices.rate)
    fraction("enough", choices.enough)
    _check_gradient(target)


def _check_gradient(target: Target) -> None:
    z = jax.ShapeDtypeStruct((target.dim,), jnp.result_type(float))
    try:
        jax.eval_shape(jax.grad(lambda z: target.log_density(z, None)), z)
    except IngredientError:
        raise
    except Exception as error:
        reason = str(error).strip().partition("\n")[0]
        raise IngredientError(
            f"The log density has no gradient at a draw of size {target.dim} ({shown(reason)}); "
            "write it with functions of JAX that can be differentiated."
        ) from error
