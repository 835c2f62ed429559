"""What reaches the lesson from a teacher."""

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.stats import norm

from understudy import LogDensity
from understudy.students import DiagonalGaussian
from understudy.teachers import Annealed, mala
from understudy.training.lesson import Classroom

KEY = jax.random.key(0)


def test_weights_of_an_annealed_teacher_reach_the_lesson():
    target = LogDensity(lambda z: norm.logpdf(z, 1.0, 0.7).sum(), 1)
    student, teacher = DiagonalGaussian(1, scale=2.0), Annealed(mala(1e-4), rungs=1)
    classroom = Classroom(jnp.ones(()), 4000, "paired")
    lessons, _ = jax.jit(lambda key: classroom.teach(key, target, student, student, teacher))(KEY)
    expected = norm.pdf(lessons.before, 1.0, 0.7) / norm.pdf(lessons.before, 0.0, 2.0)
    expected = expected[0, :, 0] / expected.sum()
    np.testing.assert_allclose(lessons.weights[0], expected, rtol=0.01, atol=1e-6)
    assert abs(float(lessons.weights[0] @ lessons.after[0, :, 0]) - 1) < 0.1
