"""A mass that falls off along every coordinate is left alone; one that does not is called improper."""

import jax.numpy as jnp
import numpy as np
import pytest
from jax.scipy.stats import norm

from understudy import IngredientError, LogDensity
from understudy.fitting.profiles import check_profiles

EFFECTS = np.array([0.3, -0.8, 1.4, 0.1, 0.6])


def centred(log_prior):
    """Five effects around a mean, given the density of the logarithm of their scale."""

    def log_density(z):
        mean, log_scale, effects = z[0], z[1], z[2:]
        given = norm.logpdf(effects, mean, jnp.exp(log_scale)).sum() + norm.logpdf(mean, 0, 5)
        return given + norm.logpdf(EFFECTS, effects).sum() + log_prior(log_scale)

    return log_density


def two_groups(log_prior):
    """Two effects in units of their scale, with a flat mean."""

    def log_density(z):
        mean, log_scale, effects = z[0], z[1], z[2:]
        seen = norm.logpdf(EFFECTS[:2], mean + jnp.exp(log_scale) * effects).sum()
        return seen + norm.logpdf(effects).sum() + log_prior(log_scale)

    return log_density


def around(middle, spread, effects):
    """Draws of a mean, a log scale and effects, as chains would give them that drift along the scale."""
    generator = np.random.default_rng(0)
    mean, log_scale = generator.normal(0.3, 0.5, 200), generator.normal(middle, spread, 200)
    drawn = generator.normal(size=(200, effects))
    return np.column_stack([mean, log_scale, mean[:, None] + np.exp(log_scale)[:, None] * drawn])


IMPROPER = {
    "1/tau of centred effects": (centred(lambda s: 0.0 * s), around(-3, 2, 5)),
    "a flat scale of two groups": (two_groups(lambda s: s), around(4, 3, 2)),
}
PROPER = {
    "half-Cauchy": (centred(lambda s: s - jnp.log1p(jnp.exp(2 * s))), around(-0.5, 0.8, 5)),
    "half-Cauchy of two groups": (two_groups(lambda s: s - jnp.log1p(jnp.exp(2 * s))), around(0, 1, 2)),
    # Nearly 1/tau, down to where its inverse gamma density ends.
    "inverse gamma (.001, .001)": (
        centred(lambda s: -0.002 * s - 0.001 * jnp.exp(-2 * s)),
        around(-1, 0.5, 5),
    ),
    "a power of .3": (centred(lambda s: jnp.where(s < 0, 0.3 * s, -s)), around(-3, 3, 5)),
    "Cauchy": (lambda z: -jnp.log1p(z**2).sum(), np.random.default_rng(0).standard_cauchy((200, 2))),
    "modes apart": (
        lambda z: jnp.logaddexp(norm.logpdf(z, -4).sum(), norm.logpdf(z, 4).sum()),
        np.random.default_rng(0).normal(4, 1, (200, 2)),
    ),
    "many coordinates": (lambda z: 0.0 * z.sum(), np.random.default_rng(0).normal(size=(200, 100))),
}


@pytest.mark.parametrize("name", IMPROPER)
def test_a_mass_that_does_not_fall_off_is_improper(name):
    log_density, z = IMPROPER[name]
    with pytest.raises(IngredientError, match="coordinate 1, the others integrated out"):
        check_profiles(LogDensity(log_density, z.shape[1]), z)


@pytest.mark.parametrize("name", PROPER)
def test_a_mass_that_falls_off_passes(name):
    log_density, z = PROPER[name]
    check_profiles(LogDensity(log_density, z.shape[1]), z)
