"""Bad input by name: ``python -m tests.bad_input_cases`` prints what each is answered, as JSON."""

import json
import sys
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import optax
from numpyro import distributions as dist

import understudy
from tests import amortising_bad_input, more_bad_input, users_code_bad_input
from understudy import LogDensity, methods
from understudy import data as data_sets
from understudy.evaluation import trust
from understudy.feedbacks import (
    AdversarialELBO,
    Copy,
    EnergyDistance,
    EnergyMatching,
    ExclusiveKL,
    FDivergence,
    InclusiveKL,
    JensenShannon,
    KernelSteinDiscrepancy,
    LearntStein,
    MaximumMeanDiscrepancy,
    MomentMatching,
    MomentProjection,
    SquaredDistance,
    Wasserstein,
    WeightedSum,
)
from understudy.fitting import fit
from understudy.networks import Perceptron
from understudy.posterior import Posterior
from understudy.students import (
    Autoregressive,
    Bernoulli,
    Categorical,
    ChainTable,
    DiagonalGaussian,
    Dropout,
    Flow,
    FullGaussian,
    Gated,
    GaussianEncoder,
    GaussianMixture,
    Implicit,
    LowRankGaussian,
    NormalisedGaussian,
    Particles,
    TruncatedChain,
    VariationalProgram,
    coupling_flow,
    gaussian_encoder,
)
from understudy.targets import MixtureOfGaussians
from understudy.teachers import (
    SVGD,
    Annealed,
    Compose,
    Gibbs,
    Identity,
    IndependenceMetropolis,
    Kernel,
    Langevin,
    Preconditioned,
    Scheduled,
    SingleFlip,
    TemperedTransition,
    elliptical_slice,
    ghmc,
    hmc,
    mala,
    nuts,
    random_walk,
    sghmc,
)

KEY = jax.random.key(0)
NORMAL = LogDensity(lambda z: -(z @ z) / 2, 2)
GIVEN = LogDensity(lambda z, x: -((z - x) @ (z - x)) / 2, 2, conditional=True)
X = np.zeros((8, 2))
HOLE = X.copy()
HOLE[3, 1] = np.nan

CASES: dict[str, Callable[[], Any]] = {}


def case(name: str, function: Callable[[], Any]) -> None:
    """Add a case; names are unique."""
    assert name not in CASES, name
    CASES[name] = function


def train(target=NORMAL, student=None, teacher=None, feedback=None, data=None, **settings):
    """A short training in which one ingredient or setting is bad."""
    student = DiagonalGaussian(2) if student is None else student
    teacher = mala(0.1) if teacher is None else teacher
    feedback = InclusiveKL() if feedback is None else feedback
    settings = {"updates": 2, "particles": 4, **settings}
    return understudy.train(target, student, teacher, feedback, data, **settings)


def settings_of_fit() -> None:
    """Numbers, words and files given to fit."""
    for name, bad in {
        "particles": [0, -3, "ten", 2.5, None, True, [4]],
        "updates": [0, -1, "many", 1e3],
        "chunk": [0, "all"],
        "seed": [-1, 1.5, "zero", 2**70, None],
        "repeats": [0, 2.5, "two"],
        "batch_size": [0, "all", 1.5],
        "average": [0.0, 1.5, "slow"],
        "refresh": [-0.1, 2, "half"],
        "replay": [-1, 1.5, "all"],
        "model_every": [0, 0.5],
        "pairing": ["both", 1, ["paired"]],
        "proposer": ["teacher", "average", 3],
        "optimiser": ["adam", 1e-3],
        "critic_optimiser": [0.1],
        "model_optimiser": ["sgd"],
        "checkpoint_seconds": ["soon", -1.0],
        "callbacks": [3, ["bar"]],
        "folder": [7, ["run"]],
        "resume": [True],
    }.items():
        for value in bad:
            data = X if name == "batch_size" else None
            target = GIVEN if name == "batch_size" else NORMAL
            case(
                f"{name}={value!r}",
                lambda name=name, value=value, data=data, target=target: train(
                    target, data=data, **{name: value}
                ),
            )
    case("an unknown setting", lambda: train(particels=8))
    case("learning_rate", lambda: train(learning_rate=0.1))


