"""Simulation-based calibration with a conjugate model."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from understudy.core import Student
from understudy.evaluation import trust
from understudy.targets import LogDensity

# Unoptimised programs, which tests run, are slow with the generator that a check prefers.
KEY = jax.random.key(0, impl="rbg")


class Conjugate(Student):
    """Prior N(0, 1), data N(z, 1): the posterior is N(x / 2, 1 / 2); shifted and scaled by faults."""

    shift: jax.Array = eqx.field(converter=jnp.asarray, default=0.0)
    scale: jax.Array = eqx.field(converter=jnp.asarray, default=1.0)
    dim: int = eqx.field(static=True, default=2)

    def sample(self, key, x, n):
        noise = jax.random.normal(key, (n, 2)) * jnp.sqrt(0.5)
        return x / 2 + self.shift + self.scale * noise


def simulate(key):
    first, second = jax.random.split(key)
    z = jax.random.normal(first, (2,))
    return z, z + jax.random.normal(second, (2,))


CASES = {
    "right": (Conjugate(), "ok", ""),
    "high": (Conjugate(0.5), "fail", "too high"),
    "low": (Conjugate(-0.5), "fail", "too low"),
    "narrow": (Conjugate(0.0, 0.6), "fail", "too narrow"),
    "wide": (Conjugate(0.0, 1.8), "fail", "too wide"),
}


@pytest.mark.parametrize("name", CASES)
def test_ranks_say_what_is_wrong(name):
    student, verdict, words = CASES[name]
    finding = trust.calibration(jax.random.key(1), simulate, student)
    assert finding.verdict == verdict
    assert words in finding.words
    assert finding.pictures["counts"].sum(1).tolist() == [512, 512]


def test_ranks_of_a_right_student_are_uniform():
    counts = trust.calibration(jax.random.key(2), simulate, Conjugate()).pictures["counts"]
    chi_squared = ((counts - 25.6) ** 2 / 25.6).sum(1)
    assert (chi_squared < 43.8).all()  # 0.999 quantile with 19 degrees of freedom


def test_check_calibrates_where_data_can_be_simulated():
    def log_density(z, x):
        return -0.5 * jnp.sum(z**2) - 0.5 * jnp.sum((x - z) ** 2)

    target = LogDensity(log_density, 2, conditional=True)
    x = jnp.array([1.0, -3.0])
    found = trust.check(KEY, target, Conjugate(), x=x, simulate=simulate, draws=1024)
    assert found.trusted
    assert found.verdicts["calibration"] == "ok"
    wrong = trust.check(KEY, target, Conjugate(0.4), x=x, simulate=simulate, draws=1024)
    np.testing.assert_allclose(wrong["drift"].pictures["mean"], -0.4 * np.sqrt(2), atol=0.15)
    assert wrong.verdicts["calibration"] == "fail"
