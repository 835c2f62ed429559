"""Latent-variable models: a decoder turns a Gaussian z into the parameters of an observation x."""

from collections.abc import Callable
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.scipy.stats import norm
from jaxtyping import Array, ArrayLike, Bool, Float, Scalar

from understudy.checks import function, instance, one_of, positive, whole
from understudy.core import (
    Condition,
    IngredientError,
    Key,
    Student,
    Target,
    Teacher,
    bind,
    prepared,
)


class LatentVariableModel(Target):
    """log p_theta(x, z) = log N(z; 0, I) + log p(x | decoder(z)), where theta learns with the student.

    Every floating-point array of the decoder is part of theta, and so is the noise of a Gaussian
    likelihood. To hold something fixed, wrap it with ``paramax.non_trainable``.

    Reference: Kingma and Welling, "Auto-Encoding Variational Bayes", 2014; Li, Turner and Liu, 2017,
    section 3.3 (learning theta from the teacher's draws).

    Args:
        decoder: a module from one latent vector to an array of the shape of x: the logits of binary
            values, or the means of real ones.
        dim: size of the latent vector.
        likelihood: "bernoulli" (x is 0 or 1; numbers between count as shares) or "gaussian".
        noise: where the standard deviation of a Gaussian likelihood starts.

    Examples:
        >>> import jax
        >>> from understudy.networks import Perceptron
        >>> from understudy.targets import LatentVariableModel
        >>> model = LatentVariableModel(Perceptron(jax.random.key(0), [2, 16, 10]), dim=2)
        >>> model.generate(jax.random.key(1), 4).shape
        (4, 10)
    """

    decoder: Callable[[Float[Array, " d"]], Float[Array, "..."]]
    log_noise: Float[Array, ""] | None
    dim: int = eqx.field(static=True)
    likelihood: str = eqx.field(static=True)

    def __init__(
        self,
        decoder: Callable[[Float[Array, " d"]], Float[Array, "..."]],
        dim: int,
        likelihood: str = "bernoulli",
        noise: ArrayLike = 1.0,
    ):
        self.decoder = function("decoder", decoder)
        self.dim = dim = whole("dim", dim)
        self.likelihood = one_of("likelihood", ("bernoulli", "gaussian"), likelihood)
        start = jnp.log(positive("noise", noise))
        self.log_noise = start if likelihood == "gaussian" else None

    def log_density(self, z: Float[Array, " d"], x: Condition = None) -> Scalar:
        """Log prior plus log likelihood."""
        return norm.logpdf(z).sum() + self.log_likelihood(z, x)

    def log_likelihood(
        self, z: Float[Array, " d"], x: Float[Array, "..."], observed: ArrayLike = True
    ) -> Scalar:
        """Log p(x | z, theta), a sum over the entries of x, or over those that are observed."""
        output = self.decoder(z)
        if output.shape != x.shape:
            raise IngredientError(
                f"The decoder gives an array of the shape of x, {x.shape}; shape {output.shape} came."
            )
        if self.log_noise is None:
            return jnp.sum(x * output - jax.nn.softplus(output), where=observed)
        return norm.logpdf(x, output, jnp.exp(self.log_noise)).sum(where=observed)

    def prepared(self) -> "LatentVariableModel":
        """The same with its decoder prepared."""
        return eqx.tree_at(lambda m: m.decoder, self, prepared(self.decoder))

    def mean(self, z: Float[Array, " d"]) -> Float[Array, "..."]:
        """The mean of x given one latent vector."""
        output = self.decoder(z)
        return jax.nn.sigmoid(output) if self.log_noise is None else output

    def observe(self, key: Key, z: Float[Array, " d"]) -> Float[Array, "..."]:
        """Draw x given one latent vector."""
        mean = self.mean(z)
        if self.log_noise is None:
            return jax.random.bernoulli(key, mean).astype(mean.dtype)
        return mean + jnp.exp(self.log_noise) * jax.random.normal(key, mean.shape)

    def simulate(self, key: Key, n: int) -> tuple[Float[Array, "n d"], Float[Array, "n ..."]]:
        """Draw ``n`` pairs of latent vector and observation: z is an exact draw from p(z | x)."""
        first, second = jax.random.split(key)
        z = jax.random.normal(first, (n, self.dim))
        return z, jax.vmap(self.observe)(jax.random.split(second, n), z)

    def generate(self, key: Key, n: int) -> Float[Array, "n ..."]:
        """The means of x at ``n`` latent vectors of the prior: smooth pictures, say."""
        return jax.vmap(self.mean)(jax.random.normal(key, (n, self.dim)))

    def reconstruct(
        self, key: Key, student: Student, x: Float[Array, "..."], n: int = 1
    ) -> Float[Array, "..."]:
        """The mean of x over ``n`` of the student's draws for it."""
        return jax.vmap(self.mean)(student.sample(key, x, n)).mean(0)

    def impute(
        self,
        key: Key,
        student: Student,
        x: Float[Array, "..."],
        missing: ArrayLike,
        steps: int = 100,
        teacher: Teacher | None = None,
        power: ArrayLike = 1.0,
    ) -> Float[Array, "steps ..."]:
        """Fill in what is missing of one x by approximate Gibbs sampling; x after every step.

        A step draws z from the student given x as it is filled in now, then the missing part of x given
        z. What stands in the missing part of ``x`` is where it starts.

        Reference: Rezende, Mohamed and Wierstra, "Stochastic Backpropagation and Approximate Inference
        in Deep Generative Models", 2014.

        Args:
            key: random key.
            student: draws z given x; one with batch normalisation must be settled.
            x: the observation.
            missing: True where x is not known, of the shape of x.
            steps: how many.
            teacher: improves every z given what is observed of x, which brings the draws nearer to
                those of p(z | observed) itself: the entries of x are independent given z, so the
                missing ones drop out.
            power: of the likelihood of what is observed, as the teacher sees it. Below 1 answers are
                more diverse and agree less with what is observed.
        """
        missing = jnp.asarray(missing, bool)
        if missing.shape != x.shape:
            raise IngredientError(
                f"missing says which entries of x are, so has its shape {x.shape}; "
                f"shape {missing.shape} came."
            )

        ready = self.prepared()

        def given_observed(z):
            return norm.logpdf(z).sum() + power * ready.log_likelihood(z, x, ~missing)

        def step(x, key):
            draw, improve, observe = jax.random.split(key, 3)
            z = student.sample(draw, x, 1)
            if teacher is not None:
                z = teacher.improve(improve, given_observed, z, bind(student, x)).z
            x = jnp.where(missing, self.observe(observe, z[0]), x)
            return x, x

        return jax.lax.scan(step, x, jax.random.split(key, whole("steps", steps)))[1]


