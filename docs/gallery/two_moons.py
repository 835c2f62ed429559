"""Two moons, by a student without a density.

A gate over six small networks learns by the energy distance between its draws and what a tempered teacher made of them.
"""

import jax
import jax.numpy as jnp
import optax

import understudy
from understudy.feedbacks import EnergyDistance
from understudy.report import draws_beside_exact
from understudy.students import Gated
from understudy.targets import two_moons
from understudy.teachers import Compose, TemperedTransition, mala

target = two_moons()
student = Gated(jax.random.key(0), dim=2, branches=6, hidden=(32, 32), activation=jnp.tanh, spread=2.0)
teacher = Compose(TemperedTransition(hottest=0.02), mala(0.02, steps=5))
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
draws, exact = trained.sample(1, 10_000), target.sample(jax.random.key(2), 10_000)
print("share above zero:", round(float((draws[:, 0] > 0).mean()), 3))
picture = draws_beside_exact(draws, exact)
