"""How data are read: amounts are scaled, labels are not."""

import jax
import jax.numpy as jnp
import numpy as np

from understudy.amortising.observations import DataSet, Layout, ObservedSite, fit_reading

LAYOUT = Layout((ObservedSite("y", (6,), 0),), 6, 2, True, (True, True), placed=False)


def read_first(groups):
    """Rows of a data set as they are read, and its labels."""
    generator = np.random.default_rng(0)
    values, amounts = generator.normal(size=(2, 50, 6)).astype(np.float32)
    labels = generator.integers(groups, size=(50, 6))
    data = DataSet({"y": values}, {"y": np.ones((50, 6), bool)}, (amounts, labels))
    first = jax.tree.map(lambda leaf: jnp.asarray(leaf[0]), data)
    return np.asarray(fit_reading(LAYOUT, data)(first).rows), labels[0]


def test_whole_numbers_of_few_values_are_read_as_labels():
    rows, labels = read_first(4)
    # Arguments come before the site.
    assert rows.shape == (6, 1 + 4 + 1)
    np.testing.assert_array_equal(rows[:, 1:5].argmax(1), labels)
    np.testing.assert_array_equal(rows[:, 1:5].sum(1), 1)


def test_an_event_of_rows_and_columns_is_an_image_and_small_ones_a_vector_too():
    generator = np.random.default_rng(0)
    for shape, vector in [((30, 20, 3), 0), ((9, 8), 72), ((9, 7), 63)]:
        layout = Layout((ObservedSite("y", shape, len(shape)),))
        values = 5 + 3 * generator.normal(size=(40, *shape)).astype(np.float32)
        data = DataSet({"y": values}, {"y": np.ones(40, bool)})
        reading = fit_reading(layout, data)
        read = reading(jax.tree.map(lambda leaf: jnp.asarray(leaf[0]), data))
        assert read.vector.shape == (vector,)
        assert read.rows is None
        if shape == (9, 7):
            assert not read.images
            continue
        (image,) = read.images
        assert image.shape == (*shape[:2], shape[2] if len(shape) == 3 else 1)
        expected = np.arcsinh((values[0] - 5) / 3).reshape(image.shape)
        np.testing.assert_allclose(image, expected, atol=0.1)
        unseen = reading(DataSet({"y": jnp.asarray(values[0])}, {"y": jnp.array(False)}))
        assert not np.any(unseen.images[0])


def test_whole_numbers_of_many_values_are_amounts():
    assert read_first(1000)[0].shape == (6, 3)
