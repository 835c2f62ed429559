"""Models as they are written in the sciences: sports, ecology, pharmacy, insurance, psychology."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
from numpyro import distributions as dist
from numpyro.distributions import constraints

from understudy.targets.density import LogDensity
from understudy.targets.numpyro import from_numpyro

from ..case import Case


def _rng(seed):
    return np.random.default_rng(seed)


def _vector(name, prior, size):
    return numpyro.sample(name, prior.expand([size]).to_event(1))


def paired_comparisons(first, second, won, players):
    """Bradley and Terry: who wins depends on the difference of two abilities."""
    spread = numpyro.sample("spread", dist.HalfNormal(1))
    ability = _vector("ability", dist.Normal(0, 1), players) * spread
    numpyro.sample("won", dist.Bernoulli(logits=ability[first] - ability[second]), obs=won)


def _paired_comparisons():
    rng, players = _rng(1201), 12
    ability = rng.normal(size=players)
    first = rng.integers(0, players, 150)
    second = (first + rng.integers(1, players, 150)) % players
    won = rng.uniform(size=150) < 1 / (1 + np.exp(ability[second] - ability[first]))
    return from_numpyro(paired_comparisons, first, second, won.astype(float), players)


def batting_averages(hits, at_bats):
    """Shares of many players around a common one, centred; the size of the pool has a heavy tail."""
    share = numpyro.sample("share", dist.Uniform(0, 1))
    size = numpyro.sample("size", dist.Pareto(1.0, 1.5))
    with numpyro.plate("players", len(hits)):
        own = numpyro.sample("own", dist.Beta(share * size, (1 - share) * size))
        numpyro.sample("hits", dist.Binomial(at_bats, own), obs=hits)


def _batting_averages():
    rng = _rng(1202)
    at_bats = rng.integers(20, 90, 18)
    return from_numpyro(batting_averages, rng.binomial(at_bats, rng.beta(27, 73, 18)), at_bats)


def capture_recapture(histories):
    """Survival and recapture of marked animals (Cormack, Jolly, Seber), their deaths summed out."""
    times = histories.shape[1]
    survival = _vector("survival", dist.Uniform(0, 1), times - 1)
    capture = _vector("capture", dist.Uniform(0, 1), times - 1)
    never = [jnp.array(1.0)]
    for t in reversed(range(times - 1)):
        never.append(1 - survival[t] + survival[t] * (1 - capture[t]) * never[-1])
    never = jnp.stack(never[::-1])
    first = np.argmax(histories, 1)
    last = times - 1 - np.argmax(histories[:, ::-1], 1)
    alive = (np.arange(1, times) > first[:, None]) & (np.arange(1, times) <= last[:, None])
    seen = histories[:, 1:] == 1
    steps = jnp.log(survival) + jnp.where(seen, jnp.log(capture), jnp.log1p(-capture))
    numpyro.factor("histories", jnp.sum(jnp.where(alive, steps, 0.0)) + jnp.sum(jnp.log(never[last])))


def _capture_recapture():
    rng, animals, times = _rng(1203), 120, 6
    first = rng.integers(0, times - 1, animals)
    histories = np.zeros((animals, times), int)
    for i in range(animals):
        histories[i, first[i]] = 1
        for t in range(first[i] + 1, times):
            if rng.uniform() > 0.75:
                break
            histories[i, t] = rng.uniform() < 0.5
    return from_numpyro(capture_recapture, histories)


def growth_curves(age, size, tree):
    """Logistic growth of several trees: asymptotes differ, a middle and a scale are shared."""
    asymptote = numpyro.sample("asymptote", dist.Normal(200, 60))
    between = numpyro.sample("between", dist.HalfNormal(50))
    middle = numpyro.sample("middle", dist.Normal(700, 200))
    scale = numpyro.sample("scale", dist.LogNormal(6, 0.5))
    sigma = numpyro.sample("sigma", dist.HalfNormal(20))
    own = asymptote + between * _vector("own", dist.Normal(0, 1), int(tree.max()) + 1)
    mean = own[tree] / (1 + jnp.exp(-(age - middle) / scale))
    numpyro.sample("size", dist.Normal(mean, sigma), obs=size)


def _growth_curves():
    rng = _rng(1204)
    tree, age = np.repeat(np.arange(5), 7), np.tile([118, 484, 664, 1004, 1231, 1372, 1582], 5)
    own = 190 + 30 * rng.normal(size=5)
    size = own[tree] / (1 + np.exp(-(age - 720) / 350)) + 8 * rng.normal(size=35)
    return from_numpyro(growth_curves, age.astype(float), size, tree)


def dose_response(dose, response):
    """Four parameters of Hill's curve with noise in proportion to the mean."""
    bottom = numpyro.sample("bottom", dist.HalfNormal(1))
    top = numpyro.sample("top", dist.LogNormal(2, 1))
    half = numpyro.sample("half", dist.LogNormal(0, 2))
    slope = numpyro.sample("slope", dist.Gamma(3, 2))
    noise = numpyro.sample("noise", dist.HalfNormal(0.5))
    mean = bottom + top / (1 + (half / dose) ** slope)
    numpyro.sample("response", dist.LogNormal(jnp.log(mean), noise), obs=response)


