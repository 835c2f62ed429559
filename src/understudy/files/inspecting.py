"""Look at a program that came in a file: what it computes with, before anything of it is used.

Run as a script, in a process of its own with little memory, because the parser of such programs can be
made to crash or to take all memory by a hostile file. The program comes on standard input; the answer
goes to standard output, one JSON object with either ``main`` (the types of its function) or ``refused``
(a reason). It needs jaxlib alone.
"""

import json
import math
import re
import sys
from collections.abc import Iterator
from typing import Any

SECONDS = 120
MEMORY = 2**32
LARGEST_TENSOR = 2**28
MOST_OPERATIONS = 500_000

# Everything of StableHLO that computes, and nothing that talks to other devices or to the host.
_OPERATIONS = frozenset(
    """
    abs add and atan2 batch_norm_inference bitcast_convert broadcast_in_dim case cbrt ceil cholesky
    clamp compare complex composite concatenate constant convert convolution cosine
    count_leading_zeros custom_call divide dot_general dynamic_slice dynamic_update_slice exponential
    exponential_minus_one fft floor gather get_tuple_element if imag iota is_finite log log_plus_one
    logistic map maximum minimum multiply negate not optimization_barrier or pad popcnt power real
    reduce reduce_precision reduce_window remainder reshape return reverse rng_bit_generator
    round_nearest_afz round_nearest_even rsqrt scatter select select_and_scatter shift_left
    shift_right_arithmetic shift_right_logical sign sine slice sort sqrt subtract tan tanh transpose
    triangular_solve tuple while xor
    """.split()  # noqa: SIM905
)


class RefusedError(Exception):
    """A program that is not used, and why."""


# Shapes without the axes of a batch, as functions of the two last sizes of the first operand.
_LAPACK = {
    "potrf": lambda m, n: ([(n, n)], [(n, n), ()]),
    "getrf": lambda m, n: ([(m, n)], [(m, n), (min(m, n),), ()]),
    "geqrf": lambda m, n: ([(m, n)], [(m, n), (min(m, n),)]),
    "orgqr": lambda m, n: ([(m, n), (min(m, n),)], [(m, n)]),
    "syevd": lambda m, n: ([(n, n)], [(n, n), (n,), ()]),
}
_NAME = re.compile(r"lapack_[sdcz]([a-z]+)_ffi")
_HARMLESS = ("Sharding", "cu_threefry2x32_ffi", "hip_threefry2x32_ffi")
LISTED = re.compile(
    rf"lapack_[sdcz]({'|'.join([*_LAPACK, 'trsm', 'ungqr', 'heevd'])})_ffi|{'|'.join(_HARMLESS)}"
    r"|mhlo\.(erf|erf_inv|topk|tan)"
)
"""Names of custom calls that are accepted: linear algebra, random numbers, annotations."""


def main_type(code: bytes, largest: int = LARGEST_TENSOR) -> str:
    """The types of a program's function, or :class:`RefusedError`.

    Args:
        code: a portable artifact of StableHLO.
        largest: bytes that one of its arrays may take.
    """
    from jaxlib.mlir import ir
    from jaxlib.mlir.dialects import chlo, sdy, stablehlo

    context = ir.Context()
    for dialect in (stablehlo, chlo, sdy):
        dialect.register_dialect(context)
    with context:
        try:
            module = stablehlo.deserialize_portable_artifact(context, code)
            module.operation.verify()
        except Exception as error:
            raise RefusedError("its program cannot be parsed") from error
        functions = {str(f.attributes["sym_name"]).strip('"'): f for f in module.body.operations}
        if "main" not in functions:
            raise RefusedError("its program has no function main")
        inside = {name: list(_operations(function)) for name, function in functions.items()}
        for operations in inside.values():
            for operation in operations:
                _check(operation, largest)
        _check_calls(inside)
        _check_arguments(functions["main"])
        return str(functions["main"].attributes["function_type"])


