"""Every argument of what is public, given what it cannot be, the others being as they should.

``python -m tests.argument_cases`` prints what each is answered, as JSON.
"""

import json
import sys
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import optax
from numpyro import distributions as dist

import understudy
from tests.bad_input_cases import answer
from understudy import (
    LogDensity,
    data,
    evaluation,
    feedbacks,
    jobs,
    methods,
    networks,
    students,
    targets,
)
from understudy import teachers as kernels
from understudy.amortising import Pairs, PriorSimulator
from understudy.coordinates import plain_coordinates
from understudy.posterior import Posterior

KEY = jax.random.key(0)
NORMAL = LogDensity(lambda z: -(z @ z) / 2, 2)
GAUSSIAN = students.DiagonalGaussian(2)
PLAIN = plain_coordinates(np.zeros(2), np.ones(2))
X, LABELS = np.zeros((8, 2)), np.array([0, 1] * 4)
A, B = np.random.default_rng(0).normal(size=(2, 16, 2))


class Failing:
    """Whatever one asks of it, it raises."""

    def fails(self, *args: Any) -> Any:
        raise RuntimeError("first line\nsecond line")

    __array__ = __index__ = __float__ = __repr__ = __str__ = __eq__ = fails
    __hash__ = None


def gone() -> jax.Array:
    """Of which the memory was given away."""
    made = jnp.zeros((8, 2))
    made.delete()
    return made


WRONG: dict[str, Any] = {
    "a word": "word",
    "an object": object(),
    "nan": float("nan"),
    "-1": -1,
    "1e14": 10**14,
    "1e400": 10**400,
    "half": 2.5,
    "inf": float("inf"),
    "a complex number": 1j,
    "True": True,
    "None": None,
    "nothing": [],
    "an empty array": np.zeros(0),
    "words": ["word"],
    "bytes": b"x",
    "a dictionary": {"a": 1},
    "a class": int,
    "an array of another shape": np.zeros((3, 7)),
    "an array with holes": np.full((8, 2), np.nan),
    "an array of objects": np.array([None, "a"], object),
    "a thing that fails": Failing(),
    "an array that is gone": gone(),
    "a time": np.timedelta64(3, "s"),
    "ragged lists": [[1], [2, 3]],
}


