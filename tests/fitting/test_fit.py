"""Fitting without choices, on targets whose answers are known."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import paramax
import pytest
from numpyro import distributions as dist

import understudy
from understudy import Gradients
from understudy.core import IngredientError
from understudy.fitting import (
    Chart,
    MaskedCouplings,
    SinhArcsinh,
    Whitened,
    assess,
    coloured,
    find_regions,
    fit,
    small_flow,
)
from understudy.fitting.charts import weigh
from understudy.posterior import Posterior
from understudy.students import FullGaussian, Mixture
from understudy.targets import LogDensity
from understudy.targets.numpyro import from_numpyro

MEAN = jnp.array([300.0, -0.02, 4.0])
FACTOR = jnp.array([[50.0, 0.0, 0.0], [0.009, 0.001, 0.0], [1.0, 2.0, 3.0]])


def badly_scaled() -> LogDensity:
    inverse = jnp.linalg.inv(FACTOR)
    return LogDensity(lambda z: -0.5 * jnp.sum((inverse @ (z - MEAN)) ** 2), 3)


def eight_schools(y, sigma):
    mu = numpyro.sample("mu", dist.Normal(0, 5))
    tau = numpyro.sample("tau", dist.HalfCauchy(5))
    t = numpyro.sample("t", dist.Normal(0, 1).expand([8]).to_event(1))
    theta = numpyro.deterministic("theta", mu + tau * t)
    numpyro.sample("y", dist.Normal(theta, sigma), obs=y)


SCHOOLS = (
    np.array([28.0, 8.0, -3.0, 7.0, -1.0, 1.0, 18.0, 12.0]),
    np.array([15.0, 10.0, 16.0, 11.0, 9.0, 11.0, 10.0, 18.0]),
)


def test_the_region_of_a_badly_scaled_gaussian_is_exact():
    search = find_regions(badly_scaled(), seed=1, starts=3)
    (region,) = search.regions
    covariance = region.factor @ region.factor.T
    exact = np.asarray(FACTOR @ FACTOR.T, float)
    scale = np.sqrt(np.diag(exact))
    np.testing.assert_allclose((region.mean - MEAN) / scale, 0, atol=1e-3)
    np.testing.assert_allclose(
        covariance / np.outer(scale, scale), exact / np.outer(scale, scale), atol=1e-3
    )
    assert search.ends == 1


def two_modes(heavy=0.8, precision=50.0):
    def log_density(z):
        return jnp.logaddexp(
            jnp.log(heavy) - precision * jnp.sum((z - 1) ** 2),
            jnp.log(1 - heavy) - precision * jnp.sum((z + 1) ** 2),
        )

    return LogDensity(log_density, 2)


def test_the_search_finds_both_modes_and_the_heavier_first():
    search = find_regions(two_modes(), starts=8)
    heavy, light = search.regions
    np.testing.assert_allclose(heavy.mean, 1, atol=1e-3)
    np.testing.assert_allclose(light.mean, -1, atol=1e-3)
    assert heavy.evidence - light.evidence == pytest.approx(np.log(4), abs=0.01)


def test_the_search_leaves_out_modes_without_mass_and_those_without_a_valley():
    assert len(find_regions(two_modes(0.999), starts=8).regions) == 1
    assert len(find_regions(two_modes(precision=0.4), starts=8).regions) == 1


def test_a_mixture_is_weighed_by_the_mass_of_its_parts():
    scale = 0.1 * jnp.eye(2)
    parts = [FullGaussian(2, jnp.full(2, at), scale) for at in (1.0, -1.0)]
    weights = weigh(jax.random.key(0), two_modes(0.7), parts)
    np.testing.assert_allclose(weights, [0.7, 0.3], atol=0.02)
    even = assess(jax.random.key(1), two_modes(0.7), Mixture(parts))
    right = assess(jax.random.key(1), two_modes(0.7), Mixture(parts, jnp.asarray(weights)))
    assert even < 0.9 < 0.97 < right


def test_charts_compose_and_look_at_each_other():
    chart = Chart(np.asarray(MEAN, float), np.asarray(FACTOR, float))
    inner = FullGaussian(3, jnp.array([1.0, -2.0, 0.5]), 0.5 * jnp.eye(3))
    moved = chart.after(inner)
    np.testing.assert_allclose(moved.mean, chart.mean + chart.factor @ [1.0, -2.0, 0.5], rtol=1e-6)
    back = moved.seen_from(chart)
    np.testing.assert_allclose(back.mean, [1.0, -2.0, 0.5], rtol=1e-4)
    np.testing.assert_allclose(back.factor, 0.5 * np.eye(3), atol=1e-4)


def test_a_target_without_a_finite_start_gets_a_sentence():
    with pytest.raises(IngredientError, match="not finite at any"):
        find_regions(LogDensity(lambda z: jnp.sum(z) * jnp.nan, 2), starts=2)


def test_assessment_knows_equal_and_shifted_gaussians():
    target = LogDensity(lambda z: -0.5 * z @ z, 2)
    key = jax.random.key(0)
    assert assess(key, target, FullGaussian(2)) == pytest.approx(1.0, abs=1e-5)
    # In equilibrium, between N(0, 1) and N(delta, 1): 2 Phi(-delta / sqrt 2).
    shifted = assess(key, target, FullGaussian(2, jnp.array([1.0, 0.0])), draws=16_384)
    assert shifted == pytest.approx(2 * 0.2398, abs=0.03)


def shaken(bijection):
    leaves, rest = eqx.partition(bijection, eqx.is_inexact_array)
    key = jax.random.key(3)
    moved = jax.tree.map(lambda leaf: leaf + 0.4 * jax.random.normal(key, leaf.shape), leaves)
    return eqx.combine(moved, rest)


@pytest.mark.parametrize("bijection", [SinhArcsinh(3), MaskedCouplings(jax.random.key(0), 3, 3, 8)])
def test_a_bijection_inverts_and_has_its_derivative(bijection):
    bijection = shaken(bijection)
    x = jnp.array([-1.5, 0.2, 3.0])
    y, log_det = bijection.transform_and_log_det(x)
    back, inverse_log_det = bijection.inverse_and_log_det(y)
    _, expected = jnp.linalg.slogdet(jax.jacobian(bijection.transform)(x))
    assert not np.allclose(y, x, atol=0.1)
    np.testing.assert_allclose(bijection.transform(x), y, rtol=1e-5)
    np.testing.assert_allclose(back, x, rtol=1e-3)
    np.testing.assert_allclose([log_det, -inverse_log_det], [expected, expected], rtol=1e-3)


def test_fast_draws_are_draws_of_the_flow():
    factor = jnp.array([[2.0, 0.0, 0.0], [1.0, 0.5, 0.0], [-1.0, 0.0, 1.0]])
    flow = coloured(shaken(small_flow(jax.random.key(0), 3, width=4)), jnp.ones(3), factor)
    draws = Posterior(LogDensity(lambda z: -0.5 * z @ z, 3), flow).draws(jax.random.key(1), 20_000)
    noise = jax.vmap(lambda z: through(flow, z))(draws)
    np.testing.assert_allclose(noise.mean(0), 0, atol=0.035)
    np.testing.assert_allclose(jnp.cov(noise.T), np.eye(3), atol=0.05)
    assert float(jnp.linalg.norm(draws.mean(0) - 1)) > 0.1


def through(flow, z):
    merged = paramax.unwrap(flow.distribution).merge_transforms()
    return merged.bijection.inverse(z)


def test_a_coloured_flow_starts_as_the_gaussian_it_was_given():
    flow = coloured(small_flow(jax.random.key(0), 3, layers=2, width=4), MEAN, FACTOR)
    gaussian = FullGaussian(3, MEAN, FACTOR)
    z = gaussian.sample(jax.random.key(1), None, 5)
    ours, exact = jax.jit(lambda z: (jax.vmap(flow.log_prob)(z), jax.vmap(gaussian.log_prob)(z)))(z)
    np.testing.assert_allclose(ours, exact, atol=0.2)


def test_a_gaussian_needs_no_more_than_its_region():
    fitted = fit(badly_scaled(), starts=2, cache=False, verbose=False)
    assert [stage.name for stage in fitted.stages] == ["region"]
    assert fitted.stages[0].acceptance > 0.99
    draws = fitted.sample(jax.random.key(0), 20_000)["z"]
    scale = jnp.sqrt(jnp.diag(FACTOR @ FACTOR.T))
    np.testing.assert_allclose((draws.mean(0) - MEAN) / scale, 0, atol=0.03)
    np.testing.assert_allclose(draws.std(0) / scale, 1, atol=0.03)


@pytest.mark.slow
def test_a_flow_is_nearer_to_eight_schools_than_a_gaussian():
    target = from_numpyro(eight_schools, *SCHOOLS)
    fitted = fit(target, starts=2, cache=False)
    region, gaussian, flow = fitted.stages
    assert region.acceptance < gaussian.acceptance < flow.acceptance
    assert flow.kept
    assert not gaussian.kept
    draws = fitted.sample(jax.random.key(0), 20_000)
    assert draws["tau"].mean() == pytest.approx(3.60, abs=0.2)
    assert draws["tau"].std() == pytest.approx(3.20, rel=0.1)


def test_eight_schools_in_named_sites(capsys):
    target = from_numpyro(eight_schools, *SCHOOLS)
    fitted = fit(target, starts=2, gaussian_updates=150, flow_updates=0, cache=False, verbose=True)
    assert isinstance(fitted, Posterior)
    region, gaussian = fitted.stages
    assert region.acceptance < gaussian.acceptance
    assert gaussian.kept
    assert not region.kept
    assert capsys.readouterr().err.count("\n") == 2
    draws = fitted.sample(jax.random.key(0), 20_000)
    assert {name: value.shape[1:] for name, value in draws.items()} == {
        "mu": (), "tau": (), "t": (8,), "theta": (8,)
    }  # fmt: skip
    # Reference draws: mu has mean 4.41 and standard deviation 3.31.
    assert draws["mu"].mean() == pytest.approx(4.41, abs=0.5)
    assert draws["mu"].std() == pytest.approx(3.31, rel=0.15)
    assert fitted.gradients > 10_000


def test_chunks_do_not_change_the_draws():
    fitted = fit(badly_scaled(), starts=1, cache=False)
    few, many = (np.asarray(fitted.draws(jax.random.key(3), n)) for n in (10, 20_000))
    np.testing.assert_array_equal(few, many[:10])
    assert many.shape == (20_000, 3)


def test_whitening_moves_the_density():
    white = Whitened(badly_scaled(), MEAN, FACTOR)
    u = jnp.array([0.5, -1.0, 2.0])
    assert float(white.log_density(u)) == pytest.approx(-0.5 * 5.25, rel=1e-3)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"budget": -1}, "budget"),
        ({"seed": -1}, "seed"),
        ({"starts": -1}, "starts"),
        ({"seeds": 0}, "seeds"),
        ({"enough": 2.0}, "enough"),
    ],
)
def test_bad_settings_get_a_sentence(settings, words):
    with pytest.raises(IngredientError, match=words):
        fit(badly_scaled(), **settings)


def test_something_that_is_no_target_gets_a_sentence():
    with pytest.raises(IngredientError, match="from_numpyro"):
        fit(lambda z: 0.0)


def test_fit_with_a_target_alone_chooses_everything():
    fitted = understudy.fit(badly_scaled(), starts=1, cache=False)
    assert isinstance(fitted, Posterior)
    with pytest.raises(IngredientError, match="teacher and feedback missing"):
        understudy.fit(badly_scaled(), FullGaussian(3))
    with pytest.raises(IngredientError, match="Unknown setting 'updates'"):
        understudy.fit(badly_scaled(), updates=3)


def skewed() -> LogDensity:
    return LogDensity(lambda z: -0.5 * z[0] ** 2 - jnp.exp(z[1]) + 2 * z[1], 2)


def test_a_budget_of_gradients_is_kept():
    fitted = fit(skewed(), Gradients(20_000), starts=1, flow_updates=0, cache=False)
    assert fitted.gradients < 20_000 + 50 * 64 * 4 * 2
    assert fitted.stages[1].note.startswith("full covariance")


def test_seeds_are_fitted_side_by_side():
    fitted = fit(skewed(), seeds=3, starts=1, flow_updates=0, gaussian_updates=50, cache=False)
    assert len(fitted.repeats) == 2
    means = np.stack([np.asarray(s.mean) for s in (fitted.student, *fitted.repeats)])
    assert (means.std(0) > 0).all()
    # z_1 = log of a Gamma(2, 1): mean digamma(2) = 0.423.
    np.testing.assert_allclose(means[:, 1], 0.423, atol=0.25)


def test_every_mode_gets_a_part_of_a_mixture():
    fitted = fit(two_modes(0.7), flow_updates=0, gaussian_updates=50, cache=False)
    assert isinstance(fitted.student, Mixture)
    draws = np.asarray(fitted.draws(jax.random.key(0), 20_000))
    assert (draws[:, 0] > 0).mean() == pytest.approx(0.7, abs=0.03)


@pytest.mark.slow
def test_a_flow_for_every_mode():
    def bent(z):
        one = -0.5 * (z[0] - 4) ** 2 - 2 * (z[1] - 0.5 * (z[0] - 4) ** 2) ** 2
        two = -0.5 * (z[0] + 4) ** 2 - 2 * (z[1] + 0.5 * (z[0] + 4) ** 2) ** 2
        return jnp.logaddexp(jnp.log(0.75) + one, jnp.log(0.25) + two)

    fitted = fit(LogDensity(bent, 2), starts=16, cache=False)
    assert fitted.stages[-1].name == "flow"
    assert fitted.stages[-1].acceptance > 0.9
    draws = np.asarray(fitted.draws(jax.random.key(0), 20_000))
    assert (draws[:, 0] > 0).mean() == pytest.approx(0.75, abs=0.02)
