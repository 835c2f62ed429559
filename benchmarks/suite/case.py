"""One posterior of the suite, and how draws of it are laid out."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from understudy.core import Target

Sites = dict[str, np.ndarray]


@dataclass(frozen=True)
class Case:
    """A posterior of the suite.

    Attributes:
        name: its name in the registry.
        kind: the family of models it belongs to.
        dim: the size of the flat unconstrained vector.
        make: builds the target, its data included.
        draws: exact unconstrained flat draws, ``(rng, n) -> (n, dim)``, where they are known.
        improper: whether the density has no finite integral, so that nothing can be right.
        held_out: whether the case is kept for the final measurement.
        moments: whether means and standard deviations exist and may be compared.
        easier: builds a target with the same posterior which NUTS explores well; its sites, with the
            deterministic ones, hold those of ``make`` under the same names.
        symmetrise: adds the images of draws under a symmetry which ``easier`` breaks.
        stored: reads reference draws of the named sites from a data folder.
        available: whether the data of the case are at hand.
    """

    name: str
    kind: str
    dim: int
    make: Callable[[], Target]
    draws: Callable[[np.random.Generator, int], np.ndarray] | None = None
    improper: bool = False
    held_out: bool = False
    moments: bool = True
    easier: Callable[[], Target] | None = None
    symmetrise: Callable[[Sites], Sites] | None = None
    stored: Callable[[], Sites] | None = None
    available: Callable[[], bool] = lambda: True


def site_names(target: Any) -> list[str]:
    """The names of the sampled sites of a target in alphabetical order, deterministic sites left out."""
    if hasattr(target, "sites"):
        return sorted(site.name for site in target.sites)
    parameters = getattr(target, "parameters", None)
    return ["z"] if parameters is None else sorted(one.name for one in parameters.every)


def flatten(draws: dict[str, Any], names: list[str]) -> np.ndarray:
    """Draws of named sites as a matrix with one row per draw, the sites side by side in this order."""
    parts = [np.asarray(draws[name], np.float64) for name in names]
    return np.concatenate([part.reshape(len(part), -1) for part in parts], 1)
