"""MCMC itself is a choice of ingredients.

Particles that copy what the teacher made of them are Markov chains: 500 Hamiltonian chains on a ring.
"""

import jax
import numpy as np

from understudy import methods
from understudy.report import draws_beside_exact
from understudy.targets import Ring
from understudy.teachers import hmc

target = Ring()
start = jax.random.normal(jax.random.key(0), (500, 2))
chains = methods.mcmc(target, start, hmc(0.2, leapfrogs=8, target_acceptance=0.8), updates=400)
draws = np.asarray(chains.student.z)
exact = np.asarray(target.sample(jax.random.key(1), 500))
radius = np.linalg.norm(draws, axis=1)
print(
    f"radius {radius.mean():.2f} +- {radius.std():.2f}; exact {np.linalg.norm(exact, axis=1).mean():.2f}"
)
picture = draws_beside_exact(draws, exact, "chains")
