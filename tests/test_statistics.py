"""Known answers about whole compositions: fixed points, calibration, and the paper's lemma."""

import itertools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
import scipy.stats
from jax.scipy.stats import norm

from understudy import LogDensity, methods
from understudy.core import CONDITIONS, Proposal
from understudy.feedbacks import (
    AdversarialELBO,
    ContrastiveDivergence,
    DensityRatio,
    EnergyDistance,
    ExclusiveKL,
    FDivergence,
    InclusiveKL,
    JensenShannon,
    KernelSteinDiscrepancy,
    LearntStein,
    MaximumMeanDiscrepancy,
    MomentMatching,
    MomentProjection,
    Wasserstein,
)
from understudy.students import DiagonalGaussian, GaussianEncoder
from understudy.teachers import (
    Compose,
    IndependenceMetropolis,
    SingleFlip,
    TemperedTransition,
    hmc,
    mala,
)
from understudy.training.lesson import Classroom

KEY = jax.random.key(0)

# Fixed points: a student that is exact is not moved by its teacher.

MEAN, SCALE = jnp.array([0.5, -1.0]), jnp.array([1.5, 0.8])
TARGET = LogDensity(lambda z: norm.logpdf(z, MEAN, SCALE).sum() + 3.0, 2)
EXACT = DiagonalGaussian(2, MEAN, SCALE)
LOCAL = mala(0.5, steps=2)
REPEATS, PARTICLES = 2000, 6


def nothing(z, x=None):
    """The best critic where the draws before and after teaching have one distribution."""
    return jnp.zeros(())


def still(z, x=None):
    """The best test function of a student that is exact."""
    return jnp.zeros_like(z)


def ratio_to_the_prior(z, x=None):
    return EXACT.log_prob(z) - norm.logpdf(z).sum()


FREE = {
    "InclusiveKL": InclusiveKL(),
    "InclusiveKL, no control": InclusiveKL(control=False),
    "ExclusiveKL": ExclusiveKL(),
    "ExclusiveKL, reparameterised": ExclusiveKL("reparameterised"),
    "ExclusiveKL, score": ExclusiveKL("score"),
    "EnergyDistance": EnergyDistance(),
    "MaximumMeanDiscrepancy": MaximumMeanDiscrepancy(bandwidth=1.0),
    "MomentMatching": MomentMatching(2),
    "KernelSteinDiscrepancy": KernelSteinDiscrepancy(bandwidth=1.0),
    "ContrastiveDivergence, bound": ContrastiveDivergence(ratio=False),
}
WITH_CRITIC = {
    "JensenShannon": (JensenShannon(), nothing),
    "JensenShannon, saturating": (JensenShannon(saturating=True), nothing),
    **{
        f"FDivergence, {kind}": (FDivergence(kind), nothing)
        for kind in ("forward_kl", "reverse_kl", "pearson", "hellinger", "total_variation")
    },
    "DensityRatio": (DensityRatio(), nothing),
    "Wasserstein": (Wasserstein(), nothing),
    "ContrastiveDivergence": (ContrastiveDivergence(), nothing),
    "AdversarialELBO": (AdversarialELBO(), ratio_to_the_prior),
    "LearntStein": (LearntStein(), still),
}
ALWAYS = {"InclusiveKL", "EnergyDistance", "ContrastiveDivergence"}


def sometimes(names):
    return [pytest.param(name, marks=() if name in ALWAYS else pytest.mark.slow) for name in names]


def drifts(feedback, critic, student, teacher=LOCAL):
    """Mean gradient over many lessons in standard errors, parameter by parameter."""
    classroom = Classroom(jnp.ones(()), PARTICLES, "paired")

    @eqx.filter_jit
    def gradients(student, keys):
        def one(key):
            lessons, _ = classroom.teach(key, TARGET, student, student, teacher)

            def loss(student):
                value = jax.vmap(
                    lambda lesson: feedback.loss(student, critic, TARGET, lesson), axis_name=CONDITIONS
                )
                return value(lessons).mean()

            return eqx.filter_grad(loss)(student)

        return jax.vmap(one)(keys)

    rows = gradients(student, jax.random.split(KEY, REPEATS))
    rows = np.concatenate([np.asarray(leaf, float) for leaf in jax.tree.leaves(rows)], axis=1)
    error = rows.std(0) / REPEATS**0.5
    return np.abs(rows.mean(0)) / np.maximum(error, 1e-7)


