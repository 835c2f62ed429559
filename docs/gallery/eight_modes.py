"""Eight modes in a ring.

A gate over eight small networks learns eight Gaussians and their weights from a tempered teacher.
"""

import jax
import jax.numpy as jnp
import optax

import understudy
from understudy.evaluation import mode_report
from understudy.feedbacks import EnergyDistance
from understudy.report import draws_beside_exact
from understudy.students import Gated
from understudy.targets import eight_gaussians
from understudy.teachers import Compose, TemperedTransition, mala

target = eight_gaussians()
student = Gated(jax.random.key(0), dim=2, branches=8, activation=jnp.tanh, spread=4.0)
teacher = Compose(TemperedTransition(rungs=10, hottest=0.02, step_size=2.0), mala(0.05, steps=5))
rate = optax.cosine_decay_schedule(5e-3, 2000, 0.02)
trained = understudy.train(
    target,
    student,
    teacher,
    EnergyDistance(),
    updates=2000,
    particles=128,
    optimiser=optax.adam(rate),
    average=0.998,
)
draws, exact = trained.sample(1, 20_000), target.sample(jax.random.key(2), 20_000)
report = mode_report(draws, target.means)
print("weights of the modes, 0.125 each in truth:", report.weights.round(3).tolist())
picture = draws_beside_exact(draws, exact)
