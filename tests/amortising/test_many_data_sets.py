"""The benchmark of many data sets: its series, its comparison, and a run made small."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import multivariate_normal

from benchmarks import many_data_sets as study


def covariance(first, second, noise, count):
    """Of a stationary autoregression, by the recursion of its autocovariances."""
    one, two = first * (1 - second), second
    variance = noise**2 / ((1 - second**2) * (1 - first**2))
    lags = [variance, first * variance]
    for _ in range(count - 2):
        lags.append(one * lags[-1] + two * lags[-2])
    return np.array(lags)[np.abs(np.subtract.outer(np.arange(count), np.arange(count)))]


def test_the_series_has_the_density_of_a_stationary_autoregression():
    parts = (0.5, 0.6, -0.3, 0.8)
    y = np.random.default_rng(0).normal(size=study.TIMES)
    wanted = multivariate_normal(np.full(study.TIMES, 0.5), covariance(0.6, -0.3, 0.8, study.TIMES))
    found = float(study.Autoregressive(*map(jnp.asarray, parts)).log_prob(jnp.asarray(y)))
    assert found == pytest.approx(wanted.logpdf(y), rel=1e-4)


def test_series_that_are_drawn_have_its_covariances():
    drawn = jax.vmap(study.Autoregressive(0.5, 0.6, -0.3, 0.8).sample)(
        jax.random.split(jax.random.key(0), 4000)
    )
    wanted = covariance(0.6, -0.3, 0.8, 4)
    for start in (0, 50):
        np.testing.assert_allclose(np.cov(np.asarray(drawn)[:, start : start + 4].T), wanted, atol=0.08)


def row(**changes):
    usual = {"mean_error": 0.01, "sd_low": 0.98, "sd_high": 1.03, "trusted": True, "shifted": False}
    return usual | {"nuts_r_hat": 1.0} | changes


def test_what_is_trusted_but_wrong_is_counted():
    rows = [row(), row(mean_error=0.15), row(sd_low=0.7), row(sd_low=0.7, trusted=False)]
    rows += [row(mean_error=3.0, nuts_r_hat=1.5), row(mean_error=0.3, shifted=True)]
    found = study._agreement(rows)
    assert (found["compared"], found["trusted_compared"], found["trusted_but_wrong"]) == (5, 4, 2)
    assert found["near"] == pytest.approx(1 / 4)
    assert found["worst_sd"] == pytest.approx(0.3)


@pytest.mark.slow
def test_a_small_run_has_a_row_for_the_model_and_for_every_comparison(tmp_path):
    settings = study.Settings(only="psychometric")
    figures = study.run(settings, tmp_path, progress=False)["psychometric"]
    assert 0.7 < figures["coverage"] <= 1
    assert figures["trusted_but_wrong"] == 0
    kinds = [line["kind"] for line in study.files.read_rows(tmp_path / study.ROWS)]
    assert kinds == ["data set", "data set", "model"]
