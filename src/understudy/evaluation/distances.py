"""How far two sets of draws are apart, and whether draws cover the modes of a target."""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, ArrayLike, Bool, Float, Scalar

from understudy.checks import one_of
from understudy.core import IngredientError, Key
from understudy.evaluation.border import of_draws
from understudy.evaluation.kernels import chosen_kernel
from understudy.numerics import map_rows, squared_distances, whitening


@of_draws("a", axes=1)
@of_draws("b", axes=1)
@jax.jit
def wasserstein_1(a: Float[Array, " n"], b: Float[Array, " m"]) -> Scalar:
    """The exact 1-Wasserstein distance of two sets of numbers: the area between their distributions.

    W1 = integral |F_a(t) - F_b(t)| dt; the sets may have different sizes.

    Examples:
        >>> import jax
        >>> from understudy.evaluation import wasserstein_1
        >>> a, b = jax.random.normal(jax.random.key(0), (2, 500, 2))
        >>> float(wasserstein_1(a[:, 0], a[:, 0] + 2).round(3))
        2.0
    """
    if a.size == b.size:
        return jnp.abs(jnp.sort(a) - jnp.sort(b)).mean()
    a, b, both = jnp.sort(a), jnp.sort(b), jnp.sort(jnp.concatenate([a, b]))
    below_a, below_b = (
        jnp.searchsorted(s, both[:-1], side="right", method="sort") / s.size for s in (a, b)
    )
    return jnp.sum(jnp.abs(below_a - below_b) * jnp.diff(both))


@of_draws("a", "b")
@jax.jit
def marginal_wasserstein_1(a: Float[Array, "n d"], b: Float[Array, "m d"]) -> Float[Array, " d"]:
    """:func:`wasserstein_1` of every coordinate.

    Examples:
        >>> import jax
        >>> from understudy.evaluation import marginal_wasserstein_1
        >>> a, b = jax.random.normal(jax.random.key(0), (2, 500, 2))
        >>> marginal_wasserstein_1(a, a + 1).round(3).tolist()
        [1.0, 1.0]
    """
    return jax.vmap(wasserstein_1, in_axes=1)(a, b)


@of_draws("a", "b")
@partial(jax.jit, static_argnames=("directions",))
def sliced_wasserstein(
    key: Key, a: Float[Array, "n d"], b: Float[Array, "m d"], directions: int = 128
) -> Scalar:
    """The mean of :func:`wasserstein_1` over random directions.

    Reference: Rabin et al., "Wasserstein Barycenter and its Application to Texture Mixing", 2011.

    Examples:
        >>> import jax
        >>> from understudy.evaluation import sliced_wasserstein
        >>> a, b = jax.random.normal(jax.random.key(0), (2, 500, 2))
        >>> bool(sliced_wasserstein(jax.random.key(1), a, b) < 0.2)
        True
    """
    normals = jax.random.normal(key, (directions, a.shape[1]), a.dtype)
    units = normals / jnp.linalg.norm(normals, axis=1, keepdims=True)
    return jax.lax.map(lambda u: wasserstein_1(a @ u, b @ u), units).mean()


@of_draws("a", "b")
@partial(jax.jit, static_argnames=("kernel", "statistic", "squared"))
def maximum_mean_discrepancy(
    a: Float[Array, "n d"],
    b: Float[Array, "m d"],
    kernel: str = "gaussian",
    bandwidth: ArrayLike | None = None,
    statistic: str = "v",
    squared: bool = False,
) -> Scalar:
    """How far two sets of draws are apart as the largest difference of means of smooth functions.

    MMD^2 = E k(a, a') + E k(b, b') - 2 E k(a, b).

    Args:
        a: draws of one distribution.
        b: draws of another.
        kernel: "gaussian", exp(-r^2 / 2h^2), or "imq", (1 + r^2/h^2)^(-1/2).
        bandwidth: h; None means the median distance of the pooled draws, or 1 for "imq".
        statistic: "v" takes all pairs; "u" leaves a draw's pair with itself out, which is without bias
            before the root and may be negative there.
        squared: MMD^2, rather than its root, which is zero where that is negative.

    Reference: Gretton et al., "A Kernel Two-Sample Test", 2012.

    Examples:
        >>> import jax
        >>> from understudy.evaluation import maximum_mean_discrepancy
        >>> a, b = jax.random.normal(jax.random.key(0), (2, 500, 2))
        >>> bool(maximum_mean_discrepancy(a, b) < maximum_mean_discrepancy(a, b + 1))
        True
    """
    radial = chosen_kernel(kernel, bandwidth, jnp.concatenate([a, b]))
    value = _contrast(a, b, radial, statistic)
    return value if squared else jnp.sqrt(jnp.maximum(value, 0))


