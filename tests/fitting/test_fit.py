"""Fitting without choices, on targets whose answers are known."""

import importlib
import warnings

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import pytest
from numpyro import distributions as dist

import understudy
from understudy import (
    Gradients,
    IngredientError,
    Interrupted,
    LogDensity,
    fit,
    from_numpyro,
)
from understudy.posterior.verdict import Figure, Verdict
from understudy.students import CouplingFlow, Mixture, Placed
from understudy.surroundings import double_precision, in_double

MEAN = np.array([300.0, -0.02, 4.0])
FACTOR = np.array([[50.0, 0.0, 0.0], [0.009, 0.001, 0.0], [1.0, 2.0, 3.0]])


def badly_scaled() -> LogDensity:
    inverse = np.linalg.inv(FACTOR)
    return LogDensity(lambda z: -0.5 * jnp.sum((inverse @ (z - MEAN)) ** 2), 3)


def two_modes(heavy=0.8):
    def log_density(z):
        return jnp.logaddexp(
            jnp.log(heavy) - 8 * jnp.sum((z - 2) ** 2), jnp.log(1 - heavy) - 8 * jnp.sum((z + 2) ** 2)
        )

    return LogDensity(log_density, 2)


def centred_schools(y, sigma):
    mu = numpyro.sample("mu", dist.Normal(0, 5))
    tau = numpyro.sample("tau", dist.HalfCauchy(5))
    with numpyro.plate("school", 8):
        theta = numpyro.sample("theta", dist.Normal(mu, tau))
        numpyro.sample("y", dist.Normal(theta, sigma), obs=y)


SCHOOLS = (
    np.array([28.0, 8.0, -3.0, 7.0, -1.0, 1.0, 18.0, 12.0]),
    np.array([15.0, 10.0, 16.0, 11.0, 9.0, 11.0, 10.0, 18.0]),
)


def far(draws, mean, sd):
    """Largest error of a mean in deviations, and of a deviation as a share."""
    return max(np.abs((draws.mean(0) - mean) / sd).max(), np.abs(draws.std(0) / sd - 1).max())


@pytest.fixture(scope="module")
def gaussian():
    return fit(badly_scaled(), seed=1, verbose=False, cache=False)


def test_a_badly_scaled_gaussian_is_fitted_and_trusted(gaussian):
    assert gaussian.trusted
    assert isinstance(gaussian.student, Placed)
    draws = gaussian.sample(0, 100_000)["z"]
    exact = FACTOR @ FACTOR.T
    assert far(draws, MEAN, np.sqrt(np.diag(exact))) < 0.06
    correlation = exact / np.sqrt(np.outer(np.diag(exact), np.diag(exact)))
    np.testing.assert_allclose(np.corrcoef(draws.T), correlation, atol=0.05)


def test_finished_draws_are_right_too(gaussian):
    draws = gaussian.sample(3, 4096, finish=True)["z"]
    assert far(draws, MEAN, np.sqrt(np.diag(FACTOR @ FACTOR.T))) < 0.08


def test_stages_say_what_they_cost(gaussian):
    names = [stage.name for stage in gaussian.stages]
    assert names[:2] == ["compile", "starts"]
    assert names[-1] == "copula"
    assert gaussian.gradients > 10_000
    assert gaussian.seconds > 0


def test_a_location_far_from_zero_on_its_scale():
    target = LogDensity(lambda z: -0.5 * jnp.sum(((z - 1000) / 1e-4) ** 2), 1)
    draws = fit(target, verbose=False, cache=False).sample(0, 100_000)["z"]
    assert far(draws, 1000, 1e-4) < 0.05


