"""Further kinds of bad input, by name; :mod:`tests.bad_input_cases` runs them with the others."""

import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import pandas
import xarray
from numpyro import distributions as dist

import understudy
from understudy import Binarised, Gradients, LogDensity, Minibatches, data
from understudy.coordinates import plain_coordinates
from understudy.evaluation import (
    annealed_evidence,
    check,
    classifier_two_sample,
    energy_distance,
    importance_weighted,
    kernel_stein_discrepancy,
    marginal_wasserstein_1,
    maximum_mean_discrepancy,
    mode_report,
    sliced_wasserstein,
    wasserstein_1,
)
from understudy.feedbacks import ExclusiveKL, InclusiveKL, WeightedSum
from understudy.fitting import fit
from understudy.posterior import Posterior
from understudy.posterior.writing import write_draws
from understudy.students import (
    CouplingFlow,
    DiagonalGaussian,
    FullGaussian,
    GaussianMixture,
    Implicit,
    LowRankGaussian,
    Mixture,
    Placed,
    semi_implicit,
)
from understudy.targets import (
    BayesianNetwork,
    Ising,
    banana,
    eight_gaussians,
    forty_gaussians,
    funnel,
    logistic_regression,
)
from understudy.teachers import (
    InCoordinates,
    Recorded,
    Rescaled,
    elliptical_slice,
    hmc,
    mala,
    tempered_smc,
)

KEY = jax.random.key(0)
NORMAL = LogDensity(lambda z: -(z @ z) / 2, 2)
PLAIN = plain_coordinates(np.zeros(2), np.ones(2))
X = np.zeros((8, 2))


def quick(**settings: Any) -> Any:
    """A fit that ends soon where it should never have begun."""
    return fit(NORMAL, **{"budget": 1.0, "verbose": False, "cache": False, **settings})


def quick_fit(target: Any) -> Any:
    """The same for another target."""
    return fit(target, budget=3.0, flows=False, verbose=False, cache=False)


def in_folder(function: Callable[[Path], Any]) -> Any:
    """Call a function of a folder that is gone afterwards."""
    with tempfile.TemporaryDirectory() as folder:
        return function(Path(folder))


