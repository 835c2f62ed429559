import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jax.scipy.stats import multivariate_normal

from understudy import train
from understudy.batches import Binarised, binarise
from understudy.core import ExplicitStudent, Indexed, IngredientError, prepared
from understudy.evaluation import annealed_evidence
from understudy.feedbacks import ExclusiveKL
from understudy.networks import Perceptron
from understudy.networks.images import ImageDecoder
from understudy.students import gaussian_encoder
from understudy.targets import LatentVariableModel, OfIndexed, OfObserved, PartlyObserved
from understudy.teachers import Identity, hmc

KEY = jax.random.key(0)
WEIGHT = jnp.array([[1.0, 0.5], [-0.5, 2.0], [0.3, -1.0]])


class Linear(eqx.Module):
    weight: jax.Array

    def __call__(self, z):
        return self.weight @ z


class Exact(ExplicitStudent):
    """The posterior of z in the linear model with noise ``noise``."""

    noise: float = eqx.field(static=True)
    dim: int = eqx.field(static=True, default=2)

    def moments(self, x):
        covariance = jnp.linalg.inv(jnp.eye(2) + WEIGHT.T @ WEIGHT / self.noise**2)
        return covariance @ WEIGHT.T @ x / self.noise**2, covariance

    def sample(self, key, x, n):
        return jax.random.multivariate_normal(key, *self.moments(x), (n,))

    def log_prob(self, z, x=None):
        return multivariate_normal.logpdf(z, *self.moments(x))


def linear(noise=0.5):
    return LatentVariableModel(Linear(WEIGHT), 2, "gaussian", noise)


def test_gaussian_joint_is_evidence_times_posterior():
    x, z = jnp.array([0.4, -1.0, 2.0]), jnp.array([0.3, -0.7])
    evidence = multivariate_normal.logpdf(x, jnp.zeros(3), WEIGHT @ WEIGHT.T + 0.25 * jnp.eye(3))
    posterior = Exact(0.5).log_prob(z, x)
    np.testing.assert_allclose(linear().log_density(z, x), evidence + posterior, rtol=1e-5)


def test_evidence_of_a_part_gives_how_likely_the_rest_is():
    x, known = jnp.array([0.4, -1.0, 2.0]), jnp.array([True, False, True])
    covariance = WEIGHT @ WEIGHT.T + 0.25 * jnp.eye(3)
    exact = multivariate_normal.logpdf(x, jnp.zeros(3), covariance) - multivariate_normal.logpdf(
        x[known], jnp.zeros(2), covariance[known][:, known]
    )
    part = PartlyObserved(x.at[1].set(99.0)[None], known[None])
    whole, of_part = (
        annealed_evidence(KEY, target, given, chains=64, rungs=100).log_evidence[0]
        for target, given in ((linear(), x[None]), (OfObserved(linear()), part))
    )
    np.testing.assert_allclose(whole - of_part, exact, atol=0.1)


def test_bernoulli_likelihood_sums_to_one_over_all_x():
    model = LatentVariableModel(Linear(WEIGHT), 2)
    everything = jnp.array([[a, b, c] for a in (0.0, 1.0) for b in (0.0, 1.0) for c in (0.0, 1.0)])
    z = jnp.array([0.3, -3.0])
    logs = jax.vmap(lambda x: model.log_likelihood(z, x))(everything)
    np.testing.assert_allclose(jnp.exp(logs).sum(), 1, rtol=1e-5)
    np.testing.assert_allclose(jnp.exp(logs) @ everything, jax.nn.sigmoid(WEIGHT @ z), rtol=1e-5)


@pytest.mark.parametrize("likelihood", ["bernoulli", "gaussian"])
def test_simulated_observations_have_their_means(likelihood):
    model = LatentVariableModel(Linear(WEIGHT), 2, likelihood, 0.5)
    z, x = model.simulate(KEY, 20_000)
    np.testing.assert_allclose(z.T @ z / len(z), np.eye(2), atol=0.05)
    np.testing.assert_allclose((x - jax.vmap(model.mean)(z)).mean(0), 0, atol=0.02)
    assert model.generate(KEY, 7).shape == (7, 3)


def test_gibbs_sampling_with_the_exact_posterior_imputes_exactly():
    model, x = linear(), jnp.array([1.0, -1.0, 0.0])
    missing = jnp.array([False, False, True])
    run = jax.jit(lambda key: model.impute(key, Exact(0.5), x, missing, 40)[-1])
    ends = jax.vmap(run)(jax.random.split(KEY, 4000))
    covariance = WEIGHT @ WEIGHT.T + 0.25 * jnp.eye(3)
    gain = covariance[2, :2] @ jnp.linalg.inv(covariance[:2, :2])
    variance = covariance[2, 2] - gain @ covariance[:2, 2]
    np.testing.assert_array_equal(ends[:, :2], jnp.broadcast_to(x[:2], (4000, 2)))
    np.testing.assert_allclose(ends[:, 2].mean(), gain @ x[:2], atol=4 * (variance / 4000) ** 0.5)
    np.testing.assert_allclose(ends[:, 2].var(), variance, rtol=0.1)


