from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from understudy import LogDensity
from understudy.core import Condition, Student, Target
from understudy.feedbacks import (
    AdversarialELBO,
    EnergyDistance,
    ExclusiveKL,
    InclusiveKL,
    JensenShannon,
    SemiImplicitKL,
)
from understudy.students import DiagonalGaussian, FullGaussian, GaussianEncoder, Implicit, semi_implicit
from understudy.teachers import Identity, Langevin, hmc, mala
from understudy.training.update import Learner

KEY = jax.random.key(0)


def scan(learner, state, x=None, updates=100):
    arrays, rest = eqx.partition(state, eqx.is_array)

    @jax.jit
    def run(arrays):
        def body(arrays, key):
            state, info = learner.update(key, eqx.combine(arrays, rest), x)
            return eqx.filter(state, eqx.is_array), info

        return jax.lax.scan(body, arrays, jax.random.split(KEY, updates))

    arrays, info = run(arrays)
    return eqx.combine(arrays, rest), info


@eqx.filter_jit
def update(learner, state):
    return learner.update(KEY, state)


@eqx.filter_jit
def teach(learner, target, student, teacher):
    return learner.classroom.teach(KEY, target, student, student, teacher)


def test_a_full_gaussian_learns_a_correlated_gaussian():
    covariance = jnp.array([[1.0, 0.8], [0.8, 2.0]])
    precision = jnp.linalg.inv(covariance)
    target = LogDensity(lambda z: -(z - 1) @ precision @ (z - 1) / 2, 2)
    learner = Learner(InclusiveKL(), particles=32, optimiser=optax.adam(2e-2), average=0.99)
    state = learner.init(KEY, target, FullGaussian(2), hmc(0.5, leapfrogs=3, steps=2))
    state, _ = scan(learner, state, updates=1500)
    z = state.average.sample(KEY, None, 100_000)
    np.testing.assert_allclose(z.mean(0), [1.0, 1.0], atol=0.08)
    np.testing.assert_allclose(jnp.cov(z.T), covariance, atol=0.15)


class Shifted(Target):
    """z ~ N(0, 1), x | z ~ N(z + theta, 1): the maximum-likelihood theta is the mean of x."""

    theta: jax.Array
    dim: int = 1

    def log_density(self, z, x: Condition = None):
        return -(z @ z) / 2 - ((x - z - self.theta) ** 2).sum() / 2


def linear_encoder(dim):
    return GaussianEncoder(eqx.nn.Linear(1, 2 * dim, key=KEY), dim)


def test_the_model_learns_its_maximum_likelihood_parameter():
    x = 3.0 + jax.random.normal(KEY, (64, 1)) * 2**0.5
    learner = Learner(
        InclusiveKL(), particles=4, model_optimiser=optax.adam(3e-2), optimiser=optax.adam(1e-2)
    )
    state = learner.init(KEY, Shifted(jnp.zeros(1)), linear_encoder(1), mala(0.3, steps=5), x)
    state, info = scan(learner, state, x, updates=800)
    np.testing.assert_allclose(state.target.theta[0], x.mean(), atol=0.1)
    assert info.model_loss[-100:].mean() < info.model_loss[:10].mean()


FREE_ENERGIES = {
    "path": (ExclusiveKL(), FullGaussian(1)),
    "reparameterised": (ExclusiveKL("reparameterised"), FullGaussian(1)),
    "score": (ExclusiveKL("score"), FullGaussian(1)),
    "semi-implicit": (SemiImplicitKL(), semi_implicit(KEY, 1)),
    "adversarial": (AdversarialELBO(), Implicit(KEY, 1)),
}


