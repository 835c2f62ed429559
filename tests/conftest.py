"""Every signature of the package is checked by beartype while the tests run."""

from jaxtyping import install_import_hook

install_import_hook("understudy", "beartype.beartype")