def students_() -> dict[str, tuple[Callable, dict[str, Any]]]:
    """Constructors of students."""
    drawn, small = {"key": KEY, "dim": 2}, {"hidden": (4,), "condition": None}
    image = {**drawn, "size": (8, 8), "hidden": (4,), "channels": (2,)}
    placed = {"mean": 0.0, "scale": 1.0}
    flow = {**drawn, "layers": 1, "condition": None, "width": 4, "knots": 4, **placed}
    s = students
    return {
        "Autoregressive": (s.Autoregressive, {**drawn, "hidden": 4, "depth": 1, "condition": None}),
        "Bernoulli": (s.Bernoulli, {"dim": 2, "probability": 0.5}),
        "Categorical": (s.Categorical, {"dim": 2, "categories": 3}),
        "ChainTable": (s.ChainTable, {"rows": 3, "chains": 2, "dim": 2, "start": 0.0}),
        "CouplingFlow": (s.CouplingFlow, {**drawn, "layers": 2, "width": 4}),
        "DiagonalGaussian": (s.DiagonalGaussian, {"dim": 2, **placed}),
        "Dropout": (s.Dropout, {"key": KEY, "shapes": [(2, 2)], "rate": 0.5, "noise": "units"}),
        "DropoutEncoder": (s.DropoutEncoder, {**image, "rate": 0.5}),
        "NoisyEncoder": (s.NoisyEncoder, {**image, "noise": 4}),
        "Flow": (s.Flow, {"distribution": ...}),
        "FullGaussian": (s.FullGaussian, {"dim": 2, **placed}),
        "Gated": (s.Gated, {**drawn, "branches": 2, "noise": 2, **small}),
        "GaussianEncoder": (s.GaussianEncoder, {"network": lambda x: x, "dim": 2}),
        "GaussianMixture": (s.GaussianMixture, {**drawn, "components": 2, "spread": 3.0}),
        "Implicit": (s.Implicit, {**drawn, "noise": 2, **small, "activation": jnp.tanh}),
        "LowRankGaussian": (s.LowRankGaussian, {"dim": 2, "rank": 1, **placed}),
        "Mixture": (s.Mixture, {"components": [GAUSSIAN, GAUSSIAN], "weights": None}),
        "NormalisedGaussian": (s.NormalisedGaussian, {"dim": 2, **placed}),
        "Particles": (s.Particles, {"z": jnp.zeros((3, 2))}),
        "Placed": (s.Placed, {"coordinates": PLAIN, "inner": None}),
        "SemiImplicit": (s.SemiImplicit, {"features": flat, "head": flat, "dim": 2, "noise": 3}),
        "SplineFlow": (s.SplineFlow, {**flow_settings(drawn), "bins": 4, "reach": 5.0}),
        "TruncatedChain": (
            s.TruncatedChain,
            {"base": GAUSSIAN, "target": NORMAL, "steps": 2, "step_size": 0.1, "kind": "langevin"},
        ),
        "VariationalProgram": (s.VariationalProgram, {"weight": 1.0, "bias": 1.0}),
        "autoregressive_flow": (s.autoregressive_flow, flow),
        "coupling_flow": (s.coupling_flow, flow),
        "gaussian_encoder": (s.gaussian_encoder, {**drawn, **small, "condition": X[0]}),
        "image_encoder": (s.image_encoder, image),
        "semi_implicit": (s.semi_implicit, {**drawn, "noise": 2, **small}),
        "semi_implicit_encoder": (s.semi_implicit_encoder, {**image, "noise": 2}),
    }


def flat(x: Any) -> Any:
    """As a function of a condition."""
    return x


def flow_settings(drawn: dict[str, Any]) -> dict[str, Any]:
    """Of a small flow of splines."""
    return {**drawn, "condition": None, "layers": 1, "width": 4}


def teachers() -> dict[str, tuple[Callable, dict[str, Any]]]:
    """Constructors of teachers."""
    walk = {"step_size": 0.1, "steps": 1}
    adapted = {**walk, "target_acceptance": None}
    rescaled = {"teacher": kernels.mala(), "mean": jnp.zeros(2), "factor": jnp.ones(2)}
    annealed = {"rungs": 3, "mean": None, "scale": 1.0, "power": 1.0, "resample_below": None}
    tuned = {"rate": 0.1, "largest_step": None, "jitter": None}
    tempered = {"rungs": 3, "hottest": 0.05, **adapted, "rate": 0.1}
    t = kernels
    return {
        "SVGD": (t.SVGD, {**walk, "bandwidth": None}),
        "Annealed": (t.Annealed, {"teacher": t.mala(), **annealed}),
        "Gibbs": (t.Gibbs, {"conditionals": [lambda key, z: z], "steps": 1}),
        "InCoordinates": (t.InCoordinates, {"teacher": t.hmc(), "coordinates": PLAIN}),
        "IndependenceMetropolis": (t.IndependenceMetropolis, {"steps": 1}),
        "Langevin": (t.Langevin, {**walk, "drift_bound": None}),
        "Preconditioned": (t.Preconditioned, {"teacher": t.mala(), "draws": 8, "full": True}),
        "Recorded": (t.Recorded, {"draws": jnp.zeros((4, 2))}),
        "Rescaled": (t.Rescaled, rescaled),
        "Scheduled": (t.Scheduled, {"teacher": t.mala(), "steps": optax.constant_schedule(1)}),
        "SingleFlip": (
            t.SingleFlip,
            {"steps": 1, "values": 2, "metropolis": False, "random_scan": False},
        ),
        "TemperedTransition": (t.TemperedTransition, tempered),
        "adjusted_mclmc": (t.adjusted_mclmc, {**adapted, "leapfrogs": 3}),
        "barker": (t.barker, {**adapted, **tuned}),
        "elliptical_slice": (
            t.elliptical_slice,
            {"mean": jnp.zeros(2), "covariance": 1.0, "steps": 1},
        ),
        "ghmc": (t.ghmc, {**adapted, "refreshment": 0.3}),
        "hmc": (t.hmc, {**adapted, "leapfrogs": 3}),
        "mclmc": (t.mclmc, {**walk, "decoherence": 2.0}),
        "minibatch_mala": (t.minibatch_mala, adapted),
        "nuts": (t.nuts, {**adapted, "doublings": 4}),
        "sghmc": (t.sghmc, {**walk, "leapfrogs": 3, "friction": 1.0}),
        "sgld": (t.sgld, walk),
        "tempered_smc": (t.tempered_smc, {"teacher": t.mala(), "rungs": 3, "resample_below": 0.5}),
        "Kernel": (
            t.Kernel,
            {"build": dict, "parameters": {"step_size": 0.1}, "steps": 1, **tuned, "options": {}},
        ),
    }


