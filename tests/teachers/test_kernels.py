"""BlackJAX kernels as teachers, against exact draws of known targets."""

import blackjax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from understudy.core import IngredientError, Proposal
from understudy.teachers import (
    Kernel,
    adjusted_mclmc,
    barker,
    elliptical_slice,
    ghmc,
    hmc,
    mala,
    nuts,
    random_walk,
)

NONE = Proposal(lambda key, n: jnp.zeros((n, 2)), None)
MEAN = jnp.array([1.0, -0.5])
SD = jnp.array([0.7, 1.3])
ROOT = jnp.array([[1.0, 0.0], [0.5, 0.8]]) * SD[:, None]
WHITEN = jnp.linalg.inv(ROOT)


def log_density(z):
    return -0.5 * jnp.sum((WHITEN @ (z - MEAN)) ** 2)


def exact(key, n):
    return MEAN + jax.random.normal(key, (n, 2)) @ ROOT.T


def scores(z):
    """z-scores of means and second moments of draws that should be exact."""
    u = np.asarray((z - MEAN) @ WHITEN.T)
    features = np.column_stack([u, u**2 - 1, u[:, 0] * u[:, 1]])
    return features.mean(0) / features.std(0) * np.sqrt(len(u))


EXACT = {
    "mala": mala(0.3, 3),
    "hmc jittered": hmc(0.5, 3, 2, jitter=0.7),
    "random walk": random_walk(0.7, 3),
}
EXACT_SLOW = {
    "hmc": hmc(0.5, 3, 2),
    "nuts": nuts(0.5, 1, doublings=4),
    "ghmc": ghmc(0.5, 4),
    "barker": barker(0.6, 3),
    "adjusted mclmc": adjusted_mclmc(1.2, 2, 2),
}
ALL = [
    *[pytest.param(teacher, id=name) for name, teacher in EXACT.items()],
    *[pytest.param(teacher, id=name, marks=pytest.mark.slow) for name, teacher in EXACT_SLOW.items()],
]


@eqx.filter_jit
def improve(teacher, key, z):
    return teacher.improve(key, log_density, z, NONE)


@pytest.mark.parametrize("teacher", ALL)
def test_exact_kernels_keep_their_target(teacher):
    z = exact(jax.random.key(1), 2000)
    out = improve(teacher, jax.random.key(2), z)
    assert np.abs(scores(out.z)).max() < 4
    assert out.finite.all()
    assert not jnp.array_equal(out.z, z)
    assert 0.3 < float(out.acceptance.mean()) < 1
    assert float(out.acceptance.min()) >= 0
    assert float(out.acceptance.max()) <= 1 + 1e-6


def test_elliptical_slice_keeps_its_target():
    teacher = elliptical_slice(jnp.array([0.5, 0.0]), jnp.array([4.0, 2.0]), 2)
    z = exact(jax.random.key(1), 2000)
    out = improve(teacher, jax.random.key(2), z)
    assert np.abs(scores(out.z)).max() < 4
    assert out.acceptance is None
    assert (out.z != z).any(-1).all()


@pytest.mark.slow
def test_elliptical_slice_with_a_full_covariance_reaches_the_target():
    full = elliptical_slice(0.0, jnp.array([[3.0, 0.5], [0.5, 3.0]]), 20)
    out = improve(full, jax.random.key(3), exact(jax.random.key(1), 2000) + 1.0)
    assert np.abs(scores(out.z)).max() < 4


def test_elliptical_slice_stops_where_the_likelihood_is_zero():
    z = jnp.array([[1.0, 0.0], [-1.0, 0.0]])
    run = eqx.filter_jit(elliptical_slice(0.0, jnp.ones(2), 3).improve)
    out = run(jax.random.key(0), lambda z: jnp.full((), -jnp.inf), z, NONE)
    assert not out.finite.any()


def test_hmc_forgets_a_wrong_start():
    z = jnp.full((2000, 2), 4.0)
    assert np.abs(scores(z + 1e-3 * exact(jax.random.key(0), 2000))).max() > 50
    out = improve(hmc(0.5, 3, 60, jitter=0.5), jax.random.key(2), z)
    assert np.abs(scores(out.z)).max() < 4


def test_a_mala_step_is_the_documented_formula():
    tiny = mala(1e-4)
    z = exact(jax.random.key(1), 2000)
    move = improve(tiny, jax.random.key(2), z).z - z
    np.testing.assert_allclose(np.square(move).mean(), 2e-4, rtol=0.08)


