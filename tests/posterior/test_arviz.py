"""Posteriors for ArviZ: groups, names and closed forms."""

import sys
import types

import arviz_stats
import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import pytest
from numpyro import distributions as dist
from scipy.stats import multivariate_normal, norm

from tests.posterior.conjugate import MEAN, SD, Y, posterior
from understudy.core import IngredientError
from understudy.posterior.posterior import Posterior
from understudy.students import FullGaussian
from understudy.targets import LogDensity
from understudy.targets.numpyro import from_numpyro

KEY = jax.random.key(1)


@pytest.fixture(scope="module")
def tree():
    return posterior().to_arviz(KEY, 2000, chains=4)


def test_groups_and_shapes(tree):
    assert set(tree.children) == {
        "posterior",
        "sample_stats",
        "posterior_predictive",
        "log_likelihood",
        "observed_data",
    }
    assert tree.posterior["mu"].shape == (4, 500, 2)
    assert tree.posterior["both"].shape == (4, 500, 2)
    assert tree.posterior_predictive["y"].shape == (4, 500, 5, 2)
    np.testing.assert_array_equal(tree.observed_data["y"], Y)


def test_densities_and_likelihoods_are_those_in_closed_form(tree):
    mu = tree.posterior["mu"].values
    likelihood = norm.logpdf(Y, mu[:, :, None, :], 1)
    np.testing.assert_allclose(tree.log_likelihood["y"], likelihood, rtol=1e-4, atol=1e-4)
    joint = likelihood.sum((2, 3)) + norm.logpdf(mu).sum(-1)
    np.testing.assert_allclose(tree.sample_stats["lp"], joint, rtol=1e-4)
    student = multivariate_normal(MEAN, SD**2 * np.eye(2)).logpdf(mu)
    np.testing.assert_allclose(tree.sample_stats["log_student"], student, rtol=1e-3, atol=1e-4)


def test_predictions_are_new_data(tree):
    new = tree.posterior_predictive["y"].values
    assert not np.array_equal(new[0, 0], Y)
    np.testing.assert_allclose(new.mean((0, 1, 2)), MEAN, atol=0.06)
    np.testing.assert_allclose(new.std((0, 1)), np.sqrt(1 + SD**2), rtol=0.08)


def test_arviz_summarises_and_compares(tree):
    pytest.importorskip("xarray_einstats", reason="comes with arviz-stats[xarray]")
    summary = arviz_stats.summary(tree)
    assert list(summary.index) == ["both[0]", "both[1]", "mu[0]", "mu[1]"]
    loo = arviz_stats.loo(tree)
    # Leave-one-out of one row of two entries at a time differs little from that of single entries.
    exact = sum(
        norm.logpdf(Y[i, j], (Y[:, j].sum() - Y[i, j]) / 5, np.sqrt(1 + 1 / 5))
        for i in range(5)
        for j in range(2)
    )
    assert float(loo.elpd) == pytest.approx(exact, abs=0.15)


def test_groups_can_be_left_out_and_plain_densities_have_fewer():
    tree = posterior().to_arviz(KEY, 40, predictive=False, log_likelihood=False)
    assert set(tree.children) == {"posterior", "sample_stats", "observed_data"}
    plain = Posterior(LogDensity(lambda z: -0.5 * z @ z, 2), FullGaussian(2)).to_arviz(KEY, 40)
    assert set(plain.children) == {"posterior", "sample_stats"}
    assert plain.posterior["z"].shape == (4, 10, 2)


def odd(y):
    z = numpyro.sample("z", dist.Normal(0, 1))
    numpyro.deterministic("none", jnp.zeros((0, 2)))
    numpyro.deterministic("wave", z * 1j)
    numpyro.sample("y", dist.Normal(z, 1), obs=y)


def test_sites_without_an_entry_and_complex_ones_are_no_hindrance():
    result = Posterior(from_numpyro(odd, np.ones(3)), FullGaussian(1))
    posterior = result.to_arviz(0, 8)["posterior"]
    assert posterior["none"].shape == (4, 2, 0, 2)
    assert np.iscomplexobj(posterior["wave"].values)
    assert list(result.summary().index) == ["z"]
    assert "z" in str(result)
    result.plot_marginals()


def test_it_is_a_tree_whatever_arviz_is_installed(monkeypatch):
    class Old(types.ModuleType):
        def __getattr__(self, name):
            raise AssertionError("ArviZ and its plots are not needed")

    for name in ("arviz", "arviz_plots", "arviz_base"):
        monkeypatch.setitem(sys.modules, name, Old(name))
    tree = posterior().to_arviz(KEY, 8, predictive=False)
    assert "posterior" in tree.children


def test_old_inference_data_on_request(monkeypatch):
    old = types.ModuleType("arviz")
    old.InferenceData = lambda **groups: groups
    monkeypatch.setitem(sys.modules, "arviz", old)
    groups = posterior().to_arviz(KEY, 8, kind="inferencedata", predictive=False)
    assert groups["posterior"]["mu"].shape == (4, 2, 2)
    assert set(groups) == {"posterior", "sample_stats", "log_likelihood", "observed_data"}
    monkeypatch.setitem(sys.modules, "arviz", types.ModuleType("arviz"))
    with pytest.raises(IngredientError, match="before version 1"):
        posterior().to_arviz(KEY, 8, kind="inferencedata", predictive=False)


def regression(x, y=None):
    slope = numpyro.sample("slope", dist.Normal(0, 1))
    with numpyro.plate("group", 2):
        numpyro.sample("level", dist.Normal(0, 1))
    with numpyro.plate("row", len(x)):
        numpyro.sample("y", dist.Normal(slope * x, 0.1), obs=y)


def test_plates_name_axes_and_new_covariates_are_predicted():
    x = np.linspace(-1, 1, 6).astype(np.float32)
    target = from_numpyro(regression, x, y=2 * x)
    student = FullGaussian(3, jnp.array([2.0, 0.0, 0.0]), 0.01 * jnp.eye(3))
    result = Posterior(target, student)
    tree = result.to_arviz(0, 40)
    assert tree.posterior["level"].dims == ("chain", "draw", "group")
    assert tree.observed_data["y"].dims == ("row",)
    assert tree.log_likelihood["y"].dims == ("chain", "draw", "row")
    assert list(tree.posterior["group"].values) == [0, 1]
    new = result.predict(1, np.array([10.0, 20.0, 30.0, 40.0]), draws=200)
    assert new["y"].shape == (200, 4)
    np.testing.assert_allclose(new["y"].mean(0), [20, 40, 60, 80], rtol=0.02)
    assert result.predict(1, draws=7)["y"].shape == (7, 6)
    assert result.predict(1, x=x[:2], y=None, draws=7)["y"].shape == (7, 2)
