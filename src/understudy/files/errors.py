"""What goes wrong with files, and how it is said."""

from understudy.core import one_line


class StoreError(ValueError):
    """A file that cannot be read or an object that cannot be written, with what to do instead."""

    def __init__(self, *words: object):
        super().__init__(*map(one_line, words))


def reason(error: BaseException) -> str:
    """Why the system did not do what was asked, without the name of the file, which a sentence has."""
    if isinstance(error, MemoryError):
        return "it does not fit into memory"
    return getattr(error, "strerror", None) or str(error) or type(error).__name__
