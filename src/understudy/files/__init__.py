"""Files: modules described and saved, checkpoints, rows; checked on reading and without pickle.

``container`` is the one format of files with arrays, ``exported`` that of programs which draw without
understudy; ``replacing`` writes every file whole or not at all.
"""

from understudy.files.checkpoints import read_checkpoint, write_checkpoint
from understudy.files.container import read, write
from understudy.files.errors import StoreError
from understudy.files.fingerprint import fingerprint
from understudy.files.locking import locked
from understudy.files.plain import plain
from understudy.files.replacing import checked_path, read_file, replace_file
from understudy.files.rows import (
    append_row,
    keep_rows,
    last_line,
    provenance,
    read_rows,
    truncate_rows,
    write_rows,
)
from understudy.files.saving import load, save

__all__ = [
    "StoreError",
    "append_row",
    "checked_path",
    "fingerprint",
    "keep_rows",
    "last_line",
    "load",
    "locked",
    "plain",
    "provenance",
    "read",
    "read_checkpoint",
    "read_file",
    "read_rows",
    "replace_file",
    "save",
    "truncate_rows",
    "write",
    "write_checkpoint",
    "write_rows",
]
