"""What is odd and yet right is taken: numbers, arrays and functions of every kind that users have."""

import functools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import pytest
from numpyro import distributions as dist

import understudy
from understudy import LogDensity, Minibatches, Stream
from understudy.checks import whole
from understudy.feedbacks import InclusiveKL
from understudy.posterior import Posterior
from understudy.students import DiagonalGaussian, FullGaussian, gaussian_encoder
from understudy.teachers import hmc, mala

NORMAL = LogDensity(lambda z: -(z @ z) / 2, 2)
GIVEN = LogDensity(lambda z, x: -((z - x) @ (z - x)) / 2, 2, conditional=True)
WHOLE = [2, np.int64(2), np.uint8(2), np.int8(2), jnp.array(2), np.array(2)]
HALF = [0.5, np.float16(0.5), np.longdouble(0.5), jnp.bfloat16(0.5), np.array(0.5), np.array(0.5, ">f8")]
KEYS = [0, 2**63, 2**64, jax.random.PRNGKey(0)]
KEYS += [jax.random.key(0, impl=name) for name in ("rbg", "unsafe_rbg")]


def kind(value):
    return f"{type(value).__name__} {getattr(value, 'dtype', '')}"


@pytest.mark.parametrize("value", WHOLE, ids=kind)
def test_whole_numbers_of_every_kind(value):
    number = whole("n", value)
    assert (number, type(number)) == (2, int)
    assert int(mala(0.1, steps=value).steps) == 2


@pytest.mark.parametrize("value", HALF, ids=kind)
def test_numbers_of_every_kind(value):
    assert float(mala(value).parameters["step_size"]) == 0.5
    assert float(DiagonalGaussian(2, mean=value).mean[0]) == 0.5
    hmc(0.1, target_acceptance=value)


@pytest.mark.parametrize("key", KEYS, ids=kind)
def test_keys_of_every_kind(key):
    assert Posterior(NORMAL, FullGaussian(2)).sample(key, 3)["z"].shape == (3, 2)


class Density(eqx.Module):
    precision: jax.Array

    def __call__(self, z):
        return -self.precision * (z @ z)


@pytest.mark.parametrize(
    "function",
    [
        functools.partial(lambda a, z: -a * (z @ z), 2.0),
        Density(jnp.ones(())),
        jax.jit(lambda z: -(z @ z)),
        lambda z, a=2.0: -a * (z @ z),
        lambda *z: -(z[0] @ z[0]),
        lambda z: (-(z @ z)).astype(jnp.bfloat16),
        lambda z: -sum(v * v for v in z),
    ],
)
def test_functions_of_every_kind(function):
    value, slope = jax.value_and_grad(LogDensity(function, 2).log_density)(jnp.ones(2))
    assert value < 0
    assert (slope < 0).all()


ARRAYS = {
    "another order of bytes": np.zeros((4, 2), ">f8"),
    "whole numbers": np.zeros((4, 2), int),
    "truths": np.zeros((4, 2), bool),
    "strides": np.zeros((8, 4))[::-2, ::2],
    "minibatches of NumPy's": Minibatches(np.zeros((8, 2), ">f4"), 4),
    "a function": lambda key: jax.random.normal(key, (4, 2)),
    "a stream": Stream([np.zeros((4, 2))]),
}


@pytest.mark.parametrize("name", ARRAYS)
def test_data_of_every_kind(name):
    encoder = gaussian_encoder(jax.random.key(0), 2, np.zeros(2), hidden=(4,))
    given = {"updates": 1, "particles": 2, "progress": False}
    trained = understudy.train(GIVEN, encoder, mala(0.1), InclusiveKL(), ARRAYS[name], **given)
    assert np.isfinite(trained.history["loss"]).all()


@pytest.mark.parametrize(
    "y", [np.ones(3, ">f8"), np.ones(3, bool), np.ones(3, np.float16), 1.0], ids=kind
)
def test_models_of_data_of_every_kind(y):
    def model(y):
        z = numpyro.sample("z", dist.Normal(0, 1))
        numpyro.sample("y", dist.Normal(z, 1), obs=y)

    target = understudy.from_numpyro(model, y)
    rows = np.size(y)
    # Log density of a standard normal, and of data at a distance of one each.
    wanted = -0.5 * (1 + rows) * np.log(2 * np.pi) - 0.5 * rows
    assert float(target.log_density(jnp.zeros(1))) == pytest.approx(wanted, rel=1e-3)
