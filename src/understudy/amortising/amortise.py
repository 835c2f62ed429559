"""Amortise a model over data sets with no choices made by the user.

Simulated pairs are exact draws for free, so a conditional flow behind a summary network learns them
first. Weights by the likelihood say, on simulated data sets that it has not seen, whether that was
enough; where it was not, training goes on.
"""

import contextlib
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from understudy.amortising.amortised import Amortised
from understudy.amortising.budget import Length, checked_length, in_seconds
from understudy.amortising.finishing import FEWEST, LARGEST_K, weigh
from understudy.amortising.keeping import Kept, Place
from understudy.amortising.learning import Informed, Learning, Simulated, simulate
from understudy.amortising.novelty import fit_novelty
from understudy.amortising.observations import fit_reading
from understudy.amortising.simulators import Pairs, Simulator, unseen
from understudy.checks import calling, flag, function, shown
from understudy.checks import seed as checked_seed
from understudy.coordinates import fit_coordinates
from understudy.core import ExplicitStudent, IngredientError, Key
from understudy.devices import Devices, is_first, mesh_of
from understudy.networks.summaries import Summary
from understudy.posterior import Stage
from understudy.posterior.draws import keep_programs
from understudy.progress import Progress
from understudy.students.splines import SplineFlow
from understudy.surroundings import own_settings

# Training without a budget: rounds of these seconds, until the student is good enough.
_ROUNDS = (60.0, 180.0, 540.0)
_FIRST_RATE, _LATER_RATE = 3e-3, 2e-3
_FIRST_PAIRS = 4096
# Simulated data sets that are judged after a round, and after a short one.
_JUDGED, _FEW, _SHORT = 128, 16, 60.0
# Free parameters up to which six couplings do: they learn a quarter faster than eight.
_FEW_LAYERS = 10
_ENOUGH_SERVED, _ENOUGH_SHARE, _ENOUGH_GAIN = 0.95, 0.9, 0.01


