"""Every signature of the package is checked by beartype while the tests run.

Compiling dominates the tests' time, so XLA optimises little here.
"""

import os

os.environ.setdefault(
    "XLA_FLAGS", "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true"
)

import jax
import pytest
from jaxtyping import install_import_hook

install_import_hook("understudy", "beartype.beartype")


@pytest.fixture(autouse=True, scope="module")
def _forget_programs():
    """Every kernel of a compiled program takes a memory map, of which a process has a limited number."""
    yield
    jax.clear_caches()
