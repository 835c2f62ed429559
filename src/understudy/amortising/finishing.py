"""Exact at the end, data set by data set: the student's draws, then weights, then chains.

Everything is one program over data sets, so that a thousand of them cost little more than their draws.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Scalar

from understudy.amortising.observations import DataSet
from understudy.core import ExplicitStudent, Key, Target, bind
from understudy.devices import in_turn
from understudy.numerics import AffineMap, effective_draws, whitening
from understudy.teachers import IndependenceMetropolis, hmc
from understudy.teachers.preconditioned import Rescaled

# Weights so even, and that move means and deviations so little (in deviations), would change nothing.
EVEN, STILL = 0.95, 0.08
LARGEST_K, FINE_K = 0.7, 0.5
LARGEST_R_HAT = 1.1
# Draws that are weighed at least, and how many candidates there are to pick from.
FEWEST = 1024
_CANDIDATES = (2048, 4096, 16_384, 65_536)
_BLOCKS = (1, 4, 16, 64)
# Resampled draws should stand for as many independent ones as this share of them.
_WORTH = 1.5
_GROUPS, _CHAINS = 16, 256
_WARM, _KEPT = 20, 12
_STEPS = 8
# Moves of draws that were picked more than once.
_APART = 8
OFFERED = 1
# Draws from which the spread is first guessed, and of how many; chains begin at the first of them.
_STARTS, _PICKED_FROM = 512, 4096
# Draws that are weighed side by side, and numbers of data that they are held against.
_AT_ONCE, _NUMBERS_AT_ONCE = 2**15, 2**21


class Weighed(NamedTuple):
    """The student's draws for one data set, and what the target makes of them.

    Attributes:
        z: the draws.
        log_weights: smoothed log importance weights, normalised.
        pareto_k: the shape of the weights' tail; not a number without a likelihood.
        share: effective draws among them, as a share.
        moved: how far the weights move a mean or a deviation, in deviations of the draws.
    """

    z: Float[Array, "n d"]
    log_weights: Float[Array, " n"]
    pareto_k: Scalar
    share: Scalar
    moved: Scalar


@eqx.filter_jit
def weigh(key: Key, student: ExplicitStudent, target: Target | None, data: DataSet, n: int) -> Weighed:
    """Draw for every data set and weigh the draws by the target, if there is one."""

    def one(both):
        key, x = both
        z, log_q = student.sample_and_log_prob(key, x, n)
        if target is None:
            none = jnp.full((), jnp.nan)
            return Weighed(z, jnp.full(n, -jnp.log(n)), none, none, none)
        log_p = _log_densities(target, z, x)
        log_weights = jnp.where(jnp.isfinite(log_p) & jnp.isfinite(log_q), log_p - log_q, -jnp.inf)
        smooth, k = pareto_smooth(log_weights)
        return Weighed(z, smooth, k, effective_draws(smooth) / n, _moved(z, jnp.exp(smooth)))

    count = jax.tree.leaves(data)[0].shape[0]
    keys = jax.random.split(key, count)
    at_once = max(1, min(_AT_ONCE // n, _NUMBERS_AT_ONCE // (n * max(1, _numbers(data) // count))))
    if count <= at_once:
        return jax.vmap(lambda *both: one(both))(keys, data)
    return jax.lax.map(one, (keys, data), batch_size=at_once)


def _log_densities(target: Target, z: Float[Array, "n d"], x: DataSet) -> Float[Array, " n"]:
    """The log density of every draw, a part of them at a time where the data set is large."""
    side_by_side = max(1, _NUMBERS_AT_ONCE // max(1, _numbers(x)))
    if len(z) <= side_by_side:
        return jax.vmap(lambda z: target.log_density(z, x))(z)
    return jax.lax.map(lambda z: target.log_density(z, x), z, batch_size=side_by_side)


def _numbers(data: DataSet) -> int:
    """How many numbers were observed, padding included."""
    return sum(np.size(value) for value in data.values.values())


def _moved(z: Float[Array, "n d"], weights: Float[Array, " n"]) -> Scalar:
    mean, deviation = z.mean(0), z.std(0) + 1e-12
    weighted = weights @ z
    spread = jnp.sqrt(weights @ (z - weighted) ** 2)
    return jnp.maximum(jnp.abs(weighted - mean) / deviation, jnp.abs(spread / deviation - 1)).max()


def pareto_smooth(log_weights: Float[Array, " n"]) -> tuple[Float[Array, " n"], Scalar]:
    """Normalised log weights with a smoothed tail, and the tail's shape k, in JAX.

    The same figures as :func:`understudy.evaluation.trust.weights.pareto_smoothed`, for many data sets
    in one program. Where no weight is finite, k is infinite.

    Reference: Vehtari et al., "Pareto Smoothed Importance Sampling", 2024; Zhang and Stephens, "A New
    and Efficient Estimation Method for the Generalized Pareto Distribution", 2009.
    """
    n = log_weights.shape[0]
    tail = int(np.ceil(min(0.2 * n, 3 * np.sqrt(n))))
    top = log_weights.max()
    usable = jnp.isfinite(top)
    lowered = jnp.maximum(jnp.where(usable, log_weights - top, 0.0), -80.0)
    order = jnp.argsort(lowered)
    ordered = lowered[order]
    cutoff = ordered[n - tail - 1]
    excess = jnp.exp(ordered[n - tail :]) - jnp.exp(cutoff)
    k, sigma = _fit_pareto(jnp.maximum(excess, 1e-30))
    levels = (jnp.arange(tail) + 0.5) / tail
    quantiles = sigma * jnp.expm1(-k * jnp.log1p(-levels)) / jnp.where(k == 0, 1.0, k)
    smooth = jnp.minimum(jnp.log(quantiles + jnp.exp(cutoff)), 0.0)
    # Weights that are equal, to rounding, have no tail to fit.
    flat = (excess[-1] < 1e-3) | ~jnp.isfinite(k)
    smooth = jnp.where(flat | ~jnp.isfinite(smooth), ordered[n - tail :], smooth)
    result = jnp.zeros(n).at[order].set(jnp.concatenate([ordered[: n - tail], smooth]))
    shape = jnp.where(usable, jnp.where(flat, 0.0, k), jnp.inf)
    return result - jax.nn.logsumexp(result), shape


def _fit_pareto(excess: Float[Array, " m"]) -> tuple[Scalar, Scalar]:
    """Shape and scale of a generalised Pareto distribution, from sorted excesses."""
    m = excess.shape[0]
    grid = 30 + int(m**0.5)
    b = 1 - jnp.sqrt(grid / (jnp.arange(1, grid + 1) - 0.5))
    b = b / (3 * excess[int(m / 4 + 0.5) - 1]) + 1 / excess[-1]
    k = jax.vmap(lambda b: jnp.log1p(-b * excess).mean())(b)
    likelihood = m * (jnp.log(-b / k) - k - 1)
    weight = jax.nn.softmax(jnp.where(jnp.isfinite(likelihood), likelihood, -jnp.inf))
    best = jnp.sum(jnp.where(weight > 0, weight * b, 0.0))
    shape = jnp.log1p(-best * excess).mean()
    return (m * shape + 5) / (m + 10), -shape / best


@eqx.filter_jit
def resample(key: Key, weighed: Weighed, n: int) -> Float[Array, "s n d"]:
    """Pick ``n`` of the draws of every data set by their weights, evenly (systematic)."""

    def one(key, z, log_weights):
        first, second = jax.random.split(key)
        points = (jnp.arange(n) + jax.random.uniform(first)) / n
        places = jnp.searchsorted(jnp.cumsum(jnp.exp(log_weights)), points)
        return z[jax.random.permutation(second, jnp.minimum(places, len(z) - 1))]

    keys = jax.random.split(key, weighed.z.shape[0])
    return jax.vmap(one)(keys, weighed.z, weighed.log_weights)


class Chained(NamedTuple):
    """Where chains ended for every data set.

    Attributes:
        z: their last states.
        r_hat: nested R-hat, the largest of all coordinates.
        acceptance: of Hamiltonian moves.
    """

    z: Float[Array, "s m d"]
    r_hat: Float[Array, " s"]
    acceptance: Float[Array, " s"]


@eqx.filter_jit
def run_chains(
    key: Key,
    student: ExplicitStudent,
    target: Target,
    data: DataSet,
    starts: Float[Array, "s g d"],
    kept: int,
) -> Chained:
    """Short Hamiltonian chains with offers of the student in between, side by side for all data sets.

    ``starts`` are the places where groups of chains begin; nested R-hat compares the groups. The last
    ``kept`` states of every chain are given.
    """

    def one(both):
        key, x, start = both
        return _chains(key, student, target, x, start, kept)

    keys = jax.random.split(key, starts.shape[0])
    return Chained(*jax.lax.map(one, (keys, data, starts)))


def _chains(
    key: Key, student: ExplicitStudent, target: Target, x: DataSet, start: Array, kept: int
) -> tuple:
    z = jnp.repeat(start[:_GROUPS], _CHAINS // _GROUPS, 0)
    step, d = _mover(student, target, x), start.shape[1]
    keys = jax.random.split(key, 2 * _WARM + kept)
    carry, _ = jax.lax.scan(step, (z, _hamiltonian(d), *_spread(start)), keys[:_WARM])
    carry = (carry[0], carry[1], *_spread(carry[0]))
    carry, _ = jax.lax.scan(step, carry, keys[_WARM : 2 * _WARM])
    _, (trace, rates) = jax.lax.scan(step, carry, keys[2 * _WARM :])
    return trace.reshape(-1, d), nested_r_hat(trace, _GROUPS), rates.mean()


def _mover(student: ExplicitStudent, target: Target, x: DataSet) -> Callable:
    """One Hamiltonian move and one offer of the student for every chain, as a step of a scan."""
    offers, proposal = IndependenceMetropolis(OFFERED), bind(student, x)
    log_density = lambda z: target.log_density(z, x)  # noqa: E731

    def step(carry, key):
        z, inner, mean, factor = carry
        first, second = jax.random.split(key)
        moved = Rescaled(inner, mean, factor).improve(first, log_density, z, proposal)
        z = jnp.where(moved.finite[:, None], moved.z, z)
        offered = offers.improve(second, log_density, z, proposal)
        z = jnp.where(offered.finite[:, None], offered.z, z)
        rate = jnp.nan_to_num(moved.acceptance).mean()
        return (z, inner.adapt(rate), mean, factor), (z, rate)

    return step


def _hamiltonian(d: int) -> Any:
    settings: dict[str, Any] = {"target_acceptance": 0.8, "rate": 0.2, "jitter": 0.5}
    return hmc(0.5 / d**0.25, _STEPS, largest_step=1.2, **settings)


def _spread(z: Float[Array, "n d"]) -> AffineMap:
    return whitening(z, jnp.isfinite(z).all(-1), z.shape[1] / sum(z.shape))


@eqx.filter_jit
def refresh(
    key: Key, student: ExplicitStudent, target: Target, data: DataSet, z: Float[Array, "s n d"]
) -> Float[Array, "s n d"]:
    """Move draws that were picked several times over apart, as many chains as there are draws.

    Reference: Gilks and Berzuini, "Following a Moving Target", 2001.
    """
    _, n, d = z.shape
    rows = jnp.arange(-(-n // _CHAINS) * _CHAINS) % n

    def one(both):
        key, x, z = both
        step, frame = _mover(student, target, x), _spread(z)

        def block(both):
            key, z = both
            start, keys = (z, _hamiltonian(d), *frame), jax.random.split(key, _APART)
            return jax.lax.scan(step, start, keys)[0][0]

        blocks = z[rows].reshape(-1, _CHAINS, d)
        moved = jax.lax.map(block, (jax.random.split(key, len(blocks)), blocks))
        return moved.reshape(-1, d)[:n]

    return jax.lax.map(one, (jax.random.split(key, len(z)), data, z))


def nested_r_hat(trace: Float[Array, "t m d"], groups: int) -> Scalar:
    """Nested R-hat of chains that began in groups, the largest of all coordinates and their sizes.

    Reference: Margossian et al., "Nested R-hat", 2024.
    """
    centred = trace - trace.mean((0, 1))
    values = jnp.concatenate([trace, jnp.abs(centred)], -1)
    t, m, c = values.shape
    grouped = values.reshape(t, groups, m // groups, c)
    means = grouped.mean(0)
    within_chains = grouped.var(0, ddof=1).mean((0, 1))
    between_chains = means.var(1, ddof=1).mean(0)
    between_groups = means.mean(1).var(0, ddof=1)
    r_hat = jnp.sqrt(1 + between_groups / jnp.maximum(within_chains + between_chains, 1e-30))
    return jnp.where(jnp.isfinite(r_hat), r_hat, jnp.inf).max()


class Finished(NamedTuple):
    """Draws for every data set and how they came about, before they are given names.

    Attributes:
        z: flat draws.
        route: 0 for the student's own, 1 for weights, 2 for chains.
        pareto_k: of the student's weights; not a number without a likelihood.
        share: effective draws of them, as a share.
        moved: how far the weights move a mean or a deviation, in deviations.
        r_hat: of the chains, one where there were none.
        likelihoods: evaluations of the log density spent, without a gradient.
        gradients: evaluations of its gradient.
    """

    z: Float[np.ndarray, "s n d"]
    route: Int[np.ndarray, " s"]
    pareto_k: Float[np.ndarray, " s"]
    share: Float[np.ndarray, " s"]
    moved: Float[np.ndarray, " s"]
    r_hat: Float[np.ndarray, " s"]
    likelihoods: int
    gradients: int

    @property
    def trusted(self) -> Bool[np.ndarray, " s"]:
        """Which data sets' draws can be relied upon; without a likelihood none is known to be."""
        by_weights = (self.route < 2) & (self.pareto_k < LARGEST_K)
        return by_weights | ((self.route == 2) & (self.r_hat < LARGEST_R_HAT))


