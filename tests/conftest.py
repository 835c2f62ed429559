"""Every signature of the package is checked by beartype while the tests run.

Compiling dominates the tests' time, so XLA optimises little here and keeps its programs.
"""

import os
import signal
from pathlib import Path

# Flags that are set already come last, and win.
os.environ["XLA_FLAGS"] = (
    "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true "
    + os.environ.get("XLA_FLAGS", "")
)
os.environ.setdefault(
    "JAX_COMPILATION_CACHE_DIR", str(Path(__file__).parents[1] / ".pytest_cache" / "programs")
)
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.2")

import jax
import pytest
from jaxtyping import install_import_hook

# A background job of a shell starts with the interrupt ignored, which it hands to all it starts.
signal.signal(signal.SIGINT, signal.default_int_handler)
install_import_hook("understudy", "beartype.beartype")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """A file stays with one worker, so that its fixtures are made and its programs compiled once."""
    from xdist.scheduler import LoadFileScheduling

    return LoadFileScheduling(config, log)


@pytest.fixture(autouse=True, scope="module")
def _forget_programs():
    """Every kernel of a compiled program takes a memory map, of which a process has a limited number."""
    yield
    jax.clear_caches()