def ingredients() -> None:
    """What is not an ingredient, and ingredients that do not fit."""
    case("a target that is a function", lambda: train(lambda z: -(z @ z)))
    case("a target that is an array", lambda: train(np.zeros(3)))
    case("a student that is a string", lambda: train(student="gaussian"))
    case("a student that is a class", lambda: train(student=DiagonalGaussian))
    case("a student function that makes nothing", lambda: train(student=lambda key: None))
    case("a student function without a key", lambda: train(student=lambda: DiagonalGaussian(2)))
    case("a student of another dim", lambda: train(student=DiagonalGaussian(3)))
    case("a student function of another dim", lambda: train(student=lambda k: Implicit(k, 3)))
    case("a teacher that is a string", lambda: train(teacher="mala"))
    case("a teacher that is a function", lambda: train(teacher=mala))
    case("a feedback that is a string", lambda: train(feedback="kl"))
    case("a feedback that is a class", lambda: train(feedback=InclusiveKL))
    case("a density asked of a wild student", lambda: train(student=Implicit(KEY, 2)))
    case("a projection of a network", lambda: train(student=Implicit(KEY, 2), feedback=Copy()))
    case("a random teacher for the squared distance", lambda: train(feedback=SquaredDistance()))
    case("a discrete student with Langevin", lambda: train(student=Bernoulli(2)))
    case("a discrete teacher with a Gaussian", lambda: train(teacher=SingleFlip()))
    case("paths of coins", lambda: train(student=Bernoulli(2), feedback=EnergyDistance()))
    case("independence without a density", lambda: train(
        student=Implicit(KEY, 2), teacher=IndependenceMetropolis(), feedback=EnergyDistance()
    ))  # fmt: skip
    case("annealing from a wild student", lambda: train(
        student=Implicit(KEY, 2), teacher=Annealed(mala()), feedback=EnergyDistance()
    ))  # fmt: skip
    case("one particle in a set", lambda: train(feedback=EnergyDistance(), particles=1))
    case("fewer particles than branches", lambda: train(
        student=Gated(KEY, 2, branches=8), feedback=EnergyDistance()
    ))  # fmt: skip
    case("particles that differ in number", lambda: train(
        student=Particles(jnp.zeros((5, 2))), feedback=Copy()
    ))  # fmt: skip
    case("a chain table without rows", lambda: train(
        GIVEN, ChainTable(8, 4, 2), feedback=Copy(), data=X
    ))  # fmt: skip
    case("SVGD in place of a feedback", lambda: train(feedback=SVGD()))


def densities() -> None:
    """Log densities that are none, and starts where they are not finite."""
    case("a density that is not callable", lambda: LogDensity(3.0, 2))
    case("dim=0", lambda: LogDensity(jnp.sum, 0))
    case("dim=2.0", lambda: LogDensity(jnp.sum, 2.0))
    case("dim=True", lambda: LogDensity(jnp.sum, True))
    case("a vector as log density", lambda: train(LogDensity(lambda z: -(z**2), 2)))
    case("a matrix as log density", lambda: train(LogDensity(lambda z: jnp.eye(2), 2)))
    case("None as log density", lambda: train(LogDensity(lambda z: None, 2)))
    case("a word as log density", lambda: train(LogDensity(lambda z: "high", 2)))
    case("a density of two arguments, not conditional", lambda: train(
        LogDensity(lambda z, x: -(z @ z), 2)
    ))  # fmt: skip
    case("a conditional density of one argument", lambda: train(
        LogDensity(lambda z: -(z @ z), 2, conditional=True), data=X
    ))  # fmt: skip
    case("a density that is nan everywhere", lambda: train(LogDensity(lambda z: z.sum() * jnp.nan, 2)))
    case("a density of another dim", lambda: train(
        LogDensity(lambda z: -(z @ jnp.ones(3)), 2)
    ))  # fmt: skip
    case("a mean that is not finite", lambda: DiagonalGaussian(2, mean=jnp.nan))
    case("means as one row", lambda: MixtureOfGaussians([0.0, 1.0]))
    case("means as words", lambda: MixtureOfGaussians([["a"], ["b"]]))
    case("a negative scale of a mixture", lambda: MixtureOfGaussians([[0.0], [1.0]], scales=-1.0))
    case(
        "weights of another length", lambda: MixtureOfGaussians([[0.0], [1.0]], weights=[1.0, 1.0, 1.0])
    )
    case("negative weights", lambda: MixtureOfGaussians([[0.0], [1.0]], weights=[2.0, -1.0]))
    case("scales of another length", lambda: MixtureOfGaussians([[0.0], [1.0]], scales=[1.0, 1.0, 1.0]))


