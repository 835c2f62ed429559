"""Does the target hold mass where the student never goes?

Climbs start at draws of the student, at draws blown up around their centre, and in a box around zero.
Where one ends at a peak that no climb from the student's own draws reaches, or where the student has
several peaks, every peak gets a Gaussian by its curvature. The Gaussians divide space into cells, and
the target's mass in each cell, by importance sampling at its peak, is compared with the share of the
student's draws there.
"""

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float
from scipy.special import gammaln, logsumexp

from understudy.core import Key
from understudy.evaluation.trust.climbs import OWN, Peak, Slope, peaks_at, starts
from understudy.evaluation.trust.findings import Finding, Verdict
from understudy.evaluation.trust.moves import BLOCK, Claim, Moved, densities

MISSING, SEEN, OFF = 0.01, 0.03, 0.1
_APART = 1.0
_MOST = 12
_SAMPLES = 512
_UNSURE = 0.2


def mode_check(
    key: Key,
    claim: Claim,
    moved: Moved,
    rows: int,
    names: Sequence[str],
) -> Finding:
    """Climb from dispersed starts and compare the masses of the peaks with the student's shares."""
    generator = np.random.default_rng(int(jax.random.bits(key)))
    dtype = jnp.result_type(float)
    slope = Slope(claim.target, claim.x, *(jnp.asarray(part, dtype) for part in moved.scale))
    ends, values, _ = slope.climb(starts(generator, moved))
    own, strange = _distinct_ends(ends, values, moved)
    pictures = {"ends": moved.scale.colour(ends), "values": values, "own": np.arange(BLOCK) < OWN}
    if not len(strange) and not 2 <= len(own) <= _MOST:
        words = f"{BLOCK} climbs end nowhere that the student's own draws do not lead to"
        return Finding("modes", "ok", 0.0, words, pictures)
    both = np.concatenate([own[:_MOST], strange])
    peaks = peaks_at(slope, both, np.arange(len(both)) < min(len(own), _MOST), _APART)
    if len(peaks) < 2:
        words = f"{BLOCK} climbs find one peak; those that end elsewhere have not converged"
        return Finding("modes", "ok", 0.0, words, pictures)
    log_mass, error = _log_masses(generator, claim, moved, rows, peaks)
    return _compare(moved, names, peaks, log_mass, error, pictures)


def _distinct_ends(
    ends: Float[np.ndarray, "m d"], values: Float[np.ndarray, " m"], moved: Moved
) -> tuple[np.ndarray, np.ndarray]:
    """Ends of climbs from the student's draws, and ends of others that are high enough and new."""
    d = ends.shape[1]
    usable = np.isfinite(values) & np.isfinite(ends).all(1)
    floor = np.quantile(moved.log_p[0], 0.01) - 10 - d * np.log(3)
    order = np.argsort(-values)
    own = _distinct([ends[i] for i in order if i < OWN and usable[i]])
    reached = ends[:OWN][usable[:OWN]]
    others = [ends[i] for i in order if i >= OWN and usable[i] and values[i] > floor]
    new = [e for e in others if not len(reached) or _distance(reached, e).min() > _APART]
    return np.reshape(own, (-1, d)), np.reshape(_distinct(new)[:_MOST], (-1, d))


def _distinct(points: Sequence[np.ndarray]) -> list[np.ndarray]:
    kept: list[np.ndarray] = []
    for point in points:
        if not kept or _distance(np.stack(kept), point).min() > _APART:
            kept.append(point)
    return kept


def _distance(points: np.ndarray, end: np.ndarray) -> np.ndarray:
    return np.linalg.norm(points - end, axis=1)


def _cells(peaks: Sequence[Peak], u: Float[np.ndarray, "n d"]) -> np.ndarray:
    return np.stack([peak.log_gaussian(u) for peak in peaks]).argmax(0)


