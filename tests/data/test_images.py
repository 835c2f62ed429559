import gzip
import io
import os
import struct
import urllib.error
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from understudy import data
from understudy.core import IngredientError
from understudy.data import files, images

ROOT = Path(__file__).parents[2]
SHARED = Path(os.environ.get("UNDERSTUDY_DATA") or ROOT.parent / "shared" / "data")
SIZES = {"train-images-idx3": (60, 3, 4), "train-labels-idx1": (60,)}
SIZES |= {"t10k-images-idx3": (20, 3, 4), "t10k-labels-idx1": (20,)}


def idx(array):
    header = struct.pack(">HBB", 0, 8, array.ndim) + struct.pack(f">{array.ndim}I", *array.shape)
    return header + array.astype(np.uint8).tobytes()


@pytest.fixture
def small(monkeypatch, tmp_path):
    """Four small files on a pretended network, of which the first address never answers."""
    random = np.random.default_rng(0)
    arrays = {name: random.integers(0, 10, size) for name, size in SIZES.items()}
    served = {f"{name}-ubyte.gz": gzip.compress(idx(array)) for name, array in arrays.items()}
    asked = []

    def answer(address, timeout):
        asked.append(address)
        if images._ADDRESSES[0] in address:
            raise urllib.error.URLError("no such host")
        return io.BytesIO(served[address.rpartition("/")[2]])

    monkeypatch.delenv("UNDERSTUDY_DATA", raising=False)
    monkeypatch.setattr(files, "cache_folder", lambda: tmp_path)
    monkeypatch.setattr(files.urllib.request, "urlopen", answer)
    monkeypatch.setattr(images, "VALIDATION", 10)
    digests = {name: images.digest(served[f"{name}-ubyte.gz"]) for name in SIZES}
    monkeypatch.setattr(images, "_MNIST", digests)
    return arrays, served, asked


def test_mnist_has_its_known_shapes_and_labels(monkeypatch):
    if not (SHARED / "mnist").exists():
        pytest.skip(f"mnist is not in {SHARED}; set UNDERSTUDY_DATA")
    monkeypatch.setenv("UNDERSTUDY_DATA", str(SHARED))
    digits = data.load("mnist")
    assert digits.train.shape == (55_000, 28, 28)
    assert digits.validation.shape == (5_000, 28, 28)
    assert digits.test.shape == (10_000, 28, 28)
    assert digits.test_labels[:10].tolist() == [7, 2, 1, 0, 4, 1, 4, 9, 5, 9]
    assert np.bincount(digits.test_labels)[0] == 980
    assert digits.test.max() == 255
    assert digits.source


def test_the_second_address_is_asked_and_the_cache_kept(small):
    arrays, _, asked = small
    digits = data.load("mnist")
    np.testing.assert_array_equal(digits.train, arrays["train-images-idx3"][:50])
    np.testing.assert_array_equal(digits.validation_labels, arrays["train-labels-idx1"][50:])
    np.testing.assert_array_equal(digits.test, arrays["t10k-images-idx3"])
    assert len(asked) == 8
    data.load("mnist")
    assert len(asked) == 8


def test_the_compression_does_not_matter_but_the_contents_do(small):
    arrays, served, _ = small
    raw = idx(arrays["t10k-labels-idx1"])
    served["t10k-labels-idx1-ubyte.gz"] = gzip.compress(raw, 1, mtime=7)
    data.load("mnist")
    files.find("mnist/t10k-labels-idx1-ubyte.gz").write_bytes(gzip.compress(raw[:-1] + b"\x0b"))
    with pytest.raises(IngredientError, match="does not hold the data"):
        data.load("mnist")


@pytest.mark.parametrize("broken", [b"not gzip", gzip.compress(b"abc", mtime=0)[:-9], b""], ids=range(3))
def test_a_broken_file_is_refused_in_one_sentence(small, broken):
    _, served, _ = small
    served["t10k-labels-idx1-ubyte.gz"] = broken
    with pytest.raises(IngredientError, match=r"cannot be read|does not hold the data"):
        data.load("mnist")


def test_images_of_ones_own_from_arrays_and_from_a_folder(tmp_path):
    mine = np.random.default_rng(0).integers(0, 256, (3, 5, 4), np.uint8)
    np.save(tmp_path / "mine.npy", mine)
    np.savez(tmp_path / "one.npz", mine=mine)
    np.savez(tmp_path / "two.npz", mine=mine, labels=np.arange(3))
    folder = tmp_path / "pictures"
    folder.mkdir()
    (folder / "notes.txt").write_text("not a picture")
    for name, pixels in zip(("b.PNG", "a.png", "c.bmp"), mine[[1, 0, 2]], strict=True):
        Image.fromarray(pixels).save(folder / name)
    for read in (
        data.read_images(tmp_path / "mine.npy"),
        data.read_images(str(tmp_path / "one.npz")),
        data.read_images(tmp_path / "two.npz", "mine"),
        data.read_images(folder),
    ):
        np.testing.assert_array_equal(read, mine)


class Planted:
    def __reduce__(self):
        return (os.abort, ())


def test_images_that_cannot_be_read_are_named_in_one_sentence(tmp_path):
    empty, sizes, deep, torn = (tmp_path / name for name in ("empty", "sizes", "deep", "torn"))
    for folder in (empty, sizes, deep, torn):
        folder.mkdir()
    for size in (3, 4):
        Image.fromarray(np.zeros((size, 3), np.uint8)).save(sizes / f"{size}.png")
    Image.fromarray(np.zeros((3, 3), np.uint16)).save(deep / "deep.png")
    (torn / "torn.png").write_bytes((sizes / "3.png").read_bytes()[:40])
    np.save(tmp_path / "pickle.npy", np.array([Planted()]), allow_pickle=True)
    np.save(tmp_path / "flat.npy", np.zeros(3))
    np.save(tmp_path / "words.npy", np.array([["a", "b"]]))
    np.save(tmp_path / "hole.npy", np.array([[0.0, np.nan]]))
    np.savez(tmp_path / "two.npz", a=np.zeros((2, 2)), b=np.zeros((2, 2)))
    (tmp_path / "torn.npz").write_bytes((tmp_path / "two.npz").read_bytes()[:-30])
    (tmp_path / "torn.npy").write_bytes((tmp_path / "hole.npy").read_bytes()[:-3])
    (tmp_path / "text.csv").write_text("1,2")
    for name, expected in {
        "empty": "no picture", "sizes": "one size", "deep": "8 bits", "torn": "as a picture",
        "pickle.npy": "arrays of numbers", "flat.npy": "one image or row", "words.npy": "hold numbers",
        "hole.npy": "finite", "two.npz": "holds a, b", "torn.npz": "cannot be read",
        "torn.npy": "cannot be read", "text.csv": "none of them", "missing.npy": "none of them",
    }.items():  # fmt: skip
        with pytest.raises(IngredientError, match=expected) as found:
            data.read_images(tmp_path / name)
        assert "\n" not in str(found.value), name