def data() -> None:
    """Data that cannot be conditions."""
    encoder = gaussian_encoder(KEY, 2, X[0])
    case("data with a hole", lambda: train(GIVEN, encoder, data=HOLE))
    case("data that are infinite", lambda: train(GIVEN, encoder, data=X + np.inf))
    case("data of different lengths", lambda: train(GIVEN, encoder, data=(X, X[:3])))
    case("empty data", lambda: train(GIVEN, encoder, data=X[:0]))
    case("empty list", lambda: train(GIVEN, encoder, data=[]))
    case("a number as data", lambda: train(GIVEN, encoder, data=3.0))
    case("a word as data", lambda: train(GIVEN, encoder, data="mnist"))
    case("words as data", lambda: train(GIVEN, encoder, data=np.array(["a", "b"])))
    case("a ragged list", lambda: train(GIVEN, encoder, data=np.array([1, None], dtype=object)))
    case("conditions of another size", lambda: train(
        GIVEN, Implicit(KEY, 2, condition=X[0]), feedback=EnergyDistance(), data=np.zeros((8, 5))
    ))  # fmt: skip
    case("an encoder for other conditions", lambda: train(GIVEN, encoder, data=np.zeros((8, 5))))
    case("no data for a conditional target", lambda: train(GIVEN))
    case("no data for an encoder", lambda: train(NORMAL, encoder))
    case("an encoder of another size", lambda: train(
        GIVEN, GaussianEncoder(Perceptron(KEY, [2, 3]), 2), data=X
    ))  # fmt: skip
    case("chains that start as a vector", lambda: methods.mcmc(NORMAL, jnp.zeros(2)))
    case("chains that start at nan", lambda: methods.mcmc(NORMAL, jnp.full((4, 2), jnp.nan), updates=2))
    case("chains in another dim", lambda: methods.mcmc(NORMAL, jnp.zeros((4, 3)), updates=2))
    case("no chains", lambda: methods.mcmc(NORMAL, jnp.zeros((0, 2))))
    case("an optimiser of a method", lambda: methods.vae(GIVEN, encoder, X, model_optimiser=0.1))


def students() -> None:
    """Students that cannot be built."""
    case("DiagonalGaussian(0)", lambda: DiagonalGaussian(0))
    case("DiagonalGaussian('two')", lambda: DiagonalGaussian("two"))
    case("a mean of the wrong size", lambda: DiagonalGaussian(2, mean=jnp.zeros(3)))
    case("a mean as a word", lambda: DiagonalGaussian(2, mean="zero"))
    case("a mean that is None", lambda: DiagonalGaussian(2, mean=None))
    case("a scale of zero", lambda: DiagonalGaussian(2, scale=0.0))
    case("a scale as a word", lambda: DiagonalGaussian(2, scale="wide"))
    case("a negative full scale", lambda: FullGaussian(2, scale=-1.0))
    case("a full scale of another shape", lambda: FullGaussian(2, scale=jnp.eye(3)))
    case("a full scale as a word", lambda: FullGaussian(2, scale="wide"))
    case("rank 0", lambda: LowRankGaussian(2, 0))
    case("half a component", lambda: GaussianMixture(KEY, 2, 1.5))
    case("a word in place of a key", lambda: GaussianMixture("zero", 2, 3))
    case("nothing in place of a network's key", lambda: Implicit(None, 2))
    case("no noise", lambda: Implicit(KEY, 2, noise=0))
    case("hidden as a number", lambda: Implicit(KEY, 2, hidden=20))
    case("hidden as a word", lambda: Implicit(KEY, 2, hidden="wide"))
    case("hidden with a zero", lambda: Implicit(KEY, 2, hidden=(20, 0)))
    case("hidden with halves", lambda: Implicit(KEY, 2, hidden=(2.5,)))
    case("an activation as a word", lambda: Implicit(KEY, 2, activation="relu"))
    case("widths of one", lambda: Perceptron(KEY, [3]))
    case("negative widths", lambda: Perceptron(KEY, [3, -1, 1]))
    case("widths of words", lambda: Perceptron(KEY, ["three", "one"]))
    case("no branches", lambda: Gated(KEY, 2, branches=0))
    case("two thirds of a category", lambda: Categorical(2, 1))
    case("a probability of two", lambda: Bernoulli(2, 2.0))
    case("a probability of the wrong size", lambda: Bernoulli(2, jnp.full(3, 0.5)))
    case("coins without hidden units", lambda: Autoregressive(KEY, 2, hidden=0))
    case("all dropped", lambda: Dropout(KEY, [(2, 2)], rate=1.0))
    case("a drop rate as a word", lambda: Dropout(KEY, [(2, 2)], rate="half"))
    case("an unknown noise", lambda: Dropout(KEY, [(2, 2)], noise="salt"))
    case("shapes that are numbers", lambda: Dropout(KEY, [3, 2]))
    case("no shapes", lambda: Dropout(KEY, []))
    case("a flow of words", lambda: Flow("spline"))
    case("a flow without layers", lambda: coupling_flow(KEY, 2, layers=0))
    case("particles that are one row", lambda: Particles(jnp.zeros(3)))
    case("particles as a word", lambda: Particles("many"))
    case("a table of no rows", lambda: ChainTable(0, 1, 2))
    case("a table with a bad start", lambda: ChainTable(3, 1, 2, start=jnp.zeros(5)))
    case("one normalised particle", lambda: NormalisedGaussian(2).sample(KEY, None, 1))
    case("a chain of no steps", lambda: TruncatedChain(DiagonalGaussian(2), NORMAL, 0))
    case("a chain with a negative step", lambda: TruncatedChain(DiagonalGaussian(2), NORMAL, 2, -0.1))
    case("a chain of another kind", lambda: TruncatedChain(DiagonalGaussian(2), NORMAL, 2, kind="hmc"))
    case("a chain from nobody", lambda: TruncatedChain(None, NORMAL, 2))
    case("a chain to nowhere", lambda: TruncatedChain(DiagonalGaussian(2), None, 2))
    case("a program with three weights", lambda: VariationalProgram(weight=jnp.ones(3)))
    case("an encoder that is no function", lambda: GaussianEncoder(3.0, 2))
    case("an encoder of dim 0", lambda: gaussian_encoder(KEY, 0, X[0]))


