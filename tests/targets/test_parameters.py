"""Log densities of named parameters with constraints."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpyro import distributions as dist
from numpyro.distributions import constraints

from understudy.core import IngredientError
from understudy.targets import LogDensity


def named():
    def log_density(mu, tau, weights):
        return (
            dist.Normal(0.0, 2.0).log_prob(mu).sum()
            + dist.Gamma(3.0, 2.0).log_prob(tau)
            + dist.Dirichlet(jnp.array([1.0, 2.0, 3.0])).log_prob(weights)
        )

    parameters = {"mu": (2,), "tau": constraints.positive, "weights": (constraints.simplex, (3,))}
    return LogDensity(log_density, parameters)


def test_the_flat_vector_has_one_free_number_for_each_degree_of_freedom():
    target = named()
    assert target.dim == 2 + 1 + 2
    values = target.constrain(jnp.arange(5.0))
    assert {name: value.shape for name, value in values.items()} == {
        "mu": (2,), "tau": (), "weights": (3,)
    }  # fmt: skip
    np.testing.assert_allclose(target.unconstrain(values), jnp.arange(5.0), rtol=1e-4, atol=1e-5)
    assert float(values["weights"].sum()) == pytest.approx(1.0)


def test_the_jacobian_makes_the_density_integrate_to_one():
    target = LogDensity(lambda tau: dist.Gamma(3.0, 2.0).log_prob(tau), {"tau": constraints.positive})
    z = jnp.linspace(-15.0, 5.0, 4001)
    density = jnp.exp(jax.vmap(lambda z: target.log_density(z[None]))(z))
    assert float(density.sum() * (z[1] - z[0])) == pytest.approx(1.0, abs=1e-3)


def test_a_condition_comes_by_its_name():
    target = LogDensity(lambda mu, x: -((mu - x) ** 2), {"mu": ()}, conditional=True)
    assert float(target.log_density(jnp.ones(1), jnp.array(3.0))) == pytest.approx(-4.0)


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({}, "named"),
        ({"mu": 3}, "shape such as"),
        ({"mu": (constraints.simplex, ())}, "no map"),
        ({"sigma": ()}, r"function of \(sigma\)"),
    ],
)
def test_bad_parameters_get_a_sentence(parameters, words):
    with pytest.raises(IngredientError, match=words):
        LogDensity(lambda mu: -(mu**2), parameters)
