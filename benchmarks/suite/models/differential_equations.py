"""Systems of differential equations, solved by Runge and Kutta's method with fixed steps."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
from numpyro import distributions as dist

from understudy.targets.numpyro import from_numpyro

from ..case import Case


def solve(slope, start, step, count, every):
    """The states after every ``every`` of ``count`` steps of the fourth-order method."""

    def one(state, _):
        a = slope(state)
        b = slope(state + step / 2 * a)
        c = slope(state + step / 2 * b)
        d = slope(state + step * c)
        state = state + step / 6 * (a + 2 * b + 2 * c + d)
        return state, state

    _, states = jax.lax.scan(one, start, None, length=count)
    return states[every - 1 :: every]


def _epidemic(beta, gamma, initial):
    def slope(state):
        infections, recoveries = beta * state[0] * state[1], gamma * state[1]
        return jnp.stack([-infections, infections - recoveries])

    return solve(slope, jnp.stack([1 - initial, initial]), 0.5, 80, 4)[:, 1]


def epidemic(y):
    """Susceptible, infected and recovered people, counted with overdispersion."""
    beta = numpyro.sample("beta", dist.LogNormal(-0.7, 0.5))
    gamma = numpyro.sample("gamma", dist.LogNormal(-1.6, 0.5))
    initial = numpyro.sample("initial", dist.Beta(1, 100))
    concentration = numpyro.sample("concentration", dist.LogNormal(2, 1))
    mean = 1000 * jnp.maximum(_epidemic(beta, gamma, initial), 1e-9)
    numpyro.sample("y", dist.NegativeBinomial2(mean, concentration), obs=y)


def _predators(rates, start):
    def slope(state):
        prey, predators = state
        return jnp.stack(
            [
                rates[0] * prey - rates[1] * prey * predators,
                rates[3] * prey * predators - rates[2] * predators,
            ]
        )

    return solve(slope, start, 0.2, 100, 5)


def predators_and_prey(y):
    """The equations of Lotka and Volterra with lognormal noise."""
    median = jnp.array([-0.6, -3.5, -0.6, -3.5])
    rates = numpyro.sample("rates", dist.LogNormal(median, 0.5).to_event(1))
    start = numpyro.sample("start", dist.LogNormal(jnp.log(10.0), 1).expand([2]).to_event(1))
    sigma = numpyro.sample("sigma", dist.LogNormal(-1, 1).expand([2]).to_event(1))
    states = jnp.maximum(_predators(rates, start), 1e-6)
    numpyro.sample("y", dist.LogNormal(jnp.log(states), sigma).to_event(2), obs=y)


def _epidemic_data():
    rng = np.random.default_rng(601)
    mean = 1000 * np.asarray(_epidemic(jnp.asarray(0.5), jnp.asarray(0.15), jnp.asarray(0.005)))
    return from_numpyro(epidemic, rng.poisson(mean * rng.gamma(10, 0.1, len(mean))))


def _predator_data():
    rng = np.random.default_rng(602)
    states = np.asarray(_predators(jnp.array([0.55, 0.028, 0.8, 0.024]), jnp.array([30.0, 6.0])))
    return from_numpyro(predators_and_prey, states * np.exp(0.25 * rng.normal(size=states.shape)))


CASES = (
    Case("epidemic_sir", "differential equations", 4, _epidemic_data),
    Case("lotka_volterra", "differential equations", 8, _predator_data, held_out=True),
)
