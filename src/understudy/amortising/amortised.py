"""What amortising a model gives back: a posterior for every data set, judged and repaired."""

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Scalar

from understudy import files
from understudy.amortising import finishing
from understudy.amortising.budget import checked_length
from understudy.amortising.judging import judge, recovery
from understudy.amortising.learning import Informed, simulate
from understudy.amortising.novelty import Novelty, fit_novelty
from understudy.amortising.observations import (
    DataSet,
    checked_values,
    complete,
    in_canonical_order,
    stacked,
)
from understudy.amortising.storing import StoredSimulator, stored
from understudy.amortising.summary import explained
from understudy.amortising.teaching import teach
from understudy.checks import (
    concrete_key,
    flag,
    instance,
    one_fraction,
    whole,
)
from understudy.checks import seed as checked_seed
from understudy.core import Condition, ExplicitStudent, IngredientError, Key, Target
from understudy.devices import Devices, drawing_on
from understudy.display import coordinate_names
from understudy.evaluation.trust import Trust
from understudy.files import StoreError
from understudy.files.kinds import check_drawing
from understudy.numerics import AnyArray, whitening
from understudy.posterior import Posterior, Stage
from understudy.posterior.export import checked_platforms
from understudy.posterior.stages import Staged
from understudy.posterior.verdict import Figure, Verdict
from understudy.report.amortised import learning_picture
from understudy.report.figures import Picture
from understudy.report.findings import trust_picture
from understudy.surroundings import own_settings, with_own_settings
from understudy.teachers import Compose, IndependenceMetropolis, hmc
from understudy.teachers.preconditioned import Rescaled

if TYPE_CHECKING:
    import pandas

ROUTES = ("student", "weights", "chains")
_NAMED_AT_ONCE = 16


class Given(ExplicitStudent):
    """A student of many data sets, bound to one of them.

    Attributes:
        student: of all.
        data: the one.
    """

    student: Any
    data: DataSet
    dim: int = eqx.field(static=True)
    # Draws made at a time: its layers are wide, and most users ask for a thousand.
    chunk: int = eqx.field(static=True, default=1024)

    def sample(self, key: Key, x: Condition, n: int) -> Float[Array, "n d"]:
        """Draw for the data set."""
        return self.student.sample(key, self.data, n)

    def log_prob(self, z: Float[Array, " d"], x: Condition = None) -> Scalar:
        """Log density given the data set."""
        return self.student.log_prob(z, self.data)


class Samples(NamedTuple):
    """Draws for many data sets, and how those of each came about.

    Attributes:
        draws: named sites; axes are data sets, draws, and then those of the site.
        route: "student" (its own draws), "weights" (picked by Pareto-smoothed importance weights) or
            "chains" (moved by short chains), for each data set.
        pareto_k: of the weights; above 0.7 they were not used. Not a number without a likelihood.
        trusted: whether the draws can be relied upon; without a likelihood nothing can tell.
        novel: whether a data set is unlike anything that was simulated.
        share: effective draws among the student's, as a share.
        r_hat: nested R-hat of the chains, one where there were none.
        z: the draws as flat unconstrained vectors.
        likelihoods: evaluations of the log density that this took.
        gradients: evaluations of its gradient.
    """

    draws: dict[str, np.ndarray]
    route: np.ndarray
    pareto_k: Float[np.ndarray, " s"]
    trusted: Bool[np.ndarray, " s"]
    novel: Bool[np.ndarray, " s"]
    share: Float[np.ndarray, " s"]
    r_hat: Float[np.ndarray, " s"]
    z: Float[np.ndarray, "s n d"]
    likelihoods: int
    gradients: int

    def __str__(self) -> str:
        count = len(self.route)
        ways = ", ".join(f"{np.sum(self.route == way)} by {way}" for way in ROUTES)
        # Without a likelihood there are no weights, so that no shape of their tail is a number.
        judged = count == 0 or not np.isnan(self.pareto_k).all()
        trusted = f"{self.trusted.sum()} trusted" if judged else "no likelihood to trust any by"
        return (
            f"{self.z.shape[1]:,} draws for each of {count:,} data sets: {ways}; "
            f"{trusted}, {self.novel.sum()} unlike anything simulated"
        )


