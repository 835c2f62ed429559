"""How far the teacher moves decides what is learnt.

A Gaussian without correlations stands in for one with 0.9. With tiny moves every feedback behaves as the exclusive KL, and
the student is too narrow; with long ones as the inclusive KL, and its margins are right.
"""

import jax.numpy as jnp
import numpy as np
import optax

import understudy
from understudy.feedbacks import InclusiveKL
from understudy.report.figures import EXACT, QUIET, STUDENT, blank_panels
from understudy.students import DiagonalGaussian
from understudy.teachers import mala

precision = jnp.linalg.inv(jnp.array([[1.0, 0.9], [0.9, 1.0]]))
target = understudy.LogDensity(lambda z: -0.5 * z @ precision @ z, dim=2)
steps = [1, 4, 16, 64]
variances = []
for count in steps:
    trained = understudy.train(
        target,
        DiagonalGaussian(2),
        mala(0.02, steps=count),
        InclusiveKL(),
        updates=600,
        optimiser=optax.adam(optax.cosine_decay_schedule(2e-2, 600, 0.05)),
        average=0.99,
    )
    variances.append(float(np.asarray(trained.sample(1, 20_000)).var(0).mean()))
print({count: round(variance, 2) for count, variance in zip(steps, variances, strict=True)})
picture, (axes,) = blank_panels(1, (7.2, 2.8))
axes.plot(steps, variances, "o-", color=STUDENT, label="student")
axes.axhline(1, color=EXACT, linewidth=1, label="inclusive KL: 1")
axes.axhline(0.19, color=QUIET, linewidth=1, label="exclusive KL: 0.19")
axes.set(xscale="log", xlabel="MALA steps of size 0.02 in a lesson", ylabel="variance of a margin")
axes.legend(frameon=False)
