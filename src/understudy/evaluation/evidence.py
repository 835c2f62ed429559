"""How likely data are under a latent-variable model: log p(x) = log of the integral of p(x, z).

Both estimators of p(x) are unbiased, so their logarithms lie below the truth on average, by nats where
few of the draws carry the weight: read them with their effective number of draws.
"""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple, Protocol, runtime_checkable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import logsumexp
from jaxtyping import Array, Float, Scalar

from understudy.checks import fraction, instance, number, one_positive, random_key, shown, whole
from understudy.core import (
    BoundLogDensity,
    Condition,
    ExplicitStudent,
    IngredientError,
    Key,
    Student,
    Target,
    numbered,
    prepared,
)
from understudy.evaluation.annealing import FIRST_STEP, Walk, at, settle
from understudy.numerics import AffineMap, effective_draws, whitening


class Evidence(NamedTuple):
    """Estimates for every condition of a batch.

    Attributes:
        log_evidence: of log p(x), in nats.
        effective: the effective number of draws, (sum w)^2 / sum w^2; at most the number of draws.
    """

    log_evidence: Float[Array, " b"]
    effective: Float[Array, " b"]


class Bounds(NamedTuple):
    """Lower and upper estimates of log p(x) of simulated data; the truth lies between, on average."""

    lower: Float[Array, " b"]
    upper: Float[Array, " b"]
    effective: Float[Array, " b"]


@runtime_checkable
class Simulator(Protocol):
    """A model that can draw pairs of latent vector and observation."""

    dim: int

    def log_density(self, z: Array, x: Condition = None) -> Scalar:
        """Log p(x, z)."""
        ...

    def simulate(self, key: Key, n: int) -> tuple[Array, Array]:
        """``n`` draws of z, and of x given each."""
        ...


