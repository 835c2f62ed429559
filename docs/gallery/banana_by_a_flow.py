"""A banana, by a flow.

A coupling flow learns by the inclusive KL from Hamiltonian moves and independence moves with itself as proposal.
"""

import jax
import optax

import understudy
from understudy.evaluation import sliced_wasserstein
from understudy.feedbacks import InclusiveKL
from understudy.report import draws_beside_exact
from understudy.students import coupling_flow
from understudy.targets import banana
from understudy.teachers import Compose, IndependenceMetropolis, hmc

target = banana()
student = coupling_flow(jax.random.key(0), 2)
teacher = Compose(hmc(0.3, leapfrogs=5), IndependenceMetropolis())
rate = optax.cosine_decay_schedule(3e-3, 1500, 0.02)
trained = understudy.train(
    target, student, teacher, InclusiveKL(), updates=1500, optimiser=optax.adam(rate)
)
draws, exact = trained.sample(1, 10_000), target.sample(jax.random.key(2), 10_000)
print(f"sliced W1 to exact draws: {float(sliced_wasserstein(jax.random.key(3), draws, exact)):.3f}")
picture = draws_beside_exact(draws, exact, "flow")
