"""Files: modules described and saved, checkpoints, rows; checked on reading and without pickle."""

from understudy.files.describing import StoreError
from understudy.files.fingerprint import fingerprint
from understudy.files.locking import locked
from understudy.files.saving import (
    append_row,
    keep_rows,
    load,
    plain,
    read,
    read_checkpoint,
    read_rows,
    replace_file,
    save,
    truncate_rows,
    write,
    write_checkpoint,
)

__all__ = [
    "StoreError",
    "append_row",
    "fingerprint",
    "keep_rows",
    "load",
    "locked",
    "plain",
    "read",
    "read_checkpoint",
    "read_rows",
    "replace_file",
    "save",
    "truncate_rows",
    "write",
    "write_checkpoint",
]
