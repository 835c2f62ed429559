"""Eight tasks of sbibm as simulators with their likelihoods, and their reference draws.

Reference: Lueckmann, Boelts, Greenberg, Goncalves and Macke, "Benchmarking Simulation-Based Inference",
2021. The reference draws are not part of the repository: put the folder ``sbibm`` under the folder that
``UNDERSTUDY_DATA`` names.
"""

import os
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from jax.scipy.stats import norm

from understudy.amortising import PriorSimulator

TASKS = (
    "two_moons",
    "gaussian_mixture",
    "gaussian_linear",
    "gaussian_linear_uniform",
    "slcp",
    "bernoulli_glm",
    "sir",
    "lotka_volterra",
)


class Reference(NamedTuple):
    """Ten observations of a task, with 10,000 draws of the posterior of each."""

    observations: np.ndarray
    draws: np.ndarray


def folder() -> Path:
    """Where reference draws are."""
    return Path(os.environ.get("UNDERSTUDY_DATA", "data")) / "sbibm"


def reference(task: str) -> Reference:
    """The observations and reference draws of a task."""
    held = np.load(folder() / f"{task}.npz", allow_pickle=False)
    seen = held["summary"] if task == "bernoulli_glm" else held["observation"]
    return Reference(seen.reshape(10, 4, 2) if task == "slcp" else seen, held["reference"])


def simulator(task: str) -> PriorSimulator:
    """A task as a prior, a simulator and a log likelihood."""
    return {name: globals()[f"_{name}"] for name in TASKS}[task]()


def parameters(task: PriorSimulator, draws: dict[str, np.ndarray]) -> np.ndarray:
    """Draws as columns in the order of the reference, which is that of the prior."""
    columns = [np.asarray(draws[site.name]) for site in task.target.sites]
    columns = [value[..., None] if value.ndim < 3 else value for value in columns]
    return np.concatenate(columns, -1)


def _box(low: float, high: float, size: int) -> dict[str, Any]:
    return {"theta": dist.Uniform(low, high).expand([size]).to_event(1)}


def _two_moons() -> PriorSimulator:
    def centre(theta):
        return jnp.stack([-jnp.abs(theta[0] + theta[1]), -theta[0] + theta[1]]) / jnp.sqrt(2.0)

    def simulate(key, theta):
        first, second = jax.random.split(key)
        angle = jax.random.uniform(first, minval=-jnp.pi / 2, maxval=jnp.pi / 2)
        radius = 0.1 + 0.01 * jax.random.normal(second)
        return (
            radius * jnp.stack([jnp.cos(angle), jnp.sin(angle)]) + jnp.array([0.25, 0]) + centre(theta)
        )

    def log_likelihood(x, theta):
        place = x - centre(theta) - jnp.array([0.25, 0])
        radius = jnp.sqrt(place @ place + 1e-12)
        inside = norm.logpdf(radius, 0.1, 0.01) - jnp.log(radius) - jnp.log(jnp.pi)
        return jnp.where(place[0] > 0, inside, -jnp.inf)

    return PriorSimulator(_box(-1, 1, 2), simulate, log_likelihood)


def _gaussian_mixture() -> PriorSimulator:
    def simulate(key, theta):
        first, second = jax.random.split(key)
        scale = jnp.where(jax.random.bernoulli(first), 1.0, 0.1)
        return theta + scale * jax.random.normal(second, (2,))

    def log_likelihood(x, theta):
        parts = [norm.logpdf(x, theta, scale).sum() for scale in (1.0, 0.1)]
        return jnp.logaddexp(*parts) - jnp.log(2.0)

    return PriorSimulator(_box(-10, 10, 2), simulate, log_likelihood)


def _gaussian(prior: dict[str, Any]) -> PriorSimulator:
    scale = 0.1**0.5

    def simulate(key, theta):
        return theta + scale * jax.random.normal(key, (10,))

    def log_likelihood(x, theta):
        return norm.logpdf(x, theta, scale).sum()

    return PriorSimulator(prior, simulate, log_likelihood)


