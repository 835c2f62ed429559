"""Spins: a discrete posterior.

An autoregressive student of a three by three Ising model, taught by single flips; all 512 states can be counted.
"""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import optax

import understudy
from understudy.feedbacks import InclusiveKL
from understudy.report.figures import EXACT, STUDENT, blank_panels
from understudy.students import Autoregressive
from understudy.targets import Ising
from understudy.teachers import SingleFlip

target = Ising(3, 3, 0.4)
student = Autoregressive(jax.random.key(0), 9)
trained = understudy.train(
    target,
    student,
    SingleFlip(steps=3),
    InclusiveKL(),
    updates=2000,
    optimiser=optax.adam(3e-3),
    average=0.99,
)
states = jnp.array(list(itertools.product([0.0, 1.0], repeat=9)))
exact = np.asarray(jax.nn.softmax(jax.vmap(target.log_density)(states)))
learnt = np.exp(np.asarray(jax.vmap(trained.student.log_prob)(states)))
print(f"total variation over 512 states: {0.5 * np.abs(exact - learnt).sum():.3f}")
order = np.argsort(-exact)[:40]
picture, (axes,) = blank_panels(1, (7.2, 2.8))
axes.bar(np.arange(40) - 0.2, exact[order], 0.4, color=EXACT, label="exact")
axes.bar(np.arange(40) + 0.2, learnt[order], 0.4, color=STUDENT, label="student")
axes.set(xlabel="the forty likeliest states", ylabel="probability")
axes.legend(frameon=False)