def fits() -> dict[str, Callable[[], Any]]:
    """Folders, flags and budgets of a fit."""

    def stage(arrays: dict[str, np.ndarray], **inside: Any) -> Callable[[], Any]:
        def resumed(folder: Path) -> Any:
            told = {"seed": 0, "target": understudy.files.fingerprint(NORMAL), **inside}
            understudy.files.write(folder / "stage.safetensors", arrays, told)
            return quick(folder=folder, resume=True)

        return lambda: in_folder(resumed)

    def damaged(folder: Path) -> Any:
        (folder / "stage.safetensors").write_bytes(b"half a stage")
        return quick(folder=folder, resume=True)

    def in_use(folder: Path) -> Any:
        (folder / "stage.safetensors").write_bytes(b"a stage")
        return quick(folder=folder)

    def held(folder: Path) -> Any:
        with understudy.files.locked(folder):
            return quick(folder=folder)

    good = np.zeros((16, 2))
    return {
        "a fit in the folder ''": lambda: quick(folder=""),
        "a fit in a folder with a zero byte": lambda: quick(folder="a\0b"),
        "a fit in a list of folders": lambda: quick(folder=["a"]),
        "a fit below a file": lambda: quick(folder="/dev/null/a"),
        "a fit in a file": lambda: quick(folder="/dev/null"),
        "a fit in bytes": lambda: quick(folder=b"run"),
        "a fit in a used folder": lambda: in_folder(in_use),
        "a fit in a folder that is held": lambda: in_folder(held),
        "resume='yes'": lambda: quick(folder="x", resume="yes"),
        "resume=1": lambda: quick(folder="x", resume=1),
        "flows=None": lambda: quick(flows=None),
        "flows='no'": lambda: quick(flows="no"),
        "cache='here'": lambda: quick(cache="here"),
        "verbose='loud'": lambda: quick(verbose="loud"),
        "verbose=2": lambda: quick(verbose=2),
        "no gradients": lambda: quick(budget=Gradients(0)),
        "minus five gradients": lambda: quick(budget=Gradients(-5)),
        "a budget without an end": lambda: quick(budget=float("inf")),
        "a budget of a complex number": lambda: quick(budget=1j),
        "a budget as a dictionary": lambda: quick(budget={"seconds": 3}),
        "a budget of True": lambda: quick(budget=True),
        "a budget of an array's True": lambda: quick(budget=np.True_),
        "a step size of True": lambda: mala(True),
        "seeds as a list": lambda: quick(seeds=[0, 1]),
        "seeds past the largest": lambda: quick(seed=2**63 - 1, seeds=2),
        "a stage that is damaged": lambda: in_folder(damaged),
        "a stage without draws": stage({}),
        "a stage of another shape": stage({"z": np.zeros((16, 3))}),
        "a stage that is one row": stage({"z": np.zeros(2)}),
        "a stage of no rows": stage({"z": np.zeros((0, 2))}),
        "a stage with a hole": stage({"z": np.full((16, 2), np.nan)}),
        "a stage of another seed": stage({"z": good}, seed=7),
        "a stage of another target": stage({"z": good}, target="0" * 64),
        "fitting a conditional density": lambda: fit(
            LogDensity(lambda z, x: -((z - x) @ (z - x)), 2, conditional=True)
        ),
        "fitting a posterior": lambda: fit(Posterior(NORMAL, FullGaussian(2))),
        "fitting a student": lambda: fit(FullGaussian(2)),
        "fitting whole numbers": lambda: fit(LogDensity(lambda z: jnp.sum(z > 0), 2)),
        "fitting spins": lambda: quick_fit(Ising(2, 2)),
        "fitting coins": lambda: quick_fit(LogDensity(lambda z: 2 * z[0] * z[1] - z[0], 2)),
        "fitting rounded numbers": lambda: quick_fit(
            LogDensity(lambda z: -jnp.sum(jnp.round(z) ** 2), 2)
        ),
        "fitting an entry of a table": lambda: quick_fit(
            LogDensity(lambda z: jnp.array([0.0, -1.0, 0.5])[z[0].astype(int)], 1)
        ),
        "fitting zeros and ones alone": lambda: quick_fit(
            LogDensity(lambda z: jnp.where(jnp.all((z == 0) | (z == 1)), z[0], -jnp.inf), 3)
        ),
        "fitting a plane that rises": lambda: quick_fit(LogDensity(lambda z: z[0] - 0.3 * z[1], 2)),
        "fitting two densities": lambda: fit(LogDensity(lambda z: (-(z @ z), 0.0), 2)),
        "fitting a density with a loop": lambda: fit(
            LogDensity(lambda z: -sum(float(v) ** 2 for v in z), 2)
        ),
        "fitting a density that asks for its input": lambda: fit(
            LogDensity(lambda z: -(z @ z) if bool(z[0] > 0) else -jnp.inf, 2)
        ),
        "fitting a density that prints a number": lambda: fit(LogDensity(lambda z: f"{z[0]:.2f}", 2)),
    }


