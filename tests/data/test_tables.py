import hashlib
import io
import os
import urllib.error
import zipfile
from pathlib import Path

import numpy as np
import pytest

from understudy import data
from understudy.core import IngredientError
from understudy.data import files

ROOT = Path(__file__).parents[2]
SHARED = Path(os.environ.get("UNDERSTUDY_DATA") or ROOT.parent / "shared" / "data")
SHAPES = {
    "australian": (690, 14, 307),
    "breast": (683, 9, 239),
    "colon": (62, 2000, 40),
    "crabs": (200, 6, 100),
    "ionosphere": (351, 34, 225),
    "pima": (768, 8, 268),
    "sonar": (208, 60, 111),
}
BUNDLED = ("breast", "crabs", "ionosphere", "pima", "sonar")


@pytest.fixture
def nowhere(monkeypatch, tmp_path):
    """Neither a data folder nor anything in the cache nor a network."""
    monkeypatch.delenv("UNDERSTUDY_DATA", raising=False)
    monkeypatch.setattr(files, "cache_folder", lambda: tmp_path / "cache")

    def refuse(*_, **__):
        raise urllib.error.URLError("no network")

    monkeypatch.setattr(files.urllib.request, "urlopen", refuse)
    return tmp_path


@pytest.mark.parametrize("name", data.NAMES)
def test_every_set_has_its_known_shape(name, monkeypatch):
    if name not in BUNDLED:
        if not (SHARED / "uci" / f"{name}.csv").exists():
            pytest.skip(f"uci/{name}.csv is not in {SHARED}; set UNDERSTUDY_DATA")
        monkeypatch.setenv("UNDERSTUDY_DATA", str(SHARED))
    table = data.load(name)
    rows, columns, ones = SHAPES[name]
    assert table.features.shape == (rows, columns)
    assert table.labels.sum() == ones
    assert len(table.names) == columns
    assert table.source
    assert table.licence
    assert table.label


@pytest.mark.parametrize("name", BUNDLED)
def test_bundled_sets_are_the_ones_that_were_checked(name):
    raw = (Path(data.__file__).parent / "tables" / f"{name}.csv").read_bytes()
    assert data.digest(raw) == data._SETS[name].sha256


def test_bundled_sets_need_no_network(nowhere):
    assert set(data.local()) == set(BUNDLED)
    assert len(data.load("crabs")) == 200


def test_without_file_and_network_one_sentence_says_what_to_do(nowhere):
    with pytest.raises(IngredientError, match=r"archive\.ics\.uci\.edu.*UNDERSTUDY_DATA") as raised:
        data.load("australian")
    assert "\n" not in str(raised.value)


def test_unknown_names_are_refused():
    with pytest.raises(IngredientError, match="one of australian, breast"):
        data.load("iris")


def test_a_changed_file_is_refused(nowhere, monkeypatch):
    (nowhere / "uci").mkdir()
    (nowhere / "uci" / "australian.csv").write_text("A1,y\n1,0\n2,1\n")
    monkeypatch.setenv("UNDERSTUDY_DATA", str(nowhere))
    with pytest.raises(IngredientError, match="does not hold the data"):
        data.load("australian")


def test_a_download_that_is_not_the_set_is_refused(nowhere, monkeypatch):
    lines = [" ".join(map(str, range(14))) + f" {label}" for label in (0, 1)]
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as zipped:
        zipped.writestr("australian.dat", "\n".join(lines) + "\n")
    monkeypatch.setattr(files.urllib.request, "urlopen", lambda *_, **__: io.BytesIO(buffer.getvalue()))
    with pytest.raises(IngredientError, match="does not hold the data"):
        data.load("australian")
    assert files.find("uci/australian.csv") is None


def test_obtain_keeps_what_it_downloads(nowhere):
    def digest(raw):
        return hashlib.sha256(raw).hexdigest()

    def never():
        raise AssertionError("downloaded twice")

    good = digest(b"42")
    assert files.obtain("a/b.txt", lambda: b"42", "https://x", digest, good) == b"42"
    assert files.obtain("a/b.txt", never, "https://x", digest, good) == b"42"


