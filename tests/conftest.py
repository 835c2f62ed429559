"""Every signature of the package is checked by beartype while the tests run.

Compiling dominates the tests' time, so XLA optimises little here.
"""

import os

os.environ.setdefault(
    "XLA_FLAGS", "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true"
)

from jaxtyping import install_import_hook

install_import_hook("understudy", "beartype.beartype")