def ingredients() -> dict[str, Callable[[], Any]]:
    """Students, teachers and feedbacks of later days."""
    gaussian = DiagonalGaussian(2)

    def train(student: Any = gaussian, teacher: Any = None, feedback: Any = None) -> Any:
        teacher, feedback = teacher or mala(0.1), feedback or InclusiveKL()
        return understudy.train(NORMAL, student, teacher, feedback, updates=2, particles=4)

    return {
        "placed by a word": lambda: Placed("whitened"),
        "placed by an array": lambda: Placed(np.eye(2)),
        "placed nowhere": lambda: Placed(None),
        "placing a word": lambda: Placed(PLAIN, "flow"),
        "placing a wild student": lambda: Placed(PLAIN, Implicit(KEY, 2)),
        "placing a student of another size": lambda: Placed(PLAIN, DiagonalGaussian(3)),
        "coordinates for a word": lambda: InCoordinates("hmc", PLAIN),
        "coordinates that are a word": lambda: InCoordinates(hmc(), "whitened"),
        "coordinates that are a matrix": lambda: InCoordinates(hmc(), np.eye(2)),
        "coordinates of another size": lambda: train(
            teacher=InCoordinates(hmc(), plain_coordinates(np.zeros(3), np.ones(3)))
        ),
        "a record that is a word": lambda: Recorded("draws"),
        "a record of one row": lambda: Recorded(jnp.zeros(3)),
        "a record of no row": lambda: Recorded(jnp.zeros((0, 2))),
        "a record with a hole": lambda: Recorded(jnp.full((4, 2), jnp.nan)),
        "a record of another size": lambda: train(teacher=Recorded(jnp.zeros((4, 3)))),
        "a coupling flow of size 0": lambda: CouplingFlow(KEY, 0),
        "a coupling flow of half a layer": lambda: CouplingFlow(KEY, 2, layers=0.5),
        "a coupling flow of no width": lambda: CouplingFlow(KEY, 2, width=0),
        "a coupling flow by a word": lambda: CouplingFlow("key", 2),
        "a coupling flow of bad directions": lambda: CouplingFlow(KEY, 2, directions=jnp.eye(3)),
        "a coupling flow of words": lambda: CouplingFlow(KEY, 2, directions="all"),
        "a coupling flow stretched otherwise": lambda: CouplingFlow(
            KEY, 2, directions=jnp.eye(2), stretch=jnp.ones(5)
        ),
        "directions without a stretch": lambda: CouplingFlow(KEY, 2, directions=jnp.eye(2)),
        "a rank as a word": lambda: LowRankGaussian(2, "one"),
        "a low rank of size 0": lambda: LowRankGaussian(0, 1),
        "a mixture of a word": lambda: Mixture("flows"),
        "a mixture of nothing": lambda: Mixture([]),
        "a mixture of sizes": lambda: Mixture([gaussian, DiagonalGaussian(3)]),
        "a mixture of weights that are words": lambda: Mixture([gaussian, gaussian], ["a", "b"]),
        "a mixture of three weights": lambda: Mixture([gaussian, gaussian], [1.0, 1.0, 1.0]),
        "components that are none": lambda: GaussianMixture(KEY, 2, 0),
        "a semi-implicit student of nothing": lambda: semi_implicit(KEY, 0),
        "a sum of a sum of nothing": lambda: WeightedSum([(1.0, WeightedSum([]))]),
        "a sum of a word": lambda: WeightedSum([(1.0, "kl")]),
        "a sum of triples": lambda: WeightedSum([(1.0, ExclusiveKL(), 3)]),
        "a sum with an endless weight": lambda: WeightedSum([(float("inf"), ExclusiveKL())]),
        "a sum for a wild student": lambda: train(
            Implicit(KEY, 2), feedback=WeightedSum([(1.0, ExclusiveKL())])
        ),
        "rescaling by a word": lambda: Rescaled(mala(), jnp.zeros(2), "wide"),
        "rescaling nobody": lambda: Rescaled("mala", jnp.zeros(2), jnp.ones(2)),
        "a ladder of no rungs": lambda: tempered_smc(mala(), rungs=0),
    }


