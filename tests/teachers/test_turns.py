"""A teacher's turn at draws outside training."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from understudy.core import IngredientError
from understudy.students import DiagonalGaussian
from understudy.targets import LogDensity
from understudy.teachers import Annealed, Compose, Langevin, mala
from understudy.teachers.turns import turn

KEY = jax.random.key(0)
TARGET = LogDensity(lambda z: jnp.where(z[0] > 5, jnp.nan, -0.5 * jnp.sum(z**2)), 2)
STUDENT = DiagonalGaussian(2)
Z = jnp.array([[0.5, 1.0], [6.0, 0.0], [-1.0, 2.0]])


def test_chains_that_are_not_finite_stay():
    made = turn(KEY, mala(0.1), TARGET, STUDENT, Z)
    np.testing.assert_array_equal(made.finite, [True, False, True])
    np.testing.assert_array_equal(made.z[1], Z[1])
    assert (made.z[0] != Z[0]).any()


def test_acceptance_is_a_mean_and_adapts_the_teacher():
    teacher = Compose(mala(0.1, target_acceptance=0.6), Langevin(0.1))
    made = turn(KEY, teacher, TARGET, STUDENT, Z[::2])
    assert 0 < float(made.acceptance) <= 1
    np.testing.assert_allclose(made.rates[0], made.acceptance)
    adapted = teacher.adapt(made.rates).teachers[0].parameters["step_size"]
    assert (adapted > 0.1) == (made.acceptance > 0.6)
    assert np.isnan(turn(KEY, Langevin(0.1), TARGET, STUDENT, Z).acceptance)


def test_weighted_draws_are_refused():
    with pytest.raises(IngredientError, match="leaves the target invariant"):
        turn(KEY, Annealed(mala(0.1)), TARGET, STUDENT, Z)
