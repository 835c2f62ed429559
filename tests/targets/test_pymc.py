"""PyMC models as targets, where PyMC is installed."""

import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import norm

from understudy.core import IngredientError
from understudy.posterior import Posterior
from understudy.students import FullGaussian
from understudy.targets.pymc import from_pymc


@pytest.fixture
def pymc():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield pytest.importorskip("pymc", reason="the extra pymc is not installed")


def test_a_model_becomes_a_target_with_its_jacobian(pymc):
    with pymc.Model() as model:
        mu = pymc.Normal("mu", 0.0, 2.0)
        tau = pymc.HalfNormal("tau", 1.0)
        pymc.Deterministic("both", mu * tau)
        pymc.Normal("y", mu, tau, observed=np.array([0.3, -1.0, 2.0]))
    target = from_pymc(model)
    assert target.dim == 2
    z = jnp.array([0.4, -0.3])
    point = {"mu": 0.4, "tau_log__": -0.3}
    expected = model.compile_logp()(point)
    assert float(jax.jit(target.log_density)(z)) == pytest.approx(float(expected), rel=1e-5)
    sites = target.constrain(z)
    assert set(sites) == {"mu", "tau", "both"}
    assert float(sites["both"]) == pytest.approx(0.4 * np.exp(-0.3), rel=1e-5)


def test_discrete_and_empty_models_get_a_sentence(pymc):
    with pymc.Model() as discrete:
        pymc.Bernoulli("b", 0.5)
    with pytest.raises(IngredientError, match="discrete"):
        from_pymc(discrete)
    with pytest.raises(IngredientError, match="no free variable"):
        from_pymc(pymc.Model())


def test_something_else_gets_a_sentence():
    with pytest.raises(IngredientError, match=r"PyMC|pymc"):
        from_pymc(3)


def test_a_model_goes_to_arviz_with_its_axes_and_predicts_new_data(pymc):
    x = np.linspace(-1, 1, 5)
    with pymc.Model(coords={"group": ["a", "b"], "row": np.arange(5)}) as model:
        given = pymc.Data("x", x, dims="row")
        slope = pymc.Normal("slope", 0.0, 1.0)
        scale = pymc.HalfNormal("scale", 1.0)
        pymc.Normal("level", 0.0, scale, dims="group")
        pymc.Normal("y", slope * given, 0.1, observed=2 * x, shape=given.shape, dims="row")
    student = FullGaussian(4, jnp.array([2.0, 0.0, 0.0, 0.0]), 0.01 * jnp.eye(4))
    result = Posterior(from_pymc(model), student)
    tree = result.to_arviz(0, 40)
    groups = {"posterior", "sample_stats", "posterior_predictive", "log_likelihood", "observed_data"}
    assert set(tree.children) == groups
    assert tree.posterior["level"].dims == ("chain", "draw", "group")
    assert list(tree.posterior["group"].values) == ["a", "b"]
    assert tree.log_likelihood["y"].dims == ("chain", "draw", "row")
    np.testing.assert_allclose(tree.observed_data["y"], 2 * x)
    wanted = norm.logpdf(2 * x, tree.posterior["slope"].values[..., None] * x, 0.1)
    np.testing.assert_allclose(tree.log_likelihood["y"].values, wanted, rtol=1e-4, atol=1e-4)
    assert result.predict(1, draws=9)["y"].shape == (9, 5)
    for call, words in (
        (lambda: result.predict(1, x), "no arguments"),
        (lambda: result.predict(1, w=x), "'w'"),
    ):
        with pytest.raises(IngredientError, match=words):
            call()


def test_predictions_at_new_values_of_data(pymc):
    x = np.linspace(-1, 1, 5)
    with pymc.Model() as model:
        given = pymc.Data("x", x)
        slope = pymc.Normal("slope", 0.0, 1.0)
        pymc.Normal("y", slope * given, 0.1, observed=2 * x, shape=given.shape)
    result = Posterior(from_pymc(model), FullGaussian(1, 2 * jnp.ones(1), 0.01 * jnp.eye(1)))
    new = result.predict(1, x=np.array([10.0, 20.0]), draws=200)["y"]
    assert new.shape == (200, 2)
    np.testing.assert_allclose(new.mean(0), [20, 40], rtol=0.02)
    np.testing.assert_array_equal(model["x"].get_value(), x)