def _dose_response():
    rng, dose = _rng(1205), np.repeat(np.logspace(-2, 2, 8), 2)
    mean = 0.4 + 8 / (1 + (1.5 / dose) ** 1.2)
    return from_numpyro(dose_response, dose, mean * np.exp(0.2 * rng.normal(size=16)))


def beta_regression(x, y):
    """Shares between 0 and 1, their mean and their precision both regressed."""
    mean = _vector("mean", dist.Normal(0, 2), x.shape[1])
    precision = _vector("precision", dist.Normal(0, 2), x.shape[1])
    share, size = jax.nn.sigmoid(x @ mean), jnp.exp(x @ precision)
    numpyro.sample("y", dist.Beta(share * size, (1 - share) * size), obs=y)


def _beta_regression():
    rng = _rng(1206)
    x = np.c_[np.ones(90), rng.normal(size=(90, 2))]
    share, size = 1 / (1 + np.exp(-x @ [0.5, 1, -0.4])), np.exp(x @ [2, 0.5, 0])
    return from_numpyro(beta_regression, x, rng.beta(share * size, (1 - share) * size))


def covariance_with_gaps(y, seen):
    """A covariance matrix of five columns, a fifth of whose numbers are missing and drawn."""
    d = y.shape[1]
    mean = _vector("mean", dist.Normal(0, 3), d)
    scale = _vector("scale", dist.HalfNormal(2), d)
    root = numpyro.sample("root", dist.LKJCholesky(d, 2.0))
    gaps = _vector("gaps", dist.Normal(0, 10).mask(False), int((~seen).sum()))
    full = jnp.asarray(y).at[np.nonzero(~seen)].set(gaps)
    numpyro.sample("y", dist.MultivariateNormal(mean, scale_tril=scale[:, None] * root), obs=full)


def _covariance_with_gaps():
    rng = _rng(1207)
    y = rng.normal(size=(40, 5)) @ rng.normal(size=(5, 5)) + np.arange(5)
    return from_numpyro(covariance_with_gaps, y, rng.uniform(size=y.shape) > 0.2)


def measurement_error(x, y):
    """A regression on a covariate that is itself measured with noise."""
    centre = numpyro.sample("centre", dist.Normal(0, 5))
    spread = numpyro.sample("spread", dist.HalfNormal(3))
    true = _vector("true", dist.Normal(centre, spread), len(x))
    slope = numpyro.sample("slope", dist.Normal(0, 2))
    intercept = numpyro.sample("intercept", dist.Normal(0, 5))
    sigma = numpyro.sample("sigma", dist.HalfNormal(2))
    numpyro.sample("x", dist.Normal(true, 0.7), obs=x)
    numpyro.sample("y", dist.Normal(intercept + slope * true, sigma), obs=y)


def _measurement_error():
    rng = _rng(1208)
    true = 2 + 1.5 * rng.normal(size=30)
    y = 1 + 0.8 * true + 0.5 * rng.normal(size=30)
    return from_numpyro(measurement_error, true + 0.7 * rng.normal(size=30), y)


def neighbouring_counts(counts, expected, edges):
    """Disease counts of areas on a grid: an intrinsic autoregression that sums to nearly zero."""
    alpha = numpyro.sample("alpha", dist.Normal(0, 1))
    scale = numpyro.sample("scale", dist.HalfNormal(1))
    own = _vector("own", dist.Normal(0, 10).mask(False), len(counts))
    numpyro.factor("edges", -0.5 * jnp.sum((own[edges[:, 0]] - own[edges[:, 1]]) ** 2))
    numpyro.factor("sum", dist.Normal(0, 0.001 * len(counts)).log_prob(own.sum()))
    numpyro.sample("counts", dist.Poisson(expected * jnp.exp(alpha + scale * own)), obs=counts)


def _neighbouring_counts():
    rng, side = _rng(1209), 6
    place = np.arange(side * side).reshape(side, side)
    edges = np.r_[
        np.c_[place[:, :-1].ravel(), place[:, 1:].ravel()],
        np.c_[place[:-1].ravel(), place[1:].ravel()],
    ]
    risk = 0.5 * np.sin(place.ravel() / 6) + 0.2 * rng.normal(size=side * side)
    expected = rng.uniform(2, 12, side * side)
    return from_numpyro(neighbouring_counts, rng.poisson(expected * np.exp(risk)), expected, edges)


def large_losses(y):
    """Losses beyond a threshold: a generalised Pareto, whose support depends on its parameters."""
    scale = numpyro.sample("scale", dist.LogNormal(0, 1))
    shape = numpyro.sample("shape", dist.Normal(0, 0.3))
    inside = 1 + shape * y / scale
    small = jnp.abs(shape) < 1e-6
    safe = jnp.where(small, 1.0, shape)
    logs = jnp.where(small, y / scale, (1 / safe + 1) * jnp.log(jnp.maximum(inside, 1e-30)))
    numpyro.factor("y", jnp.where((inside > 0).all(), -len(y) * jnp.log(scale) - logs.sum(), -jnp.inf))


