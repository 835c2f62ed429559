"""Eight modes in a ring.

Thirty-two Gaussians learn eight modes and their weights. A tempered transition finds the modes, independence moves with the
student itself as proposal settle their weights.
"""

import jax
import optax

import understudy
from understudy.evaluation import mode_report
from understudy.feedbacks import InclusiveKL
from understudy.report import draws_beside_exact
from understudy.students import GaussianMixture
from understudy.targets import eight_gaussians
from understudy.teachers import Compose, IndependenceMetropolis, TemperedTransition, mala

target = eight_gaussians()
student = GaussianMixture(jax.random.key(0), dim=2, components=32, spread=4.0)
teacher = Compose(TemperedTransition(), mala(0.1, steps=4), IndependenceMetropolis(steps=4))
rate = optax.cosine_decay_schedule(0.03, 1000, 0.02)
settings = {"updates": 1000, "particles": 128, "optimiser": optax.adam(rate), "average": 0.99}
trained = understudy.train(target, student, teacher, InclusiveKL(), **settings)
draws, exact = trained.sample(1, 20_000), target.sample(jax.random.key(2), 20_000)
weights = mode_report(draws, target.means).weights.tolist()
print("weights of the modes, 0.125 each in truth:", [round(weight, 3) for weight in weights])
picture = draws_beside_exact(draws, exact)
