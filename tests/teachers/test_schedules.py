"""Settings that follow a schedule."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from understudy.core import IngredientError, Proposal
from understudy.teachers import Langevin, Preconditioned, Scheduled, hmc, mala

NONE = Proposal(lambda key, n: jnp.zeros((n, 2)), None)


def test_settings_follow_their_schedules_through_wrappers():
    teacher = Scheduled(
        Preconditioned(hmc(0.1, steps=7)),
        steps=optax.linear_schedule(1, 5, 4),
        step_size=optax.exponential_decay(0.4, 1, 0.5),
    )
    seen = []
    for _ in range(6):
        inner = teacher.teacher.teacher
        seen.append((int(inner.steps), float(inner.parameters["step_size"])))
        teacher = teacher.adapt(None)
    np.testing.assert_allclose(seen, [(min(1 + i, 5), 0.4 * 0.5**i) for i in range(6)], rtol=1e-5)


def test_a_growing_number_of_steps_takes_hold_inside_one_compiled_loop():
    teacher = Scheduled(Langevin(0.01), steps=lambda i: 1 + 3 * i)

    @eqx.filter_jit
    def run(teacher, z):
        def update(teacher, key):
            out = teacher.improve(key, lambda z: jnp.zeros(()) * z.sum(), z, NONE)
            return teacher.adapt(out.acceptance), jnp.var(out.z)

        return jax.lax.scan(update, teacher, jax.random.split(jax.random.key(0), 4))

    end, variance = run(teacher, jnp.zeros((2000, 2)))
    np.testing.assert_allclose(variance, 0.02 * (1 + 3 * np.arange(4)), rtol=0.12)
    assert int(end.updates) == 4


def test_a_setting_that_is_not_scheduled_still_adapts():
    teacher = Scheduled(mala(0.1, target_acceptance=0.5), steps=lambda i: 2 + i)
    teacher = teacher.adapt(jnp.array(1.0))
    assert teacher.teacher.parameters["step_size"] > 0.1
    assert int(teacher.teacher.steps) == 3
    assert not teacher.deterministic


def test_unknown_settings_and_values_are_refused():
    with pytest.raises(IngredientError, match="leapfrog"):
        Scheduled(mala(), leapfrog=lambda i: i)
    with pytest.raises(IngredientError, match="fixed"):
        Scheduled(Preconditioned(mala()), draws=lambda i: i)
    with pytest.raises(IngredientError, match="functions"):
        Scheduled(mala(), steps=3)