def _gaussian_linear() -> PriorSimulator:
    return _gaussian({"theta": dist.Normal(0, 0.1**0.5).expand([10]).to_event(1)})


def _gaussian_linear_uniform() -> PriorSimulator:
    return _gaussian(_box(-1, 1, 10))


def _slcp() -> PriorSimulator:
    def parts(theta):
        first, second = theta[2] ** 2, theta[3] ** 2
        correlation = jnp.tanh(theta[4])
        covariance = jnp.array(
            [
                [first**2 + 1e-6, correlation * first * second],
                [correlation * first * second, second**2 + 1e-6],
            ]
        )
        return dist.MultivariateNormal(theta[:2], covariance)

    def simulate(key, theta):
        return parts(theta).sample(key, (4,))

    def log_likelihood(x, theta):
        return parts(theta).log_prob(x).sum()

    return PriorSimulator(_box(-3, 3, 5), simulate, log_likelihood, exchangeable=True)


def _bernoulli_glm() -> PriorSimulator:
    design = jnp.asarray(np.load(folder() / "bernoulli_glm.npz")["design"], jnp.float32)
    below = np.eye(9) - np.eye(9, k=-1)
    smooth = below @ below + np.diag(np.sqrt(np.arange(9) / 9))
    precision = np.zeros((10, 10))
    precision[0, 0], precision[1:, 1:] = 0.5, smooth.T @ smooth
    prior = {"theta": dist.MultivariateNormal(jnp.zeros(10), precision_matrix=jnp.asarray(precision))}

    def simulate(key, theta):
        return jax.random.bernoulli(key, jax.nn.sigmoid(design @ theta)).astype(float) @ design

    def log_likelihood(x, theta):
        return x @ theta - jax.nn.softplus(design @ theta).sum()

    return PriorSimulator(prior, simulate, log_likelihood)


def _runge_kutta(slope: Any, start: Any, step: float, steps: int) -> Any:
    def advance(u, _):
        a = slope(u)
        b = slope(u + step / 2 * a)
        c = slope(u + step / 2 * b)
        d = slope(u + step * c)
        u = u + step / 6 * (a + 2 * b + 2 * c + d)
        return u, u

    trail = jax.lax.scan(advance, start, None, steps)[1]
    return jnp.concatenate([start[None], trail])


def _sir() -> PriorSimulator:
    people = 1e6
    prior = {"beta": dist.LogNormal(np.log(0.4), 0.5), "gamma": dist.LogNormal(np.log(0.125), 0.2)}

    def infected(beta, gamma):
        def slope(u):
            new = beta * u[0] * u[1] / people
            return jnp.stack([-new, new - gamma * u[1]])

        trail = _runge_kutta(slope, jnp.array([people - 1, 1.0]), 1.0, 153)
        return jnp.clip(trail[::17, 1] / people, 1e-9, 1 - 1e-9)

    def simulate(key, beta, gamma):
        return jax.random.binomial(key, 1000.0, infected(beta, gamma))

    def log_likelihood(x, beta, gamma):
        return dist.Binomial(1000, infected(beta, gamma)).log_prob(x).sum()

    return PriorSimulator(prior, simulate, log_likelihood)


def _lotka_volterra() -> PriorSimulator:
    wide, narrow = dist.LogNormal(-0.125, 0.5), dist.LogNormal(-3.0, 0.5)
    prior = {"alpha": wide, "beta": narrow, "gamma": wide, "delta": narrow}

    def populations(alpha, beta, gamma, delta):
        def slope(u):
            # In logarithms populations stay positive, however far they fall.
            x, y = jnp.exp(u)
            return jnp.stack([alpha - beta * y, -gamma + delta * x])

        trail = _runge_kutta(slope, jnp.log(jnp.array([30.0, 1.0])), 0.05, 378)
        return trail[::42].T.ravel()

    def simulate(key, **rates):
        return jnp.exp(populations(**rates) + 0.1 * jax.random.normal(key, (20,)))

    def log_likelihood(x, **rates):
        return dist.LogNormal(populations(**rates), 0.1).log_prob(x).sum()

    return PriorSimulator(prior, simulate, log_likelihood)
