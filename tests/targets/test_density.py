"""Any log density: what it does that cannot be traced is said in one sentence."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from understudy.core import IngredientError
from understudy.targets import LogDensity


def raising(z):
    raise KeyError("no such\nthing")


def branching(z):
    return -z @ z if z[0] > 0 else 0.0


def calling_numpy(z):
    return -np.sum(np.square(np.asarray(z)))


def asking(z):
    return -(float(z[0]) ** 2)


def recursing(z):
    return recursing(z)


def indexing(z):
    return -z[0] * [1.0, 2.0][z[0].astype(int)]


BAD = {
    raising: "raises KeyError",
    branching: "asks in Python for the value",
    calling_numpy: "calls NumPy",
    asking: "asks in Python for the value",
    recursing: "calls itself without end",
    indexing: "calls NumPy, or another library",
    (lambda z: z @ jnp.ones(7)): "raises TypeError",
    (lambda z: z): "one number per draw",
    (lambda z: "x"): "one number per draw",
    (lambda z: None): "one number per draw",
    (lambda z: jnp.sum(z) * 1j): "complex",
}


@pytest.mark.parametrize("function", BAD, ids=lambda f: f.__name__)
def test_what_cannot_be_traced_gets_a_sentence(function):
    target = LogDensity(function, 2)
    with pytest.raises(IngredientError, match=BAD[function]) as raised:
        jax.jit(target.log_density)(jnp.ones(2))
    assert "\n" not in str(raised.value)


def test_whole_numbers_are_log_densities_also_under_strict_promotion():
    with jax.numpy_dtype_promotion("strict"):
        value = LogDensity(lambda mu: 0, {"mu": ()}).log_density(jnp.ones(1))
    assert value.dtype == jnp.result_type(float)


@pytest.mark.parametrize("names", [{1: ()}, {"": ()}, {"not a name": ()}], ids=str)
def test_parameters_are_named_as_arguments_are(names):
    from understudy.targets.parameters import Parameters

    make = getattr(Parameters.__init__, "__wrapped__", Parameters.__init__)
    with pytest.raises(IngredientError, match="named as arguments"):
        make(object.__new__(Parameters), names)