@pytest.mark.parametrize("name", sometimes(FREE))
def test_an_exact_student_is_not_moved(name):
    assert np.all(drifts(FREE[name], None, EXACT) < 4.5)


@pytest.mark.slow
@pytest.mark.parametrize("name", FREE)
def test_a_student_that_is_wrong_is_moved(name):
    """One error at a time: a shift and a stretch together can cancel in a moment."""
    shifted = DiagonalGaussian(2, MEAN + 0.5 * SCALE, SCALE)
    assert np.all(drifts(FREE[name], None, shifted)[:2] > 4.5)
    stretched = DiagonalGaussian(2, MEAN, 1.4 * SCALE)
    assert np.all(drifts(FREE[name], None, stretched)[2:] > 4.5)


@pytest.mark.parametrize("name", sometimes(WITH_CRITIC))
def test_an_exact_student_is_not_moved_through_the_best_critic(name):
    feedback, critic = WITH_CRITIC[name]
    assert np.all(drifts(feedback, critic, EXACT) < 4.5)


@pytest.mark.slow
@pytest.mark.parametrize(
    "teacher",
    [
        hmc(0.5, leapfrogs=3),
        IndependenceMetropolis(),
        TemperedTransition(rungs=4),
        Compose(mala(0.3), IndependenceMetropolis()),
    ],
    ids=["hmc", "independence", "tempered", "composed"],
)
def test_no_exact_teacher_moves_an_exact_student(teacher):
    assert np.all(drifts(InclusiveKL(), None, EXACT, teacher) < 4.5)


def test_a_projected_student_stays_where_it_is_exact():
    """The weighted mean of many projections has no drift beyond that of a finite sample."""
    classroom = Classroom(jnp.ones(()), 64, "paired")

    @jax.jit
    def projected(key):
        lessons, _ = classroom.teach(key, TARGET, EXACT, EXACT, LOCAL)
        student = MomentProjection(1.0).project(EXACT, lessons)
        return student.mean, student.scale**2 * 64 / 63

    mean, variance = jax.vmap(projected)(jax.random.split(KEY, 1000))
    assert np.all(np.abs(mean.mean(0) - MEAN) < 4.5 * mean.std(0) / 1000**0.5)
    assert np.all(np.abs(variance.mean(0) - SCALE**2) < 4.5 * variance.std(0) / 1000**0.5)


# Simulation-based calibration (Talts et al., 2018) of an amortised student.

NOISE, DRAWS, PAIRS = 0.6, 19, 3000


def simulate(key, n=64):
    latent, noise = jax.random.split(key)
    z = jax.random.normal(latent, (n, 1))
    return z, z + NOISE * jax.random.normal(noise, (n, 1))


def conjugate(z, x):
    return norm.logpdf(z).sum() + norm.logpdf(x, z, NOISE).sum()


def rank_level(student):
    """Level of the chi-squared test that the ranks of true latents among draws are uniform."""
    z, x = simulate(jax.random.key(5), PAIRS)
    keys = jax.random.split(jax.random.key(6), PAIRS)
    draws = eqx.filter_jit(jax.vmap(lambda key, x: student.sample(key, x, DRAWS)))(keys, x)
    ranks = np.asarray((draws[:, :, 0] < z).sum(1))
    return scipy.stats.chisquare(np.bincount(ranks, minlength=DRAWS + 1)).pvalue


@pytest.fixture(scope="module")
def calibrated():
    return methods.amc(
        LogDensity(conjugate, 1, conditional=True),
        GaussianEncoder(eqx.nn.Linear(1, 2, key=KEY), 1),
        mala(0.15, steps=4),
        data=lambda key: simulate(key)[1],
        particles=4,
        updates=2000,
        optimiser=optax.adam(optax.cosine_decay_schedule(2e-2, 2000)),
        average=0.99,
    ).student


