"""Two moons, by a mixture.

Sixty-four small Gaussians learn two moons by the inclusive KL. Independence moves with the student itself as proposal carry draws
from one moon to the other.
"""

import jax
import optax

import understudy
from understudy.evaluation import sliced_wasserstein
from understudy.feedbacks import InclusiveKL
from understudy.report import draws_beside_exact
from understudy.students import GaussianMixture
from understudy.targets import two_moons
from understudy.teachers import Compose, IndependenceMetropolis, mala

target = two_moons()
student = GaussianMixture(jax.random.key(0), dim=2, components=64, spread=4.0)
teacher = Compose(mala(0.1, steps=4, target_acceptance=0.6), IndependenceMetropolis(steps=4))
rate = optax.cosine_decay_schedule(0.03, 1500, 0.02)
settings = {"updates": 1500, "particles": 128, "optimiser": optax.adam(rate), "average": 0.998}
trained = understudy.train(target, student, teacher, InclusiveKL(), **settings)
draws, exact = trained.sample(1, 10_000), target.sample(jax.random.key(2), 10_000)
print(f"sliced W1 to exact draws: {float(sliced_wasserstein(jax.random.key(3), draws, exact)):.3f}")
print(f"share of the right half: {float((draws[:, 0] > 0).mean()):.3f}, the truth is 0.5")
picture = draws_beside_exact(draws, exact)
