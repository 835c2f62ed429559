"""The program that draws named sites, serialised, so that it is of use without its model."""

import re
from collections.abc import Callable, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.export
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from understudy.checks import shown
from understudy.core import IngredientError, Student, Target
from understudy.files import replace_file
from understudy.files.exported import PLATFORMS, Exported, check_program, packed
from understudy.files.inspecting import LISTED
from understudy.posterior.draws import Words, keep_programs, named


class Program(eqx.Module):
    """A serialised program ``(words, arrays) -> sites`` with its arrays.

    Attributes:
        code: StableHLO, as bytes.
        arrays: what the program reads: the student's weights, and data that deterministic sites use.
        header: chunk, shapes and dtypes of the sites, platforms, version of the calling convention.
    """

    code: np.ndarray
    arrays: tuple[np.ndarray, ...]
    header: dict[str, Any]

    @cached_property
    def loaded(self) -> Exported:
        """The program, looked at and ready to draw."""
        keep_programs()
        return Exported(self.header, [np.asarray(a) for a in self.arrays], bytes(self.code))

    def check(self) -> None:
        """Raise unless the program does what its header says, and no more."""
        check_program(self.header, [np.asarray(a) for a in self.arrays], bytes(self.code))

    def write(self, path: str | Path) -> None:
        """Write a file for :func:`understudy.load_exported`."""
        replace_file(path, packed(self.header, self.arrays, bytes(self.code)))


def make_program(student: Student, target: Target, platforms: Sequence[str] | None = None) -> Program:
    """Serialise the program that draws a chunk of named sites; data that no site needs stay out.

    Args:
        student: draws flat vectors.
        target: names their parts.
        platforms: "cpu", "cuda" and "tpu" or some of them; None takes the one in use, for which the
            draws are then the same bit for bit.
    """

    def draw(parts: Any, inputs: list[Array], words: Words) -> dict[str, Array]:
        del inputs
        student, target = parts
        return named(student, target, words)

    return program_of(draw, (student, target), (), platforms)


def program_of(
    draw: Callable[[Any, list[Array], Words], dict[str, Array]],
    parts: Any,
    inputs: Sequence[dict[str, Any]],
    platforms: Sequence[str] | None = None,
) -> Program:
    """Serialise a program that draws a chunk of named sites; arrays that none of them needs stay out.

    Args:
        draw: from the parts, the inputs and four words to the sites.
        parts: modules, whose arrays are kept in the file.
        inputs: what is given whenever it draws: name, dtype, shape, the least number of rows if that
            varies, and whether numbers can be missing, of each.
        platforms: see :func:`make_program`.
    """
    platforms = checked_platforms(platforms)
    arrays, rest = eqx.partition(parts, eqx.is_array)
    leaves, structure = jax.tree.flatten(arrays)
    every = [*(np.zeros(one["shape"], one["dtype"]) for one in inputs), *leaves]
    count = len(inputs)

    def run(words: Words, given: list[Array], places: Sequence[int]) -> dict[str, Array]:
        whole = [jnp.zeros_like(one) for one in every]
        for place, array in zip(places, given, strict=True):
            whole[place] = array
        made = eqx.combine(jax.tree.unflatten(structure, whole[count:]), rest)
        return draw(made, whole[:count], words)

    places = list(range(len(every)))
    exported = _exported(partial(run, places=places), every, platforms)
    used = [i - 1 for i in exported.module_kept_var_idx if i > 0]
    if used != places:
        exported = _exported(partial(run, places=used), [every[i] for i in used], platforms)
    kept = [inputs[i] for i in used if i < count]
    # A module may hold arrays of NumPy in 64 bits, which the program takes in those of JAX.
    stored = [np.asarray(jnp.asarray(every[i])) for i in used if i >= count]
    return _program(exported, stored, kept)


def checked_platforms(platforms: Any) -> tuple[str, ...] | None:
    """Names of platforms, or None for the one in use."""
    if platforms is None:
        return None
    names = {"gpu": "cuda"}
    if isinstance(platforms, str) or not isinstance(platforms, Sequence | set | frozenset):
        raise IngredientError(
            f'platforms is a list of names, such as ["cpu", "cuda"]; {shown(platforms)} came.'
        )
    made = tuple(dict.fromkeys(names.get(name, name) for name in platforms if isinstance(name, str)))
    if not made or len(made) != len(platforms) or not set(made) <= set(PLATFORMS):
        raise IngredientError(
            f"platforms are different ones of {', '.join(PLATFORMS)}; {shown(platforms)} came."
        )
    return made


def _exported(draw: Callable, arrays: list[Any], platforms: Sequence[str] | None) -> jax.export.Exported:
    return jax.export.export(jax.jit(draw), platforms=platforms)(np.zeros(4, np.uint32), arrays)


def _program(
    exported: jax.export.Exported, arrays: list[np.ndarray], inputs: list[dict[str, Any]]
) -> Program:
    _check_calls(exported)
    shapes = jax.tree.unflatten(exported.out_tree, exported.out_avals)
    header = {
        "chunk": next(iter(shapes.values())).shape[0],
        "sites": {name: list(value.shape[1:]) for name, value in shapes.items()},
        "dtypes": {name: value.dtype.name for name, value in shapes.items()},
        "inputs": inputs,
        "arrays": [[array.dtype.name, list(array.shape)] for array in arrays],
        "platforms": list(exported.platforms),
        "calling_convention": exported.calling_convention_version,
    }
    return Program(np.frombuffer(exported.mlir_module_serialized, np.uint8), tuple(arrays), header)


def _check_calls(exported: jax.export.Exported) -> None:
    """Refuse at writing what :mod:`understudy.files.inspecting` would refuse at reading."""
    for name in set(re.findall(r'custom_call @"?([\w.$-]+)', exported.mlir_module())):
        if LISTED.fullmatch(name) is None:
            raise IngredientError(
                f"The named sites are computed with {name}, which a file must not call; leave the "
                "deterministic site that needs it out of the model."
            )