def feedbacks_() -> dict[str, tuple[Callable, dict[str, Any]]]:
    """Constructors of feedbacks."""
    f, critic = feedbacks, {"critic": feedbacks.CriticBuilder(), "critic_steps": 1}
    sets, kernel = {"diagonal": False, "pool": False}, {"kernel": "gaussian", "bandwidth": None}
    return {
        "AdversarialELBO": (f.AdversarialELBO, {"base": "prior", **critic}),
        "ContrastiveDivergence": (f.ContrastiveDivergence, {"ratio": True, **critic}),
        "DensityRatio": (f.DensityRatio, {"kind": "reverse_kl", **critic}),
        "FDivergence": (f.FDivergence, {"kind": "reverse_kl", **critic}),
        "JensenShannon": (f.JensenShannon, {"saturating": False, **critic}),
        "LearntStein": (f.LearntStein, {"penalty": 0.5, "exact": 16, **critic}),
        "Wasserstein": (f.Wasserstein, {"penalty": 10.0, **critic}),
        "CriticBuilder": (
            f.CriticBuilder,
            {"hidden": (4,), "activation": jnp.tanh, "vector": False},
        ),
        "EnergyDistance": (f.EnergyDistance, sets),
        "EnergyMatching": (f.EnergyMatching, {"beta": 2.0}),
        "ExclusiveKL": (f.ExclusiveKL, {"estimator": "path"}),
        "InclusiveKL": (f.InclusiveKL, {"control": True}),
        "KernelSteinDiscrepancy": (
            f.KernelSteinDiscrepancy,
            {"kernel": "imq", "bandwidth": None},
        ),
        "MaximumMeanDiscrepancy": (f.MaximumMeanDiscrepancy, {**kernel, **sets}),
        "MomentMatching": (f.MomentMatching, {"order": 2, **sets}),
        "MomentProjection": (f.MomentProjection, {"rate": 0.1}),
        "SemiImplicitKL": (f.SemiImplicitKL, {"fresh": 8}),
        "SemiImplicitInclusiveKL": (f.SemiImplicitInclusiveKL, {"fresh": 8}),
        "Viewed": (f.Viewed, {"divergence": f.EnergyDistance(), "view": lambda t, z, x: z}),
        "WeightedSum": (f.WeightedSum, {"terms": [(1.0, f.ExclusiveKL())]}),
    }