def teachers() -> None:
    """Teachers that cannot be built."""
    case("mala(-1)", lambda: mala(-1.0))
    case("mala('small')", lambda: mala("small"))
    case("mala(None)", lambda: mala(None))
    case("mala of nan", lambda: mala(float("nan")))
    case("steps=0", lambda: mala(0.1, steps=0))
    case("steps=1.5", lambda: mala(0.1, steps=1.5))
    case("steps='ten'", lambda: mala(0.1, steps="ten"))
    case("target_acceptance=1", lambda: mala(0.1, target_acceptance=1.0))
    case("leapfrogs=0", lambda: hmc(0.1, leapfrogs=0))
    case("leapfrogs=0 of sghmc", lambda: sghmc(0.1, leapfrogs=0))
    case("doublings=0", lambda: nuts(0.1, doublings=0))
    case("refreshment=2", lambda: ghmc(0.1, refreshment=2.0))
    case("jitter=-1", lambda: random_walk(0.1, jitter=-1.0))
    case("a covariance that is negative", lambda: elliptical_slice(0.0, -1.0))
    case("a mean as a word of a slice", lambda: elliptical_slice("zero", 1.0))
    case("a build that is no function", lambda: Kernel("mala", {"step_size": 0.1}))
    case("parameters that are no dictionary", lambda: Kernel(mala, 0.1))
    case("no rungs", lambda: TemperedTransition(rungs=0))
    case("hotter than hot", lambda: TemperedTransition(hottest=2.0))
    case("annealing nothing", lambda: Annealed("mala"))
    case("annealing with a bad mean", lambda: Annealed(mala(), mean="zero"))
    case("resampling above one", lambda: Annealed(mala(), resample_below=2.0))
    case("composing nothing", lambda: Compose())
    case("composing a list", lambda: Compose([mala(), mala()]))
    case("composing discrete and continuous", lambda: train(teacher=Compose(mala(), SingleFlip())))
    case("conditionals that are numbers", lambda: Gibbs([1, 2]))
    case("a conditional alone", lambda: Gibbs(lambda key, z: z))
    case("one value", lambda: SingleFlip(values=1))
    case("values as a word", lambda: SingleFlip(values="two"))
    case("preconditioning by one draw", lambda: Preconditioned(mala(), draws=1))
    case("preconditioning nobody", lambda: Preconditioned(0.1))
    case("preconditioning by half a draw", lambda: Preconditioned(mala(), draws=2.5))
    case("scheduling a number", lambda: Scheduled(mala(), steps=3))
    case("scheduling what is not there", lambda: Scheduled(mala(), leapfrogs=optax.constant_schedule(1)))
    case("scheduling nobody", lambda: Scheduled(None, steps=optax.constant_schedule(1)))
    case("a drift bound of zero", lambda: Langevin(0.1, drift_bound=0.0))
    case("a bandwidth of zero", lambda: SVGD(bandwidth=0.0))
    case("a class as teacher", lambda: train(teacher=Identity))


