"""Bad input of what is amortised over data sets; :mod:`tests.bad_input_cases` runs it too."""

import functools
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpyro import distributions as dist

import understudy
from tests.amortising.models import COVARIATES, regression
from understudy import Gradients
from understudy.amortising import PriorSimulator
from understudy.students import FullGaussian, SplineFlow

Y = np.ones(10, np.float32)
PRIOR = {"mean": dist.Normal(0.0, 1.0)}


def small_flow(key, dim, summary):
    return SplineFlow(key, dim, summary, layers=1, width=8, bins=4)


def too_wide(key, dim, summary):
    return small_flow(key, dim + 1, summary)


def amortised(**settings):
    given = {"observed": "y", "budget": 1.0, "student": small_flow, "progress": False, "cache": False}
    return understudy.amortise(regression, COVARIATES, **{**given, **settings})


def simulating(simulate, log_likelihood=None):
    return understudy.amortise(
        PriorSimulator(PRIOR, simulate, log_likelihood),
        budget=1.0,
        student=small_flow,
        progress=False,
        cache=False,
    )


def drawn(key, mean):
    return mean + jax.random.normal(key, (2,))


TRAINING: dict[str, Callable[[], Any]] = {
    "a number for a site": lambda: amortised(observed=3),
    "a site twice": lambda: amortised(observed=["y", "y"]),
    "sites as keys": lambda: amortised(observed={"y": 1}),
    "gradients for seconds": lambda: amortised(budget=Gradients(100)),
    "half a row": lambda: amortised(sizes=(1.5, 10)),
    "a word for missing": lambda: amortised(missing="yes"),
    "a word for the cache": lambda: amortised(cache="here"),
    "a word for resume": lambda: amortised(resume="yes"),
    "no network": lambda: amortised(summary=lambda key, read: None),
    "a summary of nothing": lambda: amortised(summary=lambda: 3),
    "a matrix": lambda: amortised(summary=lambda key, read: lambda x: jnp.zeros((2, 2))),
    "a summary that fails": lambda: amortised(summary=lambda key, read: 1 / 0),
    "no student": lambda: amortised(student=lambda key, dim, summary: None),
    "a student without condition": lambda: amortised(student=lambda key, dim, _: FullGaussian(dim)),
    "a student of another size": lambda: amortised(student=too_wide),
    "a student that fails": lambda: amortised(student=lambda *given: 1 / 0),
    "arguments that fail": lambda: amortised(arguments=lambda key: 1 / 0),
    "arguments of nothing": lambda: amortised(arguments=lambda: ()),
    "masked covariates": lambda: understudy.amortise(
        regression, np.ma.masked_array(COVARIATES, COVARIATES > 0), observed="y"
    ),
    "a simulator of nothing": lambda: simulating(lambda key, mean: None),
    "a simulator of words": lambda: simulating(lambda key, mean: "x"),
    "a simulator that fails": lambda: simulating(lambda key, mean: 1 / 0),
    "a log likelihood that fails": lambda: simulating(drawn, lambda x, mean: 1 / 0),
    "a simulator of NumPy": lambda: simulating(lambda key, mean: np.asarray(mean)),
}


@functools.cache
def inference() -> Any:
    """Trained for a moment."""
    return amortised()


@functools.cache
def exported() -> Any:
    """The same as a program."""
    with tempfile.TemporaryDirectory() as folder:
        inference().export(Path(folder) / "inference")
        return understudy.load_exported(Path(folder) / "inference")


TRAINED: dict[str, Callable[[], Any]] = {
    "masked data": lambda: inference()(np.ma.masked_array(Y, Y > 0)),
    "no data sets": lambda: inference().sample(0, np.zeros((0, 10))),
    "far too many draws": lambda: inference().sample(0, Y[None], 10**13),
    "a word for finish": lambda: inference().sample(0, Y[None], 10, finish="no"),
    "far too many simulations": lambda: inference().check(simulations=10**15),
    "far too many draws to check": lambda: inference().check(draws=10**15),
    "several levels": lambda: inference().check(level=np.array([0.01, 0.02])),
    "gradients for seconds of teaching": lambda: inference().teach(Y[None], budget=Gradients(3)),
    "teaching at nothing": lambda: inference().teach(None),
    "a key of another generator": lambda: inference().sample(jax.random.PRNGKey(0, impl="rbg"), Y[None]),
    "a key for a seed": lambda: inference().teach(Y[None], seed=jax.random.key(0)),
    "a word for a seed": lambda: inference().teach(Y[None], seed="x"),
    "a negative seed": lambda: inference().teach(Y[None], seed=-1),
    "a seed too large": lambda: inference().teach(Y[None], seed=2**70),
    "ragged data": lambda: exported().sample(0, 3, y=[[1], [2, 3]]),
    "names of devices": lambda: exported().sample(0, 1, ["cpu"], y=Y),
    "a number of devices": lambda: exported().sample(0, 1, 3, y=Y),
    "a matrix for a key": lambda: exported().sample(np.zeros((2, 2)), 1, y=Y),
}

CASES = {f"amortising: {name}": case for name, case in {**TRAINING, **TRAINED}.items()}
