"""Ten posteriors of posteriordb with its reference draws, and eight schools centred.

Reference: Magnusson et al., "posteriordb: Testing, Benchmarking and Developing Bayesian Inference
Algorithms", 2024.
"""

import json
import os
from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
from numpyro import distributions as dist
from numpyro.distributions import constraints

from understudy.targets.numpyro import from_numpyro

from ..case import Case


def _flat(support, shape=()):
    return dist.ImproperUniform(support, (), shape)


def eight_schools(y, sigma, centred=False):
    """Effects of eight coaching courses."""
    mu = numpyro.sample("mu", dist.Normal(0, 5))
    tau = numpyro.sample("tau", dist.HalfCauchy(5))
    if centred:
        theta = numpyro.sample("theta", dist.Normal(mu, tau).expand(y.shape).to_event(1))
    else:
        t = numpyro.sample("t", dist.Normal(0, 1).expand(y.shape).to_event(1))
        theta = numpyro.deterministic("theta", mu + tau * t)
    numpyro.sample("y", dist.Normal(theta, sigma), obs=y)


def regression(features, y, cauchy=None):
    """Linear regression with flat coefficients; sigma is flat or half-Cauchy."""
    beta = numpyro.sample("beta", _flat(constraints.real_vector, features.shape[1:]))
    prior = _flat(constraints.positive) if cauchy is None else dist.HalfCauchy(cauchy)
    sigma = numpyro.sample("sigma", prior)
    numpyro.sample("y", dist.Normal(features @ beta, sigma), obs=y)


def gp_regression(x, y):
    """A Gaussian process with a squared exponential kernel."""
    rho = numpyro.sample("rho", dist.Gamma(25, 4))
    alpha = numpyro.sample("alpha", dist.HalfNormal(2))
    sigma = numpyro.sample("sigma", dist.HalfNormal(1))
    kernel = alpha**2 * jnp.exp(-0.5 * ((x[:, None] - x) / rho) ** 2) + sigma * jnp.eye(x.size)
    numpyro.sample("y", dist.MultivariateNormal(0, kernel), obs=y)


def gaussian_mixture(y):
    """Two Gaussians on the line, their means ordered."""
    mu = numpyro.sample("mu", _flat(constraints.ordered_vector, (2,)))
    numpyro.sample("mu_prior", dist.Normal(0, 2), obs=mu)
    sigma = numpyro.sample("sigma", dist.HalfNormal(2).expand([2]).to_event(1))
    theta = numpyro.sample("theta", dist.Beta(5, 5))
    weights = dist.Categorical(probs=jnp.stack([theta, 1 - theta]))
    numpyro.sample("y", dist.MixtureSameFamily(weights, dist.Normal(mu, sigma)), obs=y)


def garch(y, first):
    """A GARCH(1, 1) model of a series' changing variance."""
    mu = numpyro.sample("mu", _flat(constraints.real))
    alpha0 = numpyro.sample("alpha0", _flat(constraints.positive))
    alpha1 = numpyro.sample("alpha1", dist.Uniform(0, 1))
    # beta1 is flat on (0, 1 - alpha1), written through its share of that interval.
    share = numpyro.sample("share", dist.Uniform(0, 1))
    beta1 = numpyro.deterministic("beta1", share * (1 - alpha1))
    numpyro.factor("volume", jnp.log1p(-alpha1))

    def step(variance, before):
        variance = alpha0 + alpha1 * (before - mu) ** 2 + beta1 * variance
        return variance, variance

    _, variances = jax.lax.scan(step, first**2, y[:-1])
    scale = jnp.sqrt(jnp.concatenate([jnp.reshape(first**2, 1), variances]))
    numpyro.sample("y", dist.Normal(mu, scale), obs=y)


def autoregression(past, y):
    """A linear autoregressive series; ``past`` has one column per lag."""
    alpha = numpyro.sample("alpha", dist.Normal(0, 10))
    beta = numpyro.sample("beta", dist.Normal(0, 10).expand(past.shape[1:]).to_event(1))
    sigma = numpyro.sample("sigma", dist.HalfCauchy(2.5))
    numpyro.sample("y", dist.Normal(alpha + past @ beta, sigma), obs=y)


def hidden_markov(u, v, alpha):
    """Two hidden states with exponential emissions, summed out by the forward recursion."""
    theta1 = numpyro.sample("theta1", dist.Dirichlet(alpha[0]))
    theta2 = numpyro.sample("theta2", dist.Dirichlet(alpha[1]))
    # Positive and ordered: the first of a pair, and what the second adds to it, are positive.
    rates = []
    for name in ("phi", "lambda"):
        low = numpyro.sample(f"{name}_low", _flat(constraints.positive))
        more = numpyro.sample(f"{name}_more", _flat(constraints.positive))
        pair = jnp.stack([low, low + more])
        numpyro.sample(f"{name}_prior", dist.Normal(jnp.array([0.0, 3.0]), 1), obs=pair)
        rates.append(pair)
    phi, rate = rates
    emissions = dist.Exponential(phi).log_prob(u[:, None]) + dist.Exponential(rate).log_prob(v[:, None])
    moves = jnp.log(jnp.stack([theta1, theta2]))

    def step(state, emission):
        return jax.nn.logsumexp(state[:, None] + moves, axis=0) + emission, None

    last, _ = jax.lax.scan(step, emissions[0], emissions[1:])
    numpyro.factor("likelihood", jax.nn.logsumexp(last))