@pytest.mark.parametrize("power", [1.0, 0.2])
def test_a_teacher_mends_the_imputations_of_a_poor_student(power):
    model, x = linear(), jnp.array([1.0, -1.0, 0.0])
    missing = jnp.array([False, False, True])
    prior = gaussian_encoder(KEY, 2, x, hidden=(3,))
    prior = jax.tree.map(lambda leaf: 0 * leaf if eqx.is_inexact_array(leaf) else leaf, prior)
    teacher = hmc(0.3, 5, steps=30, jitter=0.5)
    run = jax.jit(lambda key: model.impute(key, prior, x, missing, 2, teacher, power)[-1])
    ends = jax.vmap(run)(jax.random.split(KEY, 2000))
    covariance = WEIGHT @ WEIGHT.T + 0.25 * jnp.diag(jnp.array([1 / power, 1 / power, 1]))
    gain = covariance[2, :2] @ jnp.linalg.inv(covariance[:2, :2])
    np.testing.assert_allclose(ends[:, 2].mean(), gain @ x[:2], atol=0.1)
    np.testing.assert_allclose(ends[:, 2].var(), covariance[2, 2] - gain @ covariance[:2, 2], rtol=0.12)


def test_a_prepared_model_has_the_same_density():
    model = LatentVariableModel(ImageDecoder(KEY, 2, (8, 8), (5,), (3, 4)), 2)
    z, x = jnp.array([0.3, -0.7]), jnp.ones((8, 8))
    wanted = jax.value_and_grad(model.log_density)(z, x)
    for ready in (model.prepared(), OfIndexed(model).prepared().target):
        assert ready.decoder.layers[0].matrices
        found = jax.value_and_grad(ready.log_density)(z, x)
        for one, other in zip(found, wanted, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-5)
    plain = linear()
    assert prepared(plain).decoder.weight is plain.decoder.weight


@pytest.mark.parametrize("likelihood", ["bernoulli", "gaussian"])
def test_what_is_missing_drops_out_of_the_likelihood(likelihood):
    model, z = LatentVariableModel(Linear(WEIGHT), 2, likelihood, 0.5), jnp.array([0.3, -0.7])
    observed, x = jnp.array([True, False, True]), jnp.array([1.0, 0.0, 1.0])
    some = LatentVariableModel(Linear(WEIGHT[observed]), 2, likelihood, 0.5)
    found = model.log_likelihood(z, x, observed)
    np.testing.assert_allclose(found, some.log_likelihood(z, x[observed]), rtol=1e-6)


def test_reconstruction_averages_the_means_of_the_draws():
    x = jnp.array([0.4, -1.0, 2.0])
    found = linear().reconstruct(KEY, Exact(0.5), x, 5000)
    np.testing.assert_allclose(found, WEIGHT @ Exact(0.5).moments(x)[0], atol=0.05)


def test_binarised_pixels_have_their_grey_values_as_means():
    pixels = jnp.array([[0, 51, 255], [255, 102, 0]], jnp.uint8)
    x = binarise(KEY, jnp.broadcast_to(pixels, (5000, 2, 3)))
    np.testing.assert_allclose(x.mean(0), pixels / 255, atol=0.03)
    batches = Binarised(pixels, 64, indexed=True)
    batch = eqx.filter_jit(batches)(KEY)
    assert isinstance(batch, Indexed)
    np.testing.assert_array_equal(batch.value[:, 0], pixels[batch.index, 0] == 255)
    assert (batch.value != batches(jax.random.key(1)).value).any()


@pytest.mark.parametrize("kind", [np.uint8, np.int64, bool, float])
def test_zeros_and_ones_are_black_and_white_whatever_their_kind(kind):
    table = np.array([[0, 1, 1], [1, 0, 1]])
    batch = Binarised(table.astype(kind), 32, indexed=True)(KEY)
    assert isinstance(batch, Indexed)
    np.testing.assert_array_equal(batch.value, table[batch.index])


def test_whole_numbers_are_grey_whatever_their_kind():
    pixels = np.array([[0, 51, 255]])
    made = (Binarised(pixels.astype(kind), 64)(KEY) for kind in (np.uint8, np.int32, np.int64))
    first, *others = (np.asarray(batch) for batch in made)
    assert first[:, 1].mean() < 0.5
    for other in others:
        np.testing.assert_array_equal(first, other)


def test_theta_learns_the_bound():
    weight = jnp.array([[2.0, 0.0], [0.0, 2.0], [2.0, 2.0], [-2.0, 0.0]])
    truth = LatentVariableModel(Linear(weight), 2)
    _, x = truth.simulate(KEY, 500)
    model = LatentVariableModel(Perceptron(KEY, [2, 8, 4]), 2)
    encoder = gaussian_encoder(KEY, 2, x[0], hidden=(8,))
    fitted = train(
        model, encoder, Identity(), ExclusiveKL(), Binarised(x, 50), updates=600, particles=1,
        optimiser=optax.adam(1e-2), model_optimiser=optax.adam(1e-2), chunk=100,
    )  # fmt: skip
    independent = 4 * np.log(2)
    assert fitted.history["loss"][-1] < independent - 0.1


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: LatentVariableModel(Linear(WEIGHT), 2, "poisson"), "bernoulli"),
        (lambda: LatentVariableModel(Linear(WEIGHT), 2, "gaussian", -1.0), "positive"),
        (lambda: linear().log_density(jnp.zeros(2), jnp.zeros(4)), "shape"),
        (lambda: linear().impute(KEY, Exact(0.5), jnp.zeros(3), jnp.zeros(2, bool)), "shape"),
        (lambda: Binarised(np.array([[2.0, 3.0]])), "0 to 1"),
        (lambda: Binarised(np.array([[-1, 3]])), "0 to 255"),
        (lambda: Binarised(np.zeros((3, 0))), "pixels is made of finite numbers"),
        (lambda: Binarised(np.zeros(3)), "one by one"),
    ],
)
def test_bad_input_gets_a_sentence(make, words):
    with pytest.raises(IngredientError, match=words):
        make()