def targets() -> dict[str, Callable[[], Any]]:
    """Targets that cannot be built, and rows that cannot be theirs."""
    labels = np.array([0, 1] * 4)
    return {
        "a funnel of one": lambda: funnel(1),
        "a funnel of a word": lambda: funnel("two"),
        "a negative funnel": lambda: funnel(2, scale=-1.0),
        "a banana of a word": lambda: banana("bent"),
        "eight Gaussians of no scale": lambda: eight_gaussians(scale=0.0),
        "eight Gaussians in a word": lambda: eight_gaussians(radius="far"),
        "forty Gaussians of half a seed": lambda: forty_gaussians(seed=0.5),
        "forty Gaussians of no scale": lambda: forty_gaussians(scale=-1.0),
        "an Ising model of nothing": lambda: Ising(0),
        "an Ising model of a word": lambda: Ising("four"),
        "a regression without labels": lambda: logistic_regression(X, None),
        "a regression of other labels": lambda: logistic_regression(X, labels[:3]),
        "a regression of words": lambda: logistic_regression(X, ["a"] * 8),
        "a regression with a hole": lambda: logistic_regression(np.full((8, 2), np.nan), labels),
        "a regression of no rows": lambda: logistic_regression(X[:0], labels[:0]),
        "a network of a word": lambda: BayesianNetwork("x", labels),
        "a network of no width": lambda: BayesianNetwork(X, labels, hidden=(0,)),
        "minibatches of nothing": lambda: Minibatches(X, 0),
        "minibatches of a word": lambda: Minibatches("rows", 2),
        "binarising a word": lambda: Binarised("pixels", 2),
        "binarising large pixels": lambda: Binarised(np.full((4, 2, 2), 255.0), 2),
        "binarising half a row": lambda: Binarised(np.zeros((4, 2, 2)), 0.5),
        "a density without a size": lambda: LogDensity(lambda z: -(z @ z), None),
        "a density of minus one": lambda: LogDensity(lambda z: -(z @ z), -1),
        "a density of no names": lambda: LogDensity(lambda z: 0.0, {}),
        "a density of a list": lambda: LogDensity(lambda z: 0.0, ["a", "b"]),
        "a density of a negative shape": lambda: LogDensity(lambda z: 0.0, {"a": (-1,)}),
        "a density of half a shape": lambda: LogDensity(lambda z: 0.0, {"a": 1.5}),
    }


def strangers_densities() -> dict[str, Callable[[], Any]]:
    """Densities and models with state, of odd numbers and of sizes that no machine holds."""
    earlier, calls = [], []

    def keeping(z: Any) -> Any:
        earlier.append(z)
        return -(earlier[0] @ z)

    def drawing(z: Any) -> Any:
        return -jnp.sum((z - np.random.default_rng().normal(size=2)) ** 2)

    def site(value: Callable[[Any], Any]) -> Callable[[], Any]:
        def model(y: Any) -> None:
            z = numpyro.sample("z", dist.Normal(0, 1))
            numpyro.deterministic("made", value(z))
            numpyro.sample("y", dist.Normal(z, 1), obs=y)

        return lambda: understudy.from_numpyro(model, np.ones(3))

    def counting(y: Any) -> None:
        calls.append(1)
        numpyro.sample(f"z{len(calls)}", dist.Normal(0, 1))

    def normal(y: Any) -> None:
        numpyro.sample("y", dist.Normal(numpyro.sample("z", dist.Normal(0, 1)), 1), obs=y)

    return {
        "fitting a density that keeps draws": lambda: quick_fit(LogDensity(keeping, 2)),
        "fitting a density that draws numbers": lambda: quick_fit(LogDensity(drawing, 2)),
        "fitting a billion dimensions": lambda: quick_fit(LogDensity(lambda z: -(z @ z), 10**9)),
        "fitting a density that is -inf": lambda: quick_fit(LogDensity(lambda z: -jnp.inf, 2)),
        "fitting a density of a dictionary": lambda: quick_fit(LogDensity(lambda z: {"a": z @ z}, 2)),
        "fitting a density of one entry": lambda: quick_fit(LogDensity(lambda z: -(z @ z)[None], 2)),
        "fitting a density that writes into a draw": lambda: quick_fit(
            LogDensity(lambda z: z.__setitem__(0, 1.0), 2)
        ),
        "parameters without a free number": lambda: LogDensity(
            lambda a: a[0], {"a": (dist.constraints.simplex, (1,))}
        ),
        "a derived site that is a word": site(lambda z: "word"),
        "a derived site that is a pair": site(lambda z: (z, z)),
        "a derived site that is nothing": site(lambda z: None),
        "sites that change from call to call": lambda: understudy.from_numpyro(counting, np.ones(3)),
        "a model of a view of memory": lambda: understudy.from_numpyro(normal, memoryview(np.ones(3))),
        "a model of long doubles": lambda: understudy.from_numpyro(normal, np.ones(3, np.longdouble)),
        "a model of complex numbers": lambda: understudy.from_numpyro(normal, np.ones(3) * 1j),
        "a model of a table of pandas": lambda: understudy.from_numpyro(
            normal, pandas.DataFrame({"a": [1.0]})
        ),
        "a model of an array of xarray": lambda: understudy.from_numpyro(
            normal, xarray.DataArray([1.0, 2.0])
        ),
    }


