"""A program that draws for any data set, serialised: of use without the model and without training."""

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from understudy.amortising.observations import DataSet, Layout, ObservedSite
from understudy.amortising.simulators import Simulator
from understudy.core import IngredientError
from understudy.posterior.draws import Words, named
from understudy.posterior.export import Program, program_of


def make_program(
    simulator: Simulator, student: Any, given: type, platforms: Sequence[str] | None = None
) -> Program:
    """Serialise the student's drawing of named sites, data and arguments being its inputs.

    Args:
        simulator: knows the data and the names of the parameters.
        student: draws flat vectors given a data set.
        given: binds a student to a data set.
        platforms: "cpu", "cuda" and "tpu" or some of them; None takes the one in use.
    """
    layout, filler = simulator.layout, simulator.filler
    names = simulator.argument_names
    inputs = [_of_site(layout, site) for site in layout.sites]
    inputs += [
        _of_argument(name, value, layout.least if in_rows and layout.varies else None)
        for name, value, in_rows in zip(names, filler.arguments, layout.row_arguments, strict=False)
    ]
    if len({one["name"] for one in inputs}) < len(inputs):
        raise IngredientError(
            "An argument of the model has the name of an observed site; rename one of them to export."
        )

    def draw(parts: Any, data: list[Array], words: Words) -> dict[str, Array]:
        student, simulator = parts
        x = _data_set(layout, filler, data)
        return named(given(student, x, student.dim), simulator.given(x), words)

    return program_of(draw, (student, simulator), inputs, platforms)


def _of_site(layout: Layout, site: ObservedSite) -> dict[str, Any]:
    least = layout.least if layout.rows and layout.varies else None
    return _input(site.name, "float32", site.shape, least, layout.maskable)


def _of_argument(name: str, value: Any, least: int | None) -> dict[str, Any]:
    array = np.asarray(value)
    dtype = "float32" if array.dtype.kind == "f" else "int32"
    return _input(name, dtype, array.shape, least, False)


def _input(
    name: str, dtype: str, shape: Sequence[int], least: int | None, missing: bool
) -> dict[str, Any]:
    entry = {"name": name, "dtype": dtype, "shape": list(shape), "least": least}
    return entry | {"missing": bool(missing)}


def _data_set(layout: Layout, filler: DataSet, data: list[Array]) -> DataSet:
    """A data set of what a program is given: what is not a number was not seen."""
    values, seen = {}, {}
    for site, value in zip(layout.sites, data, strict=False):
        missing = jnp.isnan(value)
        rest = jnp.asarray(filler.values[site.name])
        values[site.name] = jnp.where(missing, rest, value.astype(rest.dtype))
        seen[site.name] = ~missing.any(tuple(range(len(site.batch), len(site.shape))))
    arguments = [jnp.asarray(a) for a in filler.arguments]
    for i, value in enumerate(data[len(layout.sites) :]):
        value = value.astype(arguments[i].dtype)
        arguments[i] = jnp.where(jnp.isnan(value), arguments[i], value)
    return DataSet(values, seen, tuple(arguments))
