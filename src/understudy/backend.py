"""What suits the kind of machine that JAX computes on, chosen here and nowhere else.

Everything else is written once and runs on a CPU, a GPU and a TPU alike. What was measured was measured
on CPUs; for the others the compiler's own choices hold, and the forms that they were made for.
"""

import contextlib
import functools
import os
import threading
from collections.abc import Iterator
from typing import Any, Literal, NamedTuple

import jax
from threadpoolctl import ThreadpoolController

Options = dict[str, Any] | None


class Backend(NamedTuple):
    """Choices that change how fast a program is, and not what it computes beyond rounding.

    Attributes:
        quick: compiler options for programs that run for seconds only, so that the compiler should not
            spend as long on making them faster.
        split: compiler options for programs that are split over several devices.
        keys: the generator inside ``fit``, whose keys never leave it.
        convolutions: "products" writes convolutions as matrix products, "own" leaves them to XLA.
        double: whether log densities are computed in double precision.
        parts: whether its devices are parts of one machine that programs may take without being told.
    """

    quick: Options
    split: Options
    keys: str
    convolutions: Literal["products", "own"]
    double: bool
    parts: bool


# On a CPU convolutions are slow, above all inside loops, and matrix products are not. Parts of the host
# that count as devices share its threads: an operation that one of them splits once more waits for the
# others. This generator is cheaper to compile than the default one.
_CPU = Backend(
    quick={"xla_backend_optimization_level": 1},
    split={"xla_cpu_multi_thread_eigen": False},
    keys="unsafe_rbg",
    convolutions="products",
    double=True,
    parts=True,
)
_GPU = Backend(None, None, keys="unsafe_rbg", convolutions="own", double=True, parts=False)
# A TPU has no numbers of 64 bits of its own.
_TPU = _GPU._replace(double=False)


def backend(name: str | None = None) -> Backend:
    """The choices for a kind of machine; None is the one that JAX uses by default."""
    name = jax.default_backend() if name is None else name
    return {"cpu": _CPU, "tpu": _TPU}.get(name, _GPU)


# Threads of XLA for every core, and how many at least. A batched operation of linear algebra runs on one
# of them, hands its parts to all and waits; where as many such operations run as there are threads, they
# wait for ever. Large operations are cut into as many parts as there are threads, so that more
# of them cost time as well.
_THREADS, _FEWEST = 4, 8


def see_cores() -> None:
    """Let JAX count the cores of a CPU as devices, unless it runs already or was told how many.

    Later it is too late; and programs that run on one of them still use the threads of all.
    """
    if not {"NPROC", "PJRT_NPROC"} & os.environ.keys():
        os.environ["PJRT_NPROC"] = str(max(_FEWEST, _THREADS * cores()))
    told = "xla_force_host_platform_device_count" in os.environ.get("XLA_FLAGS", "")
    if told or "JAX_NUM_CPU_DEVICES" in os.environ or jax.config.jax_num_cpu_devices != -1:
        return
    with contextlib.suppress(RuntimeError):
        jax.config.update("jax_num_cpu_devices", cores())


def cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@contextlib.contextmanager
def plain_algebra() -> Iterator[None]:
    """Work whose calls of linear algebra take one thread each.

    XLA has threads of its own, on which such calls run side by side; where each of them takes several
    more, these spin while they wait for each other, and what takes milliseconds takes seconds.
    """
    with _PLAIN.lock:
        if not _PLAIN.blocks:
            _PLAIN.limits = _algebra().limit(limits=1, user_api="blas")
        _PLAIN.blocks += 1
    try:
        yield
    finally:
        with _PLAIN.lock:
            _PLAIN.blocks -= 1
            if not _PLAIN.blocks:
                _PLAIN.limits.restore_original_limits()


class _Plain:
    """How many blocks of plain algebra are under way, in all threads, and what was before the first."""

    def __init__(self) -> None:
        self.lock, self.blocks = threading.Lock(), 0
        self.limits: Any = None


_PLAIN = _Plain()


@functools.cache
def _algebra() -> ThreadpoolController:
    """The libraries with threads of their own, the OpenBLAS that JAX borrows from SciPy among them."""
    import scipy.linalg.cython_lapack  # noqa: F401  it is loaded with it

    return ThreadpoolController()
