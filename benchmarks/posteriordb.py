"""Eight posteriors with reference draws, as NumPyro models.

The models and draws are those of posteriordb (Magnusson et al., "posteriordb: Testing, Benchmarking and
Developing Bayesian Inference Algorithms", 2024).
"""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
from jaxtyping import Array, Float
from numpyro import distributions as dist
from numpyro.distributions import constraints

from understudy.core import IngredientError
from understudy.targets.numpyro import NumPyroTarget, from_numpyro


def eight_schools(y: Array, sigma: Array) -> None:
    """Effects of eight coaching courses, non-centred."""
    mu = numpyro.sample("mu", dist.Normal(0, 5))
    tau = numpyro.sample("tau", dist.HalfCauchy(5))
    t = numpyro.sample("t", dist.Normal(0, 1).expand(y.shape).to_event(1))
    theta = numpyro.deterministic("theta", mu + tau * t)
    numpyro.sample("y", dist.Normal(theta, sigma), obs=y)


def regression(features: Array, y: Array, cauchy: float | None = None) -> None:
    """Linear regression with flat coefficients; sigma is flat or half-Cauchy."""
    beta = numpyro.sample("beta", _flat(constraints.real_vector, features.shape[1:]))
    prior = _flat(constraints.positive, ()) if cauchy is None else dist.HalfCauchy(cauchy)
    sigma = numpyro.sample("sigma", prior)
    numpyro.sample("y", dist.Normal(features @ beta, sigma), obs=y)


def gp_regression(x: Array, y: Array) -> None:
    """A Gaussian process with a squared exponential kernel."""
    rho = numpyro.sample("rho", dist.Gamma(25, 4))
    alpha = numpyro.sample("alpha", dist.HalfNormal(2))
    sigma = numpyro.sample("sigma", dist.HalfNormal(1))
    kernel = alpha**2 * jnp.exp(-0.5 * ((x[:, None] - x) / rho) ** 2) + sigma * jnp.eye(x.size)
    numpyro.sample("y", dist.MultivariateNormal(0, kernel), obs=y)


def gaussian_mixture(y: Array) -> None:
    """Two Gaussians on the line, their means ordered."""
    mu = numpyro.sample("mu", _flat(constraints.ordered_vector, (2,)))
    numpyro.sample("mu_prior", dist.Normal(0, 2), obs=mu)
    sigma = numpyro.sample("sigma", dist.HalfNormal(2).expand([2]).to_event(1))
    theta = numpyro.sample("theta", dist.Beta(5, 5))
    weights = dist.Categorical(probs=jnp.stack([theta, 1 - theta]))
    numpyro.sample("y", dist.MixtureSameFamily(weights, dist.Normal(mu, sigma)), obs=y)


def garch(y: Array, first: Array) -> None:
    """A GARCH(1, 1) model of a series' changing variance."""
    mu = numpyro.sample("mu", _flat(constraints.real, ()))
    alpha0 = numpyro.sample("alpha0", _flat(constraints.positive, ()))
    alpha1 = numpyro.sample("alpha1", dist.Uniform(0, 1))
    # beta1 is flat on (0, 1 - alpha1); guides need supports that do not depend on other sites.
    share = numpyro.sample("share", dist.Uniform(0, 1))
    beta1 = numpyro.deterministic("beta1", jnp.asarray(share) * (1 - jnp.asarray(alpha1)))
    numpyro.factor("volume", jnp.log1p(-jnp.asarray(alpha1)))

    def step(variance: Any, before: Array) -> tuple[Any, Any]:
        variance = alpha0 + alpha1 * (before - mu) ** 2 + beta1 * variance
        return variance, variance

    _, variances = jax.lax.scan(step, first**2, y[:-1])
    scale = jnp.sqrt(jnp.concatenate([jnp.reshape(first**2, 1), variances]))
    numpyro.sample("y", dist.Normal(mu, scale), obs=y)


def autoregression(past: Array, y: Array) -> None:
    """A linear autoregressive series; ``past`` has one column per lag."""
    alpha = numpyro.sample("alpha", dist.Normal(0, 10))
    beta = numpyro.sample("beta", dist.Normal(0, 10).expand(past.shape[1:]).to_event(1))
    sigma = numpyro.sample("sigma", dist.HalfCauchy(2.5))
    numpyro.sample("y", dist.Normal(alpha + past @ beta, sigma), obs=y)


