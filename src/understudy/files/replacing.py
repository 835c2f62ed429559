"""Files replaced whole or not at all: a temporary one beside, flushed, takes the place of the old.

Where the system can, the temporary file has no name until it is whole, so that a killed writer leaves
nothing behind. Elsewhere, and for the moment between its naming and its taking the other's place, a
writer holds a lock on it, which the system lets go of when the process ends, however it ends. So what a
killed writer left can be told from what another is just writing, and the next writer removes it.
"""

import contextlib
import glob
import os
import secrets
import shutil
import stat
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from understudy.checks import can_name_a_file, shown
from understudy.files.errors import StoreError, reason

try:
    import fcntl
except ImportError:  # Windows, where an open file cannot be removed
    fcntl = None

_HANDLES = "/proc/self/fd"
_LONGEST_NAME = 200
"""Bytes of a name that a temporary file's keeps, so that it is not too long where the name is not."""


def checked_path(path: Any) -> Path:
    """The path of a file that a user named, or a sentence."""
    if not isinstance(path, str | os.PathLike):
        raise StoreError(
            f"path is the name of a file, such as 'posterior.safetensors'; {shown(path)} came."
        )
    text = os.fspath(path)
    if not isinstance(text, str) or not text.strip() or not Path(text).name:
        raise StoreError(
            f"path is the name of a file, such as 'posterior.safetensors'; {shown(text)} came."
        )
    if not can_name_a_file(text):
        raise StoreError(f"path holds a character that no file name may hold; {shown(text)} came.")
    return Path(text)


def replace_file(path: str | Path, pieces: Iterable[bytes]) -> None:
    """Write a file whole or not at all; its folder is made if need be."""
    path = checked_path(path)
    try:
        _refuse_device(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        clear_litter(path.parent, glob.escape(path.name[:_LONGEST_NAME]))
        _replace(path, pieces)
    except OSError as error:
        raise StoreError(
            f"{path} could not be written ({reason(error)}); check the folder and its free space."
        ) from error


def _refuse_device(path: Path) -> None:
    """Devices and pipes are the system's: a file must not take their place."""
    if path.exists() and not (path.is_file() or path.is_dir()):
        raise OSError("it is not a file")


def clear_litter(folder: str | Path, names: str) -> None:
    """Remove temporary files that killed writers left.

    Args:
        folder: where.
        names: of the files that were to be written, as a pattern of :mod:`glob`.
    """
    for temporary in Path(folder).glob(f".{names}.{'[0-9a-f]' * 8}.tmp"):
        with contextlib.suppress(OSError):
            if stat.S_ISREG(temporary.lstat().st_mode) and not _is_held(temporary):
                temporary.unlink()


def read_file(
    path: str | Path, largest: int | None = None, look: Callable[[Any], None] | None = None
) -> bytes:
    """The bytes of a regular file, or a sentence; never more than it said it holds.

    Args:
        path: the file.
        largest: bytes beyond which it is refused before any is read; None sets no limit.
        look: given the open file before all of it is read; raises if it should not be.
    """
    path = checked_path(path)
    try:
        with open(path, "rb", opener=_without_waiting) as file:
            seen = os.fstat(file.fileno())
            if not stat.S_ISREG(seen.st_mode):
                raise OSError("it is not a file")
            if largest is not None and seen.st_size > largest:
                raise StoreError(
                    f"{path} holds {seen.st_size:,} bytes, more than the {largest:,} allowed."
                )
            if look is not None:
                look(file)
                file.seek(0)
            return file.read(seen.st_size)
    except FileNotFoundError as error:
        raise StoreError(f"{path} does not exist; check the name or save to it first.") from error
    except (OSError, MemoryError) as error:
        raise StoreError(
            f"{path} cannot be read ({reason(error)}); check its name and permissions."
        ) from error


def _without_waiting(path: str, flags: int) -> int:
    # A pipe would be waited for.
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


def _replace(path: Path, pieces: Iterable[bytes]) -> None:
    temporary, handle = _nameless(path) or _named(path)
    try:
        with os.fdopen(handle, "wb") as file:
            file.writelines(pieces)
            file.flush()
            os.fsync(file.fileno())
            if not temporary.exists():
                _give_name(handle, temporary)
            if fcntl is None:
                file.close()
            os.replace(temporary, path)
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)


def _nameless(path: Path) -> tuple[Path, int] | None:
    """A file without a name that this process holds, and the name it will have; None if none can be."""
    flags = getattr(os, "O_TMPFILE", None)
    if flags is None:
        return None
    try:
        handle = os.open(path.parent, flags | os.O_WRONLY, 0o666)
    except OSError:  # not on this file system
        return None
    if not os.path.exists(f"{_HANDLES}/{handle}"):  # nothing to give it a name by
        os.close(handle)
        return None
    _hold(handle)
    return _temporary(path), handle


def _named(path: Path) -> tuple[Path, int]:
    """A new temporary file that this process holds."""
    while True:
        temporary = _temporary(path)
        handle = os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666)
        if fcntl is None:
            return temporary, handle
        _hold(handle)
        # Another writer may have taken the file for litter before it was held.
        if temporary.exists():
            return temporary, handle
        os.close(handle)


def _temporary(path: Path) -> Path:
    return path.with_name(f".{path.name[:_LONGEST_NAME]}.{secrets.token_hex(4)}.tmp")


def _give_name(handle: int, name: Path) -> None:
    handles = os.open(_HANDLES, os.O_RDONLY)
    try:
        # Python follows the link to the file itself only where a folder's handle is given.
        os.link(str(handle), name, src_dir_fd=handles)
    except OSError:  # a file system on which files have one name alone
        with open(f"{_HANDLES}/{handle}", "rb") as whole, open(name, "xb") as copy:
            shutil.copyfileobj(whole, copy)
            copy.flush()
            os.fsync(copy.fileno())
    finally:
        os.close(handles)


def _hold(handle: int) -> None:
    if fcntl is not None:
        with contextlib.suppress(OSError):
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _is_held(temporary: Path) -> bool:
    if fcntl is None:
        return False
    handle = os.open(temporary, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(handle)
    return False
