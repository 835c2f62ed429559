"""The result of a fit, around students and a model whose answers are known."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import pytest
from numpyro import distributions as dist

from tests.posterior.conjugate import MEAN, SD, posterior
from understudy.core import IngredientError
from understudy.files import StoreError
from understudy.posterior.cost import NutsCost, break_even, measure_nuts
from understudy.posterior.posterior import Posterior
from understudy.posterior.verdict import Figure, Verdict
from understudy.students import FullGaussian, Implicit
from understudy.targets import LogDensity
from understudy.targets.numpyro import from_numpyro
from understudy.teachers import Annealed, hmc, mala

KEY = jax.random.key(5)


@pytest.fixture(scope="module")
def right():
    return posterior()


@pytest.fixture(scope="module")
def wrong():
    return posterior(shift=0.15, stretch=1.3)


def test_samples_are_the_flat_draws_in_named_sites(right):
    sites = right.sample(KEY, 20_000)
    assert {name: value.shape for name, value in sites.items()} == {
        "mu": (20_000, 2),
        "both": (20_000, 2),
    }
    np.testing.assert_allclose(sites["mu"], right.draws(KEY, 20_000), rtol=1e-5)
    np.testing.assert_allclose(sites["both"][:, 0], sites["mu"].sum(1), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(sites["mu"].mean(0), MEAN, atol=0.02)
    np.testing.assert_allclose(sites["mu"].std(0), SD, rtol=0.03)


def test_chunks_are_different_and_small_samples_are_beginnings_of_large_ones(right):
    many = np.asarray(right.draws(KEY, 40_000))
    assert len(np.unique(many[:, 0])) > 39_000
    np.testing.assert_array_equal(right.draws(KEY, 10), many[:10])
    assert not np.array_equal(right.draws(jax.random.key(6), 10), many[:10])
    np.testing.assert_array_equal(right.draws(jax.random.PRNGKey(5), 10), many[:10])


def test_many_draws_are_as_right_as_few(right):
    sites = right.sample(KEY, 300_000)
    assert sites["mu"].dtype == np.float64
    # Standard errors of 0.0007.
    np.testing.assert_allclose(sites["mu"].mean(0), MEAN, atol=0.0035)


def test_a_million_draws_have_the_mean_that_they_have():
    student = FullGaussian(1, jnp.ones(1), 1e-3 * jnp.eye(1))
    result = Posterior(LogDensity(lambda z: -0.5 * ((z - 1) / 1e-3) @ ((z - 1) / 1e-3), 1), student)
    z = result.sample(KEY, 1_000_000)["z"]
    assert abs(z.mean(0)[0] - 1) < 1e-5, "a hundredth of the standard deviation"


def test_whole_numbers_are_keys(right):
    np.testing.assert_array_equal(right.sample(5, 3)["mu"], right.sample(jax.random.key(5), 3)["mu"])


def test_refining_corrects_a_wrong_student_and_says_so(wrong):
    refined = wrong.refine(KEY, 3000, 10)
    np.testing.assert_allclose(refined.z.mean(0), MEAN, atol=0.03)
    np.testing.assert_allclose(refined.z.std(0), SD, rtol=0.06)
    np.testing.assert_allclose(refined.draws["mu"], refined.z, rtol=1e-5)
    assert refined.draws["mu"].shape == (3000, 2)
    assert refined.r_hat["mu"].shape == (2,)
    assert np.all(refined.r_hat["mu"] < 1.05)
    assert np.all(refined.ess["mu"] > 1000)
    assert 0.5 < refined.acceptance <= 1
    assert refined.lost == 0
    assert "3,000 draws" in str(refined)


def test_nested_r_hat_sees_chains_that_remember_their_start(wrong):
    refined = wrong.refine(KEY, 64, 4, teacher=mala(1e-4))
    assert np.all(refined.r_hat["mu"] > 2)
    assert not refined.converged
    assert str(refined).startswith("not converged")


def test_refining_sees_chains_that_are_still_on_their_way():
    """Far away from everything all chains move alike, so that nested R-hat sees nothing."""
    target = LogDensity(lambda z: -0.5 * jnp.sum(z**2), 2)
    far = Posterior(target, FullGaussian(2, jnp.full(2, 60.0), 0.1 * jnp.eye(2)))
    refined = far.refine(KEY, 64, 6, teacher=mala(0.05, 4))
    assert np.all(refined.drift["z"] > 0.5)
    assert not refined.converged


def test_constant_entries_are_left_out_of_the_diagnostics():
    def model():
        x = numpyro.sample("x", dist.Normal(0, 1))
        numpyro.deterministic("pair", jnp.stack([x, jnp.zeros(())]))

    refined = Posterior(from_numpyro(model), FullGaussian(1)).refine(KEY, 64, 8)
    for figures in (refined.r_hat, refined.drift, refined.ess):
        assert np.isnan(figures["pair"]).tolist() == [False, True]
    assert refined.converged


def test_effective_draws_are_those_of_independent_chains(right):
    """A teacher that stays put leaves as many draws as there are chains."""
    refined = right.refine(KEY, 64, 8, teacher=mala(1e-9))
    np.testing.assert_allclose(refined.ess["mu"], 1024, rtol=0.02)


def test_break_even_is_for_students_whose_own_draws_can_be_used(right):
    doubtful = eqx.tree_at(
        lambda p: p.verdict,
        right,
        Verdict((Figure("quantiles of the student", 1.0, 0.06),)),
        is_leaf=lambda x: x is None,
    )
    with pytest.raises(IngredientError, match="those of this student cannot"):
        doubtful.break_even()


@pytest.mark.parametrize("method", ["psis", "independence"])
def test_resampling_a_wrong_gaussian_gives_the_right_moments(wrong, method):
    made = wrong.resample(KEY, 4000, method)
    np.testing.assert_allclose(made.z.mean(0), MEAN, atol=0.03)
    np.testing.assert_allclose(made.z.std(0), SD, rtol=0.05)
    np.testing.assert_allclose(made.draws["mu"], made.z, rtol=1e-5)
    assert made.pareto_k < 0.7
    assert 0.3 < made.acceptance < 0.95
    before = np.asarray(wrong.draws(KEY, 4000))
    assert abs(before.mean(0) - MEAN).max() > 0.1


def test_the_right_student_needs_no_correction(right):
    made = right.resample(KEY, 1000)
    assert made.acceptance == pytest.approx(1, abs=1e-3)
    assert made.ess == pytest.approx(4000, rel=1e-3)


@pytest.fixture(scope="module")
def trust(right):
    return right.check(draws=2048)


def test_a_check_trusts_the_right_student_and_not_the_wrong_one(trust, wrong):
    assert trust.trusted, str(trust)
    failed = wrong.check(KEY, draws=2048)
    assert not failed.trusted
    assert failed.verdicts["teacher gap"] == "fail"


def test_costs_are_sums_over_stages(right):
    assert (right.seconds, right.compile_seconds) == (3.0, 4.0)
    assert (right.gradients, right.evaluations) == (1500, 7)


def test_break_even_solves_its_equation():
    even = break_even(10.0, 1000.0, NutsCost(2.0, 100.0))
    assert 10 + even.draws / 1000 == pytest.approx(2 + even.draws / 100)
    assert break_even(1.0, 1000.0, NutsCost(2.0, 100.0)).draws == 0
    assert break_even(1.0, 50.0, NutsCost(0.5, 100.0)).draws == np.inf
    assert "from 889 effective draws on" in str(even)
    assert "first draw" in str(break_even(1.0, 1000.0, NutsCost(2.0, 100.0)))
    assert "stays ahead" in str(break_even(1.0, 50.0, NutsCost(0.5, 100.0)))


@pytest.mark.slow
def test_break_even_measures_nuts(right):
    nuts = measure_nuts(KEY, right.target, right.draws(KEY, 2), warmup=50, draws=50)
    even = right.break_even(nuts)
    assert even.fit_seconds == 3.0
    assert even.draws_per_second > nuts.effective_per_second > 10
    assert nuts.warmup_seconds > 0


def test_the_report_is_one_page(right, trust, tmp_path):
    path = right.report(tmp_path / "page.html", trust, NutsCost(1.0, 100.0))
    page = path.read_text()
    for words in ("teacher gap", "importance weights", "3 starts", "break-even", "both[1]", "Pairs"):
        assert words in page
    assert page.count("data:image/png") >= 6
    assert "://" not in page


def test_a_student_without_a_density_can_be_used():
    wild = Posterior(LogDensity(lambda z: -0.5 * z @ z, 2), Implicit(KEY, 2))
    assert wild.sample(KEY, 5)["z"].shape == (5, 2)
    with pytest.raises(IngredientError, match="resample needs a student with a density"):
        wild.resample(KEY, 10)


BAD = {
    "more draws than memory": (lambda p: p.sample(KEY, 10**15), "n is a whole number, from 1 to"),
    "a platform that is a word": (lambda p: p.export("x", "cpu"), "platforms is a list of names"),
    "an unknown platform": (lambda p: p.export("x", ["toaster"]), "platforms are different ones of"),
    "no platform": (lambda p: p.export("x", []), "platforms are different ones of"),
    "predictions of a plain density": (
        lambda p: Posterior(LogDensity(lambda z: -z @ z, 1), FullGaussian(1)).predict(KEY),
        "predict needs a target made of a model",
    ),
    "an unknown argument of the model": (lambda p: p.predict(KEY, w=1), "does not take these arguments"),
    "a student of another size": (lambda p: Posterior(p.target, FullGaussian(3)), "size 3, .* dim=2"),
    "no draws": (lambda p: p.sample(KEY, 0), "n is a whole number"),
    "too few steps": (lambda p: p.refine(KEY, 10, 3), "steps is a whole number, 4 or more"),
    "an unknown method": (lambda p: p.resample(KEY, 10, "magic"), "method is one of"),
    "no moves": (lambda p: p.resample(KEY, 10, "independence", moves=0), "moves is"),
    "no candidates": (lambda p: p.resample(KEY, 10, candidates=0), "candidates is"),
    "an odd number of draws": (lambda p: p.to_arviz(KEY, 10, 4), "n is a multiple of chains=4"),
    "no chains": (lambda p: p.to_arviz(KEY, 10, 0), "chains is a whole number"),
    "a teacher of weights": (
        lambda p: p.refine(KEY, 8, 4, teacher=Annealed(hmc(0.1), mean=jnp.zeros(2))),
        "leaves the target invariant",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_gets_a_sentence(name, right):
    call, words = BAD[name]
    with pytest.raises((IngredientError, StoreError), match=words):
        call(right)