def targets_() -> dict[str, tuple[Callable, dict[str, Any]]]:
    """Constructors of targets, networks, and of where data come from."""
    t, ring = targets, {"radius": 2.0, "width": 0.2}
    rows = {"features": X, "labels": LABELS, "prior_scale": 1.0}
    network = {"hidden": (4,), "likelihood": "binary", "noise": 1.0, "weights": None, "classes": 2}
    drawn = {"key": KEY, "activation": jnp.tanh}
    model = t.LatentVariableModel(lambda z: z, 2)
    table = {"parameters": {"m": np.zeros(200)}, "data": np.zeros((200, 2))}
    pairs = {**table, "supports": None, "exchangeable": False}
    return {
        "BayesianNetwork": (t.BayesianNetwork, {**rows, **network, "activation": jnp.tanh}),
        "Ising": (t.Ising, {"rows": 2, "columns": 2, "coupling": 0.4}),
        "LatentVariableModel": (
            t.LatentVariableModel,
            {"decoder": lambda z: z, "dim": 2, "likelihood": "bernoulli", "noise": 1.0},
        ),
        "LogDensity": (LogDensity, {"function": lambda z: 0.0, "dim": 2, "conditional": False}),
        "MixtureOfGaussians": (
            t.MixtureOfGaussians,
            {"means": [[0.0], [1.0]], "scales": 1.0, "weights": None},
        ),
        "Moons": (t.Moons, {**ring, "arc": 0.7}),
        "Ring": (t.Ring, ring),
        "OfIndexed": (t.OfIndexed, {"target": NORMAL}),
        "OfObserved": (t.OfObserved, {"model": model}),
        "Warped": (t.Warped, {"dim": 2, "forward": flat, "inverse": flat}),
        "banana": (t.banana, {"curvature": 0.5}),
        "eight_gaussians": (t.eight_gaussians, {"radius": 4.0, "scale": 0.5}),
        "forty_gaussians": (t.forty_gaussians, {"seed": 0, "box": 40.0, "scale": 1.0}),
        "funnel": (t.funnel, {"dim": 2, "scale": 1.5}),
        "logistic_regression": (t.logistic_regression, rows),
        "Perceptron": (networks.Perceptron, {**drawn, "widths": [2, 3]}),
        "Critic": (networks.Critic, {**drawn, "dim": 2, "x": None, "hidden": (4,), "outputs": None}),
        "Binarised": (
            understudy.Binarised,
            {"pixels": np.zeros((4, 2, 2)), "size": 2, "indexed": False},
        ),
        "Minibatches": (understudy.Minibatches, {"data": X, "size": 2, "together": False}),
        "Stream": (understudy.Stream, {"batches": [X], "prefetch": 2}),
        "Gradients": (understudy.Gradients, {"count": 10}),
        "PriorSimulator": (
            PriorSimulator,
            {
                **{"prior": {"m": dist.Normal(0.0, 1.0)}, "simulate": lambda key, m: m},
                **{"log_likelihood": None, "exchangeable": False},
            },
        ),
        "Pairs": (Pairs, pairs),
    }


