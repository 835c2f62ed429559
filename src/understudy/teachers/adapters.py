"""BlackJAX algorithms in the shape that :class:`understudy.teachers.Kernel` wants."""

import importlib
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from understudy.core import BoundLogDensity, IngredientError


class Algorithm(NamedTuple):
    """BlackJAX's pair: ``init(z, key) -> state`` and ``step(key, state) -> (state, info)``."""

    init: Callable[..., Any]
    step: Callable[..., tuple[Any, Any]]


def blackjax(name: str) -> Any:
    """A module of BlackJAX, imported when it is first used.

    Importing BlackJAX computes a constant and so starts JAX, after which a process cannot be forked.
    Where that happens inside a program that is being traced, the constant must not become part of it.
    """
    with jax.ensure_compile_time_eval():
        return importlib.import_module(f"blackjax.{name}")


def mala(log_density: BoundLogDensity, step_size: Array) -> Any:
    """Metropolis-adjusted Langevin."""
    return blackjax("mcmc.mala").as_top_level_api(log_density, step_size)


def barker(log_density: BoundLogDensity, **settings: Any) -> Any:
    """Barker's proposal."""
    return blackjax("mcmc.barker").as_top_level_api(log_density, **settings)


def hmc(log_density: BoundLogDensity, **settings: Any) -> Algorithm:
    """Hamiltonian Monte Carlo with unit mass."""
    return _unit_mass(blackjax("mcmc.hmc").as_top_level_api, log_density, settings)


def nuts(log_density: BoundLogDensity, **settings: Any) -> Algorithm:
    """The no-U-turn sampler with unit mass."""
    return _unit_mass(blackjax("mcmc.nuts").as_top_level_api, log_density, settings)


def ghmc(log_density: BoundLogDensity, **settings: Any) -> Algorithm:
    """Generalised Hamiltonian Monte Carlo with unit mass."""
    build = blackjax("mcmc.ghmc").as_top_level_api
    return _unit_mass(build, log_density, settings, "momentum_inverse_scale")


def random_walk(log_density: BoundLogDensity, step_size: Array) -> Any:
    """Random-walk Metropolis with one scale."""
    return blackjax("mcmc.random_walk").normal_random_walk(log_density, step_size)


def mclmc(log_density: BoundLogDensity, **settings: Any) -> Algorithm:
    """Microcanonical Langevin dynamics, which needs room to turn."""
    algorithm = blackjax("mcmc.mclmc").as_top_level_api(log_density, **settings)

    def init(z, key):
        if z.size < 2:
            raise IngredientError(
                "mclmc turns its direction of motion and so needs draws of size 2 or more; size "
                "1 came; choose hmc() or mala() here."
            )
        return algorithm.init(z, key)

    return Algorithm(init, algorithm.step)


def adjusted_mclmc(log_density: BoundLogDensity, step_size: Any, leapfrogs: Array) -> Any:
    """Adjusted microcanonical dynamics."""
    return blackjax("mcmc.adjusted_mclmc").as_top_level_api(
        log_density, step_size, integration_steps_params=(leapfrogs,)
    )


def elliptical_slice(log_density: BoundLogDensity, mean: Array, covariance: Array) -> Algorithm:
    """Elliptical slice sampling of a posterior whose prior is Gaussian."""
    precision = jnp.linalg.inv(covariance) if covariance.ndim == 2 else 1 / covariance

    def log_likelihood(z):
        centred = z - mean
        scaled = precision @ centred if precision.ndim == 2 else precision * centred
        value = log_density(z) + 0.5 * jnp.sum(centred * scaled)
        return jnp.where(jnp.isnan(value), -jnp.inf, value)

    def step(rng_key, state):
        # From a likelihood of zero no point of the ellipse is above the slice; NaN ends that search.
        start = jnp.where(jnp.isfinite(state.logdensity), state.logdensity, jnp.nan)
        return inner.step(rng_key, state._replace(logdensity=start))

    inner = blackjax("mcmc.elliptical_slice").as_top_level_api(log_likelihood, mean=mean, cov=covariance)
    return Algorithm(inner.init, step)


def _unit_mass(
    build: Callable[..., Any],
    log_density: BoundLogDensity,
    settings: Mapping[str, Any],
    name: str = "inverse_mass_matrix",
) -> Algorithm:
    """A BlackJAX algorithm whose mass is one in every direction, however many there are."""

    def algorithm(z):
        return build(log_density, **{name: jnp.ones_like(z)}, **settings)

    return Algorithm(
        lambda z, rng_key=None: algorithm(z).init(z, rng_key),
        lambda rng_key, state: algorithm(state.position).step(rng_key, state),
    )


class _Position(NamedTuple):
    position: Float[Array, " d"]


def sgld(log_density: BoundLogDensity, step_size: Array) -> Algorithm:
    """Stochastic gradient Langevin."""
    return _stateless(blackjax("sgmcmc.sgld").as_top_level_api(_gradient(log_density)), step_size)


def sghmc(log_density: BoundLogDensity, step_size: Array, friction: Any, leapfrogs: int) -> Algorithm:
    """Stochastic gradient Hamiltonian Monte Carlo."""
    inner = blackjax("sgmcmc.sghmc").as_top_level_api(_gradient(log_density), leapfrogs, friction)
    return _stateless(inner, step_size)


def _gradient(log_density: BoundLogDensity) -> Any:
    return lambda z, minibatch: jax.grad(log_density)(z)


def _stateless(inner: Any, step_size: Array) -> Algorithm:
    def step(rng_key, state):
        return _Position(inner.step(rng_key, state.position, None, step_size)), None

    return Algorithm(lambda z, rng_key=None: _Position(z), step)