class PartlyObserved(NamedTuple):
    """One observation and which of its entries are known.

    Attributes:
        value: the observation; what stands in its unknown entries does not matter.
        observed: True where an entry is known, of the shape of ``value``.
    """

    value: Float[Array, "..."]
    observed: Bool[Array, "..."]


class OfObserved(Target):
    """A latent-variable model given a part of each observation, a condition :class:`PartlyObserved`.

    The entries of x are independent given z, so the unknown ones drop out of log p(x, z). The evidence
    of the whole less that of the part is log p(unknown | known): how well a model imputes.

    Args:
        model: of whole observations.

    Examples:
        >>> import jax, jax.numpy as jnp
        >>> from understudy.networks import Perceptron
        >>> from understudy.targets import LatentVariableModel, OfObserved, PartlyObserved
        >>> model = LatentVariableModel(Perceptron(jax.random.key(0), [2, 16, 10]), dim=2)
        >>> z, half = jnp.zeros(2), PartlyObserved(jnp.ones(10), jnp.arange(10) < 5)
        >>> bool(OfObserved(model).log_density(z, half) > model.log_density(z, half.value))
        True
    """

    model: LatentVariableModel
    dim: int = eqx.field(static=True)

    def __init__(self, model: LatentVariableModel):
        self.model = instance("model", LatentVariableModel, "LatentVariableModel(decoder, dim)", model)
        self.dim = model.dim

    def log_density(self, z: Float[Array, " d"], x: PartlyObserved) -> Scalar:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Log prior plus the log likelihood of what is observed."""
        return norm.logpdf(z).sum() + self.model.log_likelihood(z, x.value, x.observed)

    def prepared(self) -> "OfObserved":
        """The same with its decoder prepared."""
        return OfObserved(self.model.prepared())
