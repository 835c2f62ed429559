"""Students of :func:`tests.amortising.models.gaussian` that are right, or wrong in a known way."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.scipy.stats import norm

from understudy.core import ExplicitStudent


class Exact(ExplicitStudent):
    """The posterior of a mean with prior N(0, 1) given two numbers; with a fault if one is asked for."""

    shift: jax.Array
    width: jax.Array
    column: int | None = eqx.field(static=True)
    dim: int = eqx.field(static=True, default=1)

    def __init__(self, shift=0.0, width=1.0, column=None):
        self.shift, self.width, self.column = jnp.asarray(shift), jnp.asarray(width), column

    def _moments(self, x):
        seen = x.values["x"] if self.column is None else x.values["x"][self.column][None]
        precision = 1 + seen.size
        deviation = precision**-0.5
        return seen.sum() / precision + self.shift * deviation, self.width * deviation

    def summarise(self, x):
        return x.values["x"]

    def sample(self, key, x, n):
        return self.sample_and_log_prob(key, x, n)[0]

    def sample_and_log_prob(self, key, x, n):
        mean, deviation = self._moments(x)
        z = mean + deviation * jax.random.normal(key, (n, 1))
        return z, norm.logpdf(z, mean, deviation).sum(-1)

    def log_prob(self, z, x=None):
        return norm.logpdf(z, *self._moments(x)).sum()
