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


def test_whole_numbers_of_many_values_are_amounts():
    assert read_first(1000)[0].shape == (6, 3)
