"""A generative model of pictures.

Images of eight by eight with a bright bar somewhere. The encoder proposes latents, a Hamiltonian teacher improves them, and the
decoder learns from the improved ones. Below: data, and what the model generates.
"""

import jax
import numpy as np
import optax

import understudy
from understudy.feedbacks import ExclusiveKL
from understudy.networks.images import ImageDecoder
from understudy.report.figures import blank_panels
from understudy.students import image_encoder
from understudy.targets import LatentVariableModel
from understudy.teachers import Preconditioned, hmc

bars = np.zeros((500, 8, 8), np.uint8)
bars[np.arange(500), :, np.random.default_rng(0).integers(0, 8, 500)] = 230
first, second = jax.random.split(jax.random.key(0))
trained = understudy.train(
    LatentVariableModel(ImageDecoder(first, 2, (8, 8), (32,), (4, 8)), dim=2),
    image_encoder(second, 2, (8, 8), hidden=(32,), channels=(4, 8)),
    Preconditioned(hmc(0.2, 3, steps=2, target_acceptance=0.8), draws=16, full=False),
    ExclusiveKL(),
    understudy.Binarised(bars / 255, 50),
    updates=800,
    particles=1,
    optimiser=optax.adam(3e-3),
    model_optimiser=optax.adam(3e-3),
)
generated = np.asarray(trained.state.target.generate(jax.random.key(1), 10))
picture, panels = blank_panels(2, (8.4, 2.2), upright=True)
for axes, images, title in zip(panels, (bars[:10] / 255, generated), ("data", "generated"), strict=True):
    axes.imshow(
        np.concatenate([np.pad(image, 1, constant_values=0.5) for image in images], 1), cmap="gray_r"
    )
    axes.set_title(title, loc="left", fontsize=10)
    axes.set_axis_off()