def test_one_leapfrog_step_is_a_langevin_step():
    langevin, leapfrog = mala(0.18), hmc(0.6, 1)
    z = exact(jax.random.key(1), 2000)
    rates = [improve(t, jax.random.key(2), z).acceptance.mean() for t in (langevin, leapfrog)]
    np.testing.assert_allclose(rates[0], rates[1], atol=0.03)


@eqx.filter_jit
def adapted(teacher, z):
    def update(teacher, key):
        rate = teacher.improve(key, log_density, z, NONE).acceptance.mean()
        return teacher.adapt(rate), rate

    return jax.lax.scan(update, teacher, jax.random.split(jax.random.key(0), 200))[1]


@pytest.mark.parametrize(
    "teacher",
    [
        mala(1e-3, target_acceptance=0.7),
        mala(4.0, target_acceptance=0.7),
        pytest.param(hmc(0.01, 3, target_acceptance=0.7), marks=pytest.mark.slow),
    ],
    ids=["from below", "from above", "hmc"],
)
def test_adapt_reaches_the_acceptance_wanted(teacher):
    rates = adapted(teacher, exact(jax.random.key(1), 256))
    assert abs(float(rates[-30:].mean()) - 0.7) < 0.03
    assert abs(float(rates[0]) - 0.7) > 0.15


def test_adapt_ignores_what_it_cannot_use():
    assert mala(0.1).adapt(jnp.array(0.2)).parameters["step_size"] == jnp.asarray(0.1)
    wanting = mala(0.1, target_acceptance=0.6)
    assert wanting.adapt(None).parameters["step_size"] == jnp.asarray(0.1)
    assert wanting.adapt(jnp.array(jnp.nan)).parameters["step_size"] == jnp.asarray(0.1)
    capped = mala(0.1, target_acceptance=0.6, largest_step=0.1)
    assert capped.adapt(jnp.array(1.0)).parameters["step_size"] == jnp.asarray(0.1)


@eqx.filter_jit
def improve_half(teacher, bad, z):
    def half(z):
        return jnp.where(z[0] > 0, -0.5 * jnp.sum(z**2), bad)

    return teacher.improve(jax.random.key(0), half, z, NONE)


@pytest.mark.parametrize("bad", [-jnp.inf, jnp.nan])
def test_chains_outside_the_support_are_flagged(bad):
    z = jnp.array([[1.5, 0.0], [-1.5, 0.0], [2.0, 1.0], [jnp.nan, 0.0]])
    out = improve_half(mala(0.05, 2), jnp.asarray(bad), z)
    assert out.finite.tolist() == [True, False, True, False]


def test_settings_change_without_recompiling():
    traces = []

    @eqx.filter_jit
    def run(teacher, z):
        traces.append(1)
        return teacher.improve(jax.random.key(0), log_density, z, NONE).z

    z = exact(jax.random.key(1), 4)
    few, many = run(hmc(0.1, 2, 1), z), run(hmc(0.4, 5, 7), z)
    assert len(traces) == 1
    assert not jnp.array_equal(few, many)


def test_a_sweep_is_a_vmap():
    z = exact(jax.random.key(1), 200)
    sweep = jax.vmap(lambda eps: mala(eps, 2))(jnp.array([0.01, 0.5, 2.0]))
    run = eqx.filter_vmap(lambda t: t.improve(jax.random.key(0), log_density, z, NONE))
    out = eqx.filter_jit(run)(sweep)
    assert out.z.shape == (3, 200, 2)
    assert np.all(np.diff(out.acceptance.mean(-1)) < 0)


def test_any_blackjax_kernel_fits():
    teacher = Kernel(
        blackjax.mcmc.dynamic_hmc.as_top_level_api,
        {"step_size": 0.5, "inverse_mass_matrix": jnp.ones(2)},
        2,
    )
    z = exact(jax.random.key(1), 2000)
    out = improve(teacher, jax.random.key(2), z)
    assert np.abs(scores(out.z)).max() < 4


@pytest.mark.parametrize(
    "make",
    [
        lambda: mala(0.0),
        lambda: mala(-1.0),
        lambda: mala(jnp.nan),
        lambda: mala(0.1, 0),
        lambda: mala(0.1, 1.5),
        lambda: mala(0.1, 1, 1.0),
        lambda: hmc(0.1, 0),
        lambda: Kernel(blackjax.mcmc.mala.as_top_level_api, {"step": 1.0}, jitter=0.5),
    ],
)
def test_bad_settings_are_refused(make):
    with pytest.raises(IngredientError, match="came"):
        make()