def _flat(support: Any, shape: tuple[int, ...]) -> dist.ImproperUniform:
    return dist.ImproperUniform(support, (), shape)


def _schools(data: dict[str, Array]) -> tuple[Callable, dict[str, Any]]:
    return eight_schools, {"y": data["y"], "sigma": data["sigma"]}


def _kidscore(data: dict[str, Array]) -> tuple[Callable, dict[str, Any]]:
    school, iq = data["mom_hs"], data["mom_iq"]
    features = np.stack([np.ones_like(iq), school, iq, school * iq], 1)
    return regression, {"features": features, "y": data["kid_score"], "cauchy": 2.5}


def _logearn(data: dict[str, Array]) -> tuple[Callable, dict[str, Any]]:
    height, male = data["height"], data["male"]
    features = np.stack([np.ones_like(height), height, male, height * male], 1)
    return regression, {"features": features, "y": np.log(data["earn"])}


def _mesquite(data: dict[str, Array]) -> tuple[Callable, dict[str, Any]]:
    names = ("diam1", "diam2", "canopy_height", "total_height", "density")
    columns = [np.ones_like(data["weight"]), *(np.log(data[name]) for name in names), data["group"]]
    return regression, {"features": np.stack(columns, 1), "y": np.log(data["weight"])}


def _autoregression(data: dict[str, Array]) -> tuple[Callable, dict[str, Any]]:
    y, lags = data["y"], int(data["K"])
    past = np.stack([y[lags - k : len(y) - k] for k in range(1, lags + 1)], 1)
    return autoregression, {"past": past, "y": y[lags:]}


POSTERIORS: dict[str, Callable[[dict[str, Array]], tuple[Callable, dict[str, Any]]]] = {
    "eight_schools_noncentered": _schools,
    "garch11": lambda data: (garch, {"y": data["y"], "first": data["sigma1"]}),
    "gp_regr": lambda data: (gp_regression, {"x": data["x"], "y": data["y"]}),
    "low_dim_gauss_mix": lambda data: (gaussian_mixture, {"y": data["y"]}),
    "arK": _autoregression,
    "logmesquite": _mesquite,
    "kidscore_interaction": _kidscore,
    "logearn_interaction": _logearn,
}


class Posterior(NamedTuple):
    """A model with its data and reference draws, columns named as in posteriordb (``beta[1]``)."""

    name: str
    model: Callable
    arguments: dict[str, Any]
    reference: Float[np.ndarray, "n d"]
    columns: tuple[str, ...]

    def target(self) -> NumPyroTarget:
        """The posterior as a target."""
        return from_numpyro(self.model, **self.arguments)

    def matrix(self, sites: dict[str, Any]) -> Float[np.ndarray, "n d"]:
        """Draws of the named sites, as columns in the order of the reference."""
        return np.stack([_column(sites, name) for name in self.columns], 1)


def data_folder() -> Path:
    """The folder named by UNDERSTUDY_DATA, or ``shared/data`` beside the checkout."""
    named = os.environ.get("UNDERSTUDY_DATA")
    folder = Path(named) if named else Path(__file__).parents[4] / "shared" / "data"
    if not (folder / "posteriordb").is_dir():
        raise IngredientError(
            "The reference posteriors are read from the folder posteriordb in UNDERSTUDY_DATA; "
            f"{folder} has none. Set UNDERSTUDY_DATA to the folder that holds it."
        )
    return folder


def load_posterior(name: str) -> Posterior:
    """One of :data:`POSTERIORS` with its data and 10,000 reference draws."""
    if name not in POSTERIORS:
        raise IngredientError(f"posterior is one of {', '.join(POSTERIORS)}; {name!r} came.")
    folder = data_folder() / "posteriordb"
    data = json.loads((folder / f"{name}.data.json").read_text())
    arrays: Any = {k: np.asarray(v, float) for k, v in data.items()}
    model, arguments = POSTERIORS[name](arrays)
    with np.load(folder / f"{name}.npz") as stored:
        reference, columns = stored["draws"], tuple(map(str, stored["names"]))
    return Posterior(name, model, arguments, reference, columns)


def _column(sites: dict[str, Any], name: str) -> np.ndarray:
    site, _, index = name.partition("[")
    values = np.asarray(sites[site])
    return values[:, int(index.rstrip("]")) - 1] if index else values
