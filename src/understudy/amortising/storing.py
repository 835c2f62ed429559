"""What a file keeps of a simulator: how to make it again, of functions that the reader hands over."""

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

import equinox as eqx
import numpy as np

from understudy.amortising.observations import Layout
from understudy.amortising.simulators import Simulator
from understudy.files import StoreError
from understudy.files.describing import describe
from understudy.files.reviving import revive


class Recipe(NamedTuple):
    """A NumPyro model, what it is called with, and what draws other arguments, if anything does."""

    model: Any
    args: tuple
    kwargs: dict
    renew: Any


class StoredSimulator(eqx.Module):
    """A simulator by the name of its model and what that is called with.

    Attributes:
        name: of the model, for sentences.
        layout: of its data sets.
        dim: size of a draw.
        recipe: JSON from which the simulator is made again, empty where it cannot be.
        arrays: that the recipe needs.
    """

    name: str
    layout: Any
    dim: int
    recipe: str = ""
    arrays: tuple = ()

    def restored(self, known: Mapping[str, Any], target: Any = None) -> Simulator:
        """The simulator given, or the one made of a model that the reader handed over."""
        kinds = {"layout": Layout, "recipe": str, "arrays": tuple, "name": str, "dim": int}
        for name, kind in kinds.items():
            if not isinstance(getattr(self, name, None), kind):
                raise StoreError(f"its {name} is not a {kind.__name__}")
        made = self._made(known) if target is None else target
        fits = isinstance(made, Simulator) and made.target.dim == self.dim
        if not fits or made.layout != self.layout:
            raise StoreError(
                "it was trained for other data or parameters than those of the model given; give the "
                "model, or the simulator, that it was trained with"
            )
        return made

    def _made(self, known: Mapping[str, Any]) -> Simulator:
        from understudy.amortising.models import simulator_of

        described = json.loads(self.recipe) if self.recipe else None
        try:
            recipe = revive(described, self.arrays, _renamed(known, described)) if described else None
        except StoreError:
            recipe = None
        # What only the file names is never called.
        if not isinstance(recipe, Recipe) or not _is_among(recipe.model, known):
            raise StoreError(self._sentence)
        if recipe.renew is not None and not _is_among(recipe.renew, known):
            raise StoreError(self._sentence)
        names = [site.name for site in self.layout.sites]
        sizes = (self.layout.least, self.layout.rows) if self.layout.varies else None
        given = (recipe.model, recipe.args, recipe.kwargs, names, recipe.renew, sizes)
        return simulator_of(*given, self.layout.missing)

    @property
    def _sentence(self) -> str:
        model = f"understudy.load(path, classes=[{self.name}]) or " if self.recipe else ""
        return (
            f"its model {self.name} is made of functions, which no file holds; load it with "
            f"{model}understudy.load(path, target=simulator)"
        )


def stored(simulator: Any) -> StoredSimulator:
    """What a file keeps of a simulator."""
    if isinstance(simulator, StoredSimulator):
        return simulator
    model = getattr(simulator, "model", None)
    name = getattr(model, "__name__", type(simulator).__name__)
    bare = (name, simulator.layout, simulator.target.dim)
    if model is None:
        return StoredSimulator(*bare)
    arrays: list[np.ndarray] = []
    recipe = Recipe(model.model, model.args, model.kwargs, simulator.renew)
    try:
        described = json.dumps(describe(recipe, arrays, name))
    except (StoreError, RecursionError):
        return StoredSimulator(*bare)
    return StoredSimulator(*bare, described, tuple(arrays))


def _renamed(known: Mapping[str, Any], described: Any) -> dict[str, Any]:
    """What is known, under the name that the file has for it too: its module may be called otherwise."""
    names = [part.get("function", "") for part in described["fields"].values() if isinstance(part, dict)]
    given = {getattr(one, "__qualname__", ""): one for one in known.values()}
    return {**known, **{n: given[n.partition(":")[2]] for n in names if n.partition(":")[2] in given}}


def _is_among(function: Any, known: Mapping[str, Any]) -> bool:
    return any(function is given for given in known.values())
