"""The variational program of the paper's first experiment."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Float

from understudy.checks import vector
from understudy.core import Condition, Key, Student


class VariationalProgram(Student):
    """A program with one branch: z = ReLU(w1 e1 + b1) if e3 >= 0, else -ReLU(w2 e2 + b2), e ~ N(0, I).

    It has no density (an atom sits at zero), yet four parameters cover two modes.

    Reference: Ranganath, Altosaar, Tran and Blei, "Operator Variational Inference", 2016.

    Args:
        weight: start of (w1, w2), one number or two.
        bias: start of (b1, b2), one number or two.

    Examples:
        >>> import jax
        >>> from understudy.students import VariationalProgram
        >>> student = VariationalProgram()
        >>> student.sample(jax.random.key(1), None, 5).shape
        (5, 1)
    """

    weight: Float[Array, " 2"]
    bias: Float[Array, " 2"]
    dim: int = eqx.field(static=True)

    def __init__(self, weight: ArrayLike = 1.0, bias: ArrayLike = 1.0):
        self.dim = 1
        self.weight = vector("weight", weight, 2)
        self.bias = vector("bias", bias, 2)

    @staticmethod
    def random(key: Key, scale: ArrayLike = 1.0) -> "VariationalProgram":
        """A program whose parameters start as Gaussian noise of standard deviation ``scale``."""
        weight, bias = scale * jax.random.normal(key, (2, 2))
        return VariationalProgram(weight, bias)

    def sample(self, key: Key, x: Condition, n: int) -> Float[Array, "n d"]:
        """Run the program ``n`` times."""
        noise = jax.random.normal(key, (n, 3))
        sides = jax.nn.relu(self.weight * noise[:, :2] + self.bias)
        return jnp.where(noise[:, 2:] >= 0, sides[:, :1], -sides[:, 1:])
