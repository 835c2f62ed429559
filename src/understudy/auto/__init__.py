"""Fit a target with no choices made by the user.

Three stages, each kept only if it is nearer to the target than the one before it: the *region* (climb
from several starts, Gaussian by curvature), a full *Gaussian* that follows the moments of Hamiltonian
moves, and a *flow* on the Gaussian's whitening, taught by Hamiltonian and independence moves.
"""

import os
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from understudy.auto.flow import SinhArcsinh, coloured, small_flow
from understudy.auto.region import Region, find_region
from understudy.auto.result import Posterior, Stage
from understudy.auto.stages import Whitened, assess, fit_flow, fit_gaussian, gradients, until
from understudy.checks import positive, whole
from understudy.core import IngredientError, Target
from understudy.students import Flow, FullGaussian

__all__ = [
    "Posterior",
    "Region",
    "SinhArcsinh",
    "Stage",
    "Whitened",
    "find_region",
    "fit_auto",
    "small_flow",
]


class _Plan(NamedTuple):
    target: Target
    seed: int
    deadline: float
    verbose: bool

    def say(self, stage: Stage) -> Stage:
        if self.verbose:
            print(
                f"{stage.name}: {stage.note}; independence acceptance {stage.acceptance:.3f}, "
                f"{stage.gradients:,} gradients, {stage.seconds:.1f} s + {stage.compile_seconds:.1f} s "
                "compiling",
                file=sys.stderr,
            )
        return stage

    @property
    def left(self) -> float:
        return self.deadline - time.perf_counter()


class _Found(NamedTuple):
    student: Any
    stage: Stage


def fit_auto(
    target: Any,
    budget: float | int | None = None,
    seed: int = 0,
    *,
    starts: int = 8,
    gaussian_updates: int = 300,
    flow_updates: int = 1500,
    layers: int = 4,
    width: int = 32,
    enough: float = 0.985,
    verbose: bool | None = None,
    cache: bool = True,
) -> Posterior:
    """Fit a student to a target whose log density has a gradient; every choice can be set by hand.

    Args:
        target: what we want draws from, without conditions.
        budget: seconds of wall time after which no new work is begun; None means no limit.
        seed: of everything random.
        starts: places from which the first stage climbs.
        gaussian_updates: updates of the Gaussian.
        flow_updates: updates of the flow; zero leaves it out.
        layers: coupling layers of the flow.
        width: hidden units of its conditioners.
        enough: independence acceptance at which no further stage is begun.
        verbose: print one line a stage; None prints in a terminal only.
        cache: keep compiled programs in the user's cache folder, unless JAX was given another.
    """
    _check(target, budget, seed, starts, gaussian_updates, flow_updates)
    if cache:
        _keep_programs()
    shown = sys.stderr.isatty() if verbose is None else verbose
    deadline = np.inf if budget is None else time.perf_counter() + budget
    plan = _Plan(target, seed, deadline, shown)
    # Cheaper to compile than the default generator, and nothing here is split across machines.
    with jax.default_prng_impl("unsafe_rbg"):
        found = [_region(plan, starts)]
        if gaussian_updates and found[0].stage.acceptance < enough and plan.left > 0:
            found.append(_gaussian(plan, found[0].student, gaussian_updates))
        best = _best(found)
        if flow_updates and best.stage.acceptance < enough and plan.left > 0:
            found.append(_flow(plan, best.student, flow_updates, layers, width))
    best = _best(found)
    stages = tuple(_mark(f.stage, f is best) for f in found)
    return Posterior(target, best.student, stages=stages, seed=seed)


def _region(plan: _Plan, starts: int) -> _Found:
    started = time.perf_counter()
    region = find_region(plan.target, plan.seed, starts)
    ran = time.perf_counter() - started
    student = FullGaussian(plan.target.dim, jnp.asarray(region.mean), jnp.asarray(region.factor))
    acceptance, compiling = _acceptance(plan, student, FullGaussian(plan.target.dim))
    note = f"{starts + 1} starts ended at {region.modes} place{'s' * (region.modes > 1)}"
    compiling += region.compile_seconds
    seconds = ran - region.compile_seconds
    return _Found(
        student,
        plan.say(Stage("region", note, seconds, compiling, region.gradients, acceptance)),
    )


def _gaussian(plan: _Plan, start: FullGaussian, updates: int) -> _Found:
    learnt = fit_gaussian(_whitened(plan.target, start), plan.seed, updates, [until(plan.deadline)])
    acceptance, compiling = _acceptance(plan, start, learnt.student)
    done = int(learnt.history["step"][-1])
    note = f"full covariance by moments, {done} updates"
    spent = gradients(done, 4, 3)
    stage = Stage(
        "gaussian", note, learnt.seconds, learnt.compile_seconds + compiling, spent, acceptance
    )
    mean = start.mean + start.factor @ learnt.student.mean
    student = FullGaussian(start.dim, mean, start.factor @ learnt.student.factor)
    return _Found(student, plan.say(stage))


def _flow(plan: _Plan, start: FullGaussian, updates: int, layers: int, width: int) -> _Found:
    def make(key: Any) -> Flow:
        return small_flow(key, plan.target.dim, layers, width)

    whitened = _whitened(plan.target, start)
    learnt = fit_flow(whitened, make, plan.seed, updates, [until(plan.deadline)])
    acceptance, compiling = _acceptance(plan, start, learnt.student)
    done = int(learnt.history["step"][-1])
    note = f"{layers} coupling layers, {done} updates"
    spent = gradients(done, 3, 2)
    stage = Stage("flow", note, learnt.seconds, learnt.compile_seconds + compiling, spent, acceptance)
    return _Found(coloured(learnt.student, start.mean, start.factor), plan.say(stage))


def _whitened(target: Target, gaussian: FullGaussian) -> Whitened:
    return Whitened(target, gaussian.mean, gaussian.factor)


def _acceptance(plan: _Plan, frame: FullGaussian, student: Any) -> tuple[float, float]:
    started = time.perf_counter()
    found = assess(jax.random.key(plan.seed), _whitened(plan.target, frame), student)
    return found.score, time.perf_counter() - started


def _best(found: list[_Found]) -> _Found:
    return max(found, key=lambda f: f.stage.acceptance)


def _mark(stage: Stage, kept: bool) -> Stage:
    values = {name: getattr(stage, name) for name in Stage.__dataclass_fields__}
    return Stage(**{**values, "kept": kept})


def _keep_programs() -> None:
    if jax.config.jax_compilation_cache_dir is None:
        home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
        jax.config.update("jax_compilation_cache_dir", str(Path(home) / "understudy" / "programs"))
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.2)


def _check(target: Any, budget: Any, seed: Any, starts: Any, gaussian: Any, flow: Any) -> None:
    if not isinstance(target, Target):
        raise IngredientError(
            "target is a Target such as from_numpyro(model, data) or LogDensity(function, dim); "
            f"a {type(target).__name__} came."
        )
    if budget is not None:
        positive("budget", budget)
    whole("seed", seed, least=0)
    whole("starts", starts, least=0)
    whole("gaussian_updates", gaussian, least=0)
    whole("flow_updates", flow, least=0)
