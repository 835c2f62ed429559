"""Models of the Inference Gym, written anew, with simulated data of the same size.

Reference: Sountsov, Radul and contributors, "Inference Gym", 2020.
"""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
from jax.scipy.stats import norm
from numpyro import distributions as dist
from numpyro.distributions import constraints

from understudy.targets.density import LogDensity
from understudy.targets.numpyro import from_numpyro

from ..case import Case
from .state_space import latent_autoregression, simulate_volatility


def item_response(student, question, correct):
    """Answers of 400 students to 100 questions, with a mean ability."""
    mean = numpyro.sample("mean", dist.Normal(0.75, 1))
    ability = numpyro.sample("ability", dist.Normal(0, 1).expand([400]).to_event(1))
    difficulty = numpyro.sample("difficulty", dist.Normal(0, 1).expand([100]).to_event(1))
    logits = mean + ability[student] - difficulty[question]
    numpyro.sample("correct", dist.Bernoulli(logits=logits), obs=correct)


def stochastic_volatility(y, centred):
    """Returns whose log variance is a stationary autoregression, with heavy-tailed priors."""
    persistence = numpyro.sample("persistence", dist.Beta(20, 1.5))
    mu = numpyro.sample("mu", dist.Cauchy(0, 5))
    sigma = numpyro.sample("sigma", dist.HalfCauchy(2))
    h = latent_autoregression(len(y), mu, 2 * persistence - 1, sigma, centred)
    numpyro.sample("y", dist.Normal(0, jnp.exp(h / 2)), obs=y)


def cox_process(places, counts):
    """Counts in a hundred cells with a Gaussian process as the log intensity."""
    amplitude = numpyro.sample("amplitude", dist.LogNormal(-1, 0.5))
    length = numpyro.sample("length", dist.LogNormal(-1, 1))
    distance = jnp.sqrt(jnp.sum((places[:, None] - places) ** 2, -1) + 1e-12) / length
    kernel = amplitude**2 * (1 + jnp.sqrt(3.0) * distance) * jnp.exp(-jnp.sqrt(3.0) * distance)
    z = numpyro.sample("z", dist.Normal(0, 1).expand([len(counts)]).to_event(1))
    log_intensity = jnp.linalg.cholesky(kernel + 1e-5 * jnp.eye(len(counts))) @ z
    numpyro.sample("counts", dist.Poisson(jnp.exp(1 + log_intensity)), obs=counts)


def brownian_motion(y, seen, centred):
    """A Brownian motion of thirty steps, not seen in the middle, with unknown scales."""
    innovation = numpyro.sample("innovation", dist.LogNormal(0, 2))
    noise = numpyro.sample("noise", dist.LogNormal(0, 2))
    if centred:
        place = numpyro.sample("place", dist.GaussianRandomWalk(innovation, num_steps=len(y)))
    else:
        step = numpyro.sample("step", dist.Normal(0, 1).expand([len(y)]).to_event(1))
        place = numpyro.deterministic("place", innovation * jnp.cumsum(step))
    numpyro.factor("likelihood", jnp.sum(seen * dist.Normal(place, noise).log_prob(y)))


def _lorenz(state):
    x, y, z = state[..., 0], state[..., 1], state[..., 2]
    return jnp.stack([10 * (y - x), x * (28 - z) - y, x * y - 8 / 3 * z], -1)


def lorenz_bridge(y, seen, centred):
    """A noisy Lorenz system of thirty steps, of which the first coordinate is seen at both ends."""
    innovation = numpyro.sample("innovation", dist.LogNormal(-1, 1))
    noise = numpyro.sample("noise", dist.LogNormal(-1, 1))
    scale = jnp.sqrt(0.02) * innovation
    if centred:
        path = numpyro.sample("path", dist.ImproperUniform(constraints.real_matrix, (), (len(y), 3)))
        steps = path[1:] - path[:-1] - 0.02 * _lorenz(path[:-1])
        numpyro.factor("first", dist.Normal(0, 1).log_prob(path[0]).sum())
        numpyro.factor("rest", dist.Normal(0, scale).log_prob(steps).sum())
    else:
        z = numpyro.sample("z", dist.Normal(0, 1).expand([len(y), 3]).to_event(2))

        def step(state, now):
            state = state + 0.02 * _lorenz(state) + scale * now
            return state, state

        _, later = jax.lax.scan(step, z[0], z[1:])
        path = numpyro.deterministic("path", jnp.concatenate([z[:1], later]))
    numpyro.factor("likelihood", jnp.sum(seen * dist.Normal(path[:, 0], noise).log_prob(y)))


def _items():
    rng = np.random.default_rng(701)
    pairs = rng.choice(400 * 100, size=10_000, replace=False)
    student, question = pairs // 100, pairs % 100
    logits = 0.7 + rng.normal(size=400)[student] - rng.normal(size=100)[question]
    correct = (rng.uniform(size=pairs.size) < 1 / (1 + np.exp(-logits))).astype(float)
    return from_numpyro(item_response, student, question, correct)


def _volatility(seed, size, centred):
    return from_numpyro(stochastic_volatility, simulate_volatility(seed, size, -0.5, 0.97, 0.2), centred)


def _cox():
    rng = np.random.default_rng(704)
    places = np.stack(np.meshgrid(np.arange(10.0), np.arange(10.0)), -1).reshape(-1, 2) / 10
    waves = 0.8 * np.sin(4 * places[:, 0]) * np.cos(3 * places[:, 1])
    return from_numpyro(cox_process, places, rng.poisson(np.exp(1 + waves)))


_ENDS = ((np.arange(30) < 10) | (np.arange(30) >= 20)).astype(float)


def _brownian(centred):
    rng = np.random.default_rng(705)
    y = np.cumsum(0.1 * rng.normal(size=30)) + 0.15 * rng.normal(size=30)
    return from_numpyro(brownian_motion, y, _ENDS, centred)


def _bridge(centred):
    rng = np.random.default_rng(706)
    state = rng.normal(size=3)
    path = [state]
    for _ in range(29):
        state = state + 0.02 * np.asarray(_lorenz(state)) + np.sqrt(0.02) * 0.3 * rng.normal(size=3)
        path.append(state)
    return from_numpyro(lorenz_bridge, np.array(path)[:, 0] + 0.3 * rng.normal(size=30), _ENDS, centred)


def _banana(z):
    return norm.logpdf(z[0], 0, 10) + norm.logpdf(z[1], 0.03 * (z[0] ** 2 - 100), 1)


def _banana_draws(rng, n):
    first = 10 * rng.normal(size=n)
    return np.stack([first, 0.03 * (first**2 - 100) + rng.normal(size=n)], 1)


def _case(name, dim, make, **more):
    return Case(name, "gym", dim, make, **more)


CASES = (
    _case("gym_item_response_501", 501, _items),
    _case("gym_stochastic_volatility_103", 103, lambda: _volatility(702, 100, False), held_out=True),
    _case("gym_stochastic_volatility_2519", 2519, lambda: _volatility(703, 2516, True)),
    _case("gym_cox_process_102", 102, _cox),
    _case(
        "gym_brownian_motion_32",
        32,
        lambda: _brownian(True),
        held_out=True,
        easier=lambda: _brownian(False),
    ),
    _case("gym_lorenz_bridge_92", 92, lambda: _bridge(True), easier=lambda: _bridge(False)),
    _case("gym_banana_2", 2, lambda: LogDensity(_banana, 2), draws=_banana_draws, held_out=True),
)