def feedbacks() -> None:
    """Feedbacks that cannot be built."""
    case("an unknown estimator", lambda: ExclusiveKL("magic"))
    case("an unknown divergence", lambda: FDivergence("kl"))
    case("an unknown base", lambda: AdversarialELBO("posterior"))
    case("an unknown kernel", lambda: MaximumMeanDiscrepancy("cosine"))
    case("an unknown Stein kernel", lambda: KernelSteinDiscrepancy("cosine"))
    case("a list as a kind", lambda: FDivergence(["reverse_kl"]))
    case("a bandwidth as a word", lambda: MaximumMeanDiscrepancy(bandwidth="median"))
    case("a negative bandwidth", lambda: MaximumMeanDiscrepancy(bandwidth=-1.0))
    case("no moments", lambda: MomentMatching(0))
    case("half a moment", lambda: MomentMatching(1.5))
    case("a moment as a word", lambda: MomentMatching("two"))
    case("a rate above one", lambda: MomentProjection(1.5))
    case("a rate as a word", lambda: MomentProjection("slow"))
    case("a negative power", lambda: EnergyMatching(-2.0))
    case("a power as a word", lambda: EnergyMatching("two"))
    case("a negative penalty", lambda: Wasserstein(-1.0))
    case("a penalty as a word", lambda: LearntStein("large"))
    case("no critic steps", lambda: JensenShannon(critic_steps=0))
    case("half a critic step", lambda: Wasserstein(critic_steps=2.5))
    case("a sum of nothing", lambda: WeightedSum([]))
    case("a sum without weights", lambda: WeightedSum([ExclusiveKL()]))
    case("a sum of one divergence", lambda: WeightedSum(ExclusiveKL()))
    case("a sum with a projection", lambda: WeightedSum([(1.0, MomentProjection())]))
    case("a negative weight in a sum", lambda: WeightedSum([(-1.0, ExclusiveKL())]))
    case("a weight as a word", lambda: WeightedSum([("half", ExclusiveKL())]))
    case("a critic that is no function", lambda: train(feedback=JensenShannon(critic=3)))


def files() -> None:
    """Files that are not ours, and results that cannot be written."""

    def written(content: bytes | None, name: str = "file"):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / name
            if content is not None:
                path.write_bytes(content)
            return understudy.load(path)

    def damaged(place: float):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "student"
            understudy.save(path, DiagonalGaussian(2))
            raw = bytearray(path.read_bytes())
            raw[int(place * len(raw))] ^= 1
            path.write_bytes(bytes(raw))
            return understudy.load(path)

    def used_folder():
        with tempfile.TemporaryDirectory() as folder:
            train(folder=folder, updates=1)
            return train(folder=folder)

    def folder_is_a_file():
        with tempfile.NamedTemporaryFile() as file:
            return train(folder=file.name)

    case("a missing file", lambda: written(None))
    case("an empty file", lambda: written(b""))
    case("a text file", lambda: written(b"not a student"))
    case("a pickle", lambda: written(b"\x80\x04K\x01."))
    case("a folder in place of a file", lambda: understudy.load(Path("/")))
    case("a damaged beginning", lambda: damaged(0.1))
    case("a damaged end", lambda: damaged(0.99))
    case("saving a lambda", lambda: understudy.save(Path(tempfile.gettempdir()) / "no", NORMAL))
    case("a folder in use", used_folder)
    case("a folder that is a file", folder_is_a_file)


def models() -> None:
    """NumPyro models that cannot be targets."""
    y = jnp.ones(3)

    def latent(distribution):
        def model(y):
            z = numpyro.sample("z", distribution)
            numpyro.sample("y", dist.Normal(z, 1), obs=y)

        return model

    def parameter(y):
        numpyro.sample("y", dist.Normal(numpyro.param("m", 0.0), 1), obs=y)

    def minibatch(y):
        z = numpyro.sample("z", dist.Normal(0, 1))
        with numpyro.plate("rows", 3, subsample_size=2):
            numpyro.sample("y", dist.Normal(z, 1), obs=y[:2])

    def wide(y):
        z = numpyro.sample("z", dist.Normal(0, 1).expand([5]).to_event(1))
        numpyro.sample("y", dist.Normal(z[:, None], jnp.ones(3)), obs=y)

    def negative(y):
        numpyro.sample("z", dist.Normal(0, -1.0))

    normal = latent(dist.Normal(0, 1))
    case("a model that is a number", lambda: understudy.from_numpyro(3))
    case("a model that is a word", lambda: understudy.from_numpyro("model", y))
    case("a model without its data", lambda: understudy.from_numpyro(normal))
    case("a model with too much data", lambda: understudy.from_numpyro(normal, y, y))
    case("a model with an unknown argument", lambda: understudy.from_numpyro(normal, y, x=y))
    case("a discrete latent", lambda: understudy.from_numpyro(latent(dist.Poisson(3.0)), y))
    case("a latent coin", lambda: understudy.from_numpyro(latent(dist.Bernoulli(0.5)), y))
    case("a latent point", lambda: understudy.from_numpyro(latent(dist.Delta(1.0)), y))
    case("a parameter", lambda: understudy.from_numpyro(parameter, y))
    case("a subsample", lambda: understudy.from_numpyro(minibatch, y))
    case("data of another shape than their model", lambda: understudy.from_numpyro(wide, y))
    case("data with a hole in a model", lambda: understudy.from_numpyro(normal, y.at[0].set(jnp.nan)))
    case("infinite data in a model", lambda: understudy.from_numpyro(normal, y.at[0].set(jnp.inf)))
    case("words as data of a model", lambda: understudy.from_numpyro(normal, "data"))
    case("a model that raises", lambda: understudy.from_numpyro(lambda y: 1 / 0, y))
    case("a model without sites", lambda: understudy.from_numpyro(lambda y: y, y))
    case("a negative scale in a model", lambda: understudy.from_numpyro(negative, y))


