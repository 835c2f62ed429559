"""Adversarial feedbacks with the best critic known exactly, against quadrature."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jax.scipy.special import ndtri
from jax.scipy.stats import norm

from understudy.core import IngredientError, Lesson, Student, Target
from understudy.feedbacks import (
    AdversarialELBO,
    ContrastiveDivergence,
    CriticBuilder,
    DensityRatio,
    FDivergence,
    JensenShannon,
    Wasserstein,
)
from understudy.students.gaussian import DiagonalGaussian
from understudy.teachers.identity import Identity

GRID = jnp.linspace(-8, 8, 1601)
N = 2000


class Standard(Target):
    dim: int = eqx.field(static=True, default=1)

    def log_density(self, z, x=None):
        return norm.logpdf(z).sum()


class Quantiles(Student):
    """A Gaussian whose draws are its quantiles: averages have next to no noise."""

    mean: jax.Array
    log_scale: jax.Array
    dim: int = eqx.field(static=True, default=1)

    def sample(self, key, x, n):
        return self.mean + jnp.exp(self.log_scale) * ndtri((jnp.arange(n) + 0.5) / n)[:, None]

    def density(self, z):
        return norm.pdf(z, self.mean, jnp.exp(self.log_scale))


class Quadratic(eqx.Module):
    coefficients: jax.Array

    def __call__(self, z, x=None):
        return jnp.polyval(self.coefficients, z[0])


TARGET = Standard()
STUDENT = Quantiles(jnp.array(0.3), jnp.array(0.1))
TAUGHT = Quantiles(jnp.array(0.0), jnp.array(0.0))


def quadratic_of(log_density):
    """The polynomial that a difference of Gaussian log densities is."""
    a, b, c = (log_density(v) for v in (-1.0, 0.0, 1.0))
    return Quadratic(jnp.stack([(a + c) / 2 - b, (c - a) / 2, b]))


def ratio(student=STUDENT):
    """The exact log(q_T / q)."""
    return quadratic_of(lambda z: jnp.log(TAUGHT.density(z)) - jnp.log(student.density(z)))


def lesson(n=N):
    before, after = STUDENT.sample(None, None, n), TAUGHT.sample(None, None, n)
    keys = jax.random.split(jax.random.key(0))
    return Lesson(*keys, None, before, after, jnp.full(n, 1 / n), before, jnp.ones(n, bool))


GENERATORS = {
    "forward_kl": lambda u: u * jnp.log(u),
    "reverse_kl": lambda u: -jnp.log(u),
    "pearson": lambda u: (u - 1) ** 2,
    "hellinger": lambda u: (jnp.sqrt(u) - 1) ** 2,
    "total_variation": lambda u: jnp.abs(u - 1) / 2,
    "jensen_shannon": lambda u: u * jnp.log(u) - (u + 1) * jnp.log((u + 1) / 2),
}


def divergence(kind, student):
    q = student.density(GRID)
    return jnp.sum(q * GENERATORS[kind](TAUGHT.density(GRID) / q)) * (GRID[1] - GRID[0])


def slopes(loss, student=STUDENT):
    value, slope = jax.jit(jax.value_and_grad(loss))(student)
    return np.asarray([value, slope.mean, slope.log_scale])


def best_critic(kind):
    exact = ratio()
    if kind == "pearson":
        return lambda z, x: 2 * (jnp.exp(exact(z)) - 1)
    if kind == "total_variation":
        return lambda z, x: 200 * exact(z)
    return exact


@pytest.mark.parametrize("kind", GENERATORS)
def test_f_divergence_is_reached_by_the_best_critic(kind):
    feedback, critic = FDivergence(kind), best_critic(kind)
    estimate = slopes(lambda s: feedback.loss(s, critic, TARGET, lesson()))
    truth = slopes(lambda s: divergence(kind, s))
    exact = slice(None, 1) if kind == "total_variation" else slice(None)
    np.testing.assert_allclose(estimate[exact], truth[exact], atol=4e-3)
    worse = lambda z, x: 0.005 * critic(z, x) + 0.1  # noqa: E731
    assert feedback.critic_loss(worse, TARGET, lesson()) > -estimate[0]


@pytest.mark.parametrize("kind", [kind for kind in GENERATORS if kind != "total_variation"])
def test_density_ratio_gives_the_gradient_of_the_divergence(kind):
    estimate = slopes(lambda s: DensityRatio(kind).loss(s, ratio(), TARGET, lesson()))
    np.testing.assert_allclose(estimate[1:], slopes(lambda s: divergence(kind, s))[1:], atol=4e-3)


@pytest.mark.parametrize("feedback", [JensenShannon(), DensityRatio()])
def test_the_log_ratio_is_the_best_critic(feedback):
    loss = lambda c: feedback.critic_loss(c, TARGET, lesson())  # noqa: E731
    value, slope = jax.jit(jax.value_and_grad(loss))(ratio())
    np.testing.assert_allclose(slope.coefficients, 0, atol=1e-3)
    bound = 2 * np.log(2) - divergence("jensen_shannon", STUDENT)
    np.testing.assert_allclose(value, bound, atol=1e-4)


def test_jensen_shannon_saturating_or_not():
    d = lambda z, x: 2.0 * z[0] - 1  # noqa: E731
    draws = 2 * STUDENT.sample(None, None, N) - 1
    loss = lambda feedback: feedback.loss(STUDENT, d, TARGET, lesson())  # noqa: E731
    np.testing.assert_allclose(loss(JensenShannon()), jnp.log1p(jnp.exp(-draws)).mean(), rtol=1e-5)
    expected = jnp.log(1 - jax.nn.sigmoid(draws)).mean()
    np.testing.assert_allclose(loss(JensenShannon(saturating=True)), expected, rtol=1e-4)


def test_jensen_shannon_is_still_at_the_target():
    critic = ratio(TAUGHT)
    estimate = slopes(lambda s: JensenShannon().loss(s, critic, TARGET, lesson()), TAUGHT)
    np.testing.assert_allclose(estimate, [np.log(2), 0, 0], atol=1e-6)


def test_wasserstein_of_a_shift():
    loss = lambda s: Wasserstein().loss(s, lambda z, x: -z[0], TARGET, lesson())  # noqa: E731
    np.testing.assert_allclose(slopes(loss)[:2], [0.3, 1.0], atol=1e-5)
    gap = -0.3
    for slope, penalty in ((1.0, 0.0), (3.0, 40.0)):
        value = Wasserstein(penalty=10.0).critic_loss(lambda z, x, a=slope: a * z[0], TARGET, lesson())
        np.testing.assert_allclose(value, penalty - gap * slope, rtol=1e-4)
    flat = Wasserstein().critic_loss(lambda z, x: 0 * z[0], TARGET, lesson())
    np.testing.assert_allclose(flat, 10.0, rtol=1e-4)


@pytest.mark.parametrize("base", ["prior", "adaptive"])
def test_adversarial_elbo_gives_the_gradient_of_the_exclusive_divergence(base):
    feedback = AdversarialELBO(base)
    mean, scale = (0.3, jnp.exp(0.1)) if base == "adaptive" else (0.0, 1.0)
    critic = quadratic_of(
        lambda u: jnp.log(STUDENT.density(mean + scale * u)) + jnp.log(scale) - norm.logpdf(u)
    )
    estimate = slopes(lambda s: feedback.loss(s, critic, TARGET, lesson()))
    truth = slopes(lambda s: divergence("reverse_kl", s))
    np.testing.assert_allclose(estimate, truth, atol=4e-3)
    slope = jax.jit(jax.grad(lambda c: feedback.critic_loss(c, TARGET, lesson(40000))))(critic)
    np.testing.assert_allclose(slope.coefficients, 0, atol=0.015)


@pytest.mark.parametrize("with_ratio", [True, False])
def test_contrastive_divergence_between_gaussians(with_ratio):
    """A chain that keeps N(0, 1): q_T is Gaussian and depends on the student."""
    student, rho, n, repeats = DiagonalGaussian(1, 0.8, 1.3), 0.6, 16, 4000

    def kl(mean, variance, other_mean=0.0, other=1.0):
        gap = (mean - other_mean) ** 2
        return 0.5 * ((variance + gap) / other - 1 - jnp.log(variance / other))

    def truth(s):
        mean, variance = s.mean[0], s.scale[0] ** 2
        taught = rho * mean, rho**2 * variance + 1 - rho**2
        bound = 0.0 if with_ratio else kl(*taught, mean, variance)
        return kl(mean, variance) - kl(*taught) + bound

    def log_ratio(z):
        scale = jnp.sqrt(rho**2 * 1.3**2 + 1 - rho**2)
        return norm.logpdf(z, 0.8, 1.3) - norm.logpdf(z, rho * 0.8, scale)

    critic = quadratic_of(log_ratio)
    feedback = ContrastiveDivergence(with_ratio)

    def one(key):
        draw, noise = jax.random.split(key)
        before = student.sample(draw, None, n)
        after = rho * before + (1 - rho**2) ** 0.5 * jax.random.normal(noise, before.shape)
        le = Lesson(draw, noise, None, before, after, jnp.full(n, 1 / n), before, jnp.ones(n, bool))
        value, slope = jax.value_and_grad(lambda s: feedback.loss(s, critic, TARGET, le))(student)
        return jnp.stack([value, slope.mean[0], slope.log_scale[0]])

    rows = jax.jit(jax.vmap(one))(jax.random.split(jax.random.key(0), repeats))
    value, slope = jax.jit(jax.value_and_grad(truth))(student)
    expected = np.asarray([value, slope.mean[0], slope.log_scale[0]])
    assert np.all(np.abs(rows.mean(0) - expected) < 4.5 * rows.std(0) / repeats**0.5)


def test_critics_have_the_chosen_size():
    feedback = JensenShannon(critic=CriticBuilder(hidden=[5, 7], activation=jnp.tanh))
    critic = feedback.init(jax.random.key(0), 3, {"x": jnp.zeros(2)})
    assert [w.shape for w in critic.network.weights] == [(5, 5), (7, 5), (1, 7)]
    assert critic(jnp.zeros(3), {"x": jnp.ones(2)}).shape == ()
    assert hash(JensenShannon(critic=CriticBuilder([3])).critic) == hash(CriticBuilder((3,)))
    assert ContrastiveDivergence(ratio=False).init(jax.random.key(0), 3, None) is None


@pytest.mark.parametrize("feedback", [JensenShannon(), FDivergence(), Wasserstein(), AdversarialELBO()])
def test_rows_of_weight_zero_do_not_matter(feedback):
    critic = feedback.init(jax.random.key(0), 1, None)
    full = lesson(4)
    kept = jnp.array([True, False, True, True])
    one, two = (
        eqx.tree_at(
            lambda le: (le.before, le.after, le.weights, le.kept),
            full,
            (
                jnp.where(kept[:, None], full.before, v),
                jnp.where(kept[:, None], full.after, v),
                kept / 3,
                kept,
            ),
        )
        for v in (0.0, 50.0)
    )
    losses = jax.jit(
        lambda le: (feedback.loss(STUDENT, critic, TARGET, le), feedback.critic_loss(critic, TARGET, le))
    )
    np.testing.assert_allclose(losses(one), losses(two), rtol=1e-5)


def test_a_trained_critic_reaches_the_jensen_shannon_divergence():
    feedback, data = JensenShannon(critic=CriticBuilder((16,))), lesson(400)
    critic = feedback.init(jax.random.key(0), 1, None)
    arrays, rest = eqx.partition(critic, eqx.is_array)
    optimiser = optax.adam(0.02)

    def step(carry, _):
        arrays, memory = carry
        loss = lambda a: feedback.critic_loss(eqx.combine(a, rest), TARGET, data)  # noqa: E731
        value, slope = jax.value_and_grad(loss)(arrays)
        updates, memory = optimiser.update(slope, memory)
        return (eqx.apply_updates(arrays, updates), memory), value

    _, values = jax.lax.scan(step, (arrays, optimiser.init(arrays)), length=600)
    bound = 2 * np.log(2) - divergence("jensen_shannon", STUDENT)
    np.testing.assert_allclose(values[-1], bound, atol=0.003)


def test_unknown_kinds_are_refused():
    with pytest.raises(IngredientError, match="'forward_kl', 'reverse_kl'"):
        FDivergence("kl")
    with pytest.raises(IngredientError, match="'jensen_shannon'; 'total_variation' came"):
        DensityRatio("total_variation")
    with pytest.raises(IngredientError, match="'adaptive'"):
        AdversarialELBO("posterior")
    with pytest.raises(IngredientError, match="log_prob"):
        ContrastiveDivergence().check(TARGET, STUDENT, Identity())