def tensor_bytes(text: str) -> int:
    """Bytes of the array of a type such as ``tensor<3x4xf32>``."""
    found = re.fullmatch(r"tensor<((?:\d+x)*)(complex<)?([a-zA-Z]+)(\d+)[A-Za-z0-9]*>*", text)
    if found is None:
        raise RefusedError(f"its program holds values of the type {text[:60]}")
    sizes, is_complex, _, bits = found.groups()
    size = math.prod(int(n) for n in sizes.split("x")[:-1])
    return size * max(int(bits) // 8, 1) * (2 if is_complex else 1)


def _operations(function: Any) -> Iterator[Any]:
    stack = [function.operation]
    while stack:
        operation = stack.pop()
        yield operation
        stack += [o.operation for region in operation.regions for block in region for o in block]


def _check(operation: Any, largest: int) -> None:
    dialect, _, name = operation.name.partition(".")
    known = {"func": ("func", "call", "return"), "stablehlo": _OPERATIONS, "chlo": (name,)}
    if name not in known.get(dialect, ()):
        raise RefusedError(f"its program holds the operation {operation.name}")
    if name == "custom_call":
        _check_custom_call(operation)
    for value in operation.results:
        text = str(value.type)
        if not text.startswith("tuple<") and tensor_bytes(text) > largest:
            raise RefusedError(f"its program makes an array of {tensor_bytes(text):,} bytes")


def _check_custom_call(operation: Any) -> None:
    name = str(operation.attributes["call_target_name"]).strip('"')
    if LISTED.fullmatch(name) is None:
        raise RefusedError(
            f"its program calls {name[:60]}, which is not on the list of what it may call"
        )
    if "called_computations" in operation.attributes:
        called = str(operation.attributes["called_computations"])
        if called != "[]":
            raise RefusedError(f"its program calls {name} with {called[:60]}")
    routine = _NAME.fullmatch(name)
    if routine is None:
        return
    if "mhlo.backend_config" not in operation.attributes:
        raise RefusedError(f"its program calls {name} without its settings")
    given, made = ([_shape(v) for v in values] for values in (operation.operands, operation.results))
    on_the_left = "side = 76 " in str(operation.attributes["mhlo.backend_config"])
    if not given or len(given[0]) < 2 or not _fits(routine[1], given, made, on_the_left):
        raise RefusedError(f"its program calls {name} with shapes that do not fit")


def _fits(
    routine: str, given: list[tuple[int, ...]], made: list[tuple[int, ...]], on_the_left: bool
) -> bool:
    *batch, m, n = given[0]
    routine = {"ungqr": "orgqr", "heevd": "syevd"}.get(routine, routine)
    if routine == "trsm":
        square = m == n and len(given) == 2 and len(given[1]) == len(given[0])
        side = -2 if on_the_left else -1
        return square and given[1][:-2] == tuple(batch) and given[1][side] == m and made == [given[1]]
    wanted = _LAPACK[routine](m, n)
    square = m == n or routine in ("getrf", "geqrf", "orgqr")
    shapes = [[(*batch, *shape) for shape in one] for one in wanted]
    return square and shapes == [given, made]


def _shape(value: Any) -> tuple[int, ...]:
    found = re.match(r"tensor<((?:\d+x)*)", str(value.type))
    return tuple(int(n) for n in found[1].split("x")[:-1]) if found else ()


def _check_calls(inside: dict[str, list[Any]]) -> None:
    """Whether calls end, and the program with every call written out stays of bounded size."""
    sizes: dict[str, int] = {}
    for name in inside:
        _expanded(name, inside, sizes, ())


def _expanded(name: str, inside: dict[str, list[Any]], sizes: dict[str, int], above: tuple) -> int:
    if name in above or name not in inside or len(above) > 100:
        raise RefusedError("its program has functions that call themselves or are not there")
    if name not in sizes:
        called = [other for operation in inside[name] for other in _called(operation)]
        parts = [_expanded(other, inside, sizes, (*above, name)) for other in called]
        sizes[name] = len(inside[name]) + sum(parts)
    if sizes[name] > MOST_OPERATIONS:
        raise RefusedError(f"its program has more than {MOST_OPERATIONS:,} operations")
    return sizes[name]


def _called(operation: Any) -> list[str]:
    names = [n for n in ("callee", "decomposition") if n in operation.attributes]
    return [str(operation.attributes[name]).strip('@"') for name in names]


def _check_arguments(function: Any) -> None:
    """Whether no argument is given away to a result: the caller still needs it."""
    if "arg_attrs" in function.attributes:
        text = str(function.attributes["arg_attrs"])
        if "aliasing" in text or "donor" in text:
            raise RefusedError("its program writes over its arguments")


def _limit() -> None:
    try:
        import resource
    except ImportError:  # Windows
        return
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _answer(code: bytes, largest: int) -> dict[str, str]:
    try:
        return {"main": main_type(code, largest)}
    except RefusedError as error:
        return {"refused": str(error)}


if __name__ == "__main__":
    sys.path[:] = json.loads(sys.argv[1])
    _limit()
    print(json.dumps(_answer(sys.stdin.buffer.read(), int(sys.argv[2]))))