def posteriors() -> None:
    """What a posterior cannot be made of or do."""
    made = Posterior(NORMAL, FullGaussian(2))
    wild = Posterior(NORMAL, Implicit(KEY, 2))

    def saved(**given):
        with tempfile.TemporaryDirectory() as folder:
            made.save(Path(folder) / "posterior")
            return understudy.load(Path(folder) / "posterior", **given)

    case("a posterior of a function", lambda: Posterior(lambda z: z, FullGaussian(2)))
    case("a posterior of a word", lambda: Posterior(NORMAL, "flow"))
    case("a posterior of another size", lambda: Posterior(NORMAL, FullGaussian(3)))
    case("half a draw of a posterior", lambda: made.sample(KEY, 1.5))
    case("no draw of a posterior", lambda: made.draws(KEY, 0))
    case("a word for a key of a posterior", lambda: made.sample("zero", 10))
    case("three steps of refinement", lambda: made.refine(KEY, 10, 3))
    case("refinement of no draw", lambda: made.refine(KEY, 0))
    case("weights of a wild student", lambda: wild.resample(KEY, 10))
    case("resampling by magic", lambda: made.resample(KEY, 10, "magic"))
    case("no candidates", lambda: made.resample(KEY, 10, candidates=0))
    case("chains of different lengths", lambda: made.to_arviz(KEY, 10, 4))
    case("ArviZ as JSON", lambda: made.to_arviz(KEY, 8, kind="json"))
    case("checking a loaded density", lambda: saved().check())
    case("loading with another target", lambda: saved(target=LogDensity(lambda z: -(z @ z), 5)))
    case("loading with a word as target", lambda: saved(target="normal"))
    case("fitting a function", lambda: fit(lambda z: 0.0))
    case("a budget of nothing", lambda: fit(NORMAL, budget=0))
    case("a budget as a word", lambda: fit(NORMAL, budget="soon"))
    case("a budget as an array", lambda: fit(NORMAL, budget=np.array([1.0, 2.0])))
    case("a budget as a list", lambda: fit(NORMAL, budget=[1.0]))
    case("a budget of nan", lambda: fit(NORMAL, budget=float("nan")))
    case("a negative budget", lambda: fit(NORMAL, budget=-1.0))
    case("a seed of 23 digits", lambda: fit(NORMAL, seed=10**22))
    case("a seed of 2**70", lambda: fit(NORMAL, seed=2**70))
    case("a negative seed of a fit", lambda: fit(NORMAL, seed=-1))
    case("half a seed of a fit", lambda: fit(NORMAL, seed=0.5))
    case("no seeds", lambda: fit(NORMAL, seeds=0))
    case("no fits", lambda: fit(NORMAL, seeds=0))
    case("half a fit", lambda: fit(NORMAL, seeds=0.5))
    case("a seed below zero", lambda: fit(NORMAL, seed=-1))
    case("going on from nothing", lambda: fit(NORMAL, resume=True))
    case("a folder that is a number", lambda: fit(NORMAL, folder=5))
    case("fitting a word", lambda: fit("normal"))
    case("fitting a class", lambda: fit(LogDensity))
    case("fitting a model that is no target", lambda: fit(numpyro.sample))
    case("fitting what is nowhere finite", lambda: fit(LogDensity(lambda z: z.sum() * jnp.nan, 2)))


