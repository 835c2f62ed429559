"""PyMC models as targets, where PyMC is installed."""

import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from understudy.core import IngredientError
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
