"""What a file may name: classes and functions of a list, and those that the reader hands over.

A file is data, whoever wrote it. It may name module classes of the packages below, whose fields are then
set and nothing else; plain functions of the list of JAX; and functions of the rooms below that hold
nothing but mathematics. None of them is called while a file is read.
"""

import dataclasses
import importlib
import importlib.util
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from understudy.checks import shown
from understudy.files.errors import StoreError

_ROOMS = ("core", "batches", "networks", "students", "targets", "teachers", "feedbacks")
_CLASSES = (
    *(f"understudy.{room}" for room in (*_ROOMS, "fitting", "amortising", "posterior", "training")),
    *(f"understudy.{name}" for name in ("evaluation", "methods", "numerics", "coordinates")),
    *("equinox.nn", "equinox._module", "equinox._vmap_pmap", "equinox._jit", "equinox._enum"),
    *("flowjax", "paramax"),
)
_FUNCTIONS = (
    *(f"understudy.{room}" for room in (*_ROOMS, "numerics")),
    *(f"flowjax.{name}" for name in ("bijections", "distributions", "flows", "utils", "root_finding")),
    "equinox.nn",
    "paramax",
    "jax._src.numpy.vectorize",
)
_PUBLIC = {
    "jax.nn": """
        celu elu gelu glu hard_sigmoid hard_silu hard_swish hard_tanh identity leaky_relu
        log_sigmoid log_softmax logsumexp mish relu relu6 selu sigmoid silu soft_sign softmax
        softplus sparse_plus sparse_sigmoid squareplus standardize swish tanh""",
    "jax.numpy": """
        abs absolute add arccos arccosh arcsin arcsinh arctan arctan2 arctanh asarray cbrt ceil
        clip concatenate conjugate cos cosh cumprod cumsum deg2rad divide dot exp exp2 expm1 fabs
        flip float16 float32 float64 bfloat16 floor fmax fmin hypot imag int16 int32 int64 int8
        isfinite log log10 log1p log2 logaddexp logaddexp2 matmul max maximum mean median min
        minimum mod multiply negative positive power prod rad2deg ravel real reciprocal reshape
        rint round sign sin sinc sinh sort sqrt square squeeze stack std subtract sum tan tanh
        transpose tril triu true_divide trunc uint16 uint32 uint64 uint8 var where bool_""",
    "jax.lax": """
        abs acos acosh add asin asinh atan atan2 atanh cbrt ceil clamp cos cosh digamma div erf
        erf_inv erfc exp expm1 exp2 floor integer_pow is_finite lgamma log log1p logistic max min
        mul neg pow rsqrt select sign sin sinh sqrt square stop_gradient sub tan tanh""",
    "jax.scipy.special": """
        bessel_jn betaln digamma entr erf erfc erfinv expit gammaln i0 i0e i1 i1e log_ndtr
        log_softmax logit logsumexp ndtr ndtri softmax xlog1py xlogy""",
}


def name_of(thing: Any) -> str:
    """The name ``module:QualName`` of a class or function."""
    return f"{thing.__module__}:{thing.__qualname__}"


def public_name(value: Callable) -> str | None:
    """The public name of a function of JAX that files may name, or None."""
    for namespace, names in _PUBLIC.items():
        members = vars(importlib.import_module(namespace))
        for name in names.split():
            if members.get(name) is value:
                return f"{namespace}:{name}"
    return None


def may_close(module: str) -> bool:
    """Whether a file may hold functions made inside those of a module, with what they closed over."""
    return _under(module, _FUNCTIONS)


def is_record_class(cls: Any) -> bool:
    """Whether a class is a named tuple or a dataclass, as modules are."""
    if not isinstance(cls, type):
        return False
    return hasattr(cls, "_fields") if issubclass(cls, tuple) else dataclasses.is_dataclass(cls)


def field_names(cls: Any) -> Sequence[str]:
    """The names of a record's fields."""
    return cls._fields if issubclass(cls, tuple) else [field.name for field in dataclasses.fields(cls)]


