"""Toy targets: samplers agree with densities, densities with what is known of them."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from understudy.core import IngredientError
from understudy.targets import (
    Ising,
    Moons,
    Ring,
    banana,
    eight_gaussians,
    forty_gaussians,
    funnel,
    two_moons,
)

BOXES = {
    "banana": (banana(), (8.0, 28.0)),
    "funnel": (funnel(), (8.0, 40.0)),
    "ring": (Ring(), (5.0, 5.0)),
    "wide ring": (Ring(1.0, 0.5), (3.0, 3.0)),
    "eight": (eight_gaussians(), (7.0, 7.0)),
    "moons": (two_moons(), (5.0, 5.0)),
    "long moons": (Moons(1.0, 0.4, 1.5), (5.0, 5.0)),
}
FINE, COARSE, DRAWS = 960, 24, 40_000


@pytest.fixture(scope="module", params=BOXES)
def masses(request):
    """The density integrated over coarse cells of a box, and the counts of exact draws in them."""
    target, half = BOXES[request.param]
    lines = [(np.arange(FINE) + 0.5) / FINE * 2 * h - h for h in half]
    points = np.stack(np.meshgrid(*lines, indexing="ij"), -1).reshape(-1, 2)
    area = np.prod([2 * h / FINE for h in half])
    density = np.exp(np.asarray(jax.jit(jax.vmap(target.log_density))(points), float)) * area
    size = FINE // COARSE
    cells = density.reshape(COARSE, size, COARSE, size).sum((1, 3))
    z = np.asarray(eqx.filter_jit(target.sample)(jax.random.key(0), DRAWS))
    edges = [np.linspace(-h, h, COARSE + 1) for h in half]
    return request.param, cells, np.histogram2d(*z.T, bins=edges)[0]


def test_densities_are_normalised(masses):
    name, cells, _ = masses
    if "ring" not in name:
        assert abs(cells.sum() - 1) < 2e-3


def test_samplers_agree_with_densities(masses):
    _, cells, counts = masses
    expected = cells / cells.sum() * DRAWS
    enough = expected > 5
    scores = (counts - expected)[enough] / np.sqrt(expected[enough])
    assert enough.sum() > 40
    assert np.abs(scores).max() < 5.5
    assert 0.7 < (scores**2).mean() < 1.35
    assert counts.sum() > 0.998 * DRAWS


def test_moons_are_symmetric_and_smooth():
    moons = two_moons()
    z = moons.sample(jax.random.key(1), 2000)
    value, gradient = jax.jit(jax.vmap(jax.value_and_grad(moons.log_density)))(z)
    np.testing.assert_allclose(value, jax.vmap(moons.log_density)(-z), atol=1e-3)
    assert np.isfinite(gradient).all()
    # Across the cut of the angle nothing jumps.
    cut = moons.centres[0] + jnp.array([-2.0, 0.0])
    sides = jax.vmap(moons.log_density)(cut + jnp.array([[0.0, 1e-4], [0.0, -1e-4]]))
    np.testing.assert_allclose(sides[0], sides[1], atol=1e-2)


def test_forty_gaussians_lie_in_their_box():
    target = forty_gaussians()
    assert target.means.shape == (40, 2)
    assert np.abs(target.means).max() <= 40
    np.testing.assert_allclose(target.log_density(target.means[0]), -np.log(40 * 2 * np.pi), rtol=0.02)


def test_two_spins_agree_as_often_as_they_should():
    pair = Ising(1, 2, 0.7)
    agree = pair.states[:, 0] == pair.states[:, 1]
    np.testing.assert_allclose(pair.probabilities[agree].sum(), 1 / (1 + np.exp(-1.4)), rtol=1e-5)


def test_ising_has_the_partition_function_of_its_transfer_matrix():
    coupling, ising = 0.4, Ising(3, 3, 0.4)
    rows = np.array([[1 - 2 * (k >> i & 1) for i in range(3)] for k in range(8)])
    within = np.exp(coupling * (rows[:, 1:] * rows[:, :-1]).sum(1))
    between = np.exp(coupling * rows @ rows.T)
    total = within @ between @ np.diag(within) @ between @ within
    heights = jax.vmap(ising.log_density)(ising.states)
    np.testing.assert_allclose(jnp.exp(heights).sum(), total, rtol=1e-5)
    assert len(np.unique(np.asarray(ising.states), axis=0)) == 512


def test_ising_draws_have_its_probabilities():
    ising = Ising(2, 2, 0.4)
    z = np.asarray(ising.sample(jax.random.key(0), 20_000))
    codes = z @ np.array([8, 4, 2, 1])
    np.testing.assert_array_equal(ising.states @ np.array([8, 4, 2, 1]), np.arange(16))
    shares = np.bincount(codes.astype(int), minlength=16) / len(z)
    np.testing.assert_allclose(shares, ising.probabilities, atol=0.012)


def test_a_large_ising_is_refused():
    with pytest.raises(IngredientError, match="at most 16 sites"):
        Ising(5, 4)
