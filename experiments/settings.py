"""What the settings of several experiments share: presets, and options that are lists."""

from collections.abc import Collection, Mapping
from typing import Any

from understudy.core import IngredientError


def fill_preset(settings: Any, presets: Mapping[str, Mapping[str, Any]]) -> None:
    """Give every field that was left at None the value of the chosen preset.

    Args:
        settings: a dataclass with a field ``preset``, which may be frozen.
        presets: the fields of every preset.
    """
    for name, value in presets[settings.preset].items():
        if getattr(settings, name) is None:
            object.__setattr__(settings, name, value)


def listed(text: str, known: Collection[str], what: str, separator: str = ",") -> list[str]:
    """The words of an option that is a list, each of which must be known.

    Args:
        text: as it was given.
        known: every word that is allowed.
        what: begins the sentence about a word that is not, "A method" say.
        separator: between the words.
    """
    words = [word.strip() for word in text.split(separator) if word.strip()]
    for word in words:
        if word not in known:
            allowed = f"{separator} ".join(known)
            raise IngredientError(f"{what} is one of {allowed}; {word!r} came.")
    return words