class Known(Mapping[str, Any]):
    """The reader's own classes and functions by name, and which of them a file named."""

    def __init__(self, given: Any):
        if isinstance(given, str | type) or not isinstance(given, Sequence | set | frozenset):
            raise StoreError(
                f"classes is a list of classes and functions, such as [model]; {shown(given)} came."
            )
        for thing in given:
            if not (hasattr(thing, "__module__") and hasattr(thing, "__qualname__") and callable(thing)):
                raise StoreError(
                    f"classes holds classes and functions, such as [model]; {shown(thing)} came."
                )
        self.given = tuple(given)
        self.used: set[str] = set()
        self._names = {name_of(thing): thing for thing in given}
        self._names |= {f"__main__:{thing.__qualname__}": thing for thing in given}

    def __getitem__(self, name: str) -> Any:
        thing = self._names[name]
        self.used.add(name_of(thing))
        return thing

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def refuse_unused(self, names: str = "") -> None:
        """Raise if a function was handed over that the file does not name.

        Args:
            names: what the file names and was not handed over, for the sentence.
        """
        for thing in self.given:
            if not isinstance(thing, type) and name_of(thing) not in self.used:
                instead = f"it names {names}" if names else "leave it out"
                raise StoreError(f"classes holds {name_of(thing)}, which it does not name; {instead}")


def find_class(name: Any, known: Mapping[str, Any]) -> Any:
    """A record class by its name in a file."""
    cls = _find(name, _CLASSES, known)
    if not is_record_class(cls) or (name not in known and name_of(cls) != name):
        raise StoreError(f"it names {name}, which is not a module class; pass it with classes=[...]")
    return cls


def find_function(name: Any, known: Mapping[str, Any]) -> Callable:
    """A function by its name in a file."""
    module, _, member = str(name).partition(":")
    if name not in known and member in _PUBLIC.get(module, "").split():
        return vars(importlib.import_module(module))[member]
    found = _find(name, _FUNCTIONS, known)
    if name in known:
        return found
    if not isinstance(found, types.FunctionType) and not _is_wrapped(found):
        raise StoreError(f"it names {name}, which is not a function that a file may name")
    if found.__module__ != module:
        raise StoreError(f"it names {name}, which is not a function that a file may name")
    return found


def find_code(name: str, index: int) -> types.CodeType | None:
    """The code of a function made inside others, by its name in a file."""
    module, _, qualname = name.partition(":")
    found = codes(module, qualname) if may_close(module) else []
    return found[index] if type(index) is int and 0 <= index < len(found) else None


def codes(module: str, qualname: str) -> list[types.CodeType]:
    """All code of a module under this qualified name, in the order of the source."""
    loader: Any = getattr(importlib.util.find_spec(module), "loader", None)
    top = loader.get_code(module) if hasattr(loader, "get_code") else None
    return [code for code in _nested(top) if code.co_qualname == qualname] if top else []


def _nested(code: types.CodeType) -> Iterator[types.CodeType]:
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield constant
            yield from _nested(constant)


def _is_wrapped(found: Any) -> bool:
    # Functions under jax.jit and classes are callable too, and a part of their module.
    return callable(found) and hasattr(found, "__module__")


def _under(module: str, roots: Sequence[str]) -> bool:
    return "__" not in module and any(module == root or module.startswith(f"{root}.") for root in roots)


def _find(name: Any, roots: Sequence[str], known: Mapping[str, Any]) -> Any:
    """A class or function among ``known`` or under ``roots``, by defined names alone."""
    if name in known:
        return known[name]
    module, _, qualname = name.partition(":")
    if not _under(module, roots):
        raise StoreError(
            f"it names {name}, which is not a part of understudy; pass it with classes=[...]"
        )
    owner = importlib.import_module(module)
    for part in qualname.split("."):
        owner = vars(owner)[part]
    return owner
