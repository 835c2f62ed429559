"""Sets of images: MNIST in its idx format, and those of one's own."""

import hashlib
import math
import warnings
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Int, Shaped, UInt8

from understudy.checks import first_line
from understudy.core import IngredientError
from understudy.data import files
from understudy.data.tabular import existing

VALIDATION = 5_000
LARGEST_PICTURE = 2**26
"""Pixels of the largest picture that is read."""
LARGEST = 2**30
"""Bytes that a packed array, or all pictures of a folder, may take once unpacked."""
PICTURES = (".bmp", ".gif", ".jpeg", ".jpg", ".pgm", ".png", ".tif", ".tiff")

_ADDRESSES = (
    "https://storage.googleapis.com/cvdf-datasets/mnist",
    "https://ossci-datasets.s3.amazonaws.com/mnist",
)
_MNIST = {
    "train-images-idx3": "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
    "train-labels-idx1": "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
    "t10k-images-idx3": "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
    "t10k-labels-idx1": "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
}


@dataclass(frozen=True)
class Images:
    """Grey images with a label each, split into training, validation and test.

    Attributes:
        name: of the data set.
        train: pixels from 0 (black) to 255 (white).
        train_labels: the class of each image.
        validation: the last images of the original training set, to tune on.
        validation_labels: their classes.
        test: images to measure on.
        test_labels: their classes.
        source: who made the data, and where they are.
        licence: on which terms.
    """

    name: str
    train: UInt8[np.ndarray, "n h w"]
    train_labels: Int[np.ndarray, " n"]
    validation: UInt8[np.ndarray, "v h w"]
    validation_labels: Int[np.ndarray, " v"]
    test: UInt8[np.ndarray, "m h w"]
    test_labels: Int[np.ndarray, " m"]
    source: str = ""
    licence: str = ""


def mnist() -> Images:
    """Handwritten digits: 55,000 images of 28 x 28 to train on, 5,000 to tune on, 10,000 to test on."""
    images, labels, test, test_labels = (_obtain(name, digest) for name, digest in _MNIST.items())
    labels, test_labels = labels.astype(int), test_labels.astype(int)
    cut = len(images) - VALIDATION
    return Images(
        name="mnist",
        train=images[:cut],
        train_labels=labels[:cut],
        validation=images[cut:],
        validation_labels=labels[cut:],
        test=test,
        test_labels=test_labels,
        source="LeCun, Cortes and Burges, The MNIST database of handwritten digits, 1998",
        licence="none stated",
    )


def read_idx(raw: bytes) -> UInt8[np.ndarray, "..."]:
    """The array of bytes in a file of the idx format, compressed with gzip."""
    plain = files.inflate(raw)
    if plain[:3] != b"\0\0\x08":
        raise ValueError("not an idx file of bytes")
    rank = plain[3]
    shape = np.frombuffer(plain, ">u4", rank, 4).astype(int)
    return np.frombuffer(plain, np.uint8, offset=4 + 4 * rank).reshape(shape)


def digest(raw: bytes) -> str:
    """SHA-256 of the uncompressed file, whatever the compression."""
    return hashlib.sha256(files.inflate(raw)).hexdigest()


def _obtain(name: str, expected: str) -> np.ndarray:
    file = f"{name}-ubyte.gz"
    addresses = [f"{address}/{file}" for address in _ADDRESSES]
    raw = files.obtain(f"mnist/{file}", lambda: files.fetch(*addresses), addresses[0], digest, expected)
    return read_idx(raw)


def read_images(path: str | Path, name: str | None = None) -> Shaped[np.ndarray, "n ..."]:
    """Images of one's own: a .npy or .npz file, or a folder of pictures in the order of their names.

    Arrays are taken as they are, rows of a table as well. Pictures become grey: 0 is black, 255 white;
    they need the extra ``images``. Sizes are checked before anything is unpacked.

    Args:
        path: the file or the folder.
        name: of the array, where an .npz file holds several.
    """
    path = existing("images", path)
    if path.is_dir():
        return _pictures(path)
    if path.suffix not in (".npy", ".npz"):
        raise IngredientError(
            f"Images are a .npy file, an .npz file or a folder of pictures; {path} is none of them."
        )
    array = _array(path, name)
    if array.dtype.kind not in "biuf" or array.ndim < 2 or not len(array):
        raise IngredientError(
            f"{path} should hold numbers, one image or row after another; "
            f"{array.dtype} of shape {array.shape} came."
        )
    if not np.isfinite(array).all():
        raise IngredientError(f"Every pixel of {path} is a finite number; drop or fill the others.")
    return array


