import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import multivariate_normal

from understudy.core import IngredientError, partition
from understudy.feedbacks import ExclusiveKL
from understudy.students import DiagonalGaussian
from understudy.targets import BayesianNetwork, logistic_regression
from understudy.teachers import Identity
from understudy.training import train

KEY = jax.random.key(0)
X = np.random.default_rng(0).normal(size=(12, 3))
Y = (X[:, 0] + 0.5 * X[:, 1] > 0).astype(float)


def by_hand(z, x):
    """The 3-4-1 network in numpy."""
    z = np.asarray(z, float)
    first, bias, second, last = z[:12].reshape(3, 4), z[12:16], z[16:20].reshape(4, 1), z[20]
    return (np.maximum(x @ first + bias, 0) @ second)[:, 0] + last


def test_log_density_is_prior_plus_likelihood():
    target = BayesianNetwork(X, Y, (4,), prior_scale=2.0)
    assert target.dim == 21
    z = jax.random.normal(KEY, (21,))
    p = 1 / (1 + np.exp(-by_hand(z, X)))
    expected = np.sum(Y * np.log(p) + (1 - Y) * np.log(1 - p))
    expected += multivariate_normal.logpdf(np.asarray(z), np.zeros(21), 4.0)
    np.testing.assert_allclose(target.log_density(z), expected, rtol=1e-5)


@pytest.mark.parametrize(
    ("likelihood", "labels"),
    [("binary", Y), ("gaussian", X[:, 0]), ("categorical", np.arange(12) % 3)],
)
def test_gradients_agree_with_finite_differences(likelihood, labels):
    target = BayesianNetwork(X, labels, (5, 4), likelihood, activation=jnp.tanh, noise=0.5, classes=3)
    z, v = jax.random.normal(KEY, (2, target.dim))
    with jax.enable_x64():
        target = jax.tree.map(lambda a: a.astype(float), target)
        z, v = jnp.asarray(z, float), jnp.asarray(v, float)
        difference = (target.log_density(z + 1e-5 * v) - target.log_density(z - 1e-5 * v)) / 2e-5
        slope = jax.grad(target.log_density)(z) @ v
    np.testing.assert_allclose(slope, difference, rtol=1e-5)


def test_minibatches_are_unbiased_for_the_likelihood():
    target = BayesianNetwork(X, Y, (4,))
    z = jax.random.normal(KEY, (target.dim,))
    parts = jax.vmap(lambda rows: target.log_density(z, rows))(jnp.arange(12).reshape(4, 3))
    np.testing.assert_allclose(parts.mean(), target.log_density(z), rtol=1e-5)
    rows = target.minibatches(5)(KEY)
    assert rows.shape == (1, 5)
    assert rows.max() < 12


@pytest.mark.parametrize("likelihood", ["binary", "gaussian"])
def test_a_cold_posterior_is_the_posterior_to_a_power(likelihood):
    warm = BayesianNetwork(X, Y, (4,), likelihood, prior_scale=2.0, noise=0.5)
    cold = warm.tempered(0.2)
    assert jax.tree.leaves(partition(cold)[0]) == []
    z = jax.random.normal(jax.random.key(0), (2, warm.dim))
    for x in (None, jnp.arange(5)):
        apart = [target.log_density(z[0], x) - target.log_density(z[1], x) for target in (warm, cold)]
        np.testing.assert_allclose(0.2 * apart[1], apart[0], rtol=1e-4)


def test_rows_of_weight_zero_do_not_count():
    z = jax.random.normal(KEY, (21,))
    weights = np.r_[np.ones(8), np.zeros(4)]
    whole = BayesianNetwork(X, Y, (4,), weights=weights).log_density(z)
    np.testing.assert_allclose(whole, BayesianNetwork(X[:8], Y[:8], (4,)).log_density(z), rtol=1e-5)


def conjugate():
    """Linear regression: the exact posterior of weights and bias."""
    y = X @ np.array([1.0, -2.0, 0.5]) + 0.3
    target = BayesianNetwork(X, y, (), "gaussian", prior_scale=2.0, noise=0.5)
    design = np.column_stack([X, np.ones(12)])
    covariance = np.linalg.inv(design.T @ design / 0.25 + np.eye(4) / 4)
    return target, covariance @ design.T @ y / 0.25, covariance


def test_linear_regression_has_its_conjugate_posterior():
    target, mean, covariance = conjugate()
    z = np.asarray(jax.random.normal(KEY, (6, 4))) + mean
    ours = jax.vmap(target.log_density)(jnp.asarray(z))
    exact = multivariate_normal.logpdf(z, mean, covariance)
    np.testing.assert_allclose(ours - ours[0], exact - exact[0], rtol=1e-4, atol=1e-3)


