"""Every part of the appendix writes its rows, and its measures are held against known answers."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from experiments import appendix
from experiments.appendix import contrastive, lemma, pairing, rates, tables
from experiments.appendix.sizes import Sizes
from experiments.rows import mean_and_error
from understudy import files
from understudy.core import IngredientError
from understudy.feedbacks import JensenShannon
from understudy.students import FullGaussian
from understudy.teachers import Identity, mala
from understudy.training import Learner

TINY = Sizes(updates=2, repeats=2, chains=2000, splits=2, seed=0)


def test_a_part_is_made_anew_and_the_others_stay(tmp_path, monkeypatch):
    made = iter([[{"name": "a"}, {"name": "b"}], [{"name": "c"}], [{"name": "a"}]])
    monkeypatch.setattr(appendix, "PARTS", dict.fromkeys(appendix.PARTS, lambda _: next(made)))
    for part in ("lemma", "pairing", "lemma"):
        appendix.run(appendix.Settings(parts=part), tmp_path, progress=False)
    rows = files.read_rows(tmp_path / "appendix.jsonl")
    assert [(row["kind"], row["name"]) for row in rows] == [("pairing", "c"), ("lemma", "a")]
    assert all("commit" in row and "parts" not in row["settings"] for row in rows)


@pytest.mark.parametrize("part", appendix.PARTS)
def test_every_part_has_a_table(part):
    assert part in tables.PARTS


@pytest.mark.slow
@pytest.mark.parametrize("part", appendix.PARTS)
def test_every_part_fills_its_table(part, tmp_path):
    appendix.run(appendix.Settings(parts=part, **TINY._asdict()), tmp_path, progress=False)
    for line in tables.lines(tmp_path, part):
        assert len(line) == len(tables.PARTS[part].header)


def test_the_divergence_of_a_histogram_is_that_of_its_law():
    exact = lemma.TARGET.sample(jax.random.key(0), 100_000)
    kl, error = lemma.divergence(np.histogram(exact, lemma.EDGES)[0])
    assert abs(kl) < 4 * error
    start = lemma.START.sample(jax.random.key(1), None, 100_000)
    wider, _ = lemma.divergence(np.histogram(start, lemma.EDGES)[0])
    # KL[N(1, 1/4) || p] by quadrature.
    grid = jnp.linspace(-6, 8, 20_001)
    log_q = jax.scipy.stats.norm.logpdf(grid, 1.0, 0.5)
    log_p = jax.vmap(lemma.TARGET.log_density)(grid[:, None])
    np.testing.assert_allclose(wider, jnp.trapezoid(jnp.exp(log_q) * (log_q - log_p), grid), rtol=0.03)


def test_draws_that_stand_still_neither_fall_nor_rise(monkeypatch):
    monkeypatch.setattr(lemma, "TEACHERS", {"still": Identity(), "MALA": mala(1.0)})
    row = lemma._row("still", "N(1, 1/4)", TINY)
    assert row["largest_rise"] == 0
    assert not row["rises"]
    moved = lemma._row("MALA", "N(1, 1/4)", TINY)
    assert moved["kl"][-1] < 0.5 * moved["kl"][0]


def test_the_divergence_of_gaussians():
    factor = jnp.linalg.cholesky(contrastive.COVARIANCE)
    np.testing.assert_allclose(contrastive.divergence(jnp.zeros(2), factor), 0.0, atol=1e-5)
    student = FullGaussian(2, 0.5, 0.7)
    z = student.sample(jax.random.key(0), None, 100_000)
    normal = -0.5 * jnp.linalg.slogdet(2 * jnp.pi * contrastive.COVARIANCE)[1]
    log_p = jax.vmap(contrastive.TARGET.log_density)(z) + normal
    by_draws = (jax.vmap(student.log_prob)(z) - log_p).mean()
    exact = contrastive.divergence(student.mean, student.factor)
    np.testing.assert_allclose(by_draws, exact, rtol=0.03)


class _Told(eqx.Module):
    """A critic that says the same of every draw."""

    value: jax.Array

    def __call__(self, z, x):
        return self.value + 0.0 * z[0]


@pytest.mark.parametrize(("value", "sure"), [(0.0, 0.0), (9.0, 0.5), (-9.0, 0.5)])
def test_a_critic_is_sure_where_it_is_right_and_certain(value, sure):
    """One that calls all draws the teacher's is right about half of them."""
    feedback = JensenShannon(critic=lambda key, dim, x: _Told(jnp.asarray(value)))
    learner = Learner(feedback, particles=1)
    make = lambda key: learner.init(key, pairing.TARGET, pairing.program(key), mala(0.1))  # noqa: E731
    state = jax.vmap(make)(jax.random.split(jax.random.key(0), 2))
    found = pairing.confidence(jax.random.key(1), feedback, state)
    np.testing.assert_allclose(found["sure"], sure)
    np.testing.assert_allclose(found["pull"], 0.0, atol=1e-6)


def test_a_curve_of_a_rate_says_what_its_last_doubling_gained():
    curve = np.array([[-0.5, -0.3, -0.2], [-0.7, -0.5, -0.2]])
    row = rates._row("crabs", 0.01, (1, 2, 4), curve, 1.0)
    assert row["test_ll"] == pytest.approx(-0.2)
    assert row["last_gain"] == pytest.approx(0.2)
    assert row["curve_ll"] == pytest.approx([-0.6, -0.4, -0.2])
    assert tables.PARTS["rates"].cells(row)[-1] == "no"


def test_means_have_their_errors():
    found = mean_and_error("a", [1.0, 2.0, 3.0])
    assert found == {"a": 2.0, "a_se": pytest.approx(1 / 3**0.5)}


def test_an_unknown_part_is_refused():
    with pytest.raises(IngredientError, match="A part is one of lemma"):
        appendix.Settings(parts="lema")