def asked_of_posteriors() -> None:
    """Settings of what one asks a posterior for."""
    made = Posterior(NORMAL, FullGaussian(2))
    student = FullGaussian(2)

    def check(**given):
        return trust.check(KEY, NORMAL, student, **given)

    for name, bad in {
        "teacher": ["hmc", 3, mala, Identity],
        "repeats": [5, "two", student, [5], ["a"]],
        "simulate": [3, "prior", [1]],
        "draws": [0, 10, "many", 2.5, -1, None],
        "turns": [0, "two", 1.5],
        "level": [0, 1, "strict", -0.1, float("nan")],
    }.items():
        for value in bad:
            shown = f"check({name}={str(getattr(value, '__name__', value))[:30]})"
            case(shown, lambda name=name, value=value: check(**{name: value}))
    case("check of a posterior by a word", lambda: made.check(teacher="x"))
    case("check of a posterior with repeats=5", lambda: made.check(repeats=5))
    case("check of a posterior with simulate=3", lambda: made.check(simulate=3))
    case("check with a word as key", lambda: made.check("zero"))
    case("check with two keys", lambda: made.check(jax.random.split(KEY)))
    case("check of a student that is none", lambda: trust.check(KEY, NORMAL, "flow"))
    case("check of a target that is none", lambda: trust.check(KEY, "normal", student))
    case("refine by a word", lambda: made.refine(KEY, 10, teacher="x"))
    case("refine by a function", lambda: made.refine(KEY, 10, teacher=mala))
    case("half a step of refinement", lambda: made.refine(KEY, 10, 4.5))
    case("refinement as a word", lambda: made.refine(KEY, "ten"))
    case("resampling of no draw", lambda: made.resample(KEY, 0))
    case("resampling by a list", lambda: made.resample(KEY, 10, ["psis"]))
    case("no moves", lambda: made.resample(KEY, 10, "independence", moves=0))
    case("a fractional candidate", lambda: made.resample(KEY, 10, candidates=2.5))
    case("no chains of ArviZ", lambda: made.to_arviz(KEY, 8, 0))
    case("half a draw for ArviZ", lambda: made.to_arviz(KEY, 8.5))
    case("ArviZ as a number", lambda: made.to_arviz(KEY, 8, kind=3))
    case("no draws to time", lambda: made.draws_per_second(0))
    case("no chains of NUTS", lambda: made.break_even(chains=0))
    case("a report to a number", lambda: made.report(5))
    case("a report to nothing", lambda: made.report(""))
    case("a report to a zero byte", lambda: made.report("a\0b"))
    case("a report of a word", lambda: made.report("page.html", trust="yes"))
    case("a None for a key", lambda: made.sample(None, 3))
    case("a float for a key", lambda: made.sample(0.5, 3))
    case("a negative key", lambda: made.sample(-1, 3))
    case("an array of keys", lambda: made.draws(jax.random.split(KEY, 3), 3))
    case("a key of three words", lambda: made.draws(np.zeros(3, np.uint32), 3))
    case("True draws", lambda: made.sample(KEY, True))


def data_of_ones_own() -> None:
    """Files and settings that the readers of data refuse."""

    def file(name: str, content: bytes, read: Callable[[Path], Any]):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / name
            path.write_bytes(content)
            return read(path)

    header = (
        b"\x93NUMPY\x01\x00v\x00{'descr': '<f8', 'fortran_order': False, 'shape': (1000000, 1000000), }"
    )
    promise = header.ljust(127) + b"\n"
    for value in (["pima"], None, 3, "iris", "", np.zeros(2)):
        case(f"load({value!s})", lambda value=value: data_sets.load(value))
    for given in (
        {"share": float("nan")}, {"share": 0.0}, {"share": 2.0}, {"share": "half"}, {"share": None},
        {"seed": -1}, {"seed": 2**70}, {"seed": 0.5}, {"seed": "x"}, {"count": 0}, {"count": 10**12},
        {"rows": 1}, {"rows": 10**15}, {"rows": "many"},
    ):  # fmt: skip
        case(f"splits({given})", lambda given=given: data_sets.splits(**{"rows": 50, **given}))
    case("a table that is missing", lambda: data_sets.read_csv("nowhere.csv"))
    case("a table that is a folder", lambda: data_sets.read_csv("/"))
    case("a table that is a number", lambda: data_sets.read_csv(5))
    case("a table with a zero byte", lambda: data_sets.read_csv("a\0b"))
    case("an empty table", lambda: file("a.csv", b"", data_sets.read_csv))
    case("a table of words", lambda: file("a.csv", b"a,y\nred,0\n", data_sets.read_csv))
    case("a table without labels", lambda: file("a.csv", b"a,b\n1,0\n", data_sets.read_csv))
    case("a table with other labels", lambda: file("a.csv", b"a,y\n1,2\n", data_sets.read_csv))
    case("a table with a hole", lambda: file("a.csv", b"a,y\nnan,1\n", data_sets.read_csv))
    case("a ragged table", lambda: file("a.csv", b"a,y\n1,1\n1\n", data_sets.read_csv))
    case("a table of bytes", lambda: file("a.csv", b"\xff\xfe\x00", data_sets.read_csv))
    case("another label", lambda: data_sets.load("crabs").predicting("FL"))
    case("a label that is missing", lambda: data_sets.load("crabs").predicting("colour"))
    case("scaling words", lambda: data_sets.standardise([["a"]]))
    case("scaling a vector", lambda: data_sets.standardise(np.zeros(3)))
    case("scaling a hole", lambda: data_sets.standardise(HOLE))
    case("scaling other columns", lambda: data_sets.standardise(X, np.zeros((2, 5))))
    case("images that are missing", lambda: data_sets.read_images("nowhere.npy"))
    case("images that are a number", lambda: data_sets.read_images(5))
    case("images of nothing", lambda: data_sets.read_images(""))
    case("images of text", lambda: file("a.txt", b"1", data_sets.read_images))
    case("images of 8 TB", lambda: file("a.npy", promise, data_sets.read_images))
    case("images that are empty", lambda: file("a.npy", b"", data_sets.read_images))
    case(
        "images of an empty archive", lambda: file("a.npz", b"PK\5\6" + bytes(18), data_sets.read_images)
    )
    case(
        "a picture of text", lambda: file("a.png", b"1", lambda path: data_sets.read_images(path.parent))
    )