class Amortised(eqx.Module, Staged):
    """A posterior for every data set of a model; made by :func:`understudy.amortise`.

    Attributes:
        simulator: where simulated pairs come from, with the density of parameters given data.
        student: draws parameters given data.
        novelty: knows what simulated data look like.
        stages: what training did.
        curve: seconds, updates and held-out log density while it learnt, a row a look.
        seed: of everything random.
        simulations: pairs that were drawn.
        lost: the share of simulations that were not finite and were left out.
    """

    simulator: Any
    student: Informed
    novelty: Novelty
    stages: tuple[Stage, ...]
    curve: np.ndarray
    seed: int
    simulations: int
    lost: float

    def __str__(self) -> str:
        return str(explained(self))

    def _repr_html_(self) -> str:
        return explained(self).html()

    def __repr__(self) -> str:
        # Shown by debuggers and in traces too.
        return f"<Amortised model of {self.student.dim} free parameters; print() explains it>"

    @with_own_settings
    def __call__(self, data: Any, *args: Any, **kwargs: Any) -> Posterior:
        """The posterior of one data set.

        Its verdict is that of :meth:`sample`, and so are its draws: the student's own, picked by
        weights, or of short chains, moved on.

        Args:
            data: the observed site, or a dictionary of several; NaN where a number is missing.
            args: arguments of the model for this data set, where they differ between data sets.
            kwargs: the same, by name.
        """
        x = self._data_set(data, args, kwargs)
        known = in_canonical_order(self.simulator.layout, x)
        several = stacked([known])
        key = jax.random.key(self.seed)
        done = finishing.finish(key, self.student, self._target(), several, finishing.FEWEST)
        novelty = float(self.novelty(self.student, several)[0])
        here = jax.tree.map(jnp.asarray, known)
        student = Given(student=self.student, data=here, dim=self.student.dim)
        verdict = _verdict(done, novelty) if self.simulator.likelihood else None
        record = None if verdict is None or verdict.own else np.asarray(done.z[0], float)
        stage = Stage(
            "infer",
            f"by {ROUTES[done.route[0]]}{'; unlike anything simulated' if novelty > 1 else ''}",
            0.0,
            0.0,
            done.gradients,
            float("nan"),
            True,
            done.likelihoods,
        )
        return Posterior(
            self.simulator.given(jax.tree.map(jnp.asarray, x)),
            student,
            teacher=None if record is None else _teacher(record),
            stages=(*self.stages, stage),
            seed=self.seed,
            verdict=verdict,
            record=record,
        )

    @with_own_settings
    def sample(
        self,
        key: Key | int,
        data: Any,
        n: int = 1000,
        *args: Any,
        finish: bool = True,
        devices: Devices = None,
        **kwargs: Any,
    ) -> Samples:
        """Draw for many data sets at once; the draws of doubtful ones are repaired.

        Args:
            key: random key, or a whole number.
            data: data sets along the first axis, or a list of them; with several sites a dictionary of
                such arrays, or a list of dictionaries.
            n: draws for each.
            args: arguments of the model where they differ, data sets along their first axis or a list.
            finish: False gives the student's own draws, whatever their weights.
            devices: to which blocks of data sets go in turn: how many, a list of ``jax.devices()``, or a
                mesh with one axis; None draws on one. The draws are the same on any number.
            kwargs: the same, by name.
        """
        key, n = concrete_key(key), whole("n", n)
        flag("finish", finish)
        sets = self._data_sets(data, args, kwargs)
        known = stacked([in_canonical_order(self.simulator.layout, x) for x in sets])
        draw = finishing.finish if finish else finishing.unfinished
        with drawing_on(devices):
            done = draw(key, self.student, self._target(), known, n)
        novel = self.novelty(self.student, known) > 1
        draws = _named_sites(self.simulator.target, done.z, known)
        return Samples(
            {name: np.asarray(value) for name, value in draws.items()},
            np.array(ROUTES)[done.route],
            done.pareto_k,
            done.trusted,
            novel,
            done.share,
            done.r_hat,
            done.z,
            done.likelihoods,
            done.gradients,
        )

    @with_own_settings
    def check(
        self,
        key: Key | int | None = None,
        *,
        simulations: int = 512,
        draws: int = 255,
        level: float = 0.01,
    ) -> Trust:
        """Is the student right on average over simulated data, and where not? A line for each test.

        Without a likelihood the tests that need one are left out: of the likelihood of the truth, of
        weighted draws and of the weights. Of a table of pairs, data sets are rows that nothing was
        learnt from.

        Args:
            key: random key; None makes one of the seed.
            simulations: fresh simulated data sets.
            draws: of the student for each.
            level: probability with which each test warns of a right student.
        """
        key = jax.random.key(self.seed + 1) if key is None else concrete_key(key)
        level = one_fraction("level", level)
        names = coordinate_names(self.simulator.target)
        return judge(key, self.simulator, self.student, names, level=level, **_sizes(simulations, draws))

    @with_own_settings
    def summary(
        self, key: Key | int | None = None, *, simulations: int = 256, draws: int = 255
    ) -> "pandas.DataFrame":
        """What data tell of every free parameter, over simulated data sets.

        One row a parameter, unconstrained: mean and deviation of the prior, the mean deviation of the
        posteriors, the share of the prior's variance that data take away, the correlation of posterior
        means with the truths that made the data, and the share of truths in the central 90 % of draws.

        Args:
            key: random key; None makes one of the seed.
            simulations: fresh simulated data sets.
            draws: of the student for each.
        """
        key = jax.random.key(self.seed + 2) if key is None else concrete_key(key)
        names = coordinate_names(self.simulator.target)
        return recovery(key, self.simulator, self.student, names, **_sizes(simulations, draws))

    def plot_learning(self) -> Picture:
        """The log density of simulated pairs that were never learnt from, over the time of training."""
        return learning_picture(np.asarray(self.curve))

    def plot_trust(self, trust: Trust | None = None) -> Picture:
        """What :meth:`check` looked at, test by test: calibration, coverage, recovery and more.

        Args:
            trust: what it gave; None checks now.
        """
        if trust is not None:
            instance("trust", Trust, "inference.check()", trust)
        return trust_picture((trust or self.check()).findings, coordinate_names(self.simulator.target))

    @with_own_settings
    def teach(
        self, data: Any, *args: Any, budget: Any = 120.0, seed: int | None = None, **kwargs: Any
    ) -> "Amortised":
        """Go on learning at data sets that really came, from the teacher; the one taught is returned.

        Args:
            data: data sets, as for :meth:`sample`.
            args: arguments of the model where they differ, as for :meth:`sample`.
            budget: seconds, compilation not counted, or ``Updates(n)`` at these data sets.
            seed: of everything random; None takes that of training.
            kwargs: the same arguments, by name.
        """
        if not self.simulator.likelihood:
            raise IngredientError(
                "teach needs a likelihood, for a teacher to move draws by; give amortise a "
                "log_likelihood, or a budget for more simulation."
            )
        length = checked_length(budget)
        seed = self.seed if seed is None else checked_seed("seed", seed)
        sets = self._data_sets(data, args, kwargs)
        real = stacked([in_canonical_order(self.simulator.layout, x) for x in sets])
        held = simulate(jax.random.key(seed + 3), self.simulator, 2048)
        done = teach(self.simulator, self.student, real, held, length, seed)
        costs = (
            done.seconds,
            done.compile_seconds,
            done.gradients,
            float("nan"),
            True,
            done.evaluations,
        )
        return dataclasses.replace(
            self,
            student=done.student,
            novelty=fit_novelty(done.student, held.data),
            stages=(*self.stages, Stage("teach", done.note, *costs)),
            simulations=self.simulations + done.simulations,
        )

    def report(self, path: str | Path, trust: Trust | None = None) -> Path:
        """Write one self-contained HTML page: tests on simulated data with pictures, stages, the curve.

        Args:
            path: of the page.
            trust: what :meth:`check` gave; None checks now.
        """
        from understudy.report.amortised import write_amortised_report

        path = files.checked_path(path)
        if trust is not None:
            instance("trust", Trust, "inference.check()", trust)
        names = coordinate_names(self.simulator.target)
        return write_amortised_report(path, self, trust or self.check(), names)

    def save(self, path: str | Path) -> None:
        """Write everything to one file for :func:`understudy.load`: no pickle, with a checksum.

        A model is a function, so the file holds its name and its arguments; load it with
        ``understudy.load(path, classes=[model])``, or ``target=simulator`` for one made by hand.
        """
        files.checked_path(path)
        files.save(path, self)

    @with_own_settings
    def export(self, path: str | Path, platforms: Sequence[str] | None = None) -> None:
        """Write one file that draws for any data set with jax and numpy alone.

        Read it with :func:`understudy.load_exported`; then ``loaded.sample(key, n, y=y)`` gives the
        student's own draws, those of ``inference(y).sample(key, n, finish=False)``. Without the model
        nothing can weigh or judge them.

        Args:
            path: the file.
            platforms: "cpu", "cuda" and "tpu" or some of them; None takes the one in use.
        """
        from understudy.amortising.exporting import make_program

        path, platforms = files.checked_path(path), checked_platforms(platforms)
        make_program(self.simulator, self.student, Given, platforms).write(path)

    def storable(self) -> "Amortised":
        """The same in a form that a file can hold."""
        return dataclasses.replace(self, simulator=stored(self.simulator))

    def restored(self, known: Mapping[str, Any], target: Any = None) -> "Amortised":
        """The same with its simulator, made again of what is known."""
        kinds = {"simulator": StoredSimulator, "student": Informed, "novelty": Novelty, "seed": int}
        for name, kind in kinds.items():
            if not isinstance(getattr(self, name, None), kind):
                raise StoreError(f"its {name} is a {type(getattr(self, name, None)).__name__}")
        with own_settings():
            made = self.simulator.restored(known, target)  # pyright: ignore
            check_drawing(self.student, jax.tree.map(jnp.asarray, made.filler))
        return dataclasses.replace(self, simulator=made)

    def _target(self) -> Target | None:
        return self.simulator.target if self.simulator.likelihood else None

    def _data_set(self, data: Any, args: tuple, kwargs: Mapping[str, Any]) -> DataSet:
        layout = self.simulator.layout
        values = checked_values(layout, data)
        arguments = self.simulator.arguments(args, kwargs)
        return complete(layout, values, arguments, self.simulator.filler)

    def _data_sets(self, data: Any, args: tuple, kwargs: Mapping[str, Any]) -> list[DataSet]:
        each = _one_by_one(data)
        arguments = [_one_by_one(a, len(each)) for a in args]
        named = {name: _one_by_one(a, len(each)) for name, a in kwargs.items()}
        return [
            self._data_set(one, tuple(a[i] for a in arguments), {k: v[i] for k, v in named.items()})
            for i, one in enumerate(each)
        ]


