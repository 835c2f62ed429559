import gzip
import io
import os
import struct
import sys
import urllib.error
import zipfile
import zlib
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
        "torn.npy": "cannot be read", "text.csv": "none of them", "missing.npy": "No such file",
    }.items():  # fmt: skip
        with pytest.raises(IngredientError, match=expected) as found:
            data.read_images(tmp_path / name)
        assert "\n" not in str(found.value), name


def header(shape, dtype="<f8"):
    buffer = io.BytesIO()
    described = {"descr": dtype, "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(buffer, described)
    return buffer.getvalue()


@pytest.mark.parametrize("shape", [(10**6, 10**6), (2**62, 8), (-1, 3), (10**30, 2)])
def test_a_header_that_promises_more_than_the_file_holds_allocates_nothing(tmp_path, shape):
    (tmp_path / "mine.npy").write_bytes(header(shape) + b"0" * 64)
    with zipfile.ZipFile(tmp_path / "mine.npz", "w") as folder:
        folder.writestr("mine.npy", header(shape) + b"0" * 64)
    for name in ("mine.npy", "mine.npz"):
        with pytest.raises(IngredientError, match=r"should hold .* bytes") as found:
            data.read_images(tmp_path / name)
        assert "\n" not in str(found.value)


def test_an_archive_that_unpacks_to_much_more_is_refused(tmp_path, monkeypatch):
    np.savez_compressed(tmp_path / "mine.npz", mine=np.zeros((1000, 1000)))
    assert data.read_images(tmp_path / "mine.npz").shape == (1000, 1000)
    monkeypatch.setattr(images, "LARGEST", 10**6)
    with pytest.raises(IngredientError, match=r"GB once unpacked.*numpy\.save"):
        data.read_images(tmp_path / "mine.npz")
    np.savez(tmp_path / "stored.npz", mine=np.zeros((1000, 1000)))
    assert data.read_images(tmp_path / "stored.npz").shape == (1000, 1000)


@pytest.mark.parametrize("side", [9_000, 20_000])
def test_a_picture_of_enormous_size_is_refused_before_it_is_decoded(tmp_path, monkeypatch, side):
    def chunk(kind, body):
        packed = struct.pack(">I", len(body)) + kind + body
        return packed + struct.pack(">I", zlib.crc32(kind + body))

    begin = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", side, side, 8, 0, 0, 0, 0))
    picture = begin + chunk(b"IDAT", zlib.compress(b"0")) + chunk(b"IEND", b"")
    (tmp_path / "wide.png").write_bytes(picture)
    with pytest.raises(IngredientError, match="as a picture") as found:
        data.read_images(tmp_path)
    assert "\n" not in str(found.value)


def test_a_folder_of_too_many_pictures_is_refused(tmp_path, monkeypatch):
    for name in ("a.png", "b.png"):
        Image.fromarray(np.zeros((8, 8), np.uint8)).save(tmp_path / name)
    monkeypatch.setattr(images, "LARGEST", 100)
    with pytest.raises(IngredientError, match=r"one \.npy file"):
        data.read_images(tmp_path)


def test_a_gzip_that_inflates_without_end_is_refused(small, monkeypatch):
    _, served, _ = small
    served["t10k-labels-idx1-ubyte.gz"] = gzip.compress(bytes(10**6))
    monkeypatch.setattr(files, "LARGEST", 10_000)
    with pytest.raises(IngredientError, match="more than 10,000 bytes"):
        data.load("mnist")


def test_a_download_without_end_is_refused(small, monkeypatch):
    monkeypatch.setattr(files, "LARGEST", 10)
    with pytest.raises(IngredientError, match="more than 10 bytes"):
        data.load("mnist")


def test_a_local_file_without_end_is_refused(small, monkeypatch):
    data.load("mnist")
    monkeypatch.setattr(files, "LARGEST", 10)
    with pytest.raises(IngredientError, match="more than 10 bytes"):
        data.load("mnist")


def test_an_address_that_leads_to_plain_http_is_refused(monkeypatch):
    answer = io.BytesIO(b"42")
    answer.url = "http://elsewhere/file"
    monkeypatch.setattr(files.urllib.request, "urlopen", lambda *_, **__: answer)
    with pytest.raises(OSError, match="without encryption"):
        files.fetch("https://x/file")


def test_every_address_is_encrypted():
    for source in Path(data.__file__).parent.glob("*.py"):
        assert "http://" not in source.read_text()


def test_pictures_without_pillow_name_the_extra(tmp_path, monkeypatch):
    Image.fromarray(np.zeros((8, 8), np.uint8)).save(tmp_path / "a.png")
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(IngredientError, match=r"understudy\[images\]"):
        data.read_images(tmp_path)
