"""Students made of the draws themselves: particles, and tables of chains."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Float, Scalar

from understudy.checks import is_numeric, number, shown, whole
from understudy.core import Condition, Indexed, IngredientError, Key, Lesson, ProjectableStudent


class Particles(ProjectableStudent):
    """A set of draws that are their own parameters; with a copy as feedback this is MCMC itself.

    Asked for as many draws as there are particles it returns them all, in order; asked for another
    number, it picks some at random, with replacement.

    Reference: Li, Turner and Liu, "Approximate Inference with Amortised MCMC", 2017, section 2.

    Args:
        z: the particles, one a row.

    Examples:
        >>> import jax, jax.numpy as jnp
        >>> from understudy.students import Particles
        >>> student = Particles(jnp.zeros((5, 2)))
        >>> student.sample(jax.random.key(1), None, 5).shape
        (5, 2)
    """

    z: Float[Array, "m d"]
    dim: int = eqx.field(static=True)

    def __init__(self, z: Float[Array, "m d"]):
        if not is_numeric(z) or z.ndim != 2:
            raise IngredientError(
                f"Particles are an array with one row per particle, shape (n, d); {shown(z)} came."
            )
        self.z = jnp.asarray(z, float)
        whole("the number of particles", self.z.shape[0])
        self.dim = whole("the number of columns of z", self.z.shape[1])

    def sample(self, key: Key, x: Condition, n: int) -> Float[Array, "n d"]:
        """The particles, or ``n`` of them at random."""
        return _choose(key, self.z, n)

    def project(self, lessons: Lesson, rate: Scalar) -> "Particles":
        """Move the share ``rate`` of the way to the improved particles; broken ones stay."""
        after = lessons.after.reshape(-1, self.dim)
        if after.shape != self.z.shape:
            raise IngredientError(
                f"The student has {self.z.shape[0]} particles but {after.shape[0]} improved draws came. "
                f"Set the number of particles of the lesson to {self.z.shape[0]}, with one condition."
            )
        return Particles(_move(self.z, after, lessons.kept.reshape(-1), rate))


class ChainTable(ProjectableStudent):
    """Persistent MCMC: a few chains for every datum, kept in a table and continued when it comes up.

    Conditions are :class:`Indexed`; the draws for a datum are the present states of its chains.

    Reference: Tieleman, "Training Restricted Boltzmann Machines using Approximations to the Likelihood
    Gradient", 2008.

    Args:
        rows: number of data.
        chains: chains per datum.
        dim: size of a draw.
        start: the first states: one number, or an array that broadcasts to (rows, chains, dim).
    """

    z: Float[Array, "rows chains d"]
    dim: int = eqx.field(static=True)

    def __init__(self, rows: int, chains: int, dim: int, start: ArrayLike = 0.0):
        self.dim = dim = whole("dim", dim)
        shape = (whole("rows", rows), whole("chains", chains), dim)
        start = number("start", start)
        try:
            self.z = jnp.broadcast_to(start, shape)
        except ValueError as error:
            raise IngredientError(
                f"start broadcasts to (rows, chains, dim) = {shape}; shape {start.shape} came."
            ) from error

    def sample(self, key: Key, x: Indexed, n: int) -> Float[Array, "n d"]:
        """The states of the chains of one row, or ``n`` of them at random."""
        if not isinstance(x, Indexed):
            raise IngredientError(
                "A table of chains needs conditions that know their row, such as "
                f"Indexed(jnp.arange(rows), data); a {type(x).__name__} came."
            )
        return _choose(key, self.z[x.index], n)

    def project(self, lessons: Lesson, rate: Scalar) -> "ChainTable":
        """Move the chains of the rows met towards their improved states; broken chains stay."""
        chains = self.z.shape[1]
        if lessons.after.shape[-2] != chains:
            raise IngredientError(
                f"The table has {chains} chains a row; {lessons.after.shape[-2]} improved draws came. "
                f"Set the number of particles of the lesson to {chains}."
            )
        index = lessons.x.index
        moved = _move(self.z[index], lessons.after, lessons.kept, rate)
        return eqx.tree_at(lambda table: table.z, self, self.z.at[index].set(moved))


def _choose(key: Key, z: Float[Array, "m d"], n: int) -> Float[Array, "n d"]:
    return z if n == z.shape[0] else jax.random.choice(key, z, (n,))


def _move(old: Array, new: Array, kept: Array, rate: Scalar) -> Array:
    return jnp.where(kept[..., None], old + rate * (new - old), old)