def test_colon_is_spelt_as_the_public_pages_spell_it(nowhere, monkeypatch):
    random = np.random.default_rng(0)
    values = random.uniform(10, 1e4, (2000, 62))
    signs = random.integers(0, 2, 62)
    matrix = "<pre>" + "\n".join(" ".join(f"{v:.7e}" for v in row) for row in values) + "</pre>"
    tissues = "<html><p>" + " ".join(f"{'-' if s else ''}{i}" for i, s in enumerate(signs, 1))
    pages = {"I2000.html": matrix, "tissues.html": tissues}
    monkeypatch.setattr(files, "fetch", lambda address: pages[address.split("/")[-1]].encode())
    table = data._parsed("colon", data._colon())
    np.testing.assert_allclose(table.features, values.T, rtol=1e-7)
    np.testing.assert_array_equal(table.labels, signs)


def test_constant_columns_become_zero():
    features = data.load("ionosphere").features
    train, test = data.standardise(features[:300], features[300:])
    assert np.isfinite(train).all()
    assert np.isfinite(test).all()
    assert (train[:, 1] == 0).all()
    np.testing.assert_allclose(np.delete(train, 1, 1).std(0), 1, rtol=1e-9)
    np.testing.assert_allclose(train.mean(0), 0, atol=1e-9)


def test_intensities_are_logged():
    table = data.Table("t", np.array([[1.0, np.e]]), np.array([1]), ("a", "b"), logs=True)
    np.testing.assert_allclose(table.inputs, [[0.0, 1.0]])
    np.testing.assert_allclose(data.load("pima").inputs, data.load("pima").features)


def test_splits_are_fixed_by_their_seed_and_cover_every_row():
    first, again, other = data.splits(683), data.splits(683), data.splits(683, seed=1)
    assert first.train.shape == (20, 615)
    assert first.test.shape == (20, 68)
    np.testing.assert_array_equal(first.test, again.test)
    assert (first.test != other.test).any()
    for train, test in zip(*first, strict=True):
        assert sorted([*train, *test]) == list(range(683))


def test_another_column_can_be_the_label():
    table = data.load("crabs").predicting("sp_orange")
    assert table.labels.sum() == 100
    assert table.names[-1] == "y"
    assert table.features.shape == (200, 6)
    np.testing.assert_array_equal(table.features[:, -1], data.load("crabs").labels)
    with pytest.raises(IngredientError, match="other values"):
        data.load("crabs").predicting("FL")


def test_a_table_of_ones_own(tmp_path):
    path = tmp_path / "mine.csv"
    path.write_text("a,sick,b\n1,0,2\n3,1,4\n")
    table = data.read_csv(path, label="sick")
    assert table.names == ("a", "b")
    np.testing.assert_array_equal(table.labels, [0, 1])
    with pytest.raises(IngredientError, match="no column 'y'"):
        data.read_csv(path)
    path.write_text("a,y\nred,0\n")
    with pytest.raises(IngredientError, match="is a number"):
        data.read_csv(path)


@pytest.mark.parametrize(
    "content", [b"", b"a,y\n", b"a,y\n1,0,3\n2,1\n", b"\xff\xfea,y\n\0", None], ids=range(5)
)
def test_a_file_that_is_no_table_is_named_in_one_sentence(tmp_path, content):
    path = tmp_path / "mine.csv"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(IngredientError, match="mine") as found:
        data.read_csv(path)
    assert "\n" not in str(found.value)


IMPOSSIBLE = [
    {"rows": 1}, {"rows": 10**12}, {"rows": "many"}, {"count": 0}, {"count": 10**9}, {"share": np.nan},
    {"share": 0}, {"share": 1.5}, {"share": "half"}, {"share": None}, {"seed": -1}, {"seed": 2**70},
    {"seed": 0.5}, {"share": 0.001},
]  # fmt: skip


@pytest.mark.parametrize("given", IMPOSSIBLE, ids=str)
def test_impossible_splits_are_refused(given):
    splits = getattr(data.splits, "__wrapped__", data.splits)
    with pytest.raises(IngredientError) as found:
        splits(**{"rows": 100, **given})
    assert "\n" not in str(found.value)


@pytest.mark.parametrize("name", [["pima"], None, 3, "", {"a": 1}], ids=str)
def test_names_that_are_no_names_are_refused(name):
    load = getattr(data.load, "__wrapped__", data.load)
    with pytest.raises(IngredientError, match="one of australian, breast"):
        load(name)
