"""Densities of awkward shape whose draws are known exactly."""

import jax.numpy as jnp
import numpy as np
from jax.scipy.special import logsumexp
from jax.scipy.stats import norm
from scipy import stats

from understudy.targets.density import LogDensity

from ..case import Case

_SCALES = 10.0 ** np.linspace(-8, 8, 10)
_FAR = 1000.0
_NARROW = 1e-4
_CORRELATION = 0.99
_TILTS = np.array([0.0, 0.0, 0.0, 0.0, 0.1, 0.2, -0.2, 0.3])
_WELL = np.linspace(-4.5, 4.5, 40001)


def _box(z):
    return jnp.where(jnp.all((z > 0) & (z < 1)), 0.0, -jnp.inf)


def _exponential(z):
    return jnp.where(z[0] > 0, -z[0], -jnp.inf)


def _half_normal(z):
    return jnp.where(jnp.all(z > 0), -0.5 * z @ z, -jnp.inf)


def _truncated(z):
    inside = jnp.all((z > jnp.array([0.5, -1.0, -jnp.inf])) & (z < jnp.array([jnp.inf, 0.3, 1.0])))
    return jnp.where(inside, -0.5 * z @ z, -jnp.inf)


def _truncated_draws(rng, n):
    low, high = np.array([0.5, -1.0, -np.inf]), np.array([np.inf, 0.3, 1.0])
    return stats.truncnorm.ppf(rng.uniform(size=(n, 3)), low, high)


def _cauchy(z):
    return -jnp.log1p(z[0] ** 2)


def _student(z):
    """A multivariate t with two degrees of freedom in three dimensions."""
    return -0.5 * (2 + 3) * jnp.log1p(z @ z / 2)


def _student_draws(rng, n):
    return rng.normal(size=(n, 3)) / np.sqrt(rng.chisquare(2, size=(n, 1)) / 2)


def _funnel(z):
    return norm.logpdf(z[0], 0, 3) + norm.logpdf(z[1:], 0, jnp.exp(z[0] / 2)).sum()


def _funnel_draws(rng, n):
    first = 3 * rng.normal(size=(n, 1))
    return np.concatenate([first, np.exp(first / 2) * rng.normal(size=(n, 9))], 1)


def _banana(z):
    return norm.logpdf(z[0], 0, 2) + norm.logpdf(z[1], 0.5 * (z[0] ** 2 - 4), 1)


def _banana_draws(rng, n):
    first = 2 * rng.normal(size=n)
    return np.stack([first, 0.5 * (first**2 - 4) + rng.normal(size=n)], 1)


def _ring(z):
    """A ring of radius three whose squared radius is Gaussian."""
    return norm.logpdf(z @ z, 9.0, 1.8)


def _ring_draws(rng, n):
    radius = np.sqrt(stats.truncnorm.ppf(rng.uniform(size=n), -5.0, np.inf, 9.0, 1.8))
    angle = rng.uniform(0, 2 * np.pi, n)
    return radius[:, None] * np.stack([np.cos(angle), np.sin(angle)], 1)


def _scales(z):
    return -0.5 * jnp.sum((z / _SCALES) ** 2)


def _far(z):
    return -0.5 * jnp.sum(((z - _FAR) / _NARROW) ** 2)


def _wells(z):
    """A product of eight double wells, the last four tilted so that their sides weigh unequally."""
    return jnp.sum(-2.0 * (z**2 / 2 - 1.5) ** 2 + jnp.asarray(_TILTS) * z)


def _wells_draws(rng, n):
    columns = []
    for tilt in _TILTS:
        log_density = -2.0 * (_WELL**2 / 2 - 1.5) ** 2 + tilt * _WELL
        below = np.cumsum(np.exp(log_density))
        columns.append(np.interp(rng.uniform(size=n), below / below[-1], _WELL))
    return np.stack(columns, 1)


def _modes(dim):
    """Two modes, .8 of the mass in a wide one and .2 in one a third as wide, eight apart."""
    centres = np.stack([np.full(dim, -4 / np.sqrt(dim)), np.full(dim, 4 / np.sqrt(dim))])
    scales, weights = np.array([1.0, 0.35]), np.array([0.8, 0.2])

    def log_density(z):
        parts = norm.logpdf(z, centres, scales[:, None]).sum(-1)
        return logsumexp(parts + np.log(weights))

    def draws(rng, n):
        which = rng.choice(2, size=n, p=weights)
        return centres[which] + scales[which, None] * rng.normal(size=(n, dim))

    return log_density, draws