def finish(key: Key, student: ExplicitStudent, target: Target | None, data: DataSet, n: int) -> Finished:
    """Draw ``n`` times for every data set, and correct the draws where the weights ask for it.

    Args:
        key: random key.
        student: draws first.
        target: log p(z, x); None leaves the draws as they are.
        data: the data sets, one a row.
        n: draws for each.
    """
    first, second, third = jax.random.split(key, 3)
    done = unfinished(first, student, target, data, n)
    if target is None:
        return done
    even = (done.pareto_k < FINE_K) & (done.share >= EVEN) & (done.moved <= STILL)
    done.route[~even] = np.where(done.pareto_k < LARGEST_K, 1, 2)[~even]
    done = _by_weights(second, student, target, data, n, done)
    return _by_chains(third, student, target, data, n, done)


def _by_weights(
    key: Key, student: ExplicitStudent, target: Target, data: DataSet, n: int, done: Finished
) -> Finished:
    """Candidates enough for every data set that needs them, and draws picked among them.

    Where there are not enough, the same draws are picked again and again; these are moved apart.
    """
    rows = np.flatnonzero(done.route == 1)
    wanted = _WORTH * n / np.maximum(done.share[rows], 1e-6)
    levels = [level for level in _CANDIDATES if level >= n] or [_CANDIDATES[-1]]
    level = np.minimum(np.searchsorted(levels, wanted), len(levels) - 1)
    for i in np.unique(level):
        chosen = rows[level == i]

        def picked(key, data, count=levels[i]):
            weighed = weigh(key, student, target, data, count)
            return resample(key, weighed, n), weighed.pareto_k, weighed.share

        done.z[chosen], done.pareto_k[chosen], done.share[chosen] = in_blocks(picked, key, data, chosen)
    done.route[rows[~(done.pareto_k[rows] < LARGEST_K)]] = 2
    counts = np.array(levels)[level]
    few = rows[(done.share[rows] * counts < n) & (done.route[rows] == 1)]
    done = done._replace(likelihoods=done.likelihoods + int(counts.sum()))
    return _apart(key, student, target, data, done, few) if len(few) else done