def amortise(
    model: Any,
    *args: Any,
    observed: Any = None,
    arguments: Any = None,
    sizes: Any = None,
    missing: bool = False,
    budget: Any = None,
    seed: Any = 0,
    summary: Any = None,
    student: Any = None,
    progress: bool | None = None,
    cache: bool = True,
    devices: Devices = None,
    folder: str | Path | None = None,
    resume: bool = False,
    **kwargs: Any,
) -> Amortised:
    """Train one student for all data sets of a model: simulate, teach, judge.

    Args:
        model: a NumPyro model; or a simulator, such as ``PriorSimulator(prior, simulate,
            log_likelihood)`` or a table of ``Pairs(parameters, data)``.
        args: what the model is called with, its data left out: covariates, sizes, settings.
        observed: the name of the observed site, or several names.
        arguments: a function of a key to other arguments (a tuple, or a dictionary by name), drawn anew
            for every simulation; None keeps those given.
        sizes: the least and the largest number of rows of a data set, such as (10, 1000), the latter
            what the model has with the arguments given. Covariates are rows of those, picked at random.
        missing: whether numbers of real data sets can be missing (NaN).
        budget: seconds of training, compilation not counted, or ``Updates(n)``, which makes the same of
            a seed on any machine; None learns for a minute and then, in two longer rounds, until weights
            are even on simulated data sets or nothing more is learnt, for 13 minutes at most.
        seed: of everything random.
        summary: a function of a key and an example :class:`~understudy.networks.summaries.Read` to a
            network that makes a vector of one; None chooses by the data.
        student: a function of a key, a size and an example summary to a conditional student with
            ``sample_and_log_prob``; None makes a :class:`~understudy.students.SplineFlow`.
        progress: show a live line in a terminal or notebook, and a line for every round elsewhere; None
            shows the live line only.
        cache: keep compiled programs in the user's cache folder.
        devices: over which simulations are spread: how many, a list of ``jax.devices()``, or a mesh with
            one axis; None takes all cores of a CPU where an update is large enough.
        folder: where the training is kept while it runs, so that one that was cut off can go on.
        resume: begin with what ``folder`` holds.
        kwargs: what the model is called with, by name.

    Returns:
        A function of data: ``inference(y)`` is a :class:`~understudy.Posterior`.
    """
    seed = checked_seed("seed", seed)
    lengths: tuple[Length, ...] = _ROUNDS if budget is None else (checked_length(budget),)
    for name, given in {"missing": missing, "cache": cache, "resume": resume}.items():
        flag(name, given)
    if progress is not None:
        flag("progress", progress)
    for name, maker in {"arguments": arguments, "summary": summary, "student": student}.items():
        if maker is not None:
            function(name, maker)
    if cache:
        keep_programs()
    mesh = mesh_of(devices)
    first = is_first(mesh)
    with contextlib.ExitStack() as held_open:
        held_open.enter_context(own_settings())
        line = held_open.enter_context(
            Progress(sum(lengths), progress if first else False, "simulating")
        )
        started = time.perf_counter()
        simulator = _simulator(model, args, kwargs, observed, arguments, sizes, missing)
        kept = held_open.enter_context(Kept(folder, resume, simulator, seed, first))
        keys = jax.random.split(jax.random.key(seed), 3)
        seen = simulate(keys[0], simulator, _FIRST_PAIRS)
        held = simulate(keys[1], unseen(simulator), _FIRST_PAIRS // 2)
        line.stage("compiling")
        begun = _begin(keys[2], simulator, seen, summary, student)
        learning = Learning(simulator, begun, held, seed, mesh)
        line.figures = learning.figures
        place = kept.read(learning)
        learning.look(learning.seconds + place.spent)
        compiled = time.perf_counter() - started
        note = f"{len(seen.z):,} pairs to begin with, {100 * seen.lost:.1f} % not finite and left out"
        stages = [Stage("simulate", note, 0.0, compiled, 0, float("nan"))]
        line.begin_clock()
        stages += _rounds(learning, simulator, held, lengths, line, kept, place)
        simulated = learning.simulations + 3 * _FIRST_PAIRS // 2
        made = Amortised(
            simulator,
            learning.student,
            fit_novelty(learning.student, seen.data),
            tuple(stages),
            np.asarray(learning.curve),
            seed,
            simulator.count if isinstance(simulator, Pairs) else simulated,
            max(seen.lost, learning.lost),
        )
        line.close(str(made) if progress and first else "")
        return made


def _simulator(model, args, kwargs, observed, arguments, sizes, missing) -> Simulator:
    if isinstance(model, Simulator):
        if args or kwargs or missing or (observed, arguments, sizes) != (None, None, None):
            raise IngredientError(
                "observed, arguments, sizes and missing are for NumPyro models; leave them out where a "
                "simulator is given."
            )
        return model
    if observed is None:
        raise IngredientError(
            'observed names the site, or the sites, that data are given for, such as observed="y".'
        )
    # NumPyro takes a second to import, and simulators written by hand do not need it.
    from understudy.amortising.models import simulator_of

    return simulator_of(model, args, kwargs, observed, arguments, sizes, missing)


def _begin(key, simulator, seen, summary, student) -> Informed:
    """A student before its first lesson."""
    first, second = jax.random.split(key)
    reading = fit_reading(simulator.layout, seen.data)
    example = reading(jax.tree.map(lambda leaf: jnp.asarray(leaf[0]), seen.data))
    kind = "set" if simulator.layout.exchangeable else "series"
    network = Summary(first, example, kind) if summary is None else _asked(summary, first, example)
    coordinates = fit_coordinates(np.asarray(seen.z, float), None, float(len(seen.z)))
    dim, vector = simulator.target.dim, network(example)
    flow = _flow(second, dim, vector) if student is None else _made(student, second, dim, vector)
    return Informed(reading, network, coordinates, flow)


def _asked(summary: Callable, key: Key, example: Any) -> Any:
    """The network of a user's function, if it makes a vector."""
    with calling("summary is a function of (key, example) to a network that makes a vector of one"):
        network = summary(key, example)
        vector = jnp.asarray(network(example))
    if vector.ndim != 1 or not jnp.issubdtype(vector.dtype, jnp.floating):
        raise IngredientError(
            "summary makes a network that makes one vector of real numbers; this one makes an array of "
            f"shape {vector.shape} and dtype {vector.dtype}."
        )
    return network


def _made(student: Callable, key: Key, dim: int, vector: Any) -> Any:
    """The student of a user's function, if it draws and has a density."""
    what = "student is a function of (key, dim, summary) to a conditional student"
    with calling(what):
        flow = student(key, dim, vector)
    if not (isinstance(flow, ExplicitStudent) and hasattr(flow, "sample_and_log_prob")):
        raise IngredientError(
            f"{what} with sample_and_log_prob and log_prob, such as SplineFlow(key, dim, summary); "
            f"{shown(flow)} came."
        )
    with calling(what):
        z, log_q = jax.eval_shape(lambda: flow.sample_and_log_prob(key, vector, 2))
        jax.eval_shape(lambda: flow.log_prob(jnp.zeros(dim), vector))
    if (z.shape, log_q.shape) != ((2, dim), (2,)):
        raise IngredientError(
            f"{what} of size {dim}; two draws of this one have shape {z.shape}, their log densities "
            f"{log_q.shape}."
        )
    return flow


def _flow(key: Key, dim: int, summary: Any) -> SplineFlow:
    """A flow as large as its draws ask for."""
    return SplineFlow(key, dim, summary, layers=6 if dim <= _FEW_LAYERS else 8)


def _rounds(
    learning: Learning,
    simulator: Simulator,
    held: Simulated,
    lengths: tuple[Length, ...],
    line: Progress,
    kept: Kept,
    place: Place,
) -> list[Stage]:
    """Learn for the seconds of each round, until it is enough or nothing more is learnt."""
    stages, before, finish = [], place.before, ""
    judge = Judge(simulator, held, in_seconds(min(lengths)))
    for i, length in list(enumerate(lengths))[place.round :]:
        ran, spent = learning.seconds, place.spent if i == place.round else 0.0
        here = Place(i, spent, before)
        line.stage(
            f"learning, round {i + 1} of {len(lengths)} at most" if len(lengths) > 1 else "learning"
        )

        def keep(state: Any, spent: float, here: Place = here) -> None:
            kept.write(learning, state, here._replace(spent=spent))

        score = learning.run(length, _LATER_RATE if i else _FIRST_RATE, line, spent, keep)
        line.stage("judging")
        found = judge(learning.student)
        if learning.agreed(float(found.enough)):
            finish = "that is enough"
        elif learning.past_its_best:
            finish = "it began to learn the table by heart, so only more pairs would teach it more"
        elif score - before < _ENOUGH_GAIN:
            finish = "more of the same would teach it no more"
        elif i == len(lengths) - 1:
            finish = "a larger budget may teach it more"
        words = f"{learning.updates:,} updates; held-out log density {score:.3f}; {found.note}"
        words = f"{words}; {finish}" if finish else words
        line.say(f"round {i + 1}: {words}")
        costs = (learning.seconds - ran + found.seconds, found.compile_seconds, 0, float("nan"))
        stages.append(Stage(f"learn {i + 1}", words, *costs, False, found.evaluations))
        if finish:
            break
        before = score
        kept.write(learning, learning.state, Place(i + 1, 0.0, before), now=True)
    return stages


class Judged(NamedTuple):
    """Whether weights are even on simulated data sets, in words, and what it took to see that."""

    enough: bool
    note: str
    seconds: float = 0.0
    compile_seconds: float = 0.0
    evaluations: int = 0


class Judge:
    """Weighs a student's draws for simulated data sets that it did not learn from.

    Args:
        simulator: has the likelihood, if there is one.
        held: the data sets.
        seconds: of a round; after a short one fewer are judged, which would take much of its time.
    """

    def __init__(self, simulator: Simulator, held: Simulated, seconds: float):
        self.simulator = simulator
        self.count = int(np.clip(_JUDGED * seconds / _SHORT, _FEW, _JUDGED))
        self.data = jax.tree.map(lambda leaf: leaf[: self.count], held.data)
        self.compiled: Any = None

    def __call__(self, student: Any) -> Judged:
        """Whether the student is good enough."""
        if not self.simulator.likelihood:
            return Judged(False, "no likelihood to weigh draws with")
        given = (jax.random.key(0), student, self.simulator.target, self.data, FEWEST)
        begun = time.perf_counter()
        if self.compiled is None:
            self.compiled = weigh.lower(*given).compile()  # pyright: ignore[reportFunctionMemberAccess]
        compiled, begun = time.perf_counter() - begun, time.perf_counter()
        weighed = jax.block_until_ready(self.compiled(*given))
        served = float(np.mean(np.asarray(weighed.pareto_k) < LARGEST_K))
        share = float(np.median(weighed.share))
        words = (
            f"{100 * served:.0f} % of simulated data sets need no chains, median effective share "
            f"{share:.2f}"
        )
        enough = served >= _ENOUGH_SERVED and share >= _ENOUGH_SHARE
        seconds = time.perf_counter() - begun
        return Judged(enough, words, seconds, compiled, self.count * FEWEST)
