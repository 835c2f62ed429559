"""The shares of the modes are compared with the masses by their standard errors."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from understudy.evaluation import trust
from understudy.evaluation.trust.climbs import Peak
from understudy.evaluation.trust.modes import _compare, _deviation
from understudy.evaluation.trust.moves import Moved
from understudy.numerics import AffineMap
from understudy.students import GaussianMixture
from understudy.targets.toy import MixtureOfGaussians
from understudy.teachers import hmc

TARGET = MixtureOfGaussians([[-4.0, 1.0], [4.0, 1.0]], weights=[0.76, 0.24])


def verdict(first):
    """What the check says of a student that gives the first mode this share."""
    start = GaussianMixture(jax.random.key(0), 2, 2)
    weights = jnp.log(jnp.array([first, 1 - first]))
    student = eqx.tree_at(lambda m: (m.logits, m.means), start, (weights, TARGET.means))
    key = jax.random.key(0, impl="rbg")
    return trust.check(key, TARGET, student, draws=2048)["modes"]


@pytest.mark.parametrize(("share", "expected"), [(0.76, "ok"), (0.65, "warn"), (0.4, "fail")])
def test_a_share_that_is_off_is_not_called_right(share, expected):
    finding = verdict(share)
    assert finding.verdict == expected
    assert ("each with its share" in finding.words) == (expected == "ok")
    shown = finding.pictures["mass"], finding.pictures["share"]
    if expected == "ok":
        within = float(finding.words.split("within ")[1].split(" %")[0])
        assert 100 * abs(shown[0] - shown[1]).max() < within + 0.5
    else:
        assert f"{100 * shown[0][0]:.0f} % of the mass and" in finding.words
        assert f"{100 * shown[1][0]:.0f} % of the draws" in finding.words


@pytest.mark.parametrize("error", [0.001, 0.02, 0.1, 0.19, 0.5])
@pytest.mark.parametrize("mass", [(0.76, 0.24), (0.76, 0.22, 0.02), (0.24, 0.76)])
def test_whatever_is_known_of_the_masses_shares_that_are_off_are_not_called_right(error, mass):
    generator, share = np.random.default_rng(0), np.array([0.65, 0.34, 0.01][: len(mass)])
    centres = np.array([[-6.0], [6.0], [18.0]][: len(mass)])
    peaks = [Peak(centre, 0.0, np.eye(1), True) for centre in centres]
    places = generator.choice(len(mass), size=4000, p=share / share.sum())
    drawn = centres[places] + generator.normal(size=(4000, 1))
    flat, height = AffineMap(np.zeros(1), np.ones(1)), np.zeros((2, 4000))
    moved = Moved(drawn, drawn, height, None, flat, 0.0, 1.0, hmc())
    known = np.full(len(mass), error)
    finding = _compare(moved, ["z"], peaks, np.log(mass), known, {})
    assert "each with its share" not in finding.words
    if error < 0.02:
        assert finding.verdict != "ok"


def test_the_standard_error_is_that_of_simulated_masses_and_shares():
    generator = np.random.default_rng(0)
    mass, error, n = np.array([0.5, 0.3, 0.2]), np.array([0.02, 0.05, 0.1]), 1000
    measured = mass * (1 + error * generator.normal(size=(20_000, 3)))
    measured /= measured.sum(1, keepdims=True)
    share = generator.multinomial(n, mass, 20_000) / n
    np.testing.assert_allclose((measured - share).std(0), _deviation(mass, error, mass, n), rtol=0.05)