@pytest.mark.parametrize(
    ("log_density", "mean", "sd"),
    [
        (lambda z: jnp.where(jnp.all(z > 0), -jnp.sum(z), -jnp.inf), 1.0, 1.0),
        (lambda z: jnp.where(jnp.all(jnp.abs(z - 0.5) < 0.5), 0.0, -jnp.inf), 0.5, 12**-0.5),
    ],
    ids=["exponential", "uniform"],
)
def test_walls_are_no_reason_to_refuse(log_density, mean, sd):
    result = fit(LogDensity(log_density, 2), verbose=False, cache=False)
    draws = result.sample(0, 20_000)["z"]
    assert far(draws, mean, sd) < 0.08
    assert np.isfinite(jax.vmap(log_density)(draws)).mean() > 0.995


def test_modes_get_their_weights():
    result = fit(two_modes(), verbose=False, cache=False)
    assert isinstance(result.student, Mixture)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        draws = result.sample(0, 20_000)["z"]
    assert (draws[:, 0] > 0).mean() == pytest.approx(0.8, abs=0.05)


@pytest.mark.parametrize(
    "log_density",
    [lambda z: -0.5 * z[0] ** 2, lambda z: -0.5 * z[0] ** 2 - 0.01 * jnp.log1p(z[1] ** 2)],
    ids=["a number without a prior", "a tail that is too heavy"],
)
def test_an_improper_posterior_is_called_so(log_density):
    with pytest.raises(IngredientError, match="improper"):
        fit(LogDensity(log_density, 2), verbose=False, cache=False)


@pytest.mark.slow
def test_a_hierarchy_without_a_useful_mode():
    result = fit(from_numpyro(centred_schools, *SCHOOLS), verbose=False, cache=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        draws = result.sample(0, 20_000)
    # By a long run of the non-centred model.
    assert draws["mu"].mean() == pytest.approx(4.37, abs=0.35)
    assert np.median(draws["tau"]) == pytest.approx(2.77, abs=0.4)


def test_density_that_insists_on_single_precision_is_fitted_in_it():
    def log_density(z):
        single = jnp.zeros((), jnp.float32)
        return jax.lax.fori_loop(
            0, 2, lambda i, total: total - 0.5 * (z[i] - 1).astype(jnp.float32) ** 2, single
        )

    result = fit(LogDensity(log_density, 2), verbose=False, cache=False)
    assert far(result.sample(0, 20_000)["z"], 1.0, 1.0) < 0.08


def test_an_interrupt_gives_the_posterior_so_far(monkeypatch):
    module = importlib.import_module("understudy.fitting.fit")

    def interrupted(self, found):
        raise KeyboardInterrupt

    never = lambda *args: Verdict((Figure("planted", 1.0, 0.0),))  # noqa: E731
    monkeypatch.setattr(module, "judge", never)
    monkeypatch.setattr(module._Fitting, "teach", interrupted)
    with pytest.raises(Interrupted) as caught:
        fit(badly_scaled(), verbose=False, cache=False)
    draws = caught.value.result.sample(0, 4000, finish=False)["z"]
    assert far(draws, MEAN, np.sqrt(np.diag(FACTOR @ FACTOR.T))) < 0.1


def test_a_student_that_is_not_trusted_has_its_draws_finished(monkeypatch):
    module = importlib.import_module("understudy.fitting.fit")
    never = lambda *args: Verdict((Figure("planted", 1.0, 0.0),))  # noqa: E731
    monkeypatch.setattr(module, "judge", never)
    result = fit(badly_scaled(), verbose=False, cache=False, flows=False)
    assert not result.trusted
    with pytest.warns(UserWarning, match="not trusted"):
        draws = result.sample(0, 4096)["z"]
    assert far(draws, MEAN, np.sqrt(np.diag(FACTOR @ FACTOR.T))) < 0.08


def test_a_fit_that_was_cut_off_goes_on(tmp_path):
    fit(badly_scaled(), verbose=False, cache=False, folder=tmp_path)
    again = fit(badly_scaled(), verbose=False, cache=False, folder=tmp_path, resume=True)
    assert "resume" in [stage.name for stage in again.stages]
    assert far(again.sample(0, 20_000)["z"], MEAN, np.sqrt(np.diag(FACTOR @ FACTOR.T))) < 0.08
    with pytest.raises(IngredientError, match="another target or seed"):
        fit(badly_scaled(), seed=5, verbose=False, folder=tmp_path, resume=True)


def test_a_folder_with_a_stage_is_not_begun_anew(tmp_path):
    (tmp_path / "stage.safetensors").write_bytes(b"a stage")
    with pytest.raises(IngredientError, match="pass resume=True"):
        fit(badly_scaled(), verbose=False, folder=tmp_path)
    with pytest.raises(understudy.StoreError, match="not written by understudy"):
        fit(badly_scaled(), verbose=False, folder=tmp_path, resume=True)


def test_an_interrupt_keeps_the_seeds_that_are_finished(gaussian, monkeypatch, tmp_path):
    module = importlib.import_module("understudy.fitting.fit")
    places = []

    def run(self):
        places.append(self.kept.folder)
        if self.seed == 2:
            raise KeyboardInterrupt
        return gaussian

    monkeypatch.setattr(module._Fitting, "run", run)
    with pytest.raises(Interrupted, match="best posterior") as caught:
        fit(badly_scaled(), seeds=4, verbose=False, cache=False, folder=tmp_path)
    assert caught.value.result.trusted
    assert len(caught.value.result.repeats) == 1
    assert places == [tmp_path / f"seed-{seed}" for seed in range(3)]


def test_a_budget_of_gradients_is_kept():
    result = fit(badly_scaled(), budget=Gradients(60_000), verbose=False, cache=False)
    assert result.gradients < 150_000


def test_seeds_are_kept_for_the_check():
    result = fit(badly_scaled(), seeds=2, verbose=False, cache=False)
    assert len(result.repeats) == 1


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"budget": 0}, "budget"),
        ({"seed": -1}, "seed"),
        ({"seeds": 0}, "seeds"),
        ({"resume": True}, "folder"),
    ],
)
def test_bad_settings_get_a_sentence(settings, words):
    with pytest.raises(IngredientError, match=words):
        fit(badly_scaled(), **settings)