class Odd(understudy.core.Student):
    """A student whose draws are what a function says."""

    give: Callable[[int], Any] = eqx.field(static=True)
    dim: int = eqx.field(static=True, default=2)

    def sample(self, key: Any, x: Any, n: int) -> Any:
        return self.give(n)


def strangers_settings() -> dict[str, Callable[[], Any]]:
    """Settings of odd types, functions of other arguments, students and teachers of other shapes."""
    made, device = Posterior(NORMAL, FullGaussian(2)), jax.devices()[0]

    def train(**settings: Any) -> Any:
        parts = NORMAL, DiagonalGaussian(2), mala(0.1), InclusiveKL()
        return understudy.train(*parts, **{"updates": 2, "particles": 4, **settings})

    def draws_of(give: Callable[[int], Any]) -> Callable[[], Any]:
        return lambda: Posterior(NORMAL, Odd(give)).sample(0, 3)

    return {
        "gradients of nan": lambda: quick(budget=Gradients(float("nan"))),
        "gradients without end": lambda: quick(budget=Gradients(float("inf"))),
        "gradients of a word": lambda: quick(budget=Gradients("many")),
        "half a gradient": lambda: quick(budget=Gradients(0.5)),
        "a key for a seed": lambda: quick(seed=KEY),
        "an array for a seed": lambda: quick(seed=np.array([1])),
        "an array of truth for a seed": lambda: quick(seed=np.array(True)),
        "a device twice": lambda: quick(devices=[device, device]),
        "a device and a number": lambda: quick(devices=[device, 3]),
        "no devices": lambda: quick(devices=[]),
        "all devices in a word": lambda: quick(devices="all"),
        "drawing on a device twice": lambda: made.sample(0, 3, devices=[device, device]),
        "a key of another generator": lambda: made.sample(jax.random.PRNGKey(0, impl="rbg"), 3),
        "a number for a key in an array": lambda: made.sample(np.array(-3), 3),
        "far too many steps of refinement": lambda: made.refine(0, 4, steps=2**40),
        "far too many draws to refine": lambda: made.refine(0, 10**14),
        "far too many candidates": lambda: made.resample(0, 10, candidates=10**14),
        "far too many draws to check": lambda: made.check(draws=10**14),
        "far too many turns": lambda: made.check(turns=2**40),
        "several levels": lambda: made.check(level=np.array([0.01, 0.02])),
        "repeats of another size": lambda: made.check(repeats=[FullGaussian(3)]),
        "a simulator of a number": lambda: made.check(simulate=lambda key: 3),
        "a simulator of another size": lambda: made.check(simulate=lambda key: (jnp.zeros(3), None)),
        "a simulator that fails": lambda: made.check(simulate=lambda key: 1 / 0),
        "a simulator of no argument": lambda: made.check(simulate=lambda: 3),
        "a teacher of another size": lambda: made.check(
            draws=256, teacher=elliptical_slice(jnp.zeros(3), 1.0)
        ),
        "refining by a teacher of another size": lambda: made.refine(
            0, 4, teacher=elliptical_slice(jnp.zeros(3), 1.0)
        ),
        "checking a student of another size": lambda: check(KEY, NORMAL, FullGaussian(3)),
        "a student of another width": draws_of(lambda n: jnp.zeros((n, 3))),
        "a student of a list": draws_of(lambda n: [1.0]),
        "a student of a word": draws_of(lambda n: "draws"),
        "a student that fails": draws_of(lambda n: 1 / 0),
        "a posterior with a word as verdict": lambda: Posterior(NORMAL, FullGaussian(2), verdict="good"),
        "a posterior with a word as stages": lambda: Posterior(NORMAL, FullGaussian(2), stages="all"),
        "a posterior with a record of another size": lambda: Posterior(
            NORMAL, FullGaussian(2), record=np.zeros((4, 3))
        ),
        "more updates than are counted": lambda: train(updates=10**19),
        "more particles than memory": lambda: train(particles=2**31 - 1),
        "more repeats than are counted": lambda: train(repeats=10**12),
        "training on a device twice": lambda: train(devices=[device, device]),
        "a callback of no argument": lambda: train(callbacks=[lambda: 1]),
    }


