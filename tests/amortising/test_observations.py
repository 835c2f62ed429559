"""How data are read: amounts are scaled, labels are not."""

import numpy as np

from understudy.amortising.observations import DataSet, Layout, ObservedSite, fit_reading

LAYOUT = Layout((ObservedSite("y", (6,), 0),), 6, 2, True, (True, True), placed=False)


def data_sets(groups):
    generator = np.random.default_rng(0)
    values = generator.normal(size=(50, 6)).astype(np.float32)
    arguments = (
        generator.normal(size=(50, 6)).astype(np.float32),
        generator.integers(groups, size=(50, 6)),
    )
    return DataSet({"y": values}, {"y": np.ones((50, 6), bool)}, arguments)


def test_whole_numbers_of_few_values_are_read_as_labels():
    data = data_sets(4)
    one = DataSet(
        {"y": data.values["y"][0]}, {"y": data.seen["y"][0]}, tuple(a[0] for a in data.arguments)
    )
    rows = np.asarray(fit_reading(LAYOUT, data)(one).rows)
    assert rows.shape == (6, 1 + 1 + 4)
    np.testing.assert_array_equal(rows[:, 2:].argmax(1), data.arguments[1][0])
    np.testing.assert_array_equal(rows[:, 2:].sum(1), 1)


def test_whole_numbers_of_many_values_are_amounts():
    data = data_sets(1000)
    one = DataSet(
        {"y": data.values["y"][0]}, {"y": data.seen["y"][0]}, tuple(a[0] for a in data.arguments)
    )
    assert fit_reading(LAYOUT, data)(one).rows.shape == (6, 3)
