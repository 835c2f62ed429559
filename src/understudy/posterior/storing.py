"""What a file keeps of a target: the program that draws named sites, and how to make the target again.

A model is a Python function, so a file can only hold its name. The reader hands the function over, or
the whole target; without either the program still draws. What only the file names is never called.
"""

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

import equinox as eqx
import numpy as np
from jaxtyping import Array, Float, Scalar

from understudy.core import Condition, IngredientError, Student, Target
from understudy.files import StoreError
from understudy.files.allowed import Known
from understudy.files.describing import describe
from understudy.files.reviving import revive
from understudy.posterior.export import Program, make_program
from understudy.surroundings import in_double


class Recipe(NamedTuple):
    """A NumPyro model and what it is called with."""

    model: Any
    args: tuple
    kwargs: dict


class StoredTarget(Target):
    """A target of which only the drawing of named sites is at hand.

    Attributes:
        program: draws named sites.
        recipe: JSON from which the target is made again, empty where it cannot be.
        arrays: that the recipe needs.
        name: of the model, for sentences.
    """

    program: Program
    recipe: str
    arrays: tuple[np.ndarray, ...]
    name: str
    dim: int = eqx.field(static=True)

    def log_density(self, z: Float[Array, " d"], x: Condition = None) -> Scalar:
        """Not to be had without the model."""
        raise IngredientError(self.sentence)

    @property
    def function(self) -> str:
        """The model's name in the file, ``module:name``; empty where there is none."""
        fields = (json.loads(self.recipe) if self.recipe else {}).get("fields", {})
        model = fields.get("model", fields.get("function", {}))
        return model.get("function", "") if isinstance(model, dict) else ""

    @property
    def sentence(self) -> str:
        """What to do to have the target back."""
        classes = f"classes=[{self.name}]) or understudy.load(path, " if self.recipe else ""
        return (
            f"This posterior was loaded without its model {self.name}, so it can only sample and "
            f"export; load it with understudy.load(path, {classes}target=...)."
        )

    def restored(self, known: Mapping[str, Any], target: Any = None) -> Target:
        """The target given, or the one that the recipe makes of what is known; else this."""
        _check_kinds(self)
        made = _fitting(self, target) if target is not None else self._made(known)
        if isinstance(known, Known):
            known.refuse_unused(self.function)
        if isinstance(made, StoredTarget):
            self.program.check()
        return made

    def _made(self, known: Mapping[str, Any]) -> Target:
        if not self.recipe:
            return self
        try:
            made = revive(json.loads(self.recipe), self.arrays, known)
        except StoreError:
            return self
        if not isinstance(made, Recipe):
            return _fitting(self, made)
        if not any(made.model is given for given in known.values()):
            return self
        from understudy.targets.numpyro import from_numpyro

        return _fitting(self, from_numpyro(made.model, *made.args, **made.kwargs))


def stored(target: Target, student: Student, double: bool = False) -> StoredTarget:
    """What a file keeps of a target; its program computes in double precision if so."""
    if isinstance(target, StoredTarget):
        return target
    arrays: list[np.ndarray] = []
    try:
        recipe = json.dumps(describe(_recipe(target), arrays, type(target).__name__))
    except (StoreError, RecursionError):
        recipe, arrays = "", []
    return StoredTarget(
        program=make_program(student, in_double(target) if double else target),
        recipe=recipe,
        arrays=tuple(arrays),
        name=_name(target),
        dim=target.dim,
    )


def _recipe(target: Target) -> Any:
    # Importing NumPyro takes a second, and most targets are not of it.
    if type(target).__module__ != "understudy.targets.numpyro":
        return target
    from understudy.targets.numpyro import NumPyroTarget

    return Recipe(target.model, *target.arguments) if isinstance(target, NumPyroTarget) else target


def _check_kinds(stored: StoredTarget) -> None:
    kinds = {"program": Program, "recipe": str, "arrays": tuple, "name": str, "dim": int}
    for name, kind in kinds.items():
        if not isinstance(getattr(stored, name, None), kind):
            raise StoreError(f"its {name} is not a {kind.__name__}")


def _fitting(stored: StoredTarget, target: Any) -> Target:
    if not isinstance(target, Target) or target.dim != stored.dim:
        came = (
            f"one of size {target.dim}" if isinstance(target, Target) else f"a {type(target).__name__}"
        )
        raise StoreError(
            f"the posterior was fitted to a target of size {stored.dim}; {came} came; give the target "
            "that it was fitted to"
        )
    return target


def _name(target: Target) -> str:
    inside = getattr(target, "model", getattr(target, "function", target))
    return getattr(inside, "__name__", type(inside).__name__)
