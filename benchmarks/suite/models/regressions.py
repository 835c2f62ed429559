"""Regressions: robust, sparse, wide, long, for counts, categories, orders and lifetimes."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
from numpyro import distributions as dist
from numpyro.distributions import constraints

from understudy.targets.numpyro import from_numpyro

from ..case import Case


def _rng(seed):
    return np.random.default_rng(seed)


def _vector(name, prior, size):
    return numpyro.sample(name, prior.expand([size]).to_event(1))


def robust_regression(x, y):
    """Linear regression with Student t noise of unknown degrees of freedom."""
    alpha = numpyro.sample("alpha", dist.Normal(0, 5))
    beta = _vector("beta", dist.Normal(0, 2), x.shape[1])
    sigma = numpyro.sample("sigma", dist.HalfNormal(2))
    nu = numpyro.sample("nu", dist.Gamma(2, 0.1))
    numpyro.sample("y", dist.StudentT(nu, alpha + x @ beta, sigma), obs=y)


def _robust():
    rng = _rng(101)
    x = rng.normal(size=(120, 4))
    y = 1 + x @ np.array([1.0, -0.5, 0.0, 2.0]) + 0.7 * rng.standard_t(2.5, size=120)
    return from_numpyro(robust_regression, x, y)


def horseshoe_regression(x, y):
    """Sparse linear regression with a horseshoe prior, non-centred."""
    tau = numpyro.sample("tau", dist.HalfCauchy(0.1))
    local = _vector("local", dist.HalfCauchy(1), x.shape[1])
    z = _vector("z", dist.Normal(0, 1), x.shape[1])
    sigma = numpyro.sample("sigma", dist.HalfNormal(1))
    beta = numpyro.deterministic("beta", z * local * tau)
    numpyro.sample("y", dist.Normal(x @ beta, sigma), obs=y)


def _horseshoe():
    rng = _rng(102)
    x = rng.normal(size=(100, 20))
    y = x[:, :3] @ np.array([2.0, -1.0, 0.5]) + rng.normal(size=100)
    return from_numpyro(horseshoe_regression, x, y)


def logistic_regression(x, y, scale=1.0):
    """Logistic regression with independent normal priors."""
    beta = _vector("beta", dist.Normal(0, scale), x.shape[1])
    numpyro.sample("y", dist.Bernoulli(logits=x @ beta), obs=y)


def binomial_regression(x, y, trials):
    """Logistic regression of rows which are counted together where their features agree."""
    beta = _vector("beta", dist.Normal(0, 1), x.shape[1])
    numpyro.sample("y", dist.Binomial(trials, logits=x @ beta), obs=y)


def _many_rows():
    rng = _rng(103)
    x = np.concatenate([np.ones((100_000, 1)), rng.uniform(size=(100_000, 7)) < 0.4], 1)
    beta = np.array([-1.0, 0.5, -0.3, 0.8, 0.0, 0.2, -0.6, 1.0])
    return x, (rng.uniform(size=100_000) < 1 / (1 + np.exp(-x @ beta))).astype(float)


def _counted_rows():
    x, y = _many_rows()
    cells, which = np.unique(x, axis=0, return_inverse=True)
    which = which.ravel()
    return from_numpyro(
        binomial_regression, cells, np.bincount(which, y), np.bincount(which).astype(float)
    )


def _wide_logistic():
    rng = _rng(104)
    x = rng.normal(size=(400, 200)) / np.sqrt(20)
    y = (rng.uniform(size=400) < 1 / (1 + np.exp(-x @ rng.normal(size=200)))).astype(float)
    return from_numpyro(logistic_regression, x, y)


def negative_binomial_regression(x, y):
    """Overdispersed counts."""
    alpha = numpyro.sample("alpha", dist.Normal(0, 2))
    beta = _vector("beta", dist.Normal(0, 1), x.shape[1])
    concentration = numpyro.sample("concentration", dist.Gamma(2, 0.5))
    numpyro.sample("y", dist.NegativeBinomial2(jnp.exp(alpha + x @ beta), concentration), obs=y)


def _negative_binomial():
    rng = _rng(105)
    x = rng.normal(size=(150, 5))
    mean = np.exp(1 + x @ np.array([0.4, -0.3, 0.0, 0.2, 0.5]))
    return from_numpyro(
        negative_binomial_regression, x, rng.poisson(mean * rng.gamma(1.5, 1 / 1.5, 150))
    )


def zero_inflated_counts(x, y):
    """Counts with more zeros than a Poisson has."""
    alpha = numpyro.sample("alpha", dist.Normal(0, 2))
    beta = _vector("beta", dist.Normal(0, 1), x.shape[1])
    gate = numpyro.sample("gate", dist.Beta(1, 1))
    numpyro.sample("y", dist.ZeroInflatedPoisson(gate, jnp.exp(alpha + x @ beta)), obs=y)


def _zero_inflated():
    rng = _rng(106)
    x = rng.normal(size=(120, 3))
    counts = rng.poisson(np.exp(0.3 + x @ np.array([0.5, 0.0, -0.4])))
    return from_numpyro(zero_inflated_counts, x, np.where(rng.uniform(size=120) < 0.3, 0, counts))


def ordinal_regression(x, y):
    """Answers in five ordered categories with unknown cutpoints."""
    beta = _vector("beta", dist.Normal(0, 1), x.shape[1])
    prior = dist.TransformedDistribution(
        dist.Normal(0, 1.5).expand([4]).to_event(1), dist.transforms.OrderedTransform()
    )
    cutpoints = numpyro.sample("cutpoints", prior)
    numpyro.sample("y", dist.OrderedLogistic(x @ beta, cutpoints), obs=y)


def _ordinal():
    rng = _rng(107)
    x = rng.normal(size=(200, 3))
    score = x @ np.array([1.0, -0.7, 0.2]) + rng.logistic(size=200)
    return from_numpyro(ordinal_regression, x, np.searchsorted([-2.0, -0.5, 0.7, 2.5], score))


def weibull_survival(x, time, seen):
    """Lifetimes of which some are censored on the right."""
    shape = numpyro.sample("shape", dist.Gamma(2, 1))
    alpha = numpyro.sample("alpha", dist.Normal(0, 3))
    beta = _vector("beta", dist.Normal(0, 1), x.shape[1])
    log_scale = alpha + x @ beta
    hazard = jnp.exp(shape * (jnp.log(time) - log_scale))
    log_rate = jnp.log(shape) - log_scale + (shape - 1) * (jnp.log(time) - log_scale)
    numpyro.factor("likelihood", jnp.sum(seen * log_rate - hazard))


def _survival():
    rng = _rng(108)
    x = rng.normal(size=(150, 3))
    time = np.exp(1 + x @ np.array([0.5, -0.3, 0.0])) * rng.weibull(1.4, 150)
    limit = rng.uniform(1, 6, 150)
    return from_numpyro(weibull_survival, x, np.minimum(time, limit), (time < limit).astype(float))


def dirichlet_multinomial(counts):
    """Shares of six categories which vary between the rows of a table."""
    share = numpyro.sample("share", dist.Dirichlet(jnp.ones(counts.shape[1])))
    strength = numpyro.sample("strength", dist.LogNormal(2, 1))
    totals = counts.sum(1)
    numpyro.sample("counts", dist.DirichletMultinomial(share * strength, totals), obs=counts)


def _dirichlet():
    rng = _rng(109)
    shares = rng.dirichlet(8 * np.array([0.4, 0.25, 0.15, 0.1, 0.07, 0.03]), size=30)
    counts = np.stack([rng.multinomial(25, share) for share in shares])
    return from_numpyro(dirichlet_multinomial, counts)


def isotonic_regression(y):
    """Ten ordered levels, flat otherwise, each seen three times."""
    level = numpyro.sample("level", dist.ImproperUniform(constraints.ordered_vector, (), (10,)))
    sigma = numpyro.sample("sigma", dist.HalfNormal(1))
    numpyro.sample("y", dist.Normal(level[:, None], sigma).to_event(2), obs=y)


def _isotonic():
    level = np.array([0.0, 0.1, 0.2, 0.2, 0.9, 1.0, 1.05, 2.0, 2.1, 2.1])
    return from_numpyro(isotonic_regression, level[:, None] + 0.3 * _rng(110).normal(size=(10, 3)))


def item_response(answers):
    """A two-parameter logistic model of persons who answer items."""
    persons, items = answers.shape
    ability = _vector("ability", dist.Normal(0, 1), persons)
    difficulty = _vector("difficulty", dist.Normal(0, 1.5), items)
    slope = _vector("slope", dist.LogNormal(0, 0.5), items)
    logits = slope * (ability[:, None] - difficulty)
    numpyro.sample("answers", dist.Bernoulli(logits=logits).to_event(2), obs=answers)


def _item_response():
    rng = _rng(111)
    slope, difficulty = rng.lognormal(0, 0.4, 20), rng.normal(size=20)
    logits = slope * (rng.normal(size=(100, 1)) - difficulty)
    return from_numpyro(
        item_response, (rng.uniform(size=(100, 20)) < 1 / (1 + np.exp(-logits))).astype(float)
    )


def probit_regression(x, y):
    """Probit regression of rare events with correlated features."""
    beta = _vector("beta", dist.Normal(0, 2), x.shape[1])
    numpyro.factor("likelihood", jax.scipy.stats.norm.logcdf((2 * y - 1) * (x @ beta)).sum())


def _probit():
    rng = _rng(112)
    x = 0.9 * rng.normal(size=(60, 1)) + 0.4 * rng.normal(size=(60, 6))
    x[:, 0] = 1
    y = (x @ np.array([-1.5, 1.0, -1.0, 0.5, 0.0, 0.0]) + rng.normal(size=60) > 0).astype(float)
    return from_numpyro(probit_regression, x, y)


def _case(name, dim, make, **more):
    return Case(name, "regressions", dim, make, **more)


CASES = (
    _case("robust_regression", 7, _robust),
    _case("horseshoe_regression", 42, _horseshoe),
    _case(
        "logistic_100000_rows",
        8,
        lambda: from_numpyro(logistic_regression, *_many_rows()),
        easier=_counted_rows,
    ),
    _case("logistic_200", 200, _wide_logistic, held_out=True),
    _case("negative_binomial_regression", 7, _negative_binomial, held_out=True),
    _case("zero_inflated_poisson", 5, _zero_inflated),
    _case("ordinal_regression", 7, _ordinal),
    _case("weibull_survival", 5, _survival, held_out=True),
    _case("dirichlet_multinomial", 6, _dirichlet),
    _case("isotonic_regression", 11, _isotonic, held_out=True),
    _case("item_response_140", 140, _item_response),
    _case("probit_regression", 6, _probit),
)