def _array(path: Path, name: str | None) -> np.ndarray:
    try:
        with path.open("rb") as file:
            size = path.stat().st_size
            if file.read(6) == np.lib.format.MAGIC_PREFIX:
                return _numbers(file, size)
            with zipfile.ZipFile(file) as folder:
                return _member(folder, name, max(LARGEST, size))
    except IngredientError as error:
        raise IngredientError(f"{path} {error}") from error
    except Exception as error:  # whatever NumPy and zip make of bytes that are not theirs
        raise IngredientError(
            f"{path} cannot be read as arrays of numbers ({first_line(error, 80)}); save it again "
            "with numpy.save."
        ) from error


def _member(folder: zipfile.ZipFile, name: str | None, largest: int) -> np.ndarray:
    names = [entry.removesuffix(".npy") for entry in folder.namelist()]
    if name is None and len(names) == 1:
        name = names[0]
    if name not in names:
        held = ", ".join(names) or "nothing"
        raise IngredientError(f"holds {held}; name one array of it, read_images(path, name).")
    entry = folder.infolist()[names.index(name)]
    if entry.file_size > largest:
        raise IngredientError(
            f"takes {entry.file_size / 1e9:,.1f} GB once unpacked, more than is unpacked unasked; save "
            "the array with numpy.save."
        )
    with folder.open(entry) as file:
        return _numbers(file, entry.file_size)


def _numbers(file: Any, size: int) -> np.ndarray:
    """The array of a .npy file of ``size`` bytes, allocated only if the file is as long as it says."""
    file.seek(0)
    version = np.lib.format.read_magic(file)
    readers = {
        (1, 0): np.lib.format.read_array_header_1_0,
        (2, 0): np.lib.format.read_array_header_2_0,
    }
    if version not in readers:
        raise ValueError(f"version {version} of the format is not one of numbers")
    shape, _, dtype = readers[version](file)
    promised = dtype.itemsize * math.prod(shape)
    if min(shape, default=0) < 0 or file.tell() + promised > size:
        raise ValueError(f"it should hold {promised:,} bytes and is {size:,} bytes long")
    file.seek(0)
    return np.lib.format.read_array(file, allow_pickle=False)


def _pictures(folder: Path) -> UInt8[np.ndarray, "n h w"]:
    paths = sorted(path for path in folder.iterdir() if path.suffix.lower() in PICTURES)
    if not paths:
        raise IngredientError(f"{folder} holds no picture; those end in {', '.join(PICTURES)}.")
    shapes = [_shape(path) for path in paths]
    for path, shape in zip(paths, shapes, strict=True):
        if shape != shapes[0]:
            raise IngredientError(
                f"Pictures of a folder have one size; {paths[0].name} has {shapes[0]}, "
                f"{path.name} {shape} (rows, columns)."
            )
    size = len(paths) * math.prod(shapes[0])
    if size > LARGEST:
        raise IngredientError(
            f"The pictures of {folder} take {size / 1e9:,.1f} GB; make them smaller, or save them "
            "as one .npy file."
        )
    return np.stack([_picture(path) for path in paths])


def _shape(path: Path) -> tuple[int, int]:
    """Rows and columns of a picture, from its first bytes alone."""
    with _opened(path) as picture:
        width, height = picture.size
        if width * height > LARGEST_PICTURE:
            raise ValueError(f"it has {width:,} x {height:,} pixels, too many; make it smaller")
        if picture.mode[0] in "IF":
            raise ValueError("its pixels have more than 8 bits; save it with 8, or all as one .npy file")
        return height, width


def _picture(path: Path) -> UInt8[np.ndarray, "h w"]:
    with _opened(path) as picture:
        return np.asarray(picture.convert("L"))


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    try:
        from PIL import Image
    except ImportError as error:
        raise IngredientError(
            "Pictures need the package pillow; install understudy[images], or give a .npy file."
        ) from error
    existing("a picture", path)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", Image.DecompressionBombWarning)
            with Image.open(path) as picture:
                yield picture
    except Exception as error:  # whatever a decoder makes of bytes that are not a picture
        raise IngredientError(
            f"{path} cannot be read as a picture ({first_line(error, 80)}); save it again, or "
            "leave it out."
        ) from error