def strangers_files() -> dict[str, Callable[[], Any]]:
    """Pipes, links in a circle, names that no system has, files that promise what no memory holds."""
    made = Posterior(NORMAL, FullGaussian(2))

    def pipe(read: Callable[[Path], Any], name: str = "a") -> Callable[[], Any]:
        return lambda: in_folder(lambda folder: (os.mkfifo(folder / name), read(folder / name)))

    def circle(read: Callable[[Path], Any]) -> Callable[[], Any]:
        def linked(folder: Path) -> Any:
            (folder / "a").symlink_to(folder / "b")
            (folder / "b").symlink_to(folder / "a")
            return read(folder / "a")

        return lambda: in_folder(linked)

    def promised(read: Callable[[Path], Any], size: int = 2**41) -> Callable[[], Any]:
        def holed(folder: Path) -> Any:
            with open(folder / "a.csv", "wb") as file:
                file.truncate(size)
            return read(folder / "a.csv")

        return lambda: in_folder(holed)

    return {
        "a fit in a circle of links": circle(lambda path: quick(folder=path)),
        "a fit in a name that no system has": lambda: quick(folder="\ud800"),
        "loading a circle of links": circle(understudy.load),
        "loading an exported circle of links": circle(understudy.load_exported),
        "loading a pipe": pipe(understudy.load),
        "loading an exported pipe": pipe(understudy.load_exported),
        "loading a device": lambda: understudy.load("/dev/zero"),
        "loading an exported device": lambda: understudy.load_exported("/dev/zero"),
        "loading two terabytes of nothing": promised(understudy.load),
        "loading two exported terabytes": promised(understudy.load_exported),
        "a table that is a pipe": pipe(data.read_csv),
        "a table that is a device": lambda: data.read_csv("/dev/zero"),
        "a table of two terabytes": promised(data.read_csv),
        "a table with a name that no system has": lambda: data.read_csv("\ud800"),
        "images that are a pipe": pipe(data.read_images, "a.npy"),
        "a picture that is a pipe": pipe(lambda path: data.read_images(path.parent), "a.png"),
        "rows that are a pipe": pipe(understudy.files.read_rows),
        "saving to a name that no system has": lambda: made.save("\ud800"),
        "saving to a name that is too long": lambda: in_folder(lambda f: made.save(f / ("x" * 300))),
        "exporting below a file": lambda: made.export("/dev/null/a"),
    }


def measures() -> dict[str, Callable[[], Any]]:
    """Draws that cannot be compared."""
    a = np.zeros((8, 2))
    return {
        "a distance of words": lambda: wasserstein_1("a", "b"),
        "a distance of nothing": lambda: wasserstein_1(np.zeros(0), np.zeros(3)),
        "a distance of sizes": lambda: energy_distance(a, np.zeros((8, 3))),
        "a distance of vectors": lambda: energy_distance(np.zeros(3), np.zeros(3)),
        "a distance of an unknown statistic": lambda: energy_distance(a, a, "w"),
        "marginals of sizes": lambda: marginal_wasserstein_1(a, np.zeros((8, 3))),
        "slices of words": lambda: sliced_wasserstein(KEY, "a", a),
        "slices of sizes": lambda: sliced_wasserstein(KEY, a, np.zeros((8, 3))),
        "a discrepancy of sizes": lambda: maximum_mean_discrepancy(a, np.zeros((8, 3))),
        "a Stein discrepancy of a word": lambda: kernel_stein_discrepancy(a, "normal"),
        "a classifier of sizes": lambda: classifier_two_sample(KEY, a, np.zeros((8, 3))),
        "modes of a word": lambda: mode_report(a, "centres", 1.0),
        "evidence of a word": lambda: importance_weighted(KEY, "normal", FullGaussian(2), None),
        "evidence by a word": lambda: annealed_evidence(KEY, "normal", a),
    }