def _apart(
    key: Key,
    student: ExplicitStudent,
    target: Target,
    data: DataSet,
    done: Finished,
    rows: Int[np.ndarray, " r"],
) -> Finished:
    """Draws of some data sets, picked several times over, moved apart."""

    def moved(key, both):
        return (refresh(key, student, target, *both),)

    (done.z[rows],) = in_blocks(moved, key, (data, done.z), rows, blocks=(1,))
    moves = len(rows) * done.z.shape[1] * _APART
    return done._replace(
        likelihoods=done.likelihoods + moves * (OFFERED + 1),
        gradients=done.gradients + moves * _STEPS,
    )


def _by_chains(
    key: Key, student: ExplicitStudent, target: Target, data: DataSet, n: int, done: Finished
) -> Finished:
    """Short chains for every data set whose weights cannot be relied upon."""
    rows = np.flatnonzero(done.route == 2)
    if not len(rows):
        return done

    # As many states as there are draws: the same one several times over would be worth one.
    kept = max(_KEPT, -(-n // _CHAINS))

    def ran(key, data):
        weighed = weigh(key, student, target, data, _PICKED_FROM)
        return run_chains(key, student, target, data, resample(key, weighed, _STARTS), kept)

    ends, done.r_hat[rows], _ = in_blocks(ran, key, data, rows, blocks=(1,))
    done.z[rows] = ends[:, np.random.default_rng(0).permutation(ends.shape[1])[:n]]
    moves = len(rows) * _CHAINS * (2 * _WARM + kept)
    spent = moves * (OFFERED + 1) + len(rows) * _PICKED_FROM
    return done._replace(likelihoods=done.likelihoods + spent, gradients=done.gradients + moves * _STEPS)


def unfinished(
    key: Key, student: ExplicitStudent, target: Target | None, data: DataSet, n: int
) -> Finished:
    """The student's own draws for every data set, whatever their weights."""
    count, drawn = jax.tree.leaves(data)[0].shape[0], max(n, FEWEST)

    def weighed(key, data):
        found = weigh(key, student, target, data, drawn)
        return found.z[:, :n], found.pareto_k, found.share, found.moved

    z, k, share, moved = in_blocks(weighed, key, data, np.arange(count))
    spent = 0 if target is None else count * drawn
    return Finished(z, np.zeros(count, int), k, share, moved, np.ones(count), spent, 0)


def in_blocks(
    function: Any, key: Key, data: Any, rows: Int[np.ndarray, " r"], blocks: tuple[int, ...] = _BLOCKS
) -> Any:
    """``function(key, data)`` of some data sets, in blocks of few sizes so that little is compiled."""
    block = next(size for size in blocks if len(rows) <= size or size == blocks[-1])
    firsts = range(0, max(len(rows), 1), block)

    def run(_: int, first: int) -> Any:
        filled = np.resize(rows[first : first + block], block)
        return tuple(function(jax.random.fold_in(key, first), _taken(data, filled)))

    parts = [
        _taken(part, slice(0, len(rows) - first))
        for first, part in zip(firsts, in_turn(run, firsts), strict=True)
    ]
    return jax.tree.map(lambda *leaves: np.concatenate(leaves), *parts)


def _taken(tree: Any, rows: Any) -> Any:
    return jax.tree.map(lambda leaf: np.asarray(leaf)[rows], tree)
