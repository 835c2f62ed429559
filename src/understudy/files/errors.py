"""What goes wrong with files."""


class StoreError(ValueError):
    """A file that cannot be read or an object that cannot be written, with what to do instead."""
