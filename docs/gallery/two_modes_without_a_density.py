"""Two modes, by a sampler without a density.

The student is a program: discrete noise picks one of four small networks. Nothing asks it for a density. The
tempered teacher carries draws between the modes, so that their weights, 0.8 and 0.2, are learnt too.
"""

import jax
import jax.numpy as jnp
import optax

import understudy
from understudy.feedbacks import EnergyDistance
from understudy.report import student_against_density
from understudy.students import Gated
from understudy.targets import MixtureOfGaussians
from understudy.teachers import Compose, TemperedTransition, mala

target = MixtureOfGaussians(jnp.array([[-3.0], [3.0]]), 1.0, jnp.array([0.2, 0.8]))
student = Gated(jax.random.key(0), dim=1, branches=4, activation=jax.nn.silu, spread=2.0)
teacher = Compose(TemperedTransition(), mala(0.3, steps=5))
rate = optax.cosine_decay_schedule(5e-3, 3000, 0.02)
trained = understudy.train(
    target,
    student,
    teacher,
    EnergyDistance(),
    updates=3000,
    particles=128,
    optimiser=optax.adam(rate),
    average=0.998,
)
draws = trained.sample(1, 1_000_000)
print(f"share of the right mode: {float((draws > 0).mean()):.3f}, the truth is 0.8")
picture = student_against_density(draws, target)
