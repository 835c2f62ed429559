"""Every signature of the package is checked by beartype while the tests run.

Compiling dominates the tests' time, so XLA optimises little here and keeps its programs.
"""

import math
import os
import signal
from pathlib import Path

# Flags that are set already come last, and win. The older emitters save a third of all compiling.
os.environ["XLA_FLAGS"] = (
    "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true "
    "--xla_cpu_use_fusion_emitters=false " + os.environ.get("XLA_FLAGS", "")
)
os.environ.setdefault(
    "JAX_COMPILATION_CACHE_DIR", str(Path(__file__).parents[1] / ".pytest_cache" / "programs")
)
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.2")
# Programs need not know the lines of Python they came from.
os.environ.setdefault("JAX_TRACEBACK_IN_LOCATIONS_LIMIT", "0")

import jax
import pytest
from jaxtyping import install_import_hook

# A background job of a shell starts with the interrupt ignored, which it hands to all it starts.
signal.signal(signal.SIGINT, signal.default_int_handler)
install_import_hook("understudy", "beartype.beartype")


# Handed out first, so that neither worker is left with a long file at the end.
LONGEST = (
    "test_protocol.py",
    "test_bad_input.py",
    "test_amortise.py",
    "test_fit.py",
    "test_loop.py",
    "test_devices.py",
    "test_update.py",
    "test_wheel.py",
    "test_toys.py",
    "test_images_page.py",
    "test_quickstart.py",
    "test_amortised.py",
)
MOST_MAPS = 4_000  # about two gigabytes of programs


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """A file stays with one worker, so that its fixtures are made and its programs compiled once."""
    from xdist.scheduler import LoadFileScheduling

    config.option.loadscopereorder = False  # it would leave files of a few long tests to the end
    return LoadFileScheduling(config, log)


def pytest_collection_modifyitems(items):
    place = {name: i for i, name in enumerate(LONGEST)}
    items.sort(key=lambda item: place.get(item.path.name, len(place)))


@pytest.fixture(autouse=True, scope="module")
def _forget_programs():
    """Every kernel of a compiled program takes a memory map, of which a process has a limited number."""
    yield
    if maps() > MOST_MAPS:
        jax.clear_caches()


def maps() -> float:
    """How many memory maps this process has; endless where the system does not say."""
    table = Path("/proc/self/maps")
    return len(table.read_bytes().splitlines()) if table.exists() else math.inf
