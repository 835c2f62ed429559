"""One process at a time in a folder."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from understudy.files.errors import StoreError, reason


@contextlib.contextmanager
def locked(folder: str | Path) -> Iterator[None]:
    """Hold a folder against other processes; the system lets go of it when this one ends, however.

    Args:
        folder: of a run; made if need be.
    """
    try:
        import fcntl
    except ImportError:  # not on Windows
        yield
        return
    folder = Path(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        handle = os.open(folder, os.O_RDONLY)
    except OSError as error:
        raise StoreError(
            f"{folder} cannot be written ({reason(error)}); choose another folder."
        ) from error
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        os.close(handle)
        raise StoreError(
            f"{folder} is in use by another process; wait for it, or choose another folder."
        ) from error
    try:
        yield
    finally:
        os.close(handle)
