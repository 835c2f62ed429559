"""Sets of images with labels, in the idx format of MNIST."""

import gzip
import hashlib
import zlib
from dataclasses import dataclass

import numpy as np
from jaxtyping import Int, UInt8

from understudy.data import files

VALIDATION = 5_000

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
        "mnist",
        images[:cut],
        labels[:cut],
        images[cut:],
        labels[cut:],
        test,
        test_labels,
        "LeCun, Cortes and Burges, The MNIST database of handwritten digits, 1998",
        "none stated",
    )


def read_idx(raw: bytes) -> UInt8[np.ndarray, "..."]:
    """The array of bytes in a file of the idx format, compressed with gzip."""
    plain = _inflate(raw)
    if plain[:3] != b"\0\0\x08":
        raise ValueError("not an idx file of bytes")
    rank = plain[3]
    shape = np.frombuffer(plain, ">u4", rank, 4).astype(int)
    return np.frombuffer(plain, np.uint8, offset=4 + 4 * rank).reshape(shape)


def digest(raw: bytes) -> str:
    """SHA-256 of the uncompressed file, whatever the compression."""
    return hashlib.sha256(_inflate(raw)).hexdigest()


def _obtain(name: str, expected: str) -> np.ndarray:
    file = f"{name}-ubyte.gz"
    addresses = [f"{address}/{file}" for address in _ADDRESSES]
    raw = files.obtain(f"mnist/{file}", lambda: files.fetch(*addresses), addresses[0], digest, expected)
    return read_idx(raw)


def _inflate(raw: bytes) -> bytes:
    try:
        return gzip.decompress(raw)
    except zlib.error as error:
        raise OSError(str(error)) from error
