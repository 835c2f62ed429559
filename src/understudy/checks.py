"""Settings checked at the border: each becomes what the ingredients need, or a sentence."""

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float, Int

from understudy.core import IngredientError, Key

Function = TypeVar("Function", bound=Callable)


LARGEST_SEED = 2**63 - 1
LARGEST_COUNT = 2**31 - 1
"""Of draws or simulations in one call: JAX counts in 32 bits."""


def whole(name: str, value: Any, least: int = 1, most: int | None = None) -> int:
    """A whole number that shapes the program (a size, a count), ``least`` or more."""
    is_whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
    if not is_whole or value < least or (most is not None and value > most):
        range_ = f"{least} or more" if most is None else f"from {least} to {most}"
        raise IngredientError(f"{name} is a whole number, {range_}; {shown(value)} came.")
    return int(value)


def seed(name: str, value: Any) -> int:
    """A whole number that random keys can be made of."""
    return whole(name, value, least=0, most=LARGEST_SEED)


def one_positive(name: str, value: Any) -> float:
    """One positive number, not an array of them, for what is no leaf."""
    if np.ndim(positive(name, value)):
        raise IngredientError(f"{name} is one positive number, such as 0.1; {shown(value)} came.")
    return float(value)


def one_number(name: str, value: Any) -> float:
    """One finite number, not an array of them, for what is no leaf."""
    if np.ndim(number(name, value)):
        raise IngredientError(f"{name} is one finite number, such as 0.1; {shown(value)} came.")
    return float(value)


def several(name: str, kind: type, example: str, values: Any) -> tuple:
    """A list or tuple whose members are all instances of a class."""
    if not isinstance(values, list | tuple):
        raise IngredientError(
            f"{name} is a list of instances of {kind.__name__}, such as [{example}]; "
            f"{shown(values)} came."
        )
    return tuple(instance(f"every member of {name}", kind, example, value) for value in values)


def sizes(name: str, value: Any) -> list[int]:
    """Several whole numbers, the widths of layers say."""
    if not isinstance(value, Sequence | np.ndarray) or isinstance(value, str):
        raise IngredientError(f"{name} is a list of sizes, such as (20, 20); {shown(value)} came.")
    return [whole(f"every size in {name}", size) for size in value]


def count(name: str, value: Any, least: int = 1) -> Int[Array, "..."]:
    """A whole number, ``least`` or more, as a leaf that can change without recompiling."""
    if _fails(value, lambda v: (v >= least) & (v == np.round(v))):
        raise IngredientError(f"{name} must be a whole number, {least} or more; {shown(value)} came.")
    return jnp.asarray(value, dtype=jnp.int32)


def number(name: str, value: Any) -> Float[Array, "..."]:
    """Any finite number, or an array of them, as a leaf."""
    if _fails(value, np.isfinite):
        raise IngredientError(f"{name} is made of finite numbers, such as 0.1; {shown(value)} came.")
    return jnp.asarray(value, float)


def positive(name: str, value: Any) -> Float[Array, "..."]:
    """A positive number as a leaf."""
    if _fails(value, lambda v: (v > 0) & np.isfinite(v)):
        raise IngredientError(f"{name} must be positive and finite, such as 0.1; {shown(value)} came.")
    return jnp.asarray(value, float)


def optional_positive(name: str, value: Any) -> Float[Array, "..."] | None:
    """A positive number as a leaf; None leaves the choice to the ingredient."""
    return None if value is None else positive(name, value)


def fraction(name: str, value: Any) -> Float[Array, "..."]:
    """A number strictly between 0 and 1 as a leaf."""
    if _fails(value, lambda v: (v > 0) & (v < 1)):
        raise IngredientError(f"{name} must lie between 0 and 1, such as 0.6; {shown(value)} came.")
    return jnp.asarray(value, float)


