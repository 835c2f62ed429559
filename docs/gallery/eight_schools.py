"""Eight schools, and nothing to set.

A hierarchical model of NumPyro, fitted without settings. Bars are the student's draws, dashes the prior.
"""

import jax.numpy as jnp
import numpyro
import numpyro.distributions as dist

import understudy


def eight_schools(y, sigma):
    mu = numpyro.sample("mu", dist.Normal(0, 5))
    tau = numpyro.sample("tau", dist.HalfCauchy(5))
    noise = numpyro.sample("noise", dist.Normal(0, 1).expand([8]).to_event(1))
    theta = numpyro.deterministic("theta", mu + tau * noise)
    numpyro.sample("y", dist.Normal(theta, sigma), obs=y)


y = jnp.array([28.0, 8, -3, 7, -1, 1, 18, 12])
sigma = jnp.array([15.0, 10, 16, 11, 9, 11, 10, 18])
result = understudy.fit(understudy.from_numpyro(eight_schools, y, sigma))
print(result)
picture = result.plot_marginals()
