"""A wrong student is caught.

A Gaussian stands in for a skewed posterior. The check of trust fails it, and says where.
"""

import jax.numpy as jnp

import understudy
from understudy.students import FullGaussian

target = understudy.LogDensity(lambda z: jnp.sum(2 * z - jnp.exp(z)), dim=3)
student = FullGaussian(3, mean=0.42, scale=0.8)
result = understudy.Posterior(target, student)
trust = result.check()
print(trust)
picture = result.plot_trust(trust)
