"""Every legal name of a site comes back from every kind of file, or is renamed with a word."""

import csv
import io
import warnings

import numpy as np
import pytest
import xarray

from tests.site_names import NAMES
from understudy.core import IngredientError
from understudy.display import entries
from understudy.posterior.naming import renamed, writable
from understudy.posterior.writing import write_draws


@pytest.fixture(scope="module")
def draws():
    values = np.random.default_rng(0)
    return {name: values.normal(size=(7,)) for name in NAMES} | {"x": values.normal(size=(7, 2, 3))}


def written(path, draws):
    """The path, and what was said while writing."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        write_draws(path, draws)
    return " ".join(str(one.message) for one in said)


def test_there_are_sixty():
    assert len(set(NAMES)) >= 60


def test_names_come_back_from_csv(tmp_path, draws):
    assert written(tmp_path / "draws.csv", draws) == ""
    text = (tmp_path / "draws.csv").read_bytes().decode()
    header, *rows = csv.reader(io.StringIO(text, newline=""))
    assert header == [writable(name) for name in entries(draws)]
    wanted = np.column_stack([*(draws[name] for name in NAMES), draws["x"].reshape(7, -1)])
    np.testing.assert_allclose(np.array(rows, float), wanted, rtol=1e-6)


@pytest.mark.parametrize("name", NAMES, ids=ascii)
def test_a_name_comes_back_from_numpy_or_is_renamed_with_a_word(tmp_path, name):
    said = written(tmp_path / "draws.npz", {name: np.arange(3.0), "mu": np.zeros(3)})
    with np.load(tmp_path / "draws.npz") as found:
        [other] = set(found.files) - {"mu"} or {"mu"}
        assert other == name or f"{other!r}" in said
        assert name == "mu" or found[other].tolist() == [0.0, 1.0, 2.0]


@pytest.mark.parametrize("name", NAMES, ids=ascii)
def test_a_name_comes_back_from_netcdf_or_is_renamed_with_a_word(tmp_path, name):
    said = written(tmp_path / "draws.nc", {name: np.arange(3.0), "mu": np.zeros((3, 2))})
    with xarray.open_dataset(tmp_path / "draws.nc", engine="scipy") as found:
        [other] = set(found.data_vars) - {"mu"} or {"mu"}
        assert other == name or (f"{other!r}" in said and "site" in found[other].attrs)
        assert name == "mu" or found[other].values.tolist() == [[0.0, 1.0, 2.0]]


def test_all_of_them_stay_apart_in_one_file(tmp_path, draws):
    for ending in ("nc", "npz"):
        path = tmp_path / f"draws.{ending}"
        written(path, draws)
        opened = np.load(path) if ending == "npz" else xarray.open_dataset(path, engine="scipy")
        with opened as found:
            assert len(found.files if ending == "npz" else found.data_vars) == len(draws)


def test_plain_names_stay_and_all_are_distinct():
    names = [*NAMES, "a_b", "site_1st", "a_b_2"]
    with pytest.warns(UserWarning, match="cannot hold the site name"):
        made = renamed(names, str.isidentifier, "It")
    assert len(set(made.values())) == len(set(names))
    assert [made[name] for name in ("mu", "a_b", "a_b_2", "file")] == ["mu", "a_b", "a_b_2", "file"]


def test_entries_with_the_name_of_a_site_stay_apart():
    made = entries({"a": np.zeros((3, 2)), "a[0]": np.ones(3)})
    assert list(made) == ["a[0]", "a[1]", "a[0]'"]
    assert made["a[0]'"].sum() == 3


def test_another_ending_is_refused(tmp_path):
    with pytest.raises(IngredientError, match=r"ends in \.nc, \.npz, \.csv"):
        write_draws(tmp_path / "draws.txt", {})