def importance_weighted(
    key: Key,
    target: Target,
    proposal: ExplicitStudent,
    x: Condition,
    samples: int = 5000,
    *,
    chunk: int = 100,
    batch: int = 16,
) -> Evidence:
    """Importance sampling, log 1/K sum_k p(x, z_k) / q(z_k | x); any K in bounded memory.

    Reference: Burda, Grosse and Salakhutdinov, "Importance Weighted Autoencoders", 2016.

    Args:
        key: random key.
        target: the model, log p(x, z).
        proposal: a student with a density; wider than the posterior rather than narrower.
        x: conditions, one a row.
        samples: K.
        chunk: draws in memory at once.
        batch: conditions at once.
    """
    instance("target", Target, "LatentVariableModel(decoder, dim)", target)
    instance("proposal", ExplicitStudent, "GaussianEncoder(network, dim)", proposal)
    samples, chunk = whole("samples", samples), whole("chunk", chunk)

    def one(target, proposal, key, x):
        def add(i, sums):
            z = proposal.sample(numbered(key, i), x, chunk)
            weights = jax.vmap(lambda z: target.log_density(z, x) - proposal.log_prob(z, x))(z)
            counted = (i * chunk + jnp.arange(chunk) < samples) & ~jnp.isnan(weights)
            weights = jnp.where(counted, weights, -jnp.inf)
            return _added(sums[0], weights), _added(sums[1], 2 * weights)

        nothing = (jnp.array(-jnp.inf), jnp.array(-jnp.inf))
        first, second = jax.lax.fori_loop(0, -(-samples // chunk), add, nothing)
        return Evidence(first - jnp.log(samples), jnp.exp(2 * first - second))

    return _over_conditions(one, (target, proposal), key, x, batch)


def annealed_evidence(
    key: Key,
    target: Target,
    x: Condition,
    base: AffineMap | None = None,
    *,
    chains: int = 16,
    rungs: int = 200,
    leapfrogs: int = 3,
    acceptance: float = 0.7,
    batch: int = 16,
) -> Evidence:
    """Hamiltonian annealed importance sampling from a Gaussian r to p(x, z), through r^(1-b) p^b.

    Every rung adds ``(b_k - b_{k-1}) (log p - log r)`` to a chain's log weight and makes one Hamiltonian
    transition at b_k, in coordinates where r is standard. The step of every rung is found by a pilot run
    with other chains, so the estimate of p(x) stays unbiased.

    Reference: Sohl-Dickstein and Culpepper, "Hamiltonian annealed importance sampling", 2012; Wu et al.,
    "On the quantitative analysis of decoder-based generative models", 2017.

    Args:
        key: random key.
        target: the model, log p(x, z).
        x: conditions, one a row.
        base: where to start, from :func:`gaussian_base`; None is N(0, I), the prior, which needs many
            more rungs where the posterior is narrow.
        chains: per condition.
        rungs: intermediate distributions.
        leapfrogs: steps of a transition.
        acceptance: wanted by the pilot run.
        batch: conditions at once.
    """
    instance("target", Target, "LatentVariableModel(decoder, dim)", target)
    walk = Walk(*_checked(chains, rungs, leapfrogs, acceptance))
    if base is not None:
        instance("base", AffineMap, "gaussian_base(key, target, x)", base)
    base = _prior(target.dim, x) if base is None else base

    def one(target, key, given):
        x, base = given
        weights = walk.forward(key, _standard(target, x, base), target.dim)[0]
        return Evidence(logsumexp(weights) - jnp.log(walk.chains), effective_draws(weights))

    return _over_conditions(one, (target,), key, (x, base), batch)


def bidirectional(
    key: Key,
    model: Simulator,
    n: int = 16,
    proposal: Student | None = None,
    *,
    chains: int = 16,
    rungs: int = 200,
    leapfrogs: int = 3,
    acceptance: float = 0.7,
    batch: int = 16,
) -> Bounds:
    """How wide the truth may lie: both directions of annealing on data that the model simulated.

    A simulated z is an exact draw from p(z | x); annealed backwards from it, the mean of 1 / w is an
    unbiased estimate of 1 / p(x), and so an upper bound.

    Reference: Grosse, Ghahramani and Adams, "Sandwiching the marginal likelihood using bidirectional
    Monte Carlo", 2015.

    Args:
        key: random key.
        model: with ``simulate``.
        n: simulated data.
        proposal: a student from whose draws to fit the base; None anneals from the prior.
        chains: per datum.
        rungs: intermediate distributions.
        leapfrogs: steps of a transition.
        acceptance: wanted by the pilot run.
        batch: data at once.
    """
    walk = Walk(*_checked(chains, rungs, leapfrogs, acceptance))
    instance("model", Simulator, "LatentVariableModel(decoder, dim)", model)
    simulate, fitting, key = jax.random.split(random_key(key), 3)
    z, x = eqx.filter_jit(lambda model: model.simulate(simulate, whole("n", n)))(model)
    target: Target = model  # pyright: ignore[reportAssignmentType]
    base = _prior(model.dim, x)
    if proposal is not None:
        base = gaussian_base(fitting, target, x, proposal, batch=batch)

    def one(target, key, given):
        x, z, base = given
        density = _standard(target, x, base)
        there, back = jax.random.split(key)
        weights, steps = walk.forward(there, density, target.dim)
        returned = walk.backward(back, density, base.whiten(z), steps)
        lower = logsumexp(weights) - jnp.log(walk.chains)
        upper = jnp.log(walk.chains) - logsumexp(-returned)
        return Bounds(lower, upper, effective_draws(weights))

    return _over_conditions(one, (target,), key, (x, z, base), batch)


def gaussian_base(
    key: Key,
    target: Target,
    x: Condition,
    proposal: Student | None = None,
    *,
    chains: int = 32,
    transitions: int = 40,
    leapfrogs: int = 3,
    widening: float = 1.1,
    batch: int = 16,
) -> AffineMap:
    """A full Gaussian per condition, fitted to Hamiltonian chains that start at a student's draws.

    Args:
        key: random key.
        target: the model.
        x: conditions, one a row.
        proposal: the student; None starts at draws of N(0, I).
        chains: per condition.
        transitions: of every chain; the second half is used.
        leapfrogs: steps of a transition.
        widening: factor on the standard deviations.
        batch: conditions at once.
    """
    instance("target", Target, "LatentVariableModel(decoder, dim)", target)
    if proposal is not None:
        instance("proposal", Student, "GaussianEncoder(network, dim)", proposal)
    chains, half = whole("chains", chains, least=2), whole("transitions", transitions, least=2) // 2
    leapfrogs, widening = whole("leapfrogs", leapfrogs), one_positive("widening", widening)

    def one(target, proposal, key, x):
        draw, first, second = jax.random.split(key, 3)
        start = (
            jax.random.normal(draw, (chains, target.dim))
            if proposal is None
            else proposal.sample(draw, x, chains)
        )
        rough = AffineMap(start.mean(0), start.std(0) + 1e-3)
        density = _standard(target, x, rough)
        point = at(density, rough.whiten(start))
        point, step, _ = settle(first, density, point, FIRST_STEP, half, leapfrogs)
        *_, draws = settle(second, density, point, step, transitions - half, leapfrogs)
        # Chains are few and correlated, so a tenth of the correlations is given up.
        found = whitening(rough.colour(draws.reshape(-1, target.dim)), shrinkage=0.1)
        return found._replace(factor=widening * found.factor)

    return _over_conditions(one, (target, proposal), key, x, batch)


def _standard(target: Target, x: Condition, base: AffineMap) -> BoundLogDensity:
    return base.whitened(lambda z: target.log_density(z, x))


def _prior(dim: int, x: Condition) -> AffineMap:
    rows = _rows(x)
    return AffineMap(jnp.zeros((rows, dim)), jnp.broadcast_to(jnp.eye(dim), (rows, dim, dim)))


def _rows(x: Condition) -> int:
    leaves = jax.tree.leaves(x)
    arrays = [leaf for leaf in leaves if isinstance(leaf, jax.Array | np.ndarray)]
    counts = {leaf.shape[0] if leaf.ndim else 0 for leaf in arrays}
    if len(counts) != 1 or counts == {0} or len(arrays) < len(leaves):
        raise IngredientError(
            f"x holds conditions one by one: arrays with one row per condition; {shown(x)} came."
        )
    for leaf in arrays:
        number("x", leaf)
    return counts.pop()


def _added(total: Scalar, weights: Float[Array, " n"]) -> Scalar:
    return jnp.logaddexp(total, logsumexp(weights))


def _checked(chains: int, rungs: int, leapfrogs: int, acceptance: float) -> tuple[int, int, int, float]:
    fraction("acceptance", acceptance)
    return whole("chains", chains), whole("rungs", rungs), whole("leapfrogs", leapfrogs), acceptance


def _over_conditions(one: Callable, models: tuple, key: Key, x: Condition, batch: int):
    """``one(*models, key, x)`` for every row of ``x``, ``batch`` rows at a time, as one program."""
    keys = jax.random.split(random_key(key), _rows(x))
    size = min(whole("batch", batch), len(keys))

    @eqx.filter_jit
    def run(models, keys, x):
        models = tuple(map(prepared, models))
        return jax.lax.map(lambda given: partial(one, *models)(*given), (keys, x), batch_size=size)

    return run(models, keys, x)
