"""A NumPyro model whose posterior is a Gaussian in closed form, and posteriors around it."""

import jax.numpy as jnp
import numpy as np
import numpyro
from numpyro import distributions as dist

from understudy.posterior import Posterior, Stage
from understudy.students import FullGaussian
from understudy.targets.numpyro import from_numpyro

Y = np.array([[1.0, -0.5], [0.2, 0.4], [1.5, -1.0], [0.7, 0.1], [0.9, 0.3]], np.float32)
MEAN, SD = Y.sum(0) / 6, 1 / np.sqrt(6)
STAGES = (
    Stage("region", "3 starts", 0.5, 1.0, 1000, 0.4),
    Stage("flow", "x", 2.5, 3.0, 500, 0.9, True, 7),
)


def conjugate(y):
    mu = numpyro.sample("mu", dist.Normal(0, 1).expand([2]).to_event(1))
    numpyro.deterministic("both", jnp.stack([mu.sum(), (mu * y[0]).sum()]))
    numpyro.sample("y", dist.Normal(mu, 1), obs=y)


def scaled(y, width=3.0):
    size = numpyro.sample("size", dist.HalfNormal(width))
    numpyro.sample("y", dist.Normal(0, size), obs=y)


def posterior(shift=0.0, stretch=1.0, **given):
    target = from_numpyro(conjugate, y=jnp.asarray(Y))
    student = FullGaussian(2, jnp.asarray(MEAN + shift), jnp.asarray(stretch * SD * np.eye(2)))
    return Posterior(target, student, **{"stages": STAGES, **given})
