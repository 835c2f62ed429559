"""Settings checked at the border: each becomes what the ingredients need, or a sentence."""

import contextlib
import inspect
import math
import operator
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float, Int

from understudy.core import Condition, IngredientError, Key, Student, Target

Function = TypeVar("Function", bound=Callable)


LARGEST_SEED = 2**63 - 1
LARGEST_COUNT = 2**31 - 1
"""Of draws, of simulations, of anything in a program: JAX counts in 32 bits."""
_MOST_LAYERS = 10_000


def whole(name: str, value: Any, least: int = 1, most: int | None = LARGEST_COUNT) -> int:
    """A whole number that shapes the program (a size, a count), from ``least`` to ``most``."""
    number = _as_whole(value)
    if number is None or number < least or (most is not None and number > most):
        small = number is None or number < least
        range_ = f"from {least} to {most}"
        if small and most in (None, LARGEST_COUNT):
            range_ = f"{least} or more"
        raise IngredientError(f"{name} is a whole number, {range_}; {shown(value)} came.")
    return number


def layer_count(name: str, value: Any) -> int:
    """A number of layers, which a program writes out one after the other."""
    return whole(name, value, most=_MOST_LAYERS)


def seed(name: str, value: Any) -> int:
    """A whole number that random keys can be made of."""
    return whole(name, value, least=0, most=LARGEST_SEED)


def one_positive(name: str, value: Any) -> float:
    """One positive number, not an array of them, for what is no leaf."""
    # A whole number of a class of its own, as Gradients is, counts something else.
    if np.ndim(positive(name, value)) or (isinstance(value, int) and type(value) is not int):
        raise IngredientError(
            f"{name} is one positive number, such as 0.1; a {type(value).__name__} {shown(value)} came."
        )
    return float(value)


def one_number(name: str, value: Any) -> float:
    """One finite number, not an array of them, for what is no leaf."""
    if np.ndim(number(name, value)):
        raise IngredientError(f"{name} is one finite number, such as 0.1; {shown(value)} came.")
    return float(value)


def one_fraction(name: str, value: Any) -> float:
    """One number strictly between 0 and 1, not an array of them, for what is no leaf."""
    if np.ndim(fraction(name, value)):
        raise IngredientError(f"{name} is one number between 0 and 1; {shown(value)} came.")
    return float(value)


def several(name: str, kind: type, example: str, values: Any) -> tuple:
    """A list or tuple whose members are all instances of a class."""
    if not isinstance(values, list | tuple):
        raise IngredientError(
            f"{name} is a list of instances of {kind.__name__}, such as [{example}]; "
            f"{shown(values)} came."
        )
    return tuple(instance(f"every member of {name}", kind, example, value) for value in values)


def sizes(name: str, value: Any, least: int = 0) -> list[int]:
    """Several whole numbers, the widths of layers say; at least so many of them."""
    listed = isinstance(value, Sequence | np.ndarray) and not isinstance(value, str | bytes | bytearray)
    if not listed or np.ndim(np.asarray(value, object)) != 1 or len(value) < least:
        raise IngredientError(f"{name} is a list of sizes, such as (20, 20); {shown(value)} came.")
    return [whole(f"every size in {name}", size) for size in value]


def count(name: str, value: Any, least: int = 1) -> Int[Array, "..."]:
    """A whole number, ``least`` or more, as a leaf that can change without recompiling."""
    if _fails(value, lambda v: (v >= least) & (v == np.round(v)) & (v <= LARGEST_COUNT)):
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


def not_negative(name: str, value: Any) -> Float[Array, "..."]:
    """Zero or a positive number, or an array of them, as a leaf."""
    if _fails(value, lambda v: (v >= 0) & np.isfinite(v)):
        raise IngredientError(f"{name} must be 0 or more and finite, such as 1.0; {shown(value)} came.")
    return jnp.asarray(value, float)


def optional(check: Callable[[str, Any], Any], name: str, value: Any) -> Any:
    """A setting as another check makes it; None leaves the choice to the ingredient."""
    return None if value is None else check(name, value)


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


def takes(function: Callable, count: int, names: Iterable[str] = ()) -> bool:
    """Whether a function can be called with so many arguments, and with others by name."""
    try:
        inspect.signature(function).bind(*[None] * count, **dict.fromkeys(names))
    except TypeError:
        return False
    except ValueError:  # a builtin without a signature
        return True
    return True


@contextlib.contextmanager
def calling(what: str) -> Iterator[None]:
    """Around a call of a user's function: what it raises becomes a sentence, ``what`` its beginning."""
    try:
        yield
    except (IngredientError, MemoryError):
        raise
    except Exception as error:
        if "RESOURCE_EXHAUSTED" in first_line(error):
            raise
        raise IngredientError(
            f"{what}; calling it so fails ({type(error).__name__}: {first_line(error, 80)})."
        ) from error


def instance(name: str, kind: type, example: str, value: Any) -> Any:
    """An instance of one of the four nouns, or of another class."""
    if not isinstance(value, kind):
        raise IngredientError(
            f"{name} is a {kind.__name__} such as {example}; a {type(value).__name__} came."
        )
    return value


def same_size(target: Target, *students: Student) -> None:
    """Students that draw vectors of the target's size."""
    for student in students:
        if student.dim != target.dim:
            raise IngredientError(
                f"The student draws vectors of size {student.dim}, but the target's have size "
                f"{target.dim}; build the student with dim={target.dim}."
            )