def _large_losses():
    rng = _rng(1210)
    return from_numpyro(large_losses, 1.3 * ((1 - rng.uniform(size=60)) ** -0.1 - 1) / 0.1)


def directions(angle):
    """Angles around a circle: a von Mises distribution by the two coordinates of its mean."""
    mean = _vector("mean", dist.Normal(0, 3), 2)
    size = jnp.sqrt(jnp.sum(mean**2))
    turned = mean[0] * jnp.cos(angle) + mean[1] * jnp.sin(angle)
    log_bessel = jnp.log(jax.scipy.special.i0e(size)) + size
    numpyro.factor("angle", jnp.sum(turned) - len(angle) * log_bessel)


def _directions():
    return from_numpyro(directions, _rng(1211).vonmises(2.5, 1.2, 40))


def reaction_times(seconds, subject):
    """Shifted log-normal times of several subjects; every shift lies below the fastest time."""
    fastest = np.array([seconds[subject == i].min() for i in range(int(subject.max()) + 1)])
    count = len(fastest)
    middle = numpyro.sample("middle", dist.Normal(-1, 1))
    between = numpyro.sample("between", dist.HalfNormal(0.5))
    own = middle + between * _vector("own", dist.Normal(0, 1), count)
    sigma = numpyro.sample("sigma", dist.HalfNormal(1))
    share = _vector("share", dist.Beta(4, 2), count)
    numpyro.factor(
        "seconds",
        dist.LogNormal(own[subject], sigma).log_prob(seconds - (share * fastest)[subject]).sum(),
    )


def _reaction_times():
    rng, subject = _rng(1212), np.repeat(np.arange(8), 25)
    own = -1 + 0.3 * rng.normal(size=8)
    return from_numpyro(
        reaction_times, 0.25 + np.exp(own[subject] + 0.4 * rng.normal(size=200)), subject
    )


def factor_scores(y):
    """One factor behind six measurements, its first loading positive."""
    rows, columns = y.shape
    first = numpyro.sample("first", dist.HalfNormal(1))
    others = _vector("others", dist.Normal(0, 1), columns - 1)
    loading = jnp.concatenate([first[None], others])
    scale = _vector("scale", dist.HalfNormal(1), columns)
    score = _vector("score", dist.Normal(0, 1), rows)
    numpyro.sample("y", dist.Normal(score[:, None] * loading, scale), obs=y)


def _factor_scores():
    rng = _rng(1213)
    score, loading = rng.normal(size=(50, 1)), np.array([0.9, 0.7, -0.5, 0.8, 0.3, 0.6])
    return from_numpyro(factor_scores, score * loading + 0.5 * rng.normal(size=(50, 6)))


def stretched_box():
    """A product of a Laplace, a logistic, a beta and a log-normal, each in units of its own."""

    def log_density(a, b, c, e):
        return (
            dist.Laplace(50_000.0, 300.0).log_prob(a)
            + dist.Logistic(-0.002, 1e-4).log_prob(b)
            + dist.Beta(0.7, 3.0).log_prob(c)
            + dist.LogNormal(10.0, 1.2).log_prob(e)
        )

    sites = {"a": (), "b": (), "c": constraints.unit_interval, "e": constraints.positive}
    return LogDensity(log_density, sites)


def _stretched_draws(rng, n):
    c, e = rng.beta(0.7, 3.0, n), 10 + 1.2 * rng.normal(size=n)
    c = np.clip(c, 1e-300, 1 - 1e-16)
    return np.c_[rng.laplace(50_000, 300, n), rng.logistic(-0.002, 1e-4, n), np.log(c / (1 - c)), e]


CASES = [
    Case("paired_comparisons", "applied", 13, _paired_comparisons, held_out=True),
    Case("batting_averages", "applied", 20, _batting_averages, held_out=True),
    Case("capture_recapture", "applied", 10, _capture_recapture, held_out=True),
    Case("growth_curves", "applied", 10, _growth_curves, held_out=True),
    Case("dose_response", "applied", 5, _dose_response, held_out=True),
    Case("beta_regression", "applied", 6, _beta_regression, held_out=True),
    Case("covariance_with_gaps", "applied", 66, _covariance_with_gaps, held_out=True),
    Case("measurement_error", "applied", 35, _measurement_error, held_out=True),
    Case("neighbouring_counts", "applied", 38, _neighbouring_counts, held_out=True),
    Case("large_losses", "applied", 2, _large_losses, held_out=True),
    Case("directions", "applied", 2, _directions, held_out=True),
    Case("reaction_times", "applied", 19, _reaction_times, held_out=True),
    Case("factor_scores", "applied", 62, _factor_scores, held_out=True),
    Case("stretched_box", "applied", 4, stretched_box, draws=_stretched_draws, held_out=True),
]