def test_an_amortised_student_is_calibrated(calibrated):
    assert rank_level(calibrated) > 1e-3
    slope = calibrated.network(jnp.ones(1)) - calibrated.network(jnp.zeros(1))
    np.testing.assert_allclose(slope[0], 1 / (1 + NOISE**2), atol=0.03)


@pytest.mark.parametrize(("shift", "stretch"), [(0.15, 1.0), (0.0, 0.8), (0.0, 1.25)])
def test_a_student_that_is_not_calibrated_is_found_out(calibrated, shift, stretch):
    change = jnp.array([shift, jnp.log(stretch)])
    moved = eqx.tree_at(lambda s: s.network.bias, calibrated, calibrated.network.bias + change)
    assert rank_level(moved) < 1e-4


# The lemma of the paper: the divergence to the target falls along the chain, whatever the start.

SITES = 3
STATES = np.array(list(itertools.product((0.0, 1.0), repeat=SITES)))
COUPLING = jnp.array([[0.0, 1.2, -0.5], [1.2, 0.0, 0.9], [-0.5, 0.9, 0.0]])


def spins(z):
    return z @ COUPLING @ z / 2 - 0.8 * z[0] + 0.3 * z[2]


def probabilities():
    heights = np.exp(np.array([float(spins(jnp.asarray(state))) for state in STATES]))
    return heights / heights.sum()


def site_matrix(site, metropolis):
    """Exact transition matrix of one visit of one site."""
    p = probabilities()
    partner = [int(np.flatnonzero((flipped(state, site) == STATES).all(1))[0]) for state in STATES]
    other = p[partner]
    move = np.minimum(1, other / p) if metropolis else other / (p + other)
    matrix = np.diag(1 - move)
    matrix[np.arange(len(p)), partner] = move
    return matrix


def flipped(state, site):
    return np.where(np.arange(SITES) == site, 1 - state, state)


def divergence(q, p):
    return np.sum(np.where(q > 0, q * np.log(np.maximum(q, 1e-300) / p), 0.0))


@pytest.mark.parametrize("metropolis", [False, True], ids=["heat bath", "metropolis"])
def test_the_divergence_falls_at_every_visit_of_an_exact_chain(metropolis):
    p = probabilities()
    matrices = [site_matrix(site, metropolis) for site in range(SITES)]
    for matrix in matrices:
        flow = p[:, None] * matrix
        np.testing.assert_allclose(flow, flow.T, atol=1e-12)
    for start in (*np.eye(len(p)), np.full(len(p), 1 / len(p))):
        q, last = start, divergence(start, p)
        for matrix in matrices * 20:
            q = q @ matrix
            assert divergence(q, p) <= last + 1e-12
            last = divergence(q, p)
        assert last < 1e-3


@pytest.mark.parametrize("metropolis", [False, True], ids=["heat bath", "metropolis"])
def test_the_teacher_walks_that_chain(metropolis):
    n, p = 20_000, probabilities()
    sweep = np.linalg.multi_dot([site_matrix(site, metropolis) for site in range(SITES)])
    run = eqx.filter_jit(SingleFlip(metropolis=metropolis).improve)
    q, z = np.eye(len(p))[0], jnp.zeros((n, SITES))
    nobody, last = Proposal(lambda key, n: z, None), np.inf
    for sweeps in range(5):
        z = run(jax.random.fold_in(KEY, sweeps), spins, z, nobody).z
        q = q @ sweep
        codes = np.asarray(z, int) @ (2 ** np.arange(SITES)[::-1])
        found = np.bincount(codes, minlength=len(p)) / n
        assert np.all(np.abs(found - q) < 4.5 * np.sqrt(q * (1 - q) / n) + 1e-3)
        assert divergence(found, p) < last + 2e-3
        last = divergence(found, p)