def _columns(*names):
    return lambda data: np.stack([np.ones_like(data[names[0]]), *(data[name] for name in names)], 1)


def _kidscore(data):
    features = np.concatenate(
        [_columns("mom_hs", "mom_iq")(data), (data["mom_hs"] * data["mom_iq"])[:, None]], 1
    )
    return regression, {"features": features, "y": data["kid_score"], "cauchy": 2.5}


def _logearn(data):
    features = np.concatenate(
        [_columns("height", "male")(data), (data["height"] * data["male"])[:, None]], 1
    )
    return regression, {"features": features, "y": np.log(data["earn"])}


def _mesquite(data):
    logged = {name: np.log(value) for name, value in data.items() if name not in ("group", "N")}
    names = ("diam1", "diam2", "canopy_height", "total_height", "density", "group")
    return regression, {
        "features": _columns(*names)(logged | {"group": data["group"]}),
        "y": logged["weight"],
    }


def _autoregression(data):
    y, lags = data["y"], int(data["K"])
    past = np.stack([y[lags - k : len(y) - k] for k in range(1, lags + 1)], 1)
    return autoregression, {"past": past, "y": y[lags:]}


_MODELS = {
    "eight_schools_noncentered": lambda data: (eight_schools, {k: data[k] for k in ("y", "sigma")}),
    "kidscore_interaction": _kidscore,
    "logearn_interaction": _logearn,
    "gp_regr": lambda data: (gp_regression, {k: data[k] for k in ("x", "y")}),
    "low_dim_gauss_mix": lambda data: (gaussian_mixture, {"y": data["y"]}),
    "garch11": lambda data: (garch, {"y": data["y"], "first": data["sigma1"]}),
    "arK": _autoregression,
    "logmesquite": _mesquite,
    "hmm_drive_0": lambda data: (hidden_markov, {k: data[k] for k in ("u", "v", "alpha")}),
    "earn_height": lambda data: (
        regression,
        {"features": _columns("height")(data), "y": data["earn"]},
    ),
}


def _folder():
    return Path(os.environ.get("UNDERSTUDY_DATA", "")) / "posteriordb"


def _target(name, **more):
    data = json.loads((_folder() / f"{name}.data.json").read_text())
    model, arguments = _MODELS[name]({key: np.asarray(value, float) for key, value in data.items()})
    return from_numpyro(model, **arguments, **more)


def _draws(name):
    """The reference draws by site, with the sites that the models here write otherwise."""
    with np.load(_folder() / f"{name}.npz") as stored:
        draws, columns = stored["draws"], [str(column) for column in stored["names"]]
    sites = {}
    for column, values in zip(columns, draws.T, strict=True):
        sites.setdefault(column.partition("[")[0], []).append(values)
    scalars = {column for column in columns if "[" not in column}
    sites = {k: v[0] if k in scalars else np.stack(v, 1) for k, v in sites.items()}
    if name == "eight_schools_noncentered":
        sites["t"] = (sites["theta"] - sites["mu"][:, None]) / sites["tau"][:, None]
    elif name == "garch11":
        sites["share"] = sites["beta1"] / (1 - sites["alpha1"])
    elif name == "hmm_drive_0":
        for key in ("phi", "lambda"):
            sites[f"{key}_low"], sites[f"{key}_more"] = sites[key][:, 0], np.diff(sites[key])[:, 0]
    return sites


def _case(name, dim, held_out=False, source=None, **more):
    source = source or name
    return Case(
        name,
        "posteriordb",
        dim,
        partial(_target, source, **more),
        held_out=held_out,
        stored=partial(_draws, source),
        available=lambda: (_folder() / f"{source}.npz").is_file(),
    )


CASES = (
    _case("eight_schools_noncentred", 10, source="eight_schools_noncentered"),
    _case("eight_schools_centred", 10, held_out=True, source="eight_schools_noncentered", centred=True),
    _case("kidscore_interaction", 5),
    _case("logearn_interaction", 5, held_out=True),
    _case("gp_regr", 3),
    _case("low_dim_gauss_mix", 5),
    _case("garch11", 4),
    _case("arK", 7, held_out=True),
    _case("logmesquite", 8),
    _case("hmm_drive_0", 6, held_out=True),
    _case("earn_height", 3),
)
