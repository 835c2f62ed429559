"""Blocks, whitening, kernels and densities against numpy and closed forms."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

from understudy.numerics import (
    RADIAL,
    AffineMap,
    effective_draws,
    in_blocks,
    independence_acceptance,
    log_densities,
    map_rows,
    median_distance,
    radial_kernel,
    row_blocks,
    squared_distances,
    whitening,
)
from understudy.students import DiagonalGaussian, VariationalProgram
from understudy.targets import LogDensity

RNG = np.random.default_rng(0)
FACTOR = np.array([[2.0, 0.0, 0.0], [-1.0, 0.5, 0.0], [0.3, 0.2, 1.0]])


def draws(n=500):
    return 3 + RNG.normal(size=(n, 3)) @ FACTOR.T


@pytest.mark.parametrize("n", [1, 4, 7, 8])
def test_blocks_compile_one_shape_and_leave_out_the_filling(n):
    z, shapes = RNG.normal(size=(n, 3)), []

    def function(rows):
        shapes.append(rows.shape)
        return {"sum": rows.sum(1), "row": 2 * rows}

    found = in_blocks(function, z, block=4)
    assert set(shapes) == {(4, 3)}
    np.testing.assert_allclose(found["sum"], z.sum(1), rtol=1e-5)
    np.testing.assert_allclose(found["row"], 2 * z, rtol=1e-6)
    np.testing.assert_allclose(row_blocks(z, 4)[-1][-1], z[-1], rtol=1e-6)


def test_rows_are_mapped_in_order_however_few_fit():
    z = jnp.arange(12.0).reshape(6, 2)
    for size in (1, 2**22, 2**30):
        np.testing.assert_array_equal(map_rows(lambda row: row.sum(), z, size), z.sum(1))


@pytest.mark.parametrize("library", [np, jnp])
@pytest.mark.parametrize("factor", [FACTOR, np.diag(FACTOR)])
def test_whitening_undoes_colouring(library, factor):
    affine = AffineMap(library.asarray([1.0, -2.0, 0.5]), library.asarray(factor))
    z = library.asarray(draws(5), affine.mean.dtype)
    np.testing.assert_allclose(affine.colour(affine.whiten(z)), z, rtol=1e-4)
    np.testing.assert_allclose(affine.whiten(z[0]), affine.whiten(z)[0], rtol=1e-4)
    matrix = np.diag(factor) if factor.ndim == 1 else factor
    np.testing.assert_allclose(affine.log_volume, np.linalg.slogdet(matrix)[1], rtol=1e-5)


def test_a_density_keeps_its_mass_in_other_coordinates():
    normal = scipy.stats.multivariate_normal([1.0, 2.0, 3.0], FACTOR @ FACTOR.T)
    inverse = jnp.asarray(np.linalg.inv(FACTOR))
    mean = jnp.array([1.0, 2.0, 3.0])

    def log_density(z):
        return jax.scipy.stats.norm.logpdf(inverse @ (z - mean)).sum() - np.log(np.diag(FACTOR)).sum()

    z = draws(1)[0]
    np.testing.assert_allclose(log_density(jnp.asarray(z)), normal.logpdf(z), rtol=1e-4)
    white = AffineMap(mean, jnp.asarray(FACTOR)).whitened(log_density)
    u = jnp.array([0.3, -1.0, 2.0])
    np.testing.assert_allclose(white(u), scipy.stats.norm.logpdf(u).sum(), rtol=1e-4)


@pytest.mark.parametrize("library", [np, jnp])
def test_whitened_draws_are_white(library):
    z = library.asarray(draws())
    u = np.asarray(whitening(z).whiten(z))
    np.testing.assert_allclose(u.mean(0), 0, atol=1e-5)
    np.testing.assert_allclose(np.cov(u.T, bias=True), np.eye(3), atol=1e-4)
    scales = np.asarray(whitening(z, full=False).whiten(z))
    np.testing.assert_allclose(scales.std(0), 1, rtol=1e-4)


def test_whitening_uses_the_rows_that_are_kept():
    z = np.concatenate([draws(50), np.full((3, 3), np.nan)])
    kept = np.isfinite(z).all(1)
    some, all_ = whitening(z, kept), whitening(z[:50])
    np.testing.assert_allclose(some.mean, all_.mean)
    np.testing.assert_allclose(some.factor, all_.factor)


def test_shrinkage_gives_up_correlations_and_keeps_variances():
    z = draws()
    covariance = np.cov(z.T, bias=True)
    factor = whitening(z, shrinkage=0.25).factor
    expected = 0.75 * covariance + 0.25 * np.diag(np.diag(covariance))
    np.testing.assert_allclose(factor @ factor.T, expected, rtol=1e-8)


@pytest.mark.parametrize("scale", [1e-9, 1.0, 1e9])
def test_draws_in_a_subspace_have_a_factor(scale):
    z = scale * np.outer(RNG.normal(size=20), [1.0, 2.0, 0.0])
    factor = whitening(z).factor
    assert np.isfinite(factor).all()
    assert (np.diag(factor) > 0).all()


def test_distances_are_scipys():
    a, b = draws(6), draws(4)
    expected = scipy.spatial.distance.cdist(a, b) ** 2
    np.testing.assert_allclose(squared_distances(jnp.asarray(a), jnp.asarray(b)), expected, rtol=1e-4)
    z = draws(9)
    median = np.median(scipy.spatial.distance.pdist(z))
    np.testing.assert_allclose(median_distance(jnp.asarray(z)), median, rtol=1e-5)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("gaussian", lambda r, h: np.exp(-(r**2) / (2 * h**2))),
        ("laplace", lambda r, h: np.exp(-r / h)),
        ("imq", lambda r, h: (1 + r**2 / h**2) ** -0.5),
        (
            "multiscale",
            lambda r, h: np.mean(
                [np.exp(-(r**2) / (2 * (f * h) ** 2)) for f in (0.25, 0.5, 1, 2, 4)], 0
            ),
        ),
    ],
)
def test_radial_kernels_are_their_formulas(name, expected):
    r, h = np.array([0.1, 0.5, 2.0]), 0.7
    np.testing.assert_allclose(radial_kernel(name, h)(jnp.asarray(r**2)), expected(r, h), rtol=1e-4)
    assert name in RADIAL


def test_both_log_densities_at_draws():
    target = LogDensity(lambda z: -jnp.sum(z**2), 1)
    z = jnp.linspace(-2, 2, 300)[:, None]
    found = log_densities(target, DiagonalGaussian(1, 0.5, 2.0), z)
    np.testing.assert_allclose(found.target, -(z[:, 0] ** 2), rtol=1e-6)
    np.testing.assert_allclose(found.student, scipy.stats.norm.logpdf(z[:, 0], 0.5, 2), rtol=1e-5)
    assert log_densities(target, VariationalProgram(), z).student is None


def test_independence_acceptance_is_that_of_all_pairs():
    log_weights = RNG.normal(size=40)
    w = np.exp(log_weights)
    expected = np.minimum.outer(w, w).mean() / w.mean()
    assert independence_acceptance(log_weights) == pytest.approx(expected)
    assert independence_acceptance(np.full(5, 700.0)) == pytest.approx(1)
    assert independence_acceptance(np.full(5, -np.inf)) == 0
    assert independence_acceptance(np.array([np.nan, 0.0])) == pytest.approx(0.5)


def test_effective_draws_of_some_equal_weights():
    weights = jnp.array([-jnp.inf, 3.0, 3.0, 3.0])
    assert float(effective_draws(weights)) == pytest.approx(3, rel=1e-5)
