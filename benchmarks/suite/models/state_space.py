"""Series in time: random walks, autoregressions, volatility, hidden states, a changepoint."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
from numpyro import distributions as dist
from numpyro.distributions import constraints
from scipy.signal import lfilter

from understudy.targets.numpyro import from_numpyro

from ..case import Case


def local_level(y, centred):
    """A level that walks at random, seen with noise."""
    start = numpyro.sample("start", dist.Normal(0, 2))
    tau = numpyro.sample("tau", dist.HalfNormal(0.5))
    sigma = numpyro.sample("sigma", dist.HalfNormal(1))
    if centred:
        walk = numpyro.sample("walk", dist.GaussianRandomWalk(tau, num_steps=len(y)))
    else:
        step = numpyro.sample("step", dist.Normal(0, 1).expand([len(y)]).to_event(1))
        walk = numpyro.deterministic("walk", tau * jnp.cumsum(step))
    numpyro.sample("y", dist.Normal(start + walk, sigma), obs=y)


def stochastic_volatility(y, centred):
    """A series whose log variance is a stationary autoregression."""
    phi = numpyro.sample("phi", dist.Beta(20, 1.5))
    mu = numpyro.sample("mu", dist.Normal(0, 3))
    sigma = numpyro.sample("sigma", dist.HalfNormal(0.5))
    h = latent_autoregression(len(y), mu, phi, sigma, centred)
    numpyro.sample("y", dist.Normal(0, jnp.exp(h / 2)), obs=y)


def latent_autoregression(size, mu, phi, sigma, centred):
    """A stationary autoregression as the site h, or through its standardised shocks."""
    scales = jnp.full(size, sigma).at[0].divide(jnp.sqrt(1 - phi**2))
    if centred:
        h = numpyro.sample("h", dist.ImproperUniform(constraints.real_vector, (), (size,)))
        away = h - mu
        before = jnp.concatenate([jnp.zeros(1), away[:-1]])
        numpyro.factor("h_prior", dist.Normal(phi * before, scales).log_prob(away).sum())
        return h
    shock = numpyro.sample("shock", dist.Normal(0, 1).expand([size]).to_event(1))

    def step(before, now):
        value = phi * before + now
        return value, value

    _, away = jax.lax.scan(step, jnp.zeros_like(mu), scales * shock)
    return numpyro.deterministic("h", mu + away)


def second_order_autoregression(y):
    """A stationary autoregression of order two, through its partial autocorrelations."""
    partial = numpyro.sample("partial", dist.Uniform(-1, 1).expand([2]).to_event(1))
    mu = numpyro.sample("mu", dist.Normal(0, 5))
    sigma = numpyro.sample("sigma", dist.HalfNormal(2))
    first, second = partial[0] * (1 - partial[1]), partial[1]
    away = y - mu
    mean = first * away[1:-1] + second * away[:-2]
    numpyro.sample("y", dist.Normal(mean, sigma), obs=away[2:])


def moving_average(y):
    """An ARMA(1, 1) series."""
    mu = numpyro.sample("mu", dist.Normal(0, 10))
    phi = numpyro.sample("phi", dist.Normal(0, 2))
    theta = numpyro.sample("theta", dist.Normal(0, 2))
    sigma = numpyro.sample("sigma", dist.HalfCauchy(2.5))

    def step(state, now):
        before, error = state
        error = now - (mu + phi * before + theta * error)
        return (now, error), error

    _, errors = jax.lax.scan(step, (mu, jnp.zeros_like(mu)), y)
    numpyro.factor("likelihood", dist.Normal(0, sigma).log_prob(errors).sum())


def hidden_states(y):
    """Three hidden states with Gaussian emissions, summed out."""
    moves = numpyro.sample("moves", dist.Dirichlet(jnp.ones((3, 3)) + 4 * jnp.eye(3)).to_event(1))
    mu = numpyro.sample("mu", dist.ImproperUniform(constraints.ordered_vector, (), (3,)))
    numpyro.sample("mu_prior", dist.Normal(0, 4), obs=mu)
    sigma = numpyro.sample("sigma", dist.HalfNormal(2))
    emissions = dist.Normal(mu, sigma).log_prob(y[:, None])

    def step(state, emission):
        return jax.nn.logsumexp(state[:, None] + jnp.log(moves), axis=0) + emission, None

    last, _ = jax.lax.scan(step, emissions[0] - jnp.log(3.0), emissions[1:])
    numpyro.factor("likelihood", jax.nn.logsumexp(last))


def changepoint(counts):
    """Counts whose rate changes once, the year of the change summed out."""
    early = numpyro.sample("early", dist.Exponential(0.5))
    late = numpyro.sample("late", dist.Exponential(0.5))
    before = jnp.cumsum(dist.Poisson(early).log_prob(counts))
    after = jnp.cumsum(dist.Poisson(late).log_prob(counts)[::-1])[::-1]
    numpyro.factor("likelihood", jax.nn.logsumexp(before[:-1] + after[1:]))


def seasonal_trend(time, y):
    """A straight trend with two harmonics of a year and autocorrelated errors."""
    slope = numpyro.sample("slope", dist.Normal(0, 1))
    level = numpyro.sample("level", dist.Normal(0, 5))
    wave = numpyro.sample("wave", dist.Normal(0, 1).expand([4]).to_event(1))
    rho = numpyro.sample("rho", dist.Uniform(-1, 1))
    sigma = numpyro.sample("sigma", dist.HalfNormal(1))
    turn = 2 * jnp.pi * time[:, None] * jnp.array([1.0, 2.0])
    mean = level + slope * time + jnp.concatenate([jnp.sin(turn), jnp.cos(turn)], 1) @ wave
    away = y - mean
    numpyro.factor("first", dist.Normal(0, sigma / jnp.sqrt(1 - rho**2)).log_prob(away[0]))
    numpyro.factor("rest", dist.Normal(rho * away[:-1], sigma).log_prob(away[1:]).sum())


def _level(centred):
    rng = np.random.default_rng(401)
    walk = 1 + np.cumsum(0.2 * rng.normal(size=60))
    return from_numpyro(local_level, walk + 0.5 * rng.normal(size=60), centred)


def simulate_volatility(seed, size, mu=-1.0, phi=0.95, sigma=0.25):
    """A series of the stochastic volatility model."""
    rng = np.random.default_rng(seed)
    shocks = sigma * rng.normal(size=size)
    shocks[0] /= np.sqrt(1 - phi**2)
    return np.exp((mu + lfilter([1.0], [1.0, -phi], shocks)) / 2) * rng.normal(size=size)


def _volatility(centred):
    return from_numpyro(stochastic_volatility, simulate_volatility(402, 100), centred)


def _second_order():
    shocks = np.random.default_rng(403).normal(size=150)
    return from_numpyro(second_order_autoregression, 2 + lfilter([1.0], [1.0, -1.2, 0.4], shocks))


def _moving_average():
    shocks = 0.8 * np.random.default_rng(404).normal(size=150)
    return from_numpyro(moving_average, 1 + lfilter([1.0, 0.4], [1.0, -0.6], shocks))


def _hidden_states():
    rng = np.random.default_rng(405)
    moves = np.array([[0.9, 0.08, 0.02], [0.1, 0.8, 0.1], [0.05, 0.15, 0.8]])
    state, states = 0, []
    for _ in range(120):
        state = rng.choice(3, p=moves[state])
        states.append(state)
    return from_numpyro(hidden_states, np.array([-2.0, 0.5, 3.0])[states] + 0.8 * rng.normal(size=120))


def _changepoint():
    rng = np.random.default_rng(406)
    return from_numpyro(changepoint, np.concatenate([rng.poisson(3.0, 40), rng.poisson(1.2, 60)]))


def _seasonal():
    rng = np.random.default_rng(407)
    time = np.arange(120) / 12
    errors = lfilter([1.0], [1.0, -0.6], 0.4 * rng.normal(size=120))
    return from_numpyro(
        seasonal_trend,
        time,
        1 + 0.3 * time + np.sin(2 * np.pi * time) + 0.3 * np.cos(4 * np.pi * time) + errors,
    )


def _case(name, dim, make, **more):
    return Case(name, "state space", dim, make, **more)


CASES = (
    _case("local_level_60_centred", 63, lambda: _level(True), easier=lambda: _level(False)),
    _case("local_level_60_noncentred", 63, lambda: _level(False), held_out=True),
    _case(
        "stochastic_volatility_100", 103, lambda: _volatility(True), easier=lambda: _volatility(False)
    ),
    _case("autoregression_2", 4, _second_order),
    _case("arma_1_1", 4, _moving_average, held_out=True),
    _case("hidden_markov_3", 10, _hidden_states),
    _case("changepoint", 2, _changepoint, held_out=True),
    _case("seasonal_trend", 8, _seasonal),
)