def _one_by_one(data: Any, count: int | None = None) -> Any:
    if isinstance(data, Mapping):
        parts = {name: _one_by_one(value) for name, value in data.items()}
        lengths = {len(part) for part in parts.values()}
        if len(lengths) != 1:
            raise IngredientError(f"Every site holds as many data sets; {sorted(lengths)} came.")
        return [{n: part[i] for n, part in parts.items()} for i in range(lengths.pop())]
    each = data if isinstance(data, list | tuple) else np.asarray(data)
    if (isinstance(each, np.ndarray) and each.ndim == 0) or len(each) == 0:
        raise IngredientError("Data sets lie along the first axis, or in a list; none came.")
    if count is not None and len(each) != count:
        raise IngredientError(
            f"An argument of the model comes once for each of {count} data sets; {len(each)} came."
        )
    return each


def _sizes(simulations: int, draws: int) -> dict[str, int]:
    """Of a test on simulated data sets, checked."""
    given = {"simulations": simulations, "draws": draws}
    return {name: whole(name, number, 50) for name, number in given.items()}


def _verdict(done: finishing.Finished, novelty: float) -> Verdict:
    """What decided on the route of one data set; its trust is that of :attr:`Finished.trusted`."""
    route = ROUTES[done.route[0]]
    limit = finishing.FINE_K if route == "student" else finishing.LARGEST_K
    about = "own" if route == "chains" else "student"
    figures = [
        Figure("Pareto k of the weights", float(done.pareto_k[0]), limit, about),
        Figure("uneven weights", float(1 - done.share[0]), 1 - finishing.EVEN, "own"),
        Figure("moved by weights", float(done.moved[0]), finishing.STILL, "own"),
        Figure("distance from simulations", novelty, 1.0, "data"),
    ]
    if route == "chains":
        r_hat = float(done.r_hat[0])
        figures.append(Figure("nested R-hat", r_hat, finishing.LARGEST_R_HAT, "chains"))
    return Verdict(tuple(figures), route)


def _teacher(record: Float[np.ndarray, "n d"]) -> Compose:
    """Local moves and an offer of the student's, as :func:`finishing.run_chains` makes them."""
    d = record.shape[1]
    affine = whitening(record, shrinkage=d / (len(record) + d))
    inner = hmc(0.4 / d**0.25, 6, steps=2, jitter=0.5)
    local = Rescaled(inner, *(jnp.asarray(part, jnp.float32) for part in affine))
    return Compose(local, IndependenceMetropolis(finishing.OFFERED))


def _named_sites(target: Any, z: np.ndarray, data: DataSet) -> dict[str, np.ndarray]:
    def named(key, both):
        del key
        return (_named(target, *both),)

    every = np.arange(len(z))
    return finishing.in_blocks(named, jax.random.key(0), (z, data), every)[0]


@eqx.filter_jit
def _named(target: Any, z: Float[AnyArray, "s n d"], data: DataSet) -> dict[str, Array]:
    def one(both):
        z, x = both
        return jax.vmap(lambda z: target.constrain(z, x))(z)

    return jax.lax.map(one, (z, data), batch_size=_NAMED_AT_ONCE)
