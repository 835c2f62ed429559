"""Programs of structures that are no longer used are forgotten."""

import gc
import weakref
from functools import partial

import jax.numpy as jnp
import numpy as np

from understudy import programs
from understudy.programs import jit_of_few


def test_it_gives_what_the_function_gives_and_traces_once_for_a_structure():
    traced = []

    @jit_of_few
    def scaled(by, x, *, more=0):
        traced.append(by)
        return {"scaled": by * x + more}

    for _ in range(3):
        assert scaled(2, jnp.ones(()), more=1)["scaled"] == 3
    assert scaled(3, np.ones(2), more=jnp.ones(()))["scaled"].tolist() == [4, 4]
    assert scaled(2.0, jnp.ones(()), more=1)["scaled"].dtype == jnp.ones(()).dtype
    assert traced == [2, 3, 2.0]


def test_all_but_the_last_few_are_forgotten():
    @jit_of_few
    def call(function, x):
        return function(x)

    kept = []
    for i in range(programs.MOST + 3):
        function = partial(jnp.add, i)
        assert call(function, jnp.zeros(())) == i
        kept.append(weakref.ref(function))
        del function
    gc.collect()
    alive = [one() is not None for one in kept]
    assert alive == [False] * 3 + [True] * programs.MOST