@pytest.mark.parametrize("name", FREE_ENERGIES)
def test_one_gradient_teaches_student_and_model_as_two_do(name, monkeypatch):
    feedback, student = FREE_ENERGIES[name]
    x = 3.0 + jax.random.normal(KEY, (8, 1))
    settings = {"optimiser": optax.adam(1e-2), "model_optimiser": optax.adam(1e-2), "model_every": 2}

    def learn():
        learner = Learner(feedback, particles=4, **settings)
        state = learner.init(KEY, Shifted(jnp.zeros(())), student, Identity(), x)
        assert learner._shares_gradient(state) == (feedback.is_free_energy and not Identity.moves)
        return scan(learner, state, x, updates=10)

    together, info = learn()
    monkeypatch.setattr(Identity, "moves", True)
    apart, _ = learn()
    assert together.target.theta != 0
    assert bool((info.model_loss == info.loss).all()) == feedback.is_free_energy
    learnt = [eqx.filter((s.student, s.target), eqx.is_inexact_array) for s in (together, apart)]
    jax.tree.map(partial(np.testing.assert_allclose, rtol=2e-4, atol=1e-6), *learnt)


def test_model_every_holds_theta_between_its_steps():
    x = jnp.ones((2, 1))
    learner = Learner(InclusiveKL(), particles=4, model_optimiser=optax.sgd(0.1), model_every=3)
    state = learner.init(KEY, Shifted(jnp.zeros(1)), linear_encoder(1), mala(0.3), x)
    update_with_data = eqx.filter_jit(lambda state: learner.update(KEY, state, x))
    thetas = []
    for _ in range(6):
        state, _ = update_with_data(state)
        thetas.append(float(state.target.theta[0]))
    assert thetas[0] == thetas[1] == 0.0 != thetas[2]
    assert thetas[2] == thetas[3] == thetas[4] != thetas[5]


def test_chains_that_are_not_finite_stay_out_of_the_lesson():
    target = LogDensity(lambda z: jnp.where(z[0] > 0, -(z @ z) / 2, jnp.nan), 1)
    learner = Learner(InclusiveKL(), particles=200)
    state = learner.init(KEY, target, DiagonalGaussian(1), mala(0.1))
    lessons, movement = teach(learner, target, state.student, state.teacher)
    assert 0.3 < movement.lost < 0.7
    assert (lessons.after[lessons.kept] > 0).all()
    np.testing.assert_allclose(lessons.weights.sum(), 1.0, rtol=1e-5)
    assert (lessons.weights[~lessons.kept] == 0).all()
    state, info = update(learner, state)
    assert np.isfinite(info.loss)
    assert info.skipped.sum() == 0


def test_a_gradient_that_is_not_finite_changes_nothing():
    target = LogDensity(lambda z: -(z @ z) / 2, 1)
    learner = Learner(EnergyDistance(), particles=8)
    student = eqx.tree_at(lambda s: s.mean, DiagonalGaussian(1), jnp.array([jnp.nan]))
    state = learner.init(KEY, target, student, Langevin(0.1))
    after, info = update(learner, state)
    assert info.lost == 1
    before, now = (eqx.filter(s.memory["student"], eqx.is_inexact_array) for s in (state, after))
    assert eqx.tree_equal(before, now) or info.skipped[0] == 0
    assert bool(eqx.tree_equal(after.student.log_scale, state.student.log_scale))


def test_a_nan_in_one_loss_skips_that_step_and_names_its_stage():
    target = LogDensity(lambda z: -(z @ z) / 2, 1)
    learner = Learner(EnergyDistance(), particles=8, optimiser=optax.adam(1e-3))
    state = learner.init(KEY, target, Explosive(jnp.ones(())), mala(0.1))
    after, info = update(learner, state)
    assert info.skipped.tolist() == [1.0, 0.0, 0.0]
    assert float(after.student.scale) == 1.0


class Explosive(Student):
    """Finite draws whose gradient is not: the square root at zero."""

    scale: jax.Array
    dim: int = 1

    def sample(self, key, x, n):
        noise = jax.random.normal(key, (n, 1))
        return self.scale * noise + jnp.sqrt(self.scale - self.scale)


def test_a_changed_step_size_does_not_compile_again():
    traces = []

    def log_density(z):
        traces.append(1)
        return -(z @ z) / 2

    learner = Learner(InclusiveKL(), particles=4)
    state = learner.init(KEY, LogDensity(log_density, 2), DiagonalGaussian(2), mala(0.1, steps=2))
    update_again = eqx.filter_jit(lambda state: learner.update(KEY, state))
    update_again(state)
    first = len(traces)
    for size, steps in ((0.2, 3), (0.5, 7)):
        update_again(eqx.tree_at(lambda s: s.teacher, state, mala(size, steps=steps)))
    assert len(traces) == first