def measures() -> dict[str, tuple[Callable, dict[str, Any]]]:
    """Measures, readers of data, files and jobs."""
    e, sets, stein = evaluation, {"a": A, "b": B}, {"z": A, "score": -A}
    kernel = {"kernel": "imq", "bandwidth": None}
    pairs = {"squared": False, "statistic": "v"}
    simulated = {"simulate": lambda key: (jnp.zeros(2), None), "student": GAUSSIAN, "key": KEY}
    return {
        "calibration": (
            e.calibration,
            {**simulated, "simulations": 16, "draws": 7, "level": 0.01, "names": None},
        ),
        "classifier_two_sample": (
            e.classifier_two_sample,
            {"key": KEY, **sets, "folds": 2, "steps": 2, "batch": 4},
        ),
        "energy_distance": (e.energy_distance, {**sets, "statistic": "u"}),
        "energy_permutation_test": (
            e.energy_permutation_test,
            {"key": KEY, **sets, "permutations": 9},
        ),
        "kernel_stein_discrepancy": (e.kernel_stein_discrepancy, {**stein, **kernel, **pairs}),
        "marginal_wasserstein_1": (e.marginal_wasserstein_1, sets),
        "maximum_mean_discrepancy": (
            e.maximum_mean_discrepancy,
            {**sets, "kernel": "gaussian", "bandwidth": None, **pairs},
        ),
        "mode_report": (
            e.mode_report,
            {"z": A, "centres": np.zeros((2, 2)), "radius": None, "smallest_share": None},
        ),
        "sliced_wasserstein": (e.sliced_wasserstein, {"key": KEY, **sets, "directions": 4}),
        "stein_test": (e.stein_test, {"key": KEY, **stein, **kernel, "repeats": 9}),
        "wasserstein_1": (e.wasserstein_1, {"a": A[:, 0], "b": B[:, 0]}),
        "data.load": (data.load, {"name": "crabs"}),
        "data.read_csv": (data.read_csv, {"path": "nowhere.csv"}),
        "data.read_images": (data.read_images, {"path": "nowhere.npy"}),
        "data.splits": (data.splits, {"rows": 20, "count": 2, "share": 0.1, "seed": 0}),
        "load": (understudy.load, {"path": "nowhere", "classes": ()}),
        "load_exported": (understudy.load_exported, {"path": "nowhere"}),
        "from_numpyro": (understudy.from_numpyro, {"model": model}),
        "from_pymc": (understudy.from_pymc, {"model": ...}),
        "executor_of": (jobs.executor_of, {"workers": None}),
        "run_jobs": (
            jobs.run_jobs,
            {
                **{"jobs": [jobs.Job("a", int)], "keep": lambda name, value: None},
                **{"open_executor": jobs.Here, "tries": 1},
            },
        ),
    }


def model() -> None:
    """One normal number."""
    numpyro.sample("z", dist.Normal(0, 1))