def _two_scales(z):
    """Half the mass in N(0, I), half in N(0, .01 I), where .01 is the variance."""
    parts = jnp.stack([norm.logpdf(z, 0, 1.0).sum(), norm.logpdf(z, 0, 0.1).sum()])
    return logsumexp(parts)


def _two_scales_draws(rng, n):
    scale = np.where(rng.uniform(size=(n, 1)) < 0.5, 1.0, 0.1)
    return scale * rng.normal(size=(n, 5))


def _correlated(z):
    """A Gaussian of fifty coordinates of which every pair has correlation .99."""
    share = _CORRELATION / (1 - _CORRELATION + 50 * _CORRELATION)
    return -0.5 * (z @ z - share * z.sum() ** 2) / (1 - _CORRELATION)


def _correlated_draws(rng, n):
    common = rng.normal(size=(n, 1))
    return np.sqrt(_CORRELATION) * common + np.sqrt(1 - _CORRELATION) * rng.normal(size=(n, 50))


def _gumbel(z):
    return jnp.sum(-z - jnp.exp(-z))


def _log_normal(z):
    safe = jnp.where(z > 0, z, 1.0)
    return jnp.where(jnp.all(z > 0), jnp.sum(-0.5 * jnp.log(safe) ** 2 - jnp.log(safe)), -jnp.inf)


def _laplace(z):
    return -jnp.sum(jnp.abs(z))


def _skewed(z):
    """A skew normal in the plane with a correlated pair and shape ten."""
    x, y = z[0], z[1] - 0.7 * z[0]
    return norm.logpdf(x) + norm.logcdf(10 * x) + norm.logpdf(y, 0, 0.5)


def _skewed_draws(rng, n):
    x = stats.skewnorm.rvs(10, size=n, random_state=rng)
    return np.stack([x, 0.7 * x + 0.5 * rng.normal(size=n)], 1)


def _neighbours(z):
    """A chain of forty coordinates, each a nonlinear step from the one before."""
    before = jnp.concatenate([jnp.zeros(1), z[:-1]])
    return norm.logpdf(z, jnp.sin(2 * before), 0.5).sum()


def _neighbours_draws(rng, n):
    z = np.zeros((n, 41))
    for k in range(40):
        z[:, k + 1] = np.sin(2 * z[:, k]) + 0.5 * rng.normal(size=n)
    return z[:, 1:]


def _case(name, dim, log_density, draws, held_out=False, moments=True):
    return Case(
        name,
        "shapes",
        dim,
        lambda: LogDensity(log_density, dim),
        draws=draws,
        held_out=held_out,
        moments=moments,
    )


CASES = (
    _case("uniform_box_3", 3, _box, lambda rng, n: rng.uniform(size=(n, 3))),
    _case("exponential_wall_1", 1, _exponential, lambda rng, n: rng.exponential(size=(n, 1))),
    _case("half_normal_wall_2", 2, _half_normal, lambda rng, n: np.abs(rng.normal(size=(n, 2)))),
    _case("truncated_normal_3", 3, _truncated, _truncated_draws, held_out=True),
    _case("cauchy_1", 1, _cauchy, lambda rng, n: rng.standard_cauchy(size=(n, 1)), moments=False),
    _case("student_t2_3", 3, _student, _student_draws, held_out=True, moments=False),
    _case("funnel_10", 10, _funnel, _funnel_draws, moments=False),
    _case("banana_2", 2, _banana, _banana_draws, held_out=True),
    _case("ring_2", 2, _ring, _ring_draws),
    _case("scales_1e8_10", 10, _scales, lambda rng, n: _SCALES * rng.normal(size=(n, 10))),
    _case(
        "far_location_3", 3, _far, lambda rng, n: _FAR + _NARROW * rng.normal(size=(n, 3)), held_out=True
    ),
    _case("double_wells_8", 8, _wells, _wells_draws),
    _case("two_modes_2", 2, *_modes(2)),
    _case("two_modes_10", 10, *_modes(10), held_out=True),
    _case("two_scales_5", 5, _two_scales, _two_scales_draws),
    _case("correlated_gaussian_50", 50, _correlated, _correlated_draws),
    _case("gumbel_3", 3, _gumbel, lambda rng, n: rng.gumbel(size=(n, 3)), held_out=True),
    _case("log_normal_wall_2", 2, _log_normal, lambda rng, n: rng.lognormal(size=(n, 2))),
    _case("laplace_5", 5, _laplace, lambda rng, n: rng.laplace(size=(n, 5))),
    _case("skew_normal_2", 2, _skewed, _skewed_draws, held_out=True),
    _case("nonlinear_chain_40", 40, _neighbours, _neighbours_draws),
)