def test_something_that_is_no_target_gets_a_sentence():
    with pytest.raises(IngredientError, match="target is a Target"):
        fit(lambda z: -z @ z)


def test_a_density_that_is_nowhere_finite_gets_a_sentence():
    with pytest.raises(IngredientError, match="not finite at any"):
        fit(LogDensity(lambda z: jnp.sum(z) * jnp.nan, 2), verbose=False)


def test_a_million_rows_have_the_mean_they_should(gaussian):
    draws = gaussian.sample(0, 200_000)["z"]
    assert draws.dtype == np.float64
    exact = draws.mean(0, dtype=np.longdouble)
    np.testing.assert_allclose(draws.mean(0), exact.astype(float), rtol=1e-9)


def test_a_saved_fit_keeps_its_verdict(gaussian, tmp_path):
    gaussian.save(tmp_path / "fit.safetensors")
    again = understudy.load(tmp_path / "fit.safetensors")
    assert again.trusted
    np.testing.assert_array_equal(again.sample(0, 100)["z"], gaussian.sample(0, 100)["z"])


def test_an_exported_fit_draws_the_same(gaussian, tmp_path):
    gaussian.export(tmp_path / "fit.understudy")
    again = understudy.load_exported(tmp_path / "fit.understudy").sample(0, 100)
    np.testing.assert_allclose(again["z"], gaussian.sample(0, 100)["z"], rtol=1e-12)


def test_a_flow_of_couplings_has_the_density_of_its_draws():
    with double_precision():
        flow = in_double(CouplingFlow(jax.random.key(0), 3, layers=4, width=8))
        where = lambda f: (f.leave, f.curves)  # noqa: E731
        flow = eqx.tree_at(where, flow, (flow.leave + 0.05, flow.curves + 0.1))
        z, log_q = flow.sample_and_log_prob(jax.random.key(1), 100)
        np.testing.assert_allclose(jax.vmap(flow.log_prob)(z), log_q, rtol=1e-8)