def verbs() -> dict[str, tuple[Callable, dict[str, Any]]]:
    """What is asked of trainings and posteriors; most is refused before anything is compiled."""
    ingredients = {"student": GAUSSIAN, "teacher": kernels.mala(), "feedback": feedbacks.InclusiveKL()}
    trained = understudy.train(NORMAL, **ingredients, updates=1, particles=4, progress=False)
    made = Posterior(NORMAL, students.FullGaussian(2))
    wild = students.Implicit(KEY, 2)
    decoded = targets.LatentVariableModel(networks.Perceptron(KEY, [2, 3]), 2)
    encoder = students.gaussian_encoder(KEY, 2, np.zeros(3))
    seen = {"model": decoded, "encoder": encoder, "data": np.zeros((4, 3)), "updates": 1}
    target = {"target": NORMAL, "student": wild, "data": None, "updates": 1, "progress": False}
    settings = {
        **{"updates": 1, "batch_size": 4, "particles": 4, "optimiser": None, "average": None},
        **{"refresh": 0.0, "replay": 0, "pairing": "paired", "proposer": "student", "chunk": 1},
        **{"seed": 0, "repeats": None, "folder": None, "resume": False, "devices": None},
        **{"checkpoint_seconds": 1.0, "callbacks": (), "model_every": 1, "critic_optimiser": None},
    }
    fitted = {"budget": 1.0, "seed": 0, "seeds": 1, "flows": False, "folder": None, "resume": False}
    return {
        "train": (understudy.train, {"target": NORMAL, **ingredients, "data": None, **settings}),
        "fit": (understudy.fit, {"target": NORMAL, **fitted, "cache": False, "devices": None}),
        "amc": (methods.amc, target | {"teacher": None, "feedback": None}),
        "vi": (methods.vi, target | {"student": GAUSSIAN}),
        "amortised_svgd": (methods.amortised_svgd, target),
        "operator_vi": (methods.operator_vi, target),
        "mcmc": (methods.mcmc, {"target": NORMAL, "start": jnp.zeros((4, 2)), "teacher": None}),
        "vae": (methods.vae, seen),
        "mcmc_vi": (methods.mcmc_vi, {**seen, "teacher": None}),
        "avb": (methods.avb, seen),
        "persistent_mcmc": (
            methods.persistent_mcmc,
            {"model": decoded, "data": np.zeros((4, 3)), "teacher": None, "chains": 1},
        ),
        "Trained.sample": (trained.sample, {"key": 0, "n": 3}),
        "Trained.summary": (trained.summary, {"key": 0, "n": 64}),
        "Trained.plot_marginals": (trained.plot_marginals, {"key": 0, "n": 64}),
        "Posterior": (
            Posterior,
            {
                **{"target": NORMAL, "student": GAUSSIAN, "teacher": None, "stages": ()},
                **{"repeats": (), "seed": 0, "verdict": None, "record": None, "double": False},
            },
        ),
        "sample": (made.sample, {"key": 0, "n": 3, "finish": None, "devices": None}),
        "draws": (made.draws, {"key": 0, "n": 3, "finish": None, "devices": None}),
        "refine": (made.refine, {"key": 0, "n": 4, "steps": 4, "teacher": None, "devices": None}),
        "resample": (
            made.resample,
            {"key": 0, "n": 4, "method": "psis", "candidates": 16, "devices": None},
        ),
        "check": (
            made.check,
            {
                **{"key": 0, "teacher": None, "repeats": None, "simulate": None, "draws": 256},
                **{"turns": 1, "level": 0.01, "devices": None},
            },
        ),
        "to_arviz": (made.to_arviz, {"key": 0, "n": 8, "chains": 2, "kind": "datatree"}),
        "draws_per_second": (made.draws_per_second, {"n": 64}),
        "break_even": (made.break_even, {"nuts": None, "key": 0, "chains": 1}),
        "nuts_cost": (made.nuts_cost, {"key": 0, "chains": 1}),
        "report": (made.report, {"path": "/dev/null/a", "trust": None, "nuts": None}),
        "summary": (made.summary, {"key": 0, "n": 64}),
        "plot_marginals": (made.plot_marginals, {"key": 0, "n": 64}),
        "plot_pairs": (made.plot_pairs, {"key": 0, "n": 64}),
        "plot_trust": (made.plot_trust, {"trust": None}),
        "save": (made.save, {"path": "/dev/null/a"}),
        "export": (made.export, {"path": "/dev/null/a", "platforms": None}),
    }


CONSTRUCTORS = {**students_(), **teachers(), **feedbacks_(), **targets_(), **measures()}
# What runs long if it is right is given only what is wrong everywhere.
FEW = ("a word", "an object", "nan")
# A flow is made for any condition, of which only the size counts, and takes its time.
NUMBERS = ("nan", "-1", "half", "inf", "True", "None", "nothing", "an empty array", "a dictionary")
ROWS = ("an array of another shape", "an array with holes")
LONG = {("classifier_two_sample", name): (*ROWS, "1e14", "1e400") for name in ("a", "b", "key")}
for name in ("autoregressive_flow", "coupling_flow", "SplineFlow"):
    LONG |= {(name, "condition"): NUMBERS + ROWS, (name, "key"): ("1e14", "1e400")}


def cases(
    calls: dict[str, tuple[Callable, dict[str, Any]]], few: bool
) -> Iterator[tuple[str, Callable]]:
    """Calls by name, in each of which one argument is wrong."""
    for name, (function, good) in calls.items():
        for argument in good:
            for what in FEW if few else WRONG:
                given = {**good, argument: WRONG[what]}
                yield f"{name}({argument}={what})", lambda f=function, given=given: f(**given)


def main() -> None:
    """Print what each is answered."""
    warnings.simplefilter("ignore")
    found = {name: answer(call) for name, call in cases(CONSTRUCTORS, few=False)}
    found |= {name: answer(call) for name, call in cases(verbs(), few=True)}
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main()
