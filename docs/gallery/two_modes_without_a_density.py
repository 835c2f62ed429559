"""Two modes, by a sampler without a density.

The student is a program: discrete noise picks one of four small networks. Nothing asks it for a density. The
tempered teacher carries draws between the modes, so that their weights are learnt too.
"""

import jax
import optax

import understudy
from understudy.feedbacks import EnergyDistance
from understudy.report import student_against_density
from understudy.students import Gated
from understudy.targets import two_gaussians
from understudy.teachers import Compose, TemperedTransition, mala

target = two_gaussians()
student = Gated(jax.random.key(0), dim=1, branches=4, activation=jax.nn.silu, spread=2.0)
teacher = Compose(TemperedTransition(), mala(0.3, steps=5))
rate = optax.cosine_decay_schedule(5e-3, 5000, 0.02)
settings = {"updates": 5000, "particles": 128, "optimiser": optax.adam(rate), "average": 0.998}
trained = understudy.train(target, student, teacher, EnergyDistance(), **settings)
draws = trained.sample(1, 1_000_000)
print(f"share of the right mode: {float((draws > 0).mean()):.3f}, the truth is 0.5")
picture = student_against_density(draws, target)