def found_by_attack() -> None:
    """What strangers tried: densities of plain Python, and data of odd types."""
    y = np.ones(3)

    def normal(y):
        z = numpyro.sample("z", dist.Normal(0, 1))
        numpyro.sample("y", dist.Normal(z, 1), obs=y)

    def empty(y):
        numpyro.sample("z", dist.Normal(0, 1).expand([0]))
        normal(y)

    def endless(z):
        return endless(z)

    for name, density in {
        "raises": lambda z: 1 / 0,
        "branches": lambda z: 0.0 if z[0] > 0 else -1.0,
        "calls NumPy": lambda z: -np.sum(np.asarray(z) ** 2),
        "recurses": endless,
        "is complex": lambda z: -(z @ z) * 1j,
        "has no gradient": lambda z: jax.lax.while_loop(lambda v: v < 1, lambda v: v + 1, z[0]),
    }.items():
        case(f"fitting a density that {name}", lambda density=density: fit(LogDensity(density, 2)))
    for name, value in {
        "objects": np.array([1.0, None], dtype=object),
        "strings": np.array(["a", "b"]),
        "dates": np.array(["2020-01-01"], dtype="datetime64[D]"),
        "masks": np.ma.masked_array([1.0, 2.0], [True, False]),
    }.items():
        case(f"a model of {name}", lambda value=value: understudy.from_numpyro(normal, value))
    case("a latent of size 0", lambda: understudy.from_numpyro(empty, y))
    case("a shape by a number", lambda: LogDensity(lambda z: 0.0, {1: ()}))
    case("a shape as a word", lambda: LogDensity(lambda z: 0.0, {"a": "x"}))


def files_and_paths() -> None:
    """Files and paths that strangers tried."""
    made = Posterior(NORMAL, FullGaussian(2))

    def saved(**given):
        with tempfile.TemporaryDirectory() as folder:
            made.save(Path(folder) / "posterior")
            return understudy.load(Path(folder) / "posterior", **given)

    def exported(path: str, **given):
        with tempfile.TemporaryDirectory() as folder:
            return made.export(Path(folder) / path, **given)

    def read_exported(content: bytes):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "posterior"
            path.write_bytes(content)
            return understudy.load_exported(path)

    case("a number among classes", lambda: saved(classes=[5]))
    case("classes as a number", lambda: saved(classes=5))
    case("loading a number", lambda: understudy.load(5))
    case("loading nothing", lambda: understudy.load(""))
    case("loading a zero byte", lambda: understudy.load("a\0b"))
    case("saving to nothing", lambda: made.save(""))
    case("saving to a number", lambda: understudy.save(3, DiagonalGaussian(2)))
    case("saving to a zero byte", lambda: made.save("a\0b"))
    case("exporting to a number", lambda: made.export(3))
    case("exporting for a word", lambda: exported("a", platforms="cpu"))
    case("exporting for a toaster", lambda: exported("a", platforms=["toaster"]))
    case("exporting for nothing", lambda: exported("a", platforms=[]))
    case("an exported file that is missing", lambda: understudy.load_exported("nowhere"))
    case("an exported file that is a folder", lambda: understudy.load_exported("/"))
    case("an exported file that is a number", lambda: understudy.load_exported(5))
    case("an exported file of text", lambda: read_exported(b"text"))
    case("an exported file with a bad header", lambda: read_exported(b"understudy posterior 1 00\n{}"))
    case("more draws than memory", lambda: made.sample(KEY, 10**13))
    case("minus one draw", lambda: made.sample(KEY, -1))


for section in (
    found_by_attack,
    files_and_paths,
    asked_of_posteriors,
    data_of_ones_own,
    settings_of_fit,
    ingredients,
    densities,
    data,
    students,
    teachers,
    feedbacks,
    files,
    models,
    posteriors,
):
    section()
for more in (more_bad_input, amortising_bad_input, users_code_bad_input):
    for added, call in more.CASES.items():
        case(added, call)


def answer(function: Callable[[], Any]) -> list[str]:
    """The class and the message of what is raised."""
    try:
        function()
    except Exception as error:
        return [type(error).__name__, str(error)]
    return ["nothing", ""]


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    json.dump({name: answer(function) for name, function in CASES.items()}, sys.stdout)
