"""Compiled programs that are forgotten when others take their place.

A program takes memory maps, of which a process has a limited number, and JAX keeps every one that it
ever made. What depends on a target is another program for every target, so that a loop over many ends.
"""

import functools
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any, TypeVar

import equinox as eqx
import jax

MOST = 8
"""Structures of arguments of which a function keeps programs."""

Function = TypeVar("Function", bound=Callable[..., Any])


def jit_of_few(function: Function) -> Function:
    """``equinox.filter_jit`` that keeps the programs of the last few structures of its arguments alone.

    Args:
        function: of trees of arrays and of what can be hashed, to trees of arrays.
    """
    programs: OrderedDict[Hashable, Callable] = OrderedDict()

    @functools.wraps(function)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        arrays, rest = eqx.partition((args, kwargs), eqx.is_array)
        leaves, structure = jax.tree.flatten(rest)
        # Equal numbers of two types (1 and True) are different programs.
        kind = structure, tuple((type(leaf), leaf) for leaf in leaves)
        program = programs.pop(kind, None) or _program(function, rest)
        programs[kind] = program
        while len(programs) > MOST:
            # Another thread may be ahead, and have taken the last but one.
            programs.popitem(last=False)
        return program(arrays)

    return wrapped  # pyright: ignore[reportReturnType]


def _program(function: Callable, rest: Any) -> Callable:
    """A function of its own, so that all that JAX keeps of it goes with it."""

    @functools.wraps(function)
    def run(arrays: Any) -> Any:
        args, kwargs = eqx.combine(arrays, rest)
        return function(*args, **kwargs)

    return jax.jit(run)