def posteriors() -> dict[str, Callable[[], Any]]:
    """What a posterior cannot be asked for."""
    made = Posterior(NORMAL, FullGaussian(2))

    def normal(y: Any, x: Any = None) -> None:
        z = numpyro.sample("z", dist.Normal(0, 1))
        numpyro.sample("y", dist.Normal(z, 1), obs=y)

    def model() -> Posterior:
        return Posterior(understudy.from_numpyro(normal, np.ones(3)), FullGaussian(1))

    def random(y: Any) -> None:
        z = numpyro.sample("z", dist.Normal(0, 1))
        if z > 0:
            numpyro.sample("w", dist.Normal(0, 1))
        numpyro.sample("y", dist.Normal(z, 1), obs=y)

    def twice(y: Any) -> None:
        numpyro.sample("z", dist.Normal(0, 1))
        numpyro.sample("z", dist.Normal(0, 1))

    def unnamed(y: Any) -> None:
        numpyro.sample(3, dist.Normal(0, 1))

    draws = made.sample(0, 4)
    return {
        "finishing without a record": lambda: made.sample(KEY, 3, finish=True),
        "finish='yes'": lambda: made.sample(KEY, 3, finish="yes"),
        "finish=1": lambda: made.draws(KEY, 3, finish=1),
        "sampling an array of numbers": lambda: made.sample(KEY, np.array([1, 2])),
        "predicting without a model": lambda: made.predict(KEY),
        "predicting no draws": lambda: model().predict(KEY, draws=0),
        "predicting an unknown argument": lambda: model().predict(KEY, weather=1),
        "predicting too many arguments": lambda: model().predict(KEY, 1, 2, 3),
        "predictive='no'": lambda: model().to_arviz(KEY, 8, predictive="no"),
        "log_likelihood=3": lambda: model().to_arviz(KEY, 8, log_likelihood=3),
        "breaking even with a word": lambda: made.break_even(nuts="slow"),
        "a report with a word for NUTS": lambda: in_folder(
            lambda folder: made.report(folder / "page.html", nuts="slow")
        ),
        "a report into a folder": lambda: in_folder(lambda folder: made.report(folder)),
        "saving into a folder": lambda: in_folder(lambda folder: made.save(folder)),
        "saving below a file": lambda: made.save("/dev/null/a"),
        "exporting into a folder": lambda: in_folder(lambda folder: made.export(folder)),
        "exporting for numbers": lambda: made.export("a", platforms=[1]),
        "exporting twice for one": lambda: made.export("a", platforms=["cpu", "cpu"]),
        "a teacher of a posterior that is none": lambda: Posterior(NORMAL, FullGaussian(2), teacher="x"),
        "repeats of a posterior that are none": lambda: Posterior(NORMAL, FullGaussian(2), repeats=(1,)),
        "a seed of a posterior that is none": lambda: Posterior(NORMAL, FullGaussian(2), seed="x"),
        "a structure that depends on a draw": lambda: understudy.from_numpyro(random, np.ones(3)),
        "a site named twice": lambda: understudy.from_numpyro(twice, np.ones(3)),
        "a site named by a number": lambda: understudy.from_numpyro(unnamed, np.ones(3)),
        "a model that is a class": lambda: understudy.from_numpyro(dict, np.ones(3)),
        "writing draws to text": lambda: write_draws("draws.txt", draws),
        "writing draws to nothing": lambda: write_draws("", draws),
        "writing draws into a folder": lambda: in_folder(lambda f: write_draws(f / "a" / "..", draws)),
        "writing draws that are a word": lambda: write_draws("draws.csv", "draws"),
        "writing draws of different lengths": lambda: write_draws(
            "draws.csv", {"a": np.zeros(3), "b": np.zeros(4)}
        ),
        "writing no draws": lambda: write_draws("draws.npz", {}),
        "a PyMC model that is a word": lambda: understudy.from_pymc("model"),
    }


CASES: dict[str, Callable[[], Any]] = {
    **fits(),
    **ingredients(),
    **targets(),
    **strangers_densities(),
    **strangers_settings(),
    **strangers_files(),
    **measures(),
    **posteriors(),
}