@of_draws("a", "b")
@partial(jax.jit, static_argnames=("statistic",))
def energy_distance(a: Float[Array, "n d"], b: Float[Array, "m d"], statistic: str = "u") -> Scalar:
    """2 E|a - b| - E|a - a'| - E|b - b'|, zero only where the two distributions are the same.

    Args:
        a: draws of one distribution.
        b: draws of another.
        statistic: "u" leaves a draw's pair with itself out and is without bias (it may be negative);
            "v" takes all pairs.

    Reference: Székely and Rizzo, "Energy Statistics", 2013.

    Examples:
        >>> import jax
        >>> from understudy.evaluation import energy_distance
        >>> a, b = jax.random.normal(jax.random.key(0), (2, 500, 2))
        >>> bool(energy_distance(a, b) < energy_distance(a, b + 1))
        True
    """
    return _contrast(a, b, lambda square: -jnp.sqrt(square), statistic)


def _contrast(a: Array, b: Array, kernel: Callable[[Array], Array], statistic: str) -> Scalar:
    unbiased = one_of("statistic", ("u", "v"), statistic) == "u"
    within = sum(_mean_within(s, kernel, unbiased) for s in (a, b))
    return within - 2 * _row_means(a, b, kernel).mean()


def _mean_within(a: Array, kernel: Callable[[Array], Array], unbiased: bool) -> Scalar:
    n, mean = a.shape[0], _row_means(a, a, kernel).mean()
    return (n * mean - kernel(jnp.zeros(()))) / (n - 1) if unbiased else mean


def _row_means(a: Array, b: Array, kernel: Callable[[Array], Array]) -> Array:
    return map_rows(lambda z: kernel(jnp.sum((z - b) ** 2, -1)).mean(), a, b.size)


@of_draws("a", "b")
@partial(jax.jit, static_argnames=("permutations",))
def energy_permutation_test(
    key: Key, a: Float[Array, "n d"], b: Float[Array, "m d"], permutations: int = 199
) -> Scalar:
    """The p-value of the energy distance among those of random divisions of the pooled draws.

    Draws within each set must be independent. With w = 1/n on one part and -1/m on the other the
    distance is - w' D w, so all divisions share the distances D.

    Examples:
        >>> import jax
        >>> from understudy.evaluation import energy_permutation_test
        >>> a, b = jax.random.normal(jax.random.key(0), (2, 500, 2))
        >>> bool(energy_permutation_test(jax.random.key(1), a, b + 1) < 0.01)
        True
    """
    z = jnp.concatenate([a, b])
    signed = jnp.concatenate([jnp.full(len(a), 1 / len(a)), jnp.full(len(b), -1 / len(b))])
    shuffled = jax.vmap(lambda k: jax.random.permutation(k, signed))(jax.random.split(key, permutations))
    weights = jnp.concatenate([signed[None], shuffled]).T

    def row(inputs: tuple[Array, Array]) -> Array:
        point, weight = inputs
        return -weight * (jnp.linalg.norm(point - z, axis=-1) @ weights)

    distances = map_rows(row, (z, weights), z.size).sum(0)
    return (distances >= distances[0]).mean()


class ModeReport(NamedTuple):
    """What draws make of each mode.

    Attributes:
        weights: the share of the draws that belongs to each mode.
        covered: whether that share is large enough.
        variances: the variance of each coordinate within the mode, NaN where no draw belongs to it.
    """

    weights: Float[Array, " m"]
    covered: Bool[Array, " m"]
    variances: Float[Array, "m d"]


