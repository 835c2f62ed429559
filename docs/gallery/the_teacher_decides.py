"""The teacher decides whether weights are learnt.

A local teacher improves every draw within its mode, and says nothing about how much each mode weighs; one tempered
transition before it does. Same student, same feedback, six seeds side by side.
"""

import jax.numpy as jnp
import numpy as np
import optax

import understudy
from understudy.feedbacks import EnergyDistance
from understudy.report.figures import EXACT, STUDENT, blank_panels
from understudy.students import Gated
from understudy.targets import MixtureOfGaussians
from understudy.teachers import Compose, TemperedTransition, mala

target = MixtureOfGaussians(jnp.array([[-3.0], [3.0]]), 1.0, jnp.array([0.3, 0.7]))
teachers = {"local": mala(0.3, steps=5), "tempered": Compose(TemperedTransition(), mala(0.3, steps=5))}
picture, (axes,) = blank_panels(1, (7.2, 2.6))
for height, (name, teacher) in enumerate(teachers.items()):
    trained = understudy.train(
        target,
        lambda key: Gated(key, dim=1, branches=4, activation=jnp.tanh, spread=2.0),
        teacher,
        EnergyDistance(),
        updates=1500,
        repeats=6,
        optimiser=optax.adam(5e-3),
        average=0.998,
    )
    shares = np.asarray((trained.sample(1, 20_000)[..., 0] > 0).mean(1))
    print(f"{name}: shares of the right mode {np.round(np.sort(shares), 2).tolist()}")
    axes.plot(shares, np.full(6, height), "o", color=STUDENT, alpha=0.6)
axes.axvline(0.7, color=EXACT, linewidth=1, label="the truth")
axes.set(
    yticks=[0, 1],
    yticklabels=list(teachers),
    xlabel="share of the right mode",
    ylim=(-0.6, 1.6),
    xlim=(0, 1),
)
axes.legend(frameon=False)