def test_predictions_of_linear_regression_are_the_exact_ones():
    target, mean, covariance = conjugate()
    draws = np.random.default_rng(1).multivariate_normal(mean, covariance, 20_000)
    new = np.array([[1.0, 0.0, -1.0], [2.0, 2.0, 2.0]])
    design = np.column_stack([new, np.ones(2)])
    centre, spread = design @ mean, np.einsum("ni,ij,nj->n", design, covariance, design) + 0.25
    labels = centre + 0.4
    found = eqx.filter_jit(target.predict)(jnp.asarray(draws), new, labels)
    np.testing.assert_allclose(found.mean, centre, atol=0.01)
    np.testing.assert_allclose(found.deviation, np.sqrt(spread), rtol=0.02)
    np.testing.assert_allclose(found.entropy, 0.5 * np.log(2 * np.pi * np.e * spread), atol=0.02)
    exact = -0.5 * (0.16 / spread + np.log(2 * np.pi * spread))
    np.testing.assert_allclose(found.log_likelihood, exact, atol=0.02)


def test_classifiers_average_probabilities_not_logits():
    target = BayesianNetwork(X, Y, (4,))
    draws = jax.random.normal(KEY, (7, 21))
    p = np.mean([1 / (1 + np.exp(-by_hand(z, X))) for z in draws], axis=0)
    found = target.predict(draws, X, Y, batch=3)
    np.testing.assert_allclose(found.mean, p, rtol=1e-5)
    np.testing.assert_allclose(found.entropy, -p * np.log(p) - (1 - p) * np.log(1 - p), rtol=1e-4)
    np.testing.assert_allclose(found.log_likelihood, np.log(np.where(Y > 0, p, 1 - p)), rtol=1e-4)
    assert target.predict(draws, X).log_likelihood is None


def test_two_classes_are_a_binary_label():
    two = BayesianNetwork(X, Y, (4,), "categorical", prior_scale=1e3)
    one = BayesianNetwork(X, Y, (4,), prior_scale=1e3)
    z = jax.random.normal(KEY, (one.dim,))
    head, last = z[16:20], z[20]
    wide = jnp.concatenate([z[:16], jnp.stack([0 * head, head], 1).ravel(), jnp.array([0.0, last])])
    chosen = two.predict(wide[None], X).mean[:, 1]
    np.testing.assert_allclose(chosen, one.predict(z[None], X).mean, rtol=1e-5)


def test_certain_predictions_have_no_entropy_and_no_nan():
    target = logistic_regression(X, Y)
    sure = target.predict(jnp.array([[0.0, 0.0, 0.0, 500.0]]), X, np.ones(12))
    np.testing.assert_allclose(sure.entropy, 0, atol=1e-6)
    np.testing.assert_allclose(sure.log_likelihood, 0, atol=1e-6)


def test_several_data_sets_are_one_vmap():
    stacked = jax.vmap(lambda x, y: BayesianNetwork(x, y, (4,)))(np.stack([X, -X]), np.stack([Y, Y]))
    z = jax.random.normal(KEY, (21,))
    both = eqx.filter_vmap(lambda target: target.log_density(z))(stacked)
    expected = [BayesianNetwork(x, Y, (4,)).log_density(z) for x in (X, -X)]
    np.testing.assert_allclose(both, expected, rtol=1e-5)


def test_a_compiled_program_may_make_the_target():
    """There every constant is traced, so checks look at what was given rather than at JAX's arrays."""
    z = jax.random.normal(KEY, (21,))
    made = jax.jit(lambda x: BayesianNetwork(x, Y, (4,), weights=2.0).log_density(z))(X)
    expected = BayesianNetwork(X, Y, (4,), weights=2.0).log_density(z)
    np.testing.assert_allclose(made, expected, rtol=1e-5)


def test_data_never_learn():
    assert jax.tree.leaves(partition(BayesianNetwork(X, Y))[0]) == []


def test_starts_have_units_of_variance_one():
    features = 3 * np.random.default_rng(0).normal(size=(40, 100))
    target = BayesianNetwork(features, np.arange(40) % 2, (50,))
    z = target.start(KEY, 20)
    units = features @ np.asarray(z[:, :5000]).reshape(20, 100, 50)
    assert abs(units.std() - 1) < 0.05
    assert float(jnp.abs(z[:, 5000:5050]).max()) == 0
    assert abs(float(z[:, 5050:5100].std()) * 50**0.5 - 1) < 0.1


def test_it_fits_through_the_front_door():
    target = logistic_regression(X, Y)
    student = DiagonalGaussian(target.dim, scale=0.1)
    learnt = train(
        target, student, Identity(), ExclusiveKL(), target.minibatches(6), updates=20, progress=False
    )
    assert jnp.isfinite(learnt.student.mean).all()


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: BayesianNetwork(X, Y[:5]), "one per row"),
        (lambda: BayesianNetwork(X, Y + 1), "recode"),
        (lambda: BayesianNetwork(X, Y, likelihood="poisson"), "likelihood is one of"),
        (lambda: BayesianNetwork(X, Y, prior_scale=0.0), "positive"),
        (lambda: BayesianNetwork(X, Y, weights=-1.0), "0 or more"),
        (lambda: BayesianNetwork(X, Y, weights=np.ones(3)), "one for every label"),
        (lambda: BayesianNetwork(X, Y).tempered(0.0), "temperature"),
        (lambda: BayesianNetwork(X, Y).predict(jnp.zeros((1, 251)), X[:, :2]), "3 columns"),
    ],
)
def test_bad_input_is_one_sentence(make, says):
    with pytest.raises(IngredientError, match=says):
        make()
