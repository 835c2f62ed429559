"""What fitting a target by itself gives back."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from understudy.checks import whole
from understudy.core import ExplicitStudent, Target

_CHUNK = 16_384


class Stage(eqx.Module):
    """One stage of a fit.

    Attributes:
        name: "region", "gaussian" or "flow".
        note: what it did, in words.
        seconds: run time without compilation.
        compile_seconds: time spent tracing and compiling.
        gradients: gradient evaluations of the target's log density.
        acceptance: of independence moves with the stage's student in equilibrium, 1 where it is the
            target itself.
        kept: whether the result is this stage's student.
    """

    name: str
    note: str
    seconds: float
    compile_seconds: float
    gradients: int
    acceptance: float
    kept: bool = False


class AutoFit(eqx.Module):
    """A student of a target, fitted with no choices made by the user.

    Attributes:
        student: the trained sampler, over flat unconstrained vectors.
        target: what it was fitted to.
        stages: what each stage did.
    """

    student: ExplicitStudent
    target: Target
    stages: tuple[Stage, ...]

    @property
    def seconds(self) -> float:
        """Run time of all stages, without compilation."""
        return sum(stage.seconds for stage in self.stages)

    @property
    def compile_seconds(self) -> float:
        """Time spent compiling."""
        return sum(stage.compile_seconds for stage in self.stages)

    @property
    def gradients(self) -> int:
        """Gradient evaluations spent."""
        return sum(stage.gradients for stage in self.stages)

    def sample(self, key: PRNGKeyArray, n: int) -> dict[str, np.ndarray]:
        """Draw ``n`` values of every named site (of ``z`` where the target has no names).

        Draws are made a chunk at a time, so memory beyond the result is bounded and any ``n`` runs the
        same compiled program.
        """
        chunks = -(-whole("n", n) // _CHUNK)
        out: dict[str, np.ndarray] = {}
        for i in range(chunks):
            values = _named(self.student, self.target, jax.random.fold_in(key, i))
            for name, value in values.items():
                start, rows = i * _CHUNK, min(_CHUNK, n - i * _CHUNK)
                array = out.setdefault(name, np.empty((n, *value.shape[1:]), value.dtype))
                array[start : start + rows] = value[:rows]
        return out

    def draws(self, key: PRNGKeyArray, n: int) -> Float[Array, "n d"]:
        """Draw ``n`` flat unconstrained vectors."""
        chunks = -(-whole("n", n) // _CHUNK)
        rows = [_flat(self.student, jax.random.fold_in(key, i)) for i in range(chunks)]
        return jnp.concatenate(rows)[:n]


@eqx.filter_jit
def _flat(student: ExplicitStudent, key: PRNGKeyArray) -> Float[Array, "n d"]:
    return student.sample(key, None, _CHUNK)


@eqx.filter_jit
def _named(student: ExplicitStudent, target: Any, key: PRNGKeyArray) -> dict[str, Array]:
    z = student.sample(key, None, _CHUNK)
    return jax.vmap(target.constrain)(z) if hasattr(target, "constrain") else {"z": z}
