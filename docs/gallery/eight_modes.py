"""Eight modes in a ring.

A gate over sixteen small networks, without a density, learns eight Gaussians and their weights from a tempered teacher.
"""

import jax
import optax

import understudy
from understudy.evaluation import mode_report
from understudy.feedbacks import EnergyDistance
from understudy.report import draws_beside_exact
from understudy.students import Gated
from understudy.targets import eight_gaussians
from understudy.teachers import Compose, TemperedTransition, mala

target = eight_gaussians()
student = Gated(jax.random.key(0), dim=2, branches=16, spread=3.0)
teacher = Compose(TemperedTransition(target_acceptance=0.4), mala(0.1, steps=4, target_acceptance=0.6))
rate = optax.cosine_decay_schedule(5e-3, 2000, 0.02)
settings = {"updates": 2000, "particles": 128, "optimiser": optax.adam(rate), "average": 0.998}
trained = understudy.train(target, student, teacher, EnergyDistance(), **settings)
draws, exact = trained.sample(1, 20_000), target.sample(jax.random.key(2), 20_000)
weights = mode_report(draws, target.means).weights.tolist()
print("weights of the modes, 0.125 each in truth:", [round(weight, 3) for weight in weights])
picture = draws_beside_exact(draws, exact)