def vector(name: str, value: ArrayLike, dim: int) -> Float[Array, " d"]:
    """One number or a vector as a vector of size ``dim``."""
    array = number(name, value)
    if array.shape not in {(), (1,), (dim,)}:
        raise IngredientError(
            f"{name} is one number or a vector of size {dim}; shape {array.shape} came."
        )
    return jnp.broadcast_to(array, (dim,))


def one_of(name: str, choices: Iterable[str], came: str) -> str:
    """One of a few words."""
    choices = list(choices)
    if not isinstance(came, str) or came not in choices:
        allowed = ", ".join(repr(choice) for choice in choices)
        raise IngredientError(f"{name} is one of {allowed}; {shown(came)} came.")
    return came


def function(name: str, value: Function) -> Function:
    """Anything that can be called."""
    if not callable(value):
        raise IngredientError(f"{name} is a function; {shown(value)} came.")
    return value


@contextlib.contextmanager
def calling(what: str) -> Iterator[None]:
    """Around a call of a user's function: what it raises becomes a sentence, ``what`` its beginning."""
    try:
        yield
    except IngredientError:
        raise
    except Exception as error:
        first = (str(error).strip().splitlines() or ["no message"])[0]
        raise IngredientError(
            f"{what}; calling it so fails ({type(error).__name__}: {shown_text(first)})."
        ) from error


def instance(name: str, kind: type, example: str, value: Any) -> Any:
    """An instance of one of the four nouns, or of another class."""
    if not isinstance(value, kind):
        raise IngredientError(
            f"{name} is a {kind.__name__} such as {example}; a {type(value).__name__} came."
        )
    return value


def flag(name: str, value: Any) -> bool:
    """True or False, and nothing that only counts as one of them."""
    if not isinstance(value, bool | np.bool_):
        raise IngredientError(f"{name} is True or False; {shown(value)} came.")
    return bool(value)


def folder(value: Any) -> Path | None:
    """The path of a folder that a user named, or None where nothing is to be written."""
    if not isinstance(value, str | Path | None):
        raise IngredientError(f"folder is a path or None; {shown(value)} came.")
    if value is not None and (not str(value).strip() or "\0" in str(value)):
        raise IngredientError(f"folder is the name of a folder, as 'runs/fit' is; {shown(value)} came.")
    return None if value is None else Path(value)


def random_key(key: Any) -> Key:
    """A random key, or the one that a whole number stands for."""
    if isinstance(key, int | np.integer) and not isinstance(key, bool):
        return jax.random.key(whole("key, as a whole number,", key, least=0) % 2**63)
    dtype, shape = getattr(key, "dtype", None), getattr(key, "shape", ())
    raw = dtype == jnp.uint32
    if dtype is None or not (raw or jnp.issubdtype(dtype, jax.dtypes.prng_key)):
        raise IngredientError(
            f"key is a random key such as jax.random.key(0), or a whole number; {shown(key)} came."
        )
    if shape not in ({(2,), (4,)} if raw else {()}):
        raise IngredientError(
            f"key is one random key such as jax.random.key(0); an array of shape {shape} came, so take "
            "one of its keys."
        )
    return key  # pyright: ignore[reportReturnType]


def shown(value: Any) -> str:
    """A value in one short line, for sentences."""
    try:
        text = " ".join(repr(value).split())
    except Exception:  # what a user's class does
        text = f"a {type(value).__name__}"
    return shown_text(text)


def shown_text(text: str) -> str:
    """The beginning of a line that may be long."""
    return text if len(text) <= 80 else f"{text[:77]}..."


def _fails(value: Any, holds: Callable[[np.ndarray], Any]) -> bool:
    if isinstance(value, jax.core.Tracer):
        return False
    try:
        array = np.asarray(value)
        # True and False are no numbers; an array of them is data of zeros and ones.
        other = array.dtype.kind == "c" or (array.dtype.kind == "b" and array.ndim == 0)
        return other or not bool(np.all(holds(array)))
    except (TypeError, ValueError):
        return True