def _log_masses(
    generator: np.random.Generator,
    claim: Claim,
    moved: Moved,
    rows: int,
    peaks: Sequence[Peak],
) -> tuple[Float[np.ndarray, " k"], Float[np.ndarray, " k"]]:
    """Log mass of every cell and its relative error, by importance sampling."""
    drawn = [_student_t(generator, peak) for peak in peaks]
    u, log_t = (np.concatenate(part) for part in zip(*drawn, strict=True))
    log_p, _ = densities(claim, moved.scale.colour(u), rows)
    inside = (_cells(peaks, u) == np.repeat(np.arange(len(peaks)), _SAMPLES)) & np.isfinite(log_p)
    log_w = np.where(inside, log_p - log_t, -1e30).reshape(len(peaks), _SAMPLES)
    top = log_w.max(1)
    w = np.exp(log_w - top[:, None])
    return np.log(w.mean(1)) + top, w.std(1) / w.mean(1) / np.sqrt(_SAMPLES)


def _student_t(generator: np.random.Generator, peak: Peak) -> tuple[np.ndarray, np.ndarray]:
    """Draws at a peak with tails heavier than its Gaussian, and their log density."""
    d = peak.place.size
    freedom = 5.0 + d
    noise = generator.normal(size=(_SAMPLES, d))
    noise /= np.sqrt(generator.chisquare(freedom, (_SAMPLES, 1)) / freedom)
    constant = gammaln((freedom + d) / 2) - gammaln(freedom / 2) - d / 2 * np.log(freedom * np.pi)
    log_t = constant - (freedom + d) / 2 * np.log1p((noise**2).sum(1) / freedom)
    return peak.place + noise @ peak.factor.T, log_t - np.log(np.diag(peak.factor)).sum()


def _compare(
    moved: Moved,
    names: Sequence[str],
    peaks: Sequence[Peak],
    log_mass: np.ndarray,
    error: np.ndarray,
    pictures: dict[str, np.ndarray],
) -> Finding:
    """Masses of the cells beside shares of the draws, each with its standard error."""
    mass = np.exp(log_mass - logsumexp(log_mass))
    counts = np.bincount(_cells(peaks, moved.scale.whiten(moved.before)), minlength=len(peaks))
    share = counts / counts.sum()
    margin = 3 * _deviation(mass, error, share, int(counts.sum()))
    lacking = np.where(error < _UNSURE, mass - share, 0.0)
    places = moved.scale.colour(np.stack([peak.place for peak in peaks]))
    pictures = pictures | {"peaks": places, "mass": mass, "share": share}
    worst = int(np.argmax(lacking))
    missing = lacking[worst] > MISSING and share[worst] < mass[worst] / 4
    verdict: Verdict = "ok"
    if lacking[worst] > SEEN + margin[worst]:
        verdict = "warn"
    if missing or lacking[worst] > OFF + margin[worst]:
        verdict = "fail"
    words = _agreement(mass, share, error)
    if verdict != "ok":
        words = (
            f"the peak at {_place(names, places[worst])} holds about {100 * mass[worst]:.0f} % of the "
            f"mass and {100 * share[worst]:.0f} % of the draws: fit again with more starts"
        )
    return Finding("modes", verdict, float(lacking[worst]), words, pictures)


def _deviation(mass: np.ndarray, error: np.ndarray, share: np.ndarray, n: int) -> np.ndarray:
    """Standard error of the difference between the mass of a cell and its share of ``n`` draws."""
    relative = (mass * error) ** 2
    normalised = mass**2 * (relative.sum() + (1 - 2 * mass) * error**2)
    return np.sqrt(normalised + share * (1 - share) / n)


def _agreement(mass: np.ndarray, share: np.ndarray, error: np.ndarray) -> str:
    far, unsure = np.abs(mass - share).max(), int((error >= _UNSURE).sum())
    if unsure:
        return f"{len(mass)} peaks; the mass of {unsure} of them could not be measured"
    within = f"within {max(100 * far, 1):.0f} % of all draws"
    if far > SEEN:
        return (
            f"{len(mass)} peaks; their masses and their shares of the draws differ by up to "
            f"{100 * far:.0f} % of all draws, which the errors of the masses explain"
        )
    return f"{len(mass)} peaks, each with its share of the draws, {within}"


def _place(names: Sequence[str], z: Float[np.ndarray, " d"]) -> str:
    shown = [f"{name} = {value:.3g}" for name, value in zip(names, z, strict=True)][:4]
    return ", ".join(shown + ["..."] * (len(names) > 4))
