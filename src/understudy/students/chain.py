"""A few differentiable steps of a Markov chain as a student."""

from typing import Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import paramax
from jaxtyping import Array, ArrayLike, Float

from understudy.checks import instance, one_of, positive, vector, whole
from understudy.core import BoundLogDensity, Condition, IngredientError, Key, Student, Target, follow


class TruncatedChain(Student):
    """Draws of another student moved by a few learnt steps towards the target.

    With M = diag(exp(log_preconditioner)) and one step size eps_t for each step, "langevin" steps are
    z' = z + eps_t M grad log p(z) + sqrt(2 eps_t M) noise; "leapfrog" steps follow Hamilton's equations
    from one random momentum N(0, M^-1). There is no accept test, so draws are differentiable in the step
    sizes, the preconditioner and the base student. The target inside is never moved by the student's
    loss; where theta learns, the chain follows it.

    Reference: Li, Turner and Liu, "Approximate Inference with Amortised MCMC", 2017, example 2.

    Args:
        base: the student whose draws are moved.
        target: what the steps move them towards.
        steps: number of steps.
        step_size: start of every step size.
        kind: "langevin" or "leapfrog".

    Examples:
        >>> import jax
        >>> from understudy.students import DiagonalGaussian, TruncatedChain
        >>> from understudy.targets import banana
        >>> student = TruncatedChain(DiagonalGaussian(2), banana(), steps=3)
        >>> student.sample(jax.random.key(1), None, 5).shape
        (5, 2)
    """

    base: Student
    target: Target
    log_step_sizes: Float[Array, " steps"]
    log_preconditioner: Float[Array, " d"]
    kind: Literal["langevin", "leapfrog"] = eqx.field(static=True)
    dim: int = eqx.field(static=True)

    def __init__(
        self,
        base: Student,
        target: Target,
        steps: int,
        step_size: ArrayLike = 0.1,
        kind: Literal["langevin", "leapfrog"] = "langevin",
    ):
        instance("base", Student, "DiagonalGaussian(2)", base)
        instance("target", Target, "LogDensity(function, 2)", target)
        if base.dim != target.dim:
            raise IngredientError(
                f"The base student and the target have the same dim; {base.dim} and {target.dim} came."
            )
        self.base, self.target = base, paramax.non_trainable(target)
        step_sizes = vector("step_size", positive("step_size", step_size), whole("steps", steps))
        self.log_step_sizes = jnp.log(step_sizes)
        self.log_preconditioner = jnp.zeros(base.dim)
        self.kind, self.dim = one_of("kind", _RUNS, kind), base.dim

    def following(self, target: Target) -> "TruncatedChain":
        """The same chain towards the target as it is now; a chain towards another one stays as it is."""
        chain = eqx.tree_at(lambda c: c.base, self, follow(self.base, target))
        held = paramax.unwrap(self.target)
        if jax.tree.structure(held) != jax.tree.structure(paramax.unwrap(target)):
            return chain
        return eqx.tree_at(lambda c: c.target, chain, paramax.non_trainable(target))

    def sample(self, key: Key, x: Condition, n: int) -> Float[Array, "n d"]:
        """Draw from the base student and run the chain."""
        base_key, chain_key = jax.random.split(key)
        target = paramax.unwrap(self.target)
        run = _RUNS[self.kind]

        def one(key: Key, z: Float[Array, " d"]) -> Float[Array, " d"]:
            scales = jnp.exp(self.log_step_sizes), jnp.exp(self.log_preconditioner)
            return run(key, lambda point: target.log_density(point, x), z, *scales)

        return jax.vmap(one)(jax.random.split(chain_key, n), self.base.sample(base_key, x, n))


def _langevin(key, log_density: BoundLogDensity, z, step_sizes, preconditioner):
    def step(z, inputs):
        size, noise = inputs
        drift = size * preconditioner * jax.grad(log_density)(z)
        return z + drift + jnp.sqrt(2 * size * preconditioner) * noise, None

    noises = jax.random.normal(key, (step_sizes.size, z.size))
    return jax.lax.scan(step, z, (step_sizes, noises))[0]


def _leapfrog(key, log_density: BoundLogDensity, z, step_sizes, preconditioner):
    gradient = jax.grad(log_density)

    def step(state, size):
        z, momentum, slope = state
        momentum = momentum + size / 2 * slope
        z = z + size * preconditioner * momentum
        slope = gradient(z)
        return (z, momentum + size / 2 * slope, slope), None

    momentum = jax.random.normal(key, z.shape) / jnp.sqrt(preconditioner)
    return jax.lax.scan(step, (z, momentum, gradient(z)), step_sizes)[0][0]


_RUNS = {"langevin": _langevin, "leapfrog": _leapfrog}
