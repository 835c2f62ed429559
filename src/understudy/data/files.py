"""Where data files are found, and how they are fetched and checked when they are not there."""

import gzip
import io
import os
import sys
import urllib.request
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path

from understudy import files
from understudy.core import IngredientError

VARIABLE = "UNDERSTUDY_DATA"
LARGEST = 2**26
"""Bytes of the largest file that is downloaded, read or unpacked here; MNIST's are smaller."""
_SECONDS = 30


def find(file: str) -> Path | None:
    """The file in the folder that ``UNDERSTUDY_DATA`` names, else in the user's cache, else None."""
    places = [cache_folder() / file]
    if os.environ.get(VARIABLE):
        places.insert(0, Path(os.environ[VARIABLE]) / file)
    return next((place for place in places if place.is_file()), None)


def cache_folder() -> Path:
    """Where downloaded files and compiled programs are kept on this system."""
    home = Path.home()
    if sys.platform == "win32":
        root = Path(os.environ.get("LOCALAPPDATA") or home / "AppData" / "Local")
    elif sys.platform == "darwin":
        root = home / "Library" / "Caches"
    else:
        root = Path(os.environ.get("XDG_CACHE_HOME") or home / ".cache")
    return root / "understudy"


def obtain(
    file: str,
    download: Callable[[], bytes],
    address: str,
    digest: Callable[[bytes], str],
    expected: str,
) -> bytes:
    """The bytes of a data file: found, or downloaded into the cache; checked either way.

    Args:
        file: its path below the data folder, ``uci/colon.csv`` say.
        download: makes the bytes of the file from the network; raises OSError where it cannot.
        address: where a person would look for it.
        digest: SHA-256 of what the bytes mean (not of their wrapping), in hexadecimal.
        expected: what ``digest`` should give.
    """
    place = find(file)
    if place is not None:
        raw = _read(place)
        _check(raw, str(place), digest, expected)
        return raw
    try:
        raw = download()
    except (OSError, ValueError, LookupError, zipfile.BadZipFile) as error:
        raise IngredientError(
            f"{file} is not on this machine and could not be downloaded ({error}); fetch it from "
            f"{address} and set {VARIABLE} to the folder that holds {file}."
        ) from error
    _check(raw, address, digest, expected)
    place = cache_folder() / file
    place.parent.mkdir(parents=True, exist_ok=True)
    files.replace_file(place, [raw])
    return raw


def fetch(*addresses: str) -> bytes:
    """The bytes at the first of several addresses that answers; OSError of the last if none does."""
    error = OSError("no address was given")
    for address in addresses:
        try:
            with urllib.request.urlopen(address, timeout=_SECONDS) as answer:
                if not getattr(answer, "url", address).startswith("https://"):
                    raise OSError(f"{address} leads to an address without encryption")
                return bounded(answer.read(LARGEST + 1), address)
        except OSError as failed:
            error = failed
    raise error


def unzip(raw: bytes, name: str) -> bytes:
    """One file of a zipped folder."""
    with zipfile.ZipFile(io.BytesIO(raw)) as folder, folder.open(name) as file:
        return bounded(file.read(LARGEST + 1), name)


def inflate(raw: bytes) -> bytes:
    """What gzip packed; OSError where it is damaged or larger than any file expected here."""
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(raw)) as file:
            return bounded(file.read(LARGEST + 1), "the unpacked file")
    except (zlib.error, EOFError) as error:
        raise OSError(str(error)) from error


def bounded(raw: bytes, name: str) -> bytes:
    """The bytes, or OSError where there are more than are expected of any file."""
    if len(raw) > LARGEST:
        raise OSError(f"{name} holds more than {LARGEST:,} bytes")
    return raw


def _read(place: Path) -> bytes:
    try:
        with place.open("rb") as file:
            return bounded(file.read(LARGEST + 1), str(place))
    except OSError as error:
        raise IngredientError(
            f"{place} cannot be read ({error}); remove it and fetch it again."
        ) from error


def _check(raw: bytes, place: str, digest: Callable[[bytes], str], expected: str) -> None:
    try:
        found = digest(raw)
    except Exception as error:  # whatever a reader makes of bytes that are not its own
        raise IngredientError(
            f"{place} cannot be read ({error}); remove it and fetch it again."
        ) from error
    if found != expected:
        raise IngredientError(
            f"{place} does not hold the data that were expected (SHA-256 {found[:12]}..., not "
            f"{expected[:12]}...); remove it and fetch it again."
        )
