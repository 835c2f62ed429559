"""Students, models and posteriors in one file each, and back, without pickle."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import PyTree

from understudy.core import Storable
from understudy.files.allowed import Known
from understudy.files.container import read, short, write
from understudy.files.describing import describe
from understudy.files.errors import StoreError
from understudy.files.replacing import checked_path
from understudy.files.reviving import revive


def save(path: str | Path, module: PyTree) -> None:
    """Write a student, a model or any other pytree of modules to one file.

    Args:
        path: the file; its folder is made if need be.
        module: modules, arrays, random keys, numbers, strings and containers of them. Functions are
            stored by name, so lambdas are refused.

    Examples:
        >>> import tempfile, understudy
        >>> from understudy.students import FullGaussian
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     understudy.save(f"{folder}/student.safetensors", FullGaussian(2))
        ...     understudy.load(f"{folder}/student.safetensors").dim
        2
    """
    checked_path(path)
    module = module.storable() if isinstance(module, Storable) else module
    arrays: list[np.ndarray] = []
    try:
        description = describe(module, arrays, type(module).__name__)
    except RecursionError as error:
        raise StoreError(
            f"This {type(module).__name__} refers to itself and cannot be written."
        ) from error
    write(path, {str(i): array for i, array in enumerate(arrays)}, {"module": description})


def load(path: str | Path, classes: Sequence[Any] = (), target: Any = None) -> Any:
    """Read what :func:`save` wrote; nothing that the file names is called.

    Args:
        path: the file.
        classes: your own module classes (and functions) that the file may name; those of understudy,
            equinox, flowjax, paramax, jax.nn and jax.numpy are known already. For a posterior also its
            NumPyro model.
        target: of a posterior, in place of the one that the file describes.

    Examples:
        >>> import tempfile, understudy
        >>> from understudy.students import FullGaussian
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     understudy.save(f"{folder}/student.safetensors", FullGaussian(2))
        ...     understudy.load(f"{folder}/student.safetensors").dim
        2
    """
    known = Known(classes)
    arrays, description = read(path)
    try:
        made = revive(description["module"], [arrays[str(i)] for i in range(len(arrays))], known)
        if isinstance(made, Storable):
            return made.restored(known, target)
        known.refuse_unused()
        return made
    except StoreError as error:
        raise StoreError(f"{path} cannot be loaded: {error}.") from error
    except Exception as error:
        raise StoreError(
            f"{path} cannot be loaded: it does not describe a module of this version ({short(error)}); "
            f"make it again with understudy.save."
        ) from error
