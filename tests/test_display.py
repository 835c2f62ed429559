"""Results explain themselves: in a few lines, the verdict first."""

import jax.numpy as jnp
import numpy as np
import pytest

import understudy
from tests.posterior.conjugate import MEAN, SD, posterior
from understudy.display import Explained, entries, table_of_draws, varying
from understudy.feedbacks import InclusiveKL
from understudy.posterior import Posterior, Stage
from understudy.posterior.verdict import CHAIN_ERROR, Figure, Verdict
from understudy.students import FullGaussian
from understudy.targets import LogDensity
from understudy.teachers import mala


@pytest.fixture(scope="module")
def right():
    return posterior()


def with_verdict(trusted, record=None, error=0.03):
    figures = (
        Figure("nested R-hat", 1.01, 1.1, "chains"),
        Figure(CHAIN_ERROR, error, 0.06, "precision"),
        Figure("quantiles of the student", 0.01 if trusted else 0.5, 0.06),
    )
    stages = (Stage("settle", "fine", 1.0, 0.5, 1000, float("nan")),)
    target = LogDensity(lambda z: -0.5 * jnp.sum(z**2), 2)
    return Posterior(target, FullGaussian(2), stages=stages, verdict=Verdict(figures), record=record)


def test_a_table_has_the_moments_of_its_draws():
    z = np.random.default_rng(0).normal([1.0, -2.0], [1.0, 3.0], (40_000, 2))
    table = table_of_draws({"z": z, "five": np.full(40_000, 5.0)})
    assert list(table.index) == ["z[0]", "z[1]"]
    np.testing.assert_allclose(table["mean"], [1, -2], atol=0.06)
    np.testing.assert_allclose(table["sd"], [1, 3], rtol=0.02)
    np.testing.assert_allclose(table["95%"], [1 + 1.645, -2 + 3 * 1.645], atol=0.08)
    np.testing.assert_allclose(table["mcse"], table["sd"] / 200)


def test_entries_have_names_and_constants_are_left_out_unless_all_are():
    columns = entries({"a": np.zeros((3, 2)), "b": np.arange(3)})
    assert list(columns) == ["a[0]", "a[1]", "b"]
    assert list(varying(columns)) == ["b"]
    assert list(varying({"a": np.zeros(3)})) == ["a"]


def test_the_error_of_the_chains_is_in_the_standard_error():
    table = with_verdict(True, error=0.05).summary(0, 100_000)
    np.testing.assert_allclose(table["mcse"] / table["sd"], np.sqrt(0.05**2 + 1e-5), rtol=1e-6)


def test_a_posterior_prints_its_verdict_first_and_shortly(right):
    lines = str(right).splitlines()
    assert "Not tested yet" in lines[1]
    assert len(lines) < 25
    assert "mu[0]" in str(right)
    assert "check()" in lines[-1]
    assert len(repr(right).splitlines()) == 1


def test_a_summary_is_right(right):
    table = right.summary()
    np.testing.assert_allclose(table.loc[["mu[0]", "mu[1]"], "mean"], MEAN, atol=0.1)
    np.testing.assert_allclose(table.loc[["mu[0]", "mu[1]"], "sd"], SD, rtol=0.1)


def test_a_student_that_is_not_trusted_shows_its_chains():
    record = np.random.default_rng(0).normal(7.0, 1.0, (5000, 2))
    shown = with_verdict(False, record)
    assert "not trusted" in str(shown).splitlines()[1]
    np.testing.assert_allclose(shown.summary()["mean"], 7.0, atol=0.1)
    np.testing.assert_allclose(with_verdict(True, record).summary()["mean"], 0.0, atol=0.1)


def test_a_notebook_gets_the_same_with_names_escaped(right):
    assert "<table>" in right._repr_html_()
    table = table_of_draws({"<b>": np.arange(5.0)})
    page = Explained("a & b", "fine", table, "made", "next").html()
    assert "&lt;b&gt;" in page
    assert "a &amp; b" in page


def test_long_tables_are_cut():
    table = table_of_draws({"z": np.random.default_rng(0).normal(size=(50, 400))})
    text = str(Explained("t", "v", table, "m", "n"))
    assert "and 388 more rows" in text
    assert len(text.splitlines()) < 25


def test_a_training_explains_itself():
    target = LogDensity(lambda z: -0.5 * jnp.sum((z - 1) ** 2), 2)
    ingredients = FullGaussian(2), mala(0.3), InclusiveKL()
    trained = understudy.train(target, *ingredients, updates=400, repeats=2, progress=False, chunk=50)
    text = str(trained)
    assert "2 side by side" in text.splitlines()[0]
    assert "Not tested yet" in text.splitlines()[1]
    assert "acceptance" in text
    assert len(text.splitlines()) < 20
    assert len(repr(trained)) < 100
    assert "<table>" in trained._repr_html_()
    assert list(trained.summary().index) == ["z[0,0]", "z[0,1]", "z[1,0]", "z[1,1]"]
    assert [axes.get_title() for axes in trained.plot_marginals().axes] == list(trained.summary().index)
    titles = [axes.get_title(loc="left") for axes in trained.plot_training().axes]
    assert titles[:2] == ["the student's loss", "acceptance of the teacher"]


def test_lost_chains_come_first():
    target = LogDensity(lambda z: jnp.where(z[0] > 0, -0.5 * jnp.sum(z**2), jnp.nan), 1)
    trained = understudy.train(
        target, FullGaussian(1), mala(0.3), InclusiveKL(), updates=2, progress=False
    )
    assert "Look before use" in str(trained)
    assert "of the chains" in str(trained)


def test_pictures_show_themselves_in_a_notebook(right):
    for picture in (right.plot_marginals(), right.plot_pairs("mu"), right.plot_predictive()):
        assert picture._repr_png_().startswith(b"\x89PNG")
    with pytest.raises(understudy.IngredientError, match="sites"):
        right.plot_pairs("nu")
