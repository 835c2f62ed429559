"""What a summary of a set tells, neither order nor padding; and one of an image, place by place."""

import jax
import jax.numpy as jnp
import numpy as np

from understudy.networks.summaries import Imaged, Pooled

ROWS = np.random.default_rng(0).normal(size=(6, 2)).astype(np.float32)
POOLED = Pooled(jax.random.key(0), 2)


def told(rows, present=6):
    return np.asarray(POOLED(jnp.asarray(rows), jnp.arange(6) < present))


def test_neither_order_nor_padding_counts():
    assert told(ROWS).shape == (POOLED.outputs,)
    np.testing.assert_allclose(told(ROWS), told(ROWS[::-1]), atol=1e-5)
    padded = np.where(np.arange(6)[:, None] < 4, ROWS, 100.0)
    np.testing.assert_allclose(told(padded, 4), told(ROWS, 4), atol=1e-5)


def test_a_hundredth_of_the_spread_about_the_same_mean_is_told_apart_by_its_logarithm():
    narrow = ROWS.mean(0) + 0.01 * (ROWS - ROWS.mean(0))
    gone = told(ROWS) - told(narrow)
    assert np.isclose(gone, np.log(100), atol=0.02).sum() == 2


def test_rows_that_are_all_alike_have_a_gradient():
    slope = jax.grad(lambda rows: POOLED(rows, jnp.ones(6, bool)).sum())(jnp.ones((6, 2)))
    assert np.isfinite(slope).all()


def test_an_image_is_told_place_by_place():
    network = Imaged(jax.random.key(0), (24, 17, 2))
    image = jnp.zeros((24, 17, 2)).at[20, 15, 1].set(5.0)
    told = np.asarray(network(image)).reshape(3, 3, -1)
    assert told.size == network.outputs
    assert np.abs(told[2, 2]).max() > 0
    assert not told[0, 0].any()  # too far from the spot to see it