def drawn(student: Student, key: Key, x: Condition, n: int) -> Float[Array, "n d"]:
    """Draws of a student, or a sentence where it gives something else."""
    name = type(student).__name__
    with calling(f"The student {name} draws by sample(key, x, n)"):
        z = jnp.asarray(student.sample(key, x, n))
    if z.shape != (n, student.dim):
        raise IngredientError(
            f"The student {name} gives an array of shape {z.shape} for {n} draws of size {student.dim}; "
            f"let sample(key, x, n) give one of shape {(n, student.dim)}."
        )
    return z


def flag(name: str, value: Any) -> bool:
    """True or False, and nothing that only counts as one of them."""
    if not isinstance(value, bool | np.bool_):
        raise IngredientError(f"{name} is True or False; {shown(value)} came.")
    return bool(value)


def folder(value: Any) -> Path | None:
    """The path of a folder that a user named, or None where nothing is to be written."""
    if not isinstance(value, str | os.PathLike | None):
        raise IngredientError(f"folder is a path or None; {shown(value)} came.")
    if value is not None and (not str(value).strip() or not can_name_a_file(str(value))):
        raise IngredientError(f"folder is the name of a folder, as 'runs/fit' is; {shown(value)} came.")
    return None if value is None else Path(value)


def native(value: Any) -> Any:
    """The same in the machine's own order of bytes, which is the only one that JAX takes."""
    foreign = isinstance(value, np.ndarray) and not value.dtype.isnative
    return value.astype(value.dtype.newbyteorder("=")) if foreign else value


def is_numeric(value: Any) -> bool:
    """Whether a value is an array of numbers, or of True and False, that is still there."""
    gone = isinstance(value, jax.Array) and not isinstance(value, jax.core.Tracer) and value.is_deleted()
    return (
        isinstance(value, jax.Array | np.ndarray)
        and not gone
        and (jnp.issubdtype(value.dtype, jnp.number) or value.dtype == bool)
    )


def can_name_a_file(text: str) -> bool:
    """Whether every character can stand in the name of a file on this system."""
    try:
        return b"\0" not in os.fsencode(text)
    except UnicodeEncodeError:
        return False


def fits(name: str, rows: int, width: int) -> int:
    """As many rows of so many numbers, if the machine's memory could hold them at all.

    What is too large for it by far makes some programs end instead of raising.
    """
    if rows * width * 8 > memory():
        raise IngredientError(
            f"{name} is a number of rows that fit into memory; {rows:,} rows of {width} numbers do not; "
            "ask for fewer at a time."
        )
    return rows


def memory() -> float:
    """Bytes of the machine's memory; endless where the system does not say."""
    names = getattr(os, "sysconf_names", {})
    if "SC_PHYS_PAGES" not in names or "SC_PAGE_SIZE" not in names:
        return math.inf
    return float(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))


def random_key(key: Any) -> Key:
    """A random key, or the one that a whole number stands for."""
    if _as_whole(key) is not None:
        return jax.random.key(whole("key, as a whole number,", key, least=0, most=None) % 2**63)
    dtype, shape = getattr(key, "dtype", None), getattr(key, "shape", ())
    raw = dtype == jnp.uint32
    if dtype is None or not (raw or jnp.issubdtype(dtype, jax.dtypes.prng_key)):
        raise IngredientError(
            f"key is a random key such as jax.random.key(0), or a whole number; {shown(key)} came."
        )
    if raw and shape in {(2,), (4,)} - {jax.eval_shape(jax.random.PRNGKey, 0).shape}:
        raise IngredientError(
            f"key is of another generator than JAX's own, {jax.config.jax_default_prng_impl}; give one "
            'that knows its generator, such as jax.random.wrap_key_data(key, impl="rbg").'
        )
    if shape not in ({(2,), (4,)} if raw else {()}):
        raise IngredientError(
            f"key is one random key such as jax.random.key(0); an array of shape {shape} came, so take "
            "one of its keys."
        )
    return key  # pyright: ignore[reportReturnType]


def concrete_key(key: Any) -> Key:
    """A random key in numbers: what takes it runs programs of its own."""
    if isinstance(key, jax.core.Tracer):
        raise IngredientError(
            "key is a random key in numbers, and this call runs programs of its own; make it outside of "
            "jax.jit, jax.vmap and jax.grad."
        )
    return random_key(key)


def shown(value: Any) -> str:
    """A value in one short line, for sentences."""
    try:
        text = " ".join(repr(value).split())
    except Exception:  # what a user's class does
        text = f"a {type(value).__name__}"
    return shown_text(text)


def shown_text(text: str, most: int = 80) -> str:
    """The beginning of a line that may be long."""
    return text if len(text) <= most else f"{text[: most - 3]}..."


def first_line(error: BaseException, most: int = 200) -> str:
    """What an error says, in one short line; its class where it says nothing, or cannot even say it."""
    try:
        lines = str(error).strip().splitlines()
    except Exception:
        lines = []
    return shown_text((lines or [type(error).__name__])[0], most)


def _as_whole(value: Any) -> int | None:
    """A whole number of Python, NumPy or JAX; None for what is none, such as True and False."""
    try:
        return None if isinstance(value, bool) else operator.index(value)
    except Exception:  # what a user's class does
        return None


def _fails(value: Any, holds: Callable[[np.ndarray], Any]) -> bool:
    if isinstance(value, jax.core.Tracer):
        return False
    try:
        array = np.asarray(value)
        # True and False are no numbers; an array of them is data of zeros and ones. Nor are times.
        other = array.dtype.kind in "cmM" or (array.dtype.kind == "b" and array.ndim == 0)
        return other or not array.size or not bool(np.all(holds(array)))
    except Exception:  # what a user's class does, an array whose memory was given away
        return True
