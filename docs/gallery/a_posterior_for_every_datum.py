"""A posterior for every datum.

One student for all observations: a flow that takes x. The model is z ~ N(0, 1), x = z + z^3 / 5 + noise, so that the truth can be
worked out on a grid.
"""

import jax
import jax.numpy as jnp
import numpy as np
import optax

import understudy
from understudy.feedbacks import InclusiveKL
from understudy.report.figures import EXACT, STUDENT, blank_panels
from understudy.students import coupling_flow
from understudy.teachers import hmc


def curve(z):
    return z + z**3 / 5


def log_density(z, x):
    return -0.5 * jnp.sum(z**2) - 0.5 * jnp.sum(((x - curve(z)) / 0.5) ** 2)


def simulate(key):
    first, second = jax.random.split(key)
    z = jax.random.normal(first, (64, 2))
    return curve(z) + 0.5 * jax.random.normal(second, (64, 2))


target = understudy.LogDensity(log_density, dim=2, conditional=True)
student = coupling_flow(jax.random.key(0), 2, condition=jnp.zeros(2))
rate = optax.cosine_decay_schedule(3e-3, 2000, 0.02)
trained = understudy.train(
    target,
    student,
    hmc(0.2, leapfrogs=5, steps=2),
    InclusiveKL(),
    simulate,
    updates=2000,
    particles=8,
    optimiser=optax.adam(rate),
)
grid = np.linspace(-4, 4, 801)
picture, panels = blank_panels(3, (8.4, 2.8))
for axes, value in zip(panels, (-2.0, 0.0, 3.0), strict=True):
    draws = np.asarray(trained.sample(1, 20_000, x=jnp.array([value, 0.0])))[:, 0]
    exact = np.exp(-0.5 * grid**2 - 0.5 * ((value - curve(grid)) / 0.5) ** 2)
    exact /= np.trapezoid(exact, grid)
    print(f"x = {value}: mean {draws.mean():.3f}, exact {np.trapezoid(exact * grid, grid):.3f}")
    axes.hist(draws, 60, density=True, color=STUDENT, alpha=0.5)
    axes.plot(grid, exact, color=EXACT)
    axes.set(title=f"x = {value}", xlabel="z", xlim=(-3, 3))
