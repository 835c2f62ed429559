"""Encoders, truncated chains and dropout: students whose answer is known for linear maps."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import paramax
import pytest
import scipy.stats

from understudy.core import IngredientError, Target, partition
from understudy.feedbacks import EnergyDistance
from understudy.networks import Perceptron, join_layers, layers_size, split_layers
from understudy.students import (
    DiagonalGaussian,
    Dropout,
    FlowEncoder,
    GaussianEncoder,
    SplineFlow,
    TruncatedChain,
    flow_encoder,
    gaussian_encoder,
)
from understudy.targets import BayesianNetwork
from understudy.teachers import mala
from understudy.training import train

KEY = jax.random.key(4)
CONDITION = {"image": jnp.ones((2, 2)), "label": jnp.asarray(1)}


class Gaussian(Target):
    precision: jax.Array
    dim: int = eqx.field(static=True, default=2)

    def log_density(self, z, x=None):
        centre = 0.0 if x is None else x
        return -0.5 * jnp.sum(self.precision * (z - centre) ** 2)


def bent(key, dim):
    """A flow encoder whose flow has learnt something."""
    encoder = flow_encoder(key, gaussian_encoder(key, dim, CONDITION, hidden=(8,)), layers=2, width=8)
    return eqx.tree_at(lambda e: e.flow.leave, encoder, replace_fn=lambda leave: 100 * leave)


def test_the_density_of_a_flow_encoder_integrates_to_one_and_is_that_of_its_draws():
    encoder = bent(KEY, 2)
    mean, log_scale = encoder.place.parameters(CONDITION)
    line = jnp.linspace(-9, 9, 301)
    noise = jnp.stack(jnp.meshgrid(line, line), -1).reshape(-1, 2)
    grid = mean + jnp.exp(log_scale) * noise
    density = jnp.exp(jax.jit(jax.vmap(lambda z: encoder.log_prob(z, CONDITION)))(grid))
    cell = (line[1] - line[0]) ** 2 * jnp.exp(log_scale.sum())
    assert float(density.sum() * cell) == pytest.approx(1, abs=0.01)
    draws = np.asarray(eqx.filter_jit(lambda k: encoder.sample(k, CONDITION, 20_000))(KEY), float)
    expected = np.asarray((density[:, None] * grid).sum(0) * cell)
    assert np.all(np.abs(draws.mean(0) - expected) < 0.02 + 4.5 * draws.std(0) / np.sqrt(20_000))
    plain = encoder.place.sample(KEY, CONDITION, 20_000)
    assert np.abs(draws.std(0) / np.asarray(plain).std(0) - 1).max() > 0.05, "the flow bends"


def test_a_flow_encoder_begins_as_the_encoder_inside():
    place = gaussian_encoder(KEY, 2, CONDITION, hidden=(8,))
    encoder, z = flow_encoder(KEY, place), jnp.array([0.3, -1.0])
    assert float(encoder.log_prob(z, CONDITION) - place.log_prob(z, CONDITION)) == pytest.approx(
        0, abs=0.05
    )


def test_the_parts_of_a_flow_encoder_have_one_size():
    place = gaussian_encoder(KEY, 2, CONDITION, hidden=(8,))
    with pytest.raises(IngredientError, match="size 2 and flow of size 3"):
        FlowEncoder(place, SplineFlow(KEY, 3, jnp.zeros(4), layers=1, width=4))


def test_encoder_density_is_that_of_scipy_and_of_its_draws():
    encoder = gaussian_encoder(KEY, 3, CONDITION, hidden=(8,))
    output = np.asarray(encoder.network(CONDITION), float)
    mean, scale = output[:3], np.exp(output[3:])
    z = jnp.array([0.3, -1.0, 2.0])
    expected = scipy.stats.norm(mean, scale).logpdf(np.asarray(z)).sum()
    assert float(encoder.log_prob(z, CONDITION)) == pytest.approx(expected, rel=1e-4)
    draws = np.asarray(eqx.filter_jit(lambda k: encoder.sample(k, CONDITION, 20_000))(KEY), float)
    assert np.all(np.abs(draws.mean(0) - mean) < 4.5 * scale / np.sqrt(20_000))
    assert np.all(np.abs(draws.std(0) / scale - 1) < 4.5 / np.sqrt(40_000))


def test_encoder_vectorises_over_conditions():
    encoder = gaussian_encoder(KEY, 3, CONDITION, hidden=(8,))
    x = jax.tree.map(lambda v: jnp.stack([v, 2 * v]), CONDITION)
    draws = eqx.filter_jit(jax.vmap(lambda c: encoder.sample(KEY, c, 4)))(x)
    np.testing.assert_allclose(draws[0], encoder.sample(KEY, CONDITION, 4), rtol=1e-4, atol=1e-5)
    assert float(jnp.abs(draws[0] - draws[1]).max()) > 1e-3


def test_encoder_names_a_network_of_the_wrong_size():
    with pytest.raises(IngredientError, match="6 numbers"):
        GaussianEncoder(lambda x: jnp.zeros(5), 3).sample(KEY, None, 1)


def chain_of(kind, steps=3, step_size=0.2, base_scale=0.7):
    base = DiagonalGaussian(2, jnp.array([1.0, -1.0]), base_scale)
    chain = TruncatedChain(base, Gaussian(jnp.array([1.0, 4.0])), steps, step_size, kind)
    return eqx.tree_at(lambda c: c.log_preconditioner, chain, jnp.log(jnp.array([1.5, 0.5])))


def test_langevin_chain_has_the_moments_of_its_recursion():
    chain, x, n = chain_of("langevin"), jnp.array([2.0, 0.5]), 20_000
    draws = np.asarray(eqx.filter_jit(lambda k: chain.sample(k, x, n))(KEY), float)
    mean, variance = np.array([1.0, -1.0]), np.full(2, 0.49)
    drift = 0.2 * np.array([1.5, 0.5])
    shrink = 1 - drift * np.array([1.0, 4.0])
    for _ in range(3):
        mean, variance = x + shrink * (mean - x), shrink**2 * variance + 2 * drift
    assert np.all(np.abs(draws.mean(0) - mean) < 4.5 * np.sqrt(variance / n))
    assert np.all(np.abs(draws.var(0) / variance - 1) < 4.5 * np.sqrt(2 / n))


def test_leapfrog_chain_is_reversible_motion_on_the_gaussian():
    # Started at the centre, position is linear in the momentum: one 2x2 product a step.
    chain, n = chain_of("leapfrog", steps=4, base_scale=1e-6), 20_000
    draws = np.asarray(eqx.filter_jit(lambda k: chain.sample(k, jnp.array([1.0, -1.0]), n))(KEY), float)
    for i, (mass, precision) in enumerate([(1.5, 1.0), (0.5, 4.0)]):
        kick = np.array([[1, 0], [-0.1 * precision, 1]])
        move = np.array([[1, 0.2 * mass], [0, 1]])
        matrix = np.linalg.matrix_power(kick @ move @ kick, 4)
        variance = matrix[0, 1] ** 2 / mass
        assert draws[:, i].var() == pytest.approx(variance, rel=4.5 * np.sqrt(2 / n))


@pytest.mark.parametrize("kind", ["langevin", "leapfrog"])
def test_chain_learns_its_steps_and_leaves_the_target_alone(kind):
    chain = chain_of(kind)
    parameters, rest = partition(chain)
    assert not jax.tree.leaves(parameters.target)
    direction = jax.tree.map(lambda v: jnp.ones_like(v), parameters)

    def value(t):
        moved = eqx.combine(jax.tree.map(lambda v, u: v + t * u, parameters, direction), rest)
        return jnp.sum(jnp.sin(moved.sample(KEY, None, 3)))

    both = jax.jit(jax.vmap(jax.value_and_grad(value)))
    (low, _, high), (_, slope, _) = both(jnp.array([-1e-2, 0, 1e-2]))
    assert float(slope) == pytest.approx(float(high - low) / 2e-2, rel=1e-2, abs=1e-2)


class Moving(Target):
    """N(theta, 1) a priori, observed with noise: theta learns the mean of the data."""

    theta: jax.Array
    dim: int = eqx.field(static=True, default=1)

    def log_density(self, z, x=None):
        return -0.5 * jnp.sum((z - self.theta) ** 2) - 0.5 * jnp.sum((z - x) ** 2)


def test_a_chain_follows_a_target_whose_theta_learns():
    target = Moving(jnp.zeros(1))
    chain = TruncatedChain(TruncatedChain(DiagonalGaussian(1), target, 1), target, 2)
    trained = train(
        target,
        chain,
        mala(0.1),
        EnergyDistance(),
        jnp.full((4, 1), 3.0),
        updates=6,
        batch_size=4,
        particles=4,
        average=0.9,
        model_optimiser=optax.adam(0.1),
        progress=False,
    )
    theta = trained.state.target.theta
    assert float(theta[0]) > 0.3
    for student in (trained.student, trained.state.student):
        for held in (student.target, student.base.target):
            np.testing.assert_array_equal(paramax.unwrap(held).theta, theta)


def test_a_chain_towards_another_target_stays():
    chain = chain_of("langevin")
    followed = chain.following(Moving(jnp.ones(1)))
    np.testing.assert_array_equal(paramax.unwrap(followed.target).precision, [1.0, 4.0])


def test_chain_names_what_does_not_fit():
    with pytest.raises(IngredientError, match="same dim"):
        TruncatedChain(DiagonalGaussian(3), Gaussian(jnp.ones(2)), 2)
    with pytest.raises(IngredientError, match="step_size"):
        TruncatedChain(DiagonalGaussian(2), Gaussian(jnp.ones(2)), 2, -0.1)


SHAPES = [(4, 3), (2, 4)]


@pytest.mark.parametrize("noise", ["units", "connections", "gaussian"])
def test_noisy_weights_have_the_right_mean_and_variance(noise):
    student, n = Dropout(KEY, SHAPES, jnp.array([0.2, 0.5]), noise), 10_000
    student = eqx.tree_at(lambda s: s.biases[0], student, jnp.arange(4.0))
    draws = np.asarray(eqx.filter_jit(lambda k: student.sample(k, None, n))(KEY), float)
    layers = [(weight.T, bias) for weight, bias in zip(student.weights, student.biases, strict=True)]
    centre = np.asarray(join_layers(layers), float)
    ratio = np.concatenate([np.full(12, 0.25), np.zeros(4), np.full(8, 1.0), np.zeros(2)])
    scale = np.abs(centre) * np.sqrt(ratio)
    assert np.all(np.abs(draws.mean(0) - centre) < 4.5 * scale / np.sqrt(n) + 1e-5)
    np.testing.assert_allclose(draws.std(0), scale, rtol=0.1, atol=1e-5)
    together = np.mean((draws[:, 0] / centre[0] == 0) == (draws[:, 1] / centre[1] == 0))
    assert (together == 1) == (noise in {"units", "gaussian"})


def test_draws_are_read_by_the_bayesian_network():
    network = Perceptron(KEY, [3, 4, 2])
    biases = [jnp.arange(4.0), jnp.array([5.0, -6.0])]
    network = eqx.tree_at(lambda n: n.biases, network, biases)
    student = Dropout(KEY, SHAPES, rate=0.0)
    student = eqx.tree_at(lambda s: (s.weights, s.biases), student, (network.weights, network.biases))
    features = jnp.array([[1.0, -2.0, 0.5], [0.0, 3.0, 1.0]])
    target = BayesianNetwork(features, jnp.array([0, 1]), (4,), "categorical")
    assert student.dim == target.dim
    draw = student.sample(KEY, None, 1)[0]
    np.testing.assert_allclose(target.outputs(draw, features), jax.vmap(network)(features), rtol=1e-5)


def test_layers_are_joined_and_split():
    shapes = [(3, 4), (4, 2)]
    z = jnp.arange(layers_size(shapes), dtype=float)
    layers = split_layers(z, shapes)
    assert [(w.shape, b.shape) for w, b in layers] == [((3, 4), (4,)), ((4, 2), (2,))]
    np.testing.assert_array_equal(layers[0][1], [12, 13, 14, 15])
    np.testing.assert_array_equal(join_layers(layers), z)


def test_dropout_rate_does_not_learn_and_is_checked():
    parameters, _ = partition(Dropout(KEY, SHAPES))
    assert sorted(v.shape for v in jax.tree.leaves(parameters)) == [(2,), (2, 4), (4,), (4, 3)]
    with pytest.raises(IngredientError, match="rate"):
        Dropout(KEY, SHAPES, rate=1.0)
