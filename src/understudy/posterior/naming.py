"""Names of sites in the files of others: kept where the format allows it, else renamed with a word."""

import re
import warnings
from collections.abc import Callable, Collection, Iterable


def renamed(
    names: Iterable[str], is_legal: Callable[[str], bool], what: str, taken: Collection[str] = ()
) -> dict[str, str]:
    """A distinct legal name for every name; those that are legal stay as they are.

    Args:
        names: of sites.
        is_legal: whether the format can hold a name.
        what: the format, for the warning.
        taken: names that the format needs itself.
    """
    names = list(names)
    found = {name: name for name in names if is_legal(name) and name not in taken}
    for name in names:
        if name not in found:
            used = {*found.values(), *taken}
            found[name] = _free(name, lambda new, used=used: new not in used and is_legal(new))
    changed = {old: new for old, new in found.items() if old != new}
    if changed:
        old, new = next(iter(changed.items()))
        more = f", and {len(changed) - 1} more are renamed" if len(changed) > 1 else ""
        warnings.warn(
            f"{what} cannot hold the site name {old!r}, so it is called {new!r}{more}.", stacklevel=3
        )
    return {name: found[name] for name in names}


def writable(name: str) -> str:
    """A name as UTF-8 can hold it; what it cannot (surrogates, the zero byte) is spelt out."""
    return name.encode("utf-8", "backslashreplace").decode().replace("\0", "\\x00")


def _free(name: str, is_free: Callable[[str], bool]) -> str:
    base = re.sub(r"[^A-Za-z0-9]+", "_", name).strip("_")
    base = base if base[:1].isalpha() else f"site_{base}".rstrip("_")
    base, new, i = base[:100], base[:100], 1
    while not is_free(new):
        i += 1
        new = f"{base}_{i}"
    return new