@of_draws("z", "centres")
@jax.jit
def mode_report(
    z: Float[Array, "n d"],
    centres: Float[Array, "m d"],
    radius: ArrayLike | None = None,
    smallest_share: ArrayLike | None = None,
) -> ModeReport:
    """Which modes the draws cover, with which weights and variances.

    Args:
        z: the draws.
        centres: the modes; a draw belongs to the nearest one.
        radius: draws further than this from every mode belong to none; None means no limit.
        smallest_share: a mode is covered if at least this share of the draws belongs to it; None
            means a twentieth of an even share, 0.05 / m.

    Examples:
        >>> import jax
        >>> from understudy.evaluation import mode_report
        >>> from understudy.targets import two_gaussians
        >>> target = two_gaussians()
        >>> z = target.sample(jax.random.key(0), 10_000)
        >>> mode_report(z, target.means).weights.round(1).tolist()
        [0.5, 0.5]
    """
    squares = squared_distances(z, centres)
    inside = squares.min(1) <= (jnp.inf if radius is None else jnp.asarray(radius) ** 2)
    belongs = jax.nn.one_hot(squares.argmin(1), len(centres)) * inside[:, None]
    counts = belongs.sum(0)
    share = 0.05 / len(centres) if smallest_share is None else smallest_share
    means = (belongs.T @ z) / counts[:, None]
    residuals = z - jnp.where(counts[:, None] > 0, means, 0)[squares.argmin(1)]
    return ModeReport(
        counts / len(z), counts >= share * len(z), (belongs.T @ residuals**2) / counts[:, None]
    )


@of_draws("a", "b")
@partial(jax.jit, static_argnames=("folds", "steps", "batch"))
def classifier_two_sample(
    key: Key,
    a: Float[Array, "n d"],
    b: Float[Array, "m d"],
    folds: int = 5,
    steps: int = 1000,
    batch: int = 256,
) -> Scalar:
    """How often a small network tells the two sets apart: 0.5 if they are the same, 1 if never alike.

    The accuracy (mean over both sets) of a perceptron with two hidden layers of 64, on draws that
    it has not seen, averaged over ``folds`` divisions.

    Args:
        key: random key for division, weights and minibatches.
        a: draws of one distribution.
        b: draws of another.
        folds: number of divisions.
        steps: updates of each network.
        batch: draws of each update, half of them from either set.

    Reference: Lopez-Paz and Oquab, "Revisiting Classifier Two-Sample Tests", 2017.

    Examples:
        >>> import jax
        >>> from understudy.evaluation import classifier_two_sample
        >>> a, b = jax.random.normal(jax.random.key(0), (2, 500, 2))
        >>> bool(classifier_two_sample(jax.random.key(1), a, b, steps=100) < 0.65)
        True
    """
    smaller = min(len(a), len(b))
    if not 2 <= folds <= smaller:
        raise IngredientError(
            f"folds lies between 2 and the size of the smaller set, {smaller}; {folds} came."
        )
    key, start, shuffle = jax.random.split(key, 3)
    network = eqx.nn.MLP(a.shape[1], "scalar", 64, 2, key=start)
    a, b = _shuffle_and_standardise(shuffle, a, b)
    picks = jax.random.randint(key, (steps, 2, batch // 2), 0, 2**31 - 1)

    def accuracy(fold: Array) -> Scalar:
        (test_a, train_a), (test_b, train_b) = (_divide(rows, fold, folds) for rows in (a, b))
        trained = jax.vmap(_train_classifier(network, train_a, train_b, picks))
        return ((trained(test_a) > 0).mean() + (trained(test_b) <= 0).mean()) / 2

    return jax.lax.map(accuracy, jnp.arange(folds)).mean()


def _shuffle_and_standardise(key: Key, a: Array, b: Array) -> tuple[Array, Array]:
    standard = whitening(jnp.concatenate([a, b]), full=False)
    first, second = (
        jax.random.permutation(k, standard.whiten(rows))
        for k, rows in zip(jax.random.split(key), (a, b), strict=True)
    )
    return first, second


def _divide(rows: Array, fold: Array, folds: int) -> tuple[Array, Array]:
    size = len(rows) // folds
    rolled = jnp.roll(rows, -fold * size, axis=0)
    return rolled[:size], rolled[size:]


def _train_classifier(network: eqx.nn.MLP, a: Array, b: Array, picks: Array) -> eqx.nn.MLP:
    params, static = eqx.partition(network, eqx.is_inexact_array)
    optimiser = optax.adam(optax.cosine_decay_schedule(3e-3, len(picks)))

    def loss(params: eqx.nn.MLP, pick: Array) -> Scalar:
        trained = jax.vmap(eqx.combine(params, static))
        logits_a, logits_b = trained(a[pick[0] % len(a)]), trained(b[pick[1] % len(b)])
        return jax.nn.softplus(-logits_a).mean() + jax.nn.softplus(logits_b).mean()

    def step(carry: tuple, pick: Array) -> tuple[tuple, None]:
        params, memory = carry
        updates, memory = optimiser.update(jax.grad(loss)(params, pick), memory)
        return (optax.apply_updates(params, updates), memory), None

    (params, _), _ = jax.lax.scan(step, (params, optimiser.init(params)), picks)
    return eqx.combine(params, static)
