import jax
import jax.numpy as jnp
import numpy as np
import pytest

from experiments import imputation
from understudy.core import IngredientError, Student
from understudy.data import Images
from understudy.targets import LatentVariableModel


def digits():
    random = np.random.default_rng(0)
    pixels, labels = random.integers(0, 256, (40, 4, 4), np.uint8), np.arange(40) % 2
    return Images(
        "small", pixels[:20], labels[:20], pixels[20:30], labels[20:30], pixels[30:], labels[30:]
    )


def test_nearest_labels_are_those_of_a_search():
    random, given = np.random.default_rng(1), digits()
    chains = random.integers(0, 2, (3, 5, 4, 4)).astype(np.float32)
    found, distances = imputation.nearest_labels(chains, given)
    grey = np.concatenate([given.train, given.validation]) / 255
    labels = np.concatenate([given.train_labels, given.validation_labels])
    every = np.abs(chains[:, :, None] - grey).sum((3, 4))
    np.testing.assert_array_equal(found, labels[every.argmin(2)])
    np.testing.assert_allclose(distances, every.min(2) / 16, rtol=1e-4)


def test_entropy_of_even_labels():
    np.testing.assert_allclose(imputation.entropy(np.array([3, 3, 7, 7])), np.log(2))
    assert imputation.entropy(np.array([4, 4])) == 0


@pytest.mark.parametrize("name", imputation.MASKS)
def test_masks_are_halves(name):
    mask = imputation.missing_half(name)
    assert mask.sum() == 28 * 14
    assert mask[{"lower": (27, 3), "upper": (0, 3), "left": (3, 0), "right": (3, 27)}[name]]


def test_gibbs_keeps_what_is_known_and_shows_every_step():
    class Prior(Student):
        dim: int = 2

        def sample(self, key, x, n):
            return jax.random.normal(key, (n, 2))

    model = LatentVariableModel(lambda z: jnp.full((4, 4), 20.0), 2)
    x, labels = imputation.first_of_each_class(digits(), 2, 0)
    assert labels.tolist() == [0, 0, 1, 1]
    mask = imputation.missing_half("left", (4, 4))
    chains = imputation.gibbs(model, Prior(), x, mask, imputation.Settings(steps=3))
    assert chains.shape == (4, 3, 4, 4)
    assert (chains[:, :, :, :2] == 1).all()
    np.testing.assert_array_equal(chains[:, 2, :, 2:], x[:, :, 2:])
    assert imputation.picture(x, chains).axes
    settings = imputation.Settings(steps=3, transitions=2, power=0.1)
    np.testing.assert_array_equal(imputation.gibbs(model, Prior(), x, mask, settings), chains)
    assert imputation._taught(settings) == " + 2 transitions, power 0.1"


def test_the_energy_score_is_least_for_draws_of_the_truth():
    random = np.random.default_rng(0)
    shares, size = np.linspace(0.1, 0.9, 20), (200, 60, 20)
    truth = (random.random((200, 20)) < shares).astype(float)
    right = (random.random(size) < shares).astype(float)
    certain = np.broadcast_to(shares > 0.5, size).astype(float)
    wild = (random.random(size) < 0.5).astype(float)
    best = imputation.energy_scores(right, truth).mean()
    assert best < imputation.energy_scores(certain, truth).mean()
    assert best < imputation.energy_scores(wild, truth).mean()
    one = imputation.energy_scores(np.ones((1, 8, 20)), np.zeros((1, 20)))
    np.testing.assert_allclose(one, np.sqrt(20))


def test_evidence_of_an_observed_half_is_that_of_a_smaller_image():
    model = LatentVariableModel(lambda z: z[0] * jnp.ones((4, 4)), 1)
    x = np.random.default_rng(2).integers(0, 2, (2, 4, 4)).astype(np.float32)
    observed = ~imputation.missing_half("lower", (4, 4))
    settings = imputation.Settings(chains=32, rungs=50)
    line = jnp.linspace(-8, 8, 2001)
    ones = x[:, :2].sum((1, 2))[:, None]
    values = ones * line - 8 * jax.nn.softplus(line) + jax.scipy.stats.norm.logpdf(line)
    exact = jax.nn.logsumexp(values, axis=1) + jnp.log(line[1] - line[0])
    np.testing.assert_allclose(imputation.evidence(model, x, observed, settings), exact, atol=0.05)


def test_settings_are_checked():
    with pytest.raises(IngredientError, match="mask"):
        imputation.Settings(masks="middle")
    with pytest.raises(IngredientError, match="encoder"):
        imputation.Settings(methods="persistent MCMC, T=50, eta=0.02")
