"""NumPyro models against NumPyro's own densities, a conjugate posterior and closed-form Jacobians."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import optax
import pytest
from jax.scipy.stats import norm
from numpyro import distributions as dist
from numpyro.infer.util import log_density

from understudy import Minibatches
from understudy.core import IngredientError
from understudy.feedbacks import ExclusiveKL
from understudy.posterior.draws import columns
from understudy.students import DiagonalGaussian
from understudy.targets.numpyro import from_numpyro
from understudy.teachers import Identity
from understudy.training import train

DATA = np.array([0.3, 1.2, -0.4])


def conjugate(y, prior=2.0):
    mu = numpyro.sample("mu", dist.Normal(0.0, prior))
    numpyro.sample("y", dist.Normal(mu, 1.0), obs=y)


def mixed(y):
    mu = numpyro.sample("mu", dist.Normal(0, 5).expand([2]).to_event(1))
    tau = numpyro.sample("tau", dist.HalfCauchy(5))
    share = numpyro.sample("share", dist.Beta(2, 3))
    upper = numpyro.sample("upper", dist.Uniform(0, 1 - share))
    weights = numpyro.sample("weights", dist.Dirichlet(jnp.ones(3)))
    numpyro.deterministic("total", mu.sum() + upper)
    numpyro.sample("y", dist.Normal(mu[0] + weights @ jnp.arange(3.0), tau + upper), obs=y)


def test_the_posterior_of_a_conjugate_model():
    target = from_numpyro(conjugate, DATA)
    precision = 3 + 1 / 4
    mean, scale = DATA.sum() / precision, precision**-0.5
    z = jnp.linspace(-2, 2, 7)[:, None]
    ours = jax.vmap(target.log_density)(z)
    exact = norm.logpdf(z[:, 0], mean, scale)
    np.testing.assert_allclose(ours - ours[0], exact - exact[0], atol=1e-5)


def test_density_and_jacobian_agree_with_numpyro():
    target = from_numpyro(mixed, DATA)
    assert [site.name for site in target.sites] == ["mu", "tau", "share", "upper", "weights"]
    assert target.dim == 2 + 1 + 1 + 1 + 2
    z = jax.random.normal(jax.random.key(0), (target.dim,))
    values = eqx.filter_jit(target.constrain)(z)
    latents = {site.name: values[site.name] for site in target.sites}
    joint, _ = log_density(mixed, (DATA,), {}, latents)

    def free(z):
        values = target.constrain(z)
        return jnp.concatenate([jnp.ravel(values[s.name])[: z[s_].size] for s, s_ in slices])

    ends = np.cumsum([int(np.prod(site.shape)) for site in target.sites])
    starts = [0, *ends[:-1]]
    slices = [(s, slice(a, b)) for s, a, b in zip(target.sites, starts, ends, strict=True)]
    _, log_jacobian = jax.jit(lambda z: jnp.linalg.slogdet(jax.jacobian(free)(z)))(z)
    np.testing.assert_allclose(target.log_density(z), joint + log_jacobian, rtol=1e-5)


def test_constrain_names_every_site_and_inverts():
    target = from_numpyro(mixed, DATA)
    z = jax.random.normal(jax.random.key(1), (4, target.dim))
    values = jax.jit(jax.vmap(target.constrain))(z)
    assert set(values) == {"mu", "tau", "share", "upper", "weights", "total"}
    assert (values["upper"] <= 1 - values["share"]).all()
    np.testing.assert_allclose(values["total"], values["mu"].sum(-1) + values["upper"], rtol=1e-6)
    np.testing.assert_allclose(jax.jit(jax.vmap(target.unconstrain))(values), z, atol=1e-4)


def test_a_condition_is_another_data_set():
    target = from_numpyro(conjugate, DATA)
    others = jax.random.normal(jax.random.key(0), (5, 3))
    z = jnp.array([0.7])
    batched = jax.vmap(lambda y: target.log_density(z, ((y,), {})))(others)
    one_by_one = [from_numpyro(conjugate, y).log_density(z) for y in others]
    np.testing.assert_allclose(batched, jnp.stack(one_by_one), rtol=1e-5)


def test_settings_stay_and_data_are_leaves():
    target = from_numpyro(conjugate, y=DATA, prior=3.0)
    leaves = [leaf for leaf in jax.tree.leaves(target) if eqx.is_array(leaf)]
    assert len(leaves) == 1
    np.testing.assert_allclose(leaves[0], DATA, rtol=1e-6)
    assert np.isfinite(target.log_density(jnp.zeros(1)))


def test_a_model_that_looks_at_its_data_still_works():
    def model(y):
        mu = numpyro.sample("mu", dist.Normal(0, 1))
        numpyro.sample("y", dist.Normal(mu, 1), obs=y[np.asarray(y) > 0])

    target = from_numpyro(model, DATA)
    expected = norm.logpdf(0.0) + norm.logpdf(jnp.array([0.3, 1.2])).sum()
    np.testing.assert_allclose(target.log_density(jnp.zeros(1)), expected, rtol=1e-5)


def no_latent(y):
    numpyro.sample("y", dist.Normal(0, 1), obs=y)


def discrete(y):
    k = numpyro.sample("k", dist.Bernoulli(0.5))
    numpyro.sample("y", dist.Normal(k, 1), obs=y)


def counts(y):
    n = numpyro.sample("n", dist.Poisson(3))
    mu = numpyro.sample("mu", dist.Normal(0, 1))
    numpyro.sample("y", dist.Normal(mu, 1 + n), obs=y)


def never_finite(y):
    mu = numpyro.sample("mu", dist.Normal(0, 1))
    numpyro.sample("y", dist.Normal(mu, 1), obs=y / 0 * 0)


def subsampled(y):
    mu = numpyro.sample("mu", dist.Normal(0, 1))
    with numpyro.plate("rows", 3, subsample_size=2) as rows:
        numpyro.sample("y", dist.Normal(mu, 1), obs=y[rows])


def point_mass(y):
    mu = numpyro.sample("mu", dist.Delta(1.0))
    numpyro.sample("y", dist.Normal(mu, 1), obs=y)


def parameter(y):
    scale = numpyro.param("scale", 1.0)
    numpyro.sample("y", dist.Normal(numpyro.sample("mu", dist.Normal(0, 1)), scale), obs=y)


def crossed(y):
    mu = numpyro.sample("mu", dist.Normal(0, 1).expand([3]).to_event(1))
    numpyro.sample("y", dist.Normal(mu, 1), obs=y[:, None])


@pytest.mark.parametrize(
    ("model", "words"),
    [
        (no_latent, "no latent variable"),
        (discrete, "'k' is discrete, as all latents"),
        (counts, "'n' is discrete, with values without end"),
        (never_finite, "not finite.*'y'"),
        (subsampled, "numpyro.handlers.scale"),
        (point_mass, "numpyro.deterministic"),
        (parameter, "numpyro.param"),
        (crossed, "same shape"),
        (3, "a int came"),
        (lambda y, z: None, "missing 1 required"),
    ],
)
def test_models_that_cannot_work_get_a_sentence(model, words):
    with pytest.raises(IngredientError, match=words):
        from_numpyro(model, DATA)


def test_a_condition_of_another_form_gets_a_sentence():
    with pytest.raises(IngredientError, match=r"x = \(args, kwargs\)"):
        from_numpyro(conjugate, DATA).log_density(jnp.zeros(1), DATA)


def test_a_whole_plate_is_welcome():
    def model(y):
        with numpyro.plate("rows", 3):
            mean = numpyro.sample("mean", dist.Normal(0, 1))
            numpyro.sample("y", dist.Normal(mean, 1), obs=y)

    target = from_numpyro(model, jnp.arange(3.0))
    assert target.dim == 3
    z = jnp.array([0.5, -0.5, 1.0])
    expected = dist.Normal(0, 1).log_prob(z).sum() + dist.Normal(z, 1).log_prob(jnp.arange(3.0)).sum()
    np.testing.assert_allclose(target.log_density(z), expected, rtol=1e-5)


def scaled(y):
    mu = numpyro.sample("mu", dist.Normal(0.0, 2.0))
    with numpyro.handlers.scale(scale=MANY.size / y.shape[0]):
        numpyro.sample("y", dist.Normal(mu, 1.0), obs=y)


MANY = np.random.default_rng(0).normal(1.0, 1.0, 60)


def test_minibatches_are_conditions():
    target = from_numpyro(scaled, MANY)
    z = jnp.array([0.7])
    parts = [target.log_density(z, ((jnp.asarray(part),), {})) for part in MANY.reshape(6, 10)]
    np.testing.assert_allclose(np.mean(parts), target.log_density(z), rtol=1e-5)
    rows = Minibatches(((MANY,), {}), 10, together=True)
    ingredients = (target, DiagonalGaussian(1), Identity(), ExclusiveKL(), rows)
    fitted = train(*ingredients, updates=2000, optimiser=optax.adam(0.01), average=0.99, progress=False)
    precision = MANY.size + 1 / 4
    assert float(fitted.student.mean[0]) == pytest.approx(MANY.sum() / precision, abs=0.1)
    assert float(fitted.student.scale[0]) == pytest.approx(precision**-0.5, rel=0.3)


def of_data(y):
    mu = numpyro.sample("mu", dist.Normal(0, 1))
    numpyro.sample("y", dist.Normal(mu, 1), obs=y)


def of_settings(y, setting):
    return of_data(y)


def empty():
    numpyro.sample("mu", dist.Normal(0, 1).expand([0]))


def branching(y):
    mu = numpyro.sample("mu", dist.Normal(0, 1))
    if mu > 0:
        numpyro.sample("extra", dist.Normal(0, 1))
    numpyro.sample("y", dist.Normal(mu, 1), obs=y)


def calling_numpy(y):
    mu = numpyro.sample("mu", dist.Normal(0, 1))
    numpyro.sample("y", dist.Normal(np.exp(mu), 1), obs=y)


class Table:
    def to_numpy(self):
        return np.ones(3)


NOT_DATA = {
    "objects": (of_data, (np.array([1.0, None], object),), "dtype object; give numbers"),
    "strings": (of_data, (np.array(["a", "b"]),), "dtype <U1; give numbers"),
    "dates": (of_data, (np.array(["2020-01-01"], "datetime64[D]"),), "datetime64"),
    "spans of time": (of_data, (np.array([1], "timedelta64[s]"),), "timedelta64"),
    "masked": (of_data, (np.ma.masked_array([1.0, 2.0], [0, 1]),), "masked array; leave"),
    "records": (of_data, (np.zeros(2, [("a", float)]),), "array of records"),
    "a table": (of_data, (Table(),), r"is a Table; give its \.to_numpy"),
    "a set": (of_settings, (np.ones(2), {1, 2}), "is a set, which"),
    "a latent of size zero": (empty, (), "'mu' of the model empty has no entry"),
    "a structure of draws": (branching, (np.ones(2),), "depends on the value of a draw"),
    "NumPy on a draw": (calling_numpy, (np.ones(2),), "calls NumPy"),
}


@pytest.mark.parametrize("name", NOT_DATA)
def test_what_is_no_data_gets_a_sentence(name):
    model, args, words = NOT_DATA[name]
    with pytest.raises(IngredientError, match=words) as raised:
        from_numpyro(model, *args)
    assert "\n" not in str(raised.value)


def test_a_model_that_looks_at_its_groups_is_named_in_double_precision():
    def model(group):
        effect = numpyro.sample("effect", dist.Normal(0, 1).expand([int(group.max()) + 1]).to_event(1))
        numpyro.sample("y", dist.Normal(effect[group], 1), obs=np.ones(4))

    target = from_numpyro(model, np.array([0, 1, 1, 0]))
    z = np.array([[0.5, -1.0], [2.0, 3.0]])
    np.testing.assert_allclose(columns(target, z), z)
