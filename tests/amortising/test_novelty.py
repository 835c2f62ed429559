"""Whether a data set is like those simulated: neither further out than they are, nor nearer."""

import jax.numpy as jnp
import numpy as np
import pytest

from understudy.amortising.novelty import fit_novelty
from understudy.amortising.observations import DataSet


class Plain:
    """A student whose summary is the data themselves."""

    def summarise(self, x):
        return x.values["x"]


def normals(count, scale, seed=0):
    values = scale * np.random.default_rng(seed).normal(size=(count, 100))
    return DataSet({"x": jnp.asarray(values, jnp.float32)}, {"x": jnp.ones((count,), bool)})


@pytest.fixture(scope="module")
def novelty():
    return fit_novelty(Plain(), normals(4096, 1.0))


def test_data_like_those_simulated_are_not_new(novelty):
    assert (novelty(Plain(), normals(1000, 1.0, seed=1)) > 1).mean() < 0.01


@pytest.mark.parametrize("scale", [0.5, 2.0])
def test_data_that_vary_less_or_more_than_the_model_says_are_new(novelty, scale):
    assert (novelty(Plain(), normals(100, scale, seed=1)) > 1).all()
