"""NumPyro models as simulators: what they read of a model, and whose density they give."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from scipy.stats import norm

from tests.amortising.models import COVARIATES, NOISE, points, regression, river, schools, two_sites
from understudy.amortising.models import simulator_of
from understudy.amortising.observations import complete, in_canonical_order
from understudy.core import IngredientError


def test_pairs_come_with_the_density_of_parameters_and_data():
    simulator = simulator_of(regression, (COVARIATES,), {}, "y")
    z, x = simulator.simulate(jax.random.key(0))
    y = np.asarray(x.values["y"])
    expected = norm.logpdf(z).sum() + norm.logpdf(y, COVARIATES @ np.asarray(z), NOISE).sum()
    assert float(simulator.target.log_density(z, x)) == pytest.approx(expected, rel=1e-5)


def test_a_set_is_known_by_its_plate_and_a_hierarchy_is_not_one():
    assert simulator_of(points, (20,), {}, "y").layout.exchangeable
    assert not simulator_of(points, (20,), {}, "y").layout.placed
    assert simulator_of(regression, (COVARIATES,), {}, "y").layout.placed
    assert not simulator_of(schools, (), {}, "y").layout.exchangeable


def test_rows_that_are_not_there_do_not_count():
    simulator = simulator_of(points, (20,), {}, "y", sizes=(5, 20))
    y = np.random.default_rng(0).normal(size=7).astype(np.float32)
    x = complete(simulator.layout, {"y": y}, (), simulator.filler)
    z = jnp.array([0.3])
    whole = float(simulator.target.log_density(z, x))
    without = float(simulator.target.log_density(z, x._replace(seen={"y": np.zeros(20, bool)})))
    mean = float(simulator.target.constrain(z)["mean"])
    assert whole - without == pytest.approx(norm.logpdf(y, mean).sum(), rel=1e-5)


def test_missing_numbers_do_not_count():
    simulator = simulator_of(regression, (COVARIATES,), {}, "y")
    y = np.linspace(-1, 1, 10)
    y[3] = np.nan
    x = complete(simulator.layout, {"y": y}, simulator.arguments((), {}), simulator.filler)
    z = np.array([0.5, -0.5])
    kept = np.delete(np.arange(10), 3)
    expected = norm.logpdf(z).sum() + norm.logpdf(y[kept], COVARIATES[kept] @ z, NOISE).sum()
    assert float(simulator.target.log_density(jnp.asarray(z), x)) == pytest.approx(expected, rel=1e-5)


def test_simulated_sizes_span_what_was_asked_for():
    simulator = simulator_of(regression, (COVARIATES,), {}, "y", sizes=(2, 10))
    _, x = jax.vmap(simulator.simulate)(jax.random.split(jax.random.key(0), 300))
    counts = np.asarray(x.seen["y"]).sum(1)
    assert counts.min() == 2
    assert counts.max() == 10
    # The covariates of a smaller data set are rows of those given, in another order.
    first = np.asarray(x.arguments[0])
    assert not np.array_equal(first[0], first[1])
    np.testing.assert_allclose(np.sort(first[0], 0), np.sort(COVARIATES, 0))


@pytest.mark.parametrize("rows", [4, 7])
def test_covariates_of_other_rows_than_the_data_are_refused(rows):
    simulator = simulator_of(regression, (COVARIATES,), {}, "y", sizes=(2, 10))
    with pytest.raises(IngredientError, match=r"shape \(6, 2\) for these data"):
        complete(simulator.layout, {"y": np.zeros(6)}, (COVARIATES[:rows],), simulator.filler)


def test_the_order_of_a_set_is_forgotten_to_the_last_bit():
    simulator = simulator_of(points, (20,), {}, "y")
    y = np.random.default_rng(0).normal(size=20)
    sets = [complete(simulator.layout, {"y": v}, (), simulator.filler) for v in (y, y[::-1])]
    one, other = (in_canonical_order(simulator.layout, x) for x in sets)
    np.testing.assert_array_equal(one.values["y"], other.values["y"])


def test_other_arguments_are_drawn_for_every_simulation():
    def renew(key):
        return (jax.random.normal(key, (10, 2)),)

    simulator = simulator_of(regression, (), {}, "y", arguments=renew)
    _, x = jax.vmap(simulator.simulate)(jax.random.split(jax.random.key(0), 2))
    assert not np.array_equal(x.arguments[0][0], x.arguments[0][1])
    with pytest.raises(IngredientError, match="after the data"):
        simulator.arguments((), {})
    (held,) = simulator.arguments((COVARIATES,), {})
    np.testing.assert_array_equal(held, COVARIATES)


def test_several_sites_are_observed_together():
    simulator = simulator_of(two_sites, (), {}, ("y", "w"))
    assert [site.name for site in simulator.layout.sites] == ["y", "w"]
    z, x = simulator.simulate(jax.random.key(0))
    assert np.isfinite(float(simulator.target.log_density(z, x)))


def test_data_that_lean_on_earlier_ones_have_their_density_and_cannot_be_missing():
    simulator = simulator_of(river, (30,), {}, "y")
    z, x = simulator.simulate(jax.random.key(0))
    y, lean = np.array(x.values["y"]), np.tanh(float(z[0]) / 2)
    means = lean * np.concatenate([[0.0], y[:-1]])
    prior = np.log((1 - lean**2) / 4)
    expected = prior + norm.logpdf(y, means).sum()
    assert float(simulator.target.log_density(z, x)) == pytest.approx(expected, rel=1e-4)
    assert not simulator.layout.maskable
    y[4] = np.nan
    with pytest.raises(IngredientError, match="no number leans on another"):
        complete(simulator.layout, {"y": y}, (), simulator.filler)


def with_factor(y=None):
    mean = numpyro.sample("mean", dist.Normal(0, 1))
    numpyro.factor("extra", -(mean**2))
    numpyro.sample("y", dist.Normal(mean, 1), obs=y)


def with_other_data(y=None):
    mean = numpyro.sample("mean", dist.Normal(0, 1))
    numpyro.sample("other", dist.Normal(mean, 1), obs=1.0)
    numpyro.sample("y", dist.Normal(mean, 1), obs=y)


@pytest.mark.parametrize(
    ("model", "args", "settings", "words"),
    [
        (regression, (COVARIATES,), {"observed": "z"}, "no site 'z'"),
        (regression, (), {"observed": "y"}, "without its data"),
        (regression, (COVARIATES,), {"observed": "y", "sizes": (2, 50)}, "sizes is the least"),
        (schools, (), {"observed": "y", "sizes": (2, 8)}, "for every row"),
        (with_factor, (), {"observed": "y"}, "factor 'extra'"),
        (river, (30,), {"observed": "y", "missing": True}, "missing=True cannot be had"),
        (river, (30,), {"observed": "y", "sizes": (5, 30)}, "sizes cannot be had"),
        (with_other_data, (), {"observed": "y"}, "'other' is observed too"),
        (3, (), {"observed": "y"}, "takes a NumPyro model"),
    ],
)
def test_models_that_cannot_be_simulated_get_one_sentence(model, args, settings, words):
    with pytest.raises(IngredientError, match=words):
        simulator_of(model, args, {}, **settings)