def test_repeats_under_vmap_equal_trainings_alone():
    target = LogDensity(lambda z: -(z @ z) / 2, 1)
    learner = Learner(JensenShannon(), particles=6)
    keys = jax.random.split(KEY, 3)

    def train(key):
        state = learner.init(key, target, Implicit(key, 1), mala(0.5, steps=2, target_acceptance=0.6))
        state, _ = learner.update(key, state)
        state, info = learner.update(jax.random.fold_in(key, 1), state)
        return (
            eqx.filter(state.student, eqx.is_array),
            info.acceptance,
            state.teacher.parameters["step_size"],
        )

    together = jax.jit(jax.vmap(train))(keys)
    train = jax.jit(train)
    alone = [train(key) for key in keys]
    for i, one in enumerate(alone):
        jax.tree.map(
            lambda a, b: np.testing.assert_allclose(a[i], b, rtol=1e-4, atol=1e-6), together, one
        )
    assert len(set(np.asarray(together[2]).tolist())) == 3


def test_persistent_chains_go_on_where_they_were():
    target = LogDensity(lambda z: -((z - 5) @ (z - 5)) / 2, 1)
    frozen = optax.sgd(0.0)
    for refresh, expected in ((0.0, 5.0), (1.0, 0.0)):
        learner = Learner(InclusiveKL(), particles=64, optimiser=frozen, refresh=refresh)
        state = learner.init(KEY, target, DiagonalGaussian(1), mala(0.2))
        state, _ = scan(learner, state, updates=60)
        if refresh == 0.0:
            assert abs(float(state.chains.mean()) - expected) < 0.5
        else:
            assert state.chains is None


def test_fresh_pairs_are_independent_and_paired_ones_are_not():
    target = LogDensity(lambda z: -(z @ z) / 2, 1)
    for pairing, low, high in (("paired", 0.9, 1.0), ("fresh", -0.1, 0.1)):
        learner = Learner(InclusiveKL(), particles=2000, pairing=pairing)
        student = DiagonalGaussian(1)
        lessons, _ = teach(learner, target, student, mala(0.01))
        correlation = jnp.corrcoef(lessons.before[0, :, 0], lessons.after[0, :, 0])[0, 1]
        assert low < correlation < high
        np.testing.assert_allclose(
            jax.vmap(lambda lesson: lesson.propose(student))(lessons), lessons.before, rtol=1e-6
        )


def test_replayed_lessons_keep_their_draws_and_renew_their_proposals():
    target = LogDensity(lambda z: -(z @ z) / 2, 1)
    learner = Learner(InclusiveKL(), particles=16, replay=4, optimiser=optax.adam(1e-2))
    state = learner.init(KEY, target, DiagonalGaussian(1, mean=2.0), mala(0.2, steps=3))
    state, _ = scan(learner, state, updates=400)
    assert abs(float(state.student.mean[0])) < 0.3
    assert state.replay.after.shape == (4, 1, 16, 1)


def test_the_average_can_propose():
    target = LogDensity(lambda z: -(z @ z) / 2, 1)
    learner = Learner(
        InclusiveKL(), particles=16, average=0.9, proposer="average", optimiser=optax.adam(1e-2)
    )
    state = learner.init(KEY, target, DiagonalGaussian(1, mean=2.0), mala(0.2, steps=3))
    state, _ = scan(learner, state, updates=400)
    assert abs(float(state.student.mean[0])) < 0.3


@pytest.mark.parametrize(
    ("settings", "word"),
    [
        ({"particles": 0}, "particles"),
        ({"average": 1.5}, "average"),
        ({"proposer": "teacher"}, "proposer"),
        ({"proposer": "average"}, "average"),
        ({"pairing": "both"}, "pairing"),
        ({"refresh": -0.1}, "refresh"),
        ({"replay": -1}, "replay"),
        ({"model_every": 0}, "model_every"),
    ],
)
def test_impossible_settings_are_named(settings, word):
    with pytest.raises(Exception, match=word):
        Learner(InclusiveKL(), **settings)
