"""Does the target hold mass where the student never goes?

Climbs start at draws of the student, at draws blown up around their centre, and in a box around zero.
Where a climb ends at a peak that no climb from the student's own draws reaches, or where the student has
several peaks, every peak gets a Gaussian by its curvature; the Gaussians divide space into cells, and the
target's mass in each cell (importance sampling from a Student t at the peak) is compared with the share
of the student's draws there.
"""

from collections.abc import Sequence
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float, PRNGKeyArray
from scipy.special import logsumexp

from understudy.core import Condition, Student, Target
from understudy.evaluation.findings import Finding, Verdict
from understudy.evaluation.moves import BLOCK, Moved, log_densities

OWN, SCALED = 64, 112
STEPS = 300
_RATE = 0.3
_APART = 1.0
_MOST = 8
_SAMPLES = 512
_FREEDOM = 5.0
MISSING = 0.01
OFF = 0.1


class Peak(NamedTuple):
    """A local maximum in whitened coordinates with its curvature."""

    place: Float[np.ndarray, " d"]
    value: float
    factor: Float[np.ndarray, "d d"]
    own: bool

    @property
    def evidence(self) -> float:
        """Laplace's estimate of the log mass."""
        d = self.place.size
        return self.value + np.log(np.diag(self.factor)).sum() + d / 2 * np.log(2 * np.pi)

    def log_gaussian(self, u: Float[np.ndarray, "n d"]) -> Float[np.ndarray, " n"]:
        """Log density of the Gaussian times the evidence."""
        noise = np.linalg.solve(self.factor, (u - self.place).T)
        return self.value - (noise**2).sum(0) / 2


@eqx.filter_jit
def climb(
    target: Target,
    x: Condition,
    mean: Float[Array, " d"],
    factor: Float[Array, "d d"],
    u: Float[Array, "m d"],
) -> tuple[Float[Array, "m d"], Float[Array, " m"]]:
    """Adam in whitened coordinates: ends and log densities there."""
    evaluate = jax.vmap(jax.value_and_grad(lambda u: -target.log_density(mean + factor @ u, x)))
    optimiser = optax.adam(optax.cosine_decay_schedule(_RATE, STEPS), b2=0.9)

    def step(carry, _):
        u, memory = carry
        _, gradient = evaluate(u)
        usable = jnp.isfinite(gradient).all(-1, keepdims=True)
        updates, memory = optimiser.update(jnp.where(usable, gradient, 0.0), memory)
        return (optax.apply_updates(u, updates), memory), None

    (u, _), _ = jax.lax.scan(step, (u, optimiser.init(u)), None, STEPS)
    return u, -evaluate(u)[0]


@eqx.filter_jit
def polish(
    target: Target,
    x: Condition,
    mean: Float[Array, " d"],
    factor: Float[Array, "d d"],
    u: Float[Array, "m d"],
) -> tuple[Float[Array, "m d"], Float[Array, " m"], Float[Array, "m d"], Float[Array, "m d d"]]:
    """A few Newton steps, then value, gradient and negative Hessian."""

    def value(u):
        return target.log_density(mean + factor @ u, x)

    def newton(_, u):
        values, vectors = jnp.linalg.eigh(-jax.hessian(value)(u))
        safe = jnp.maximum(jnp.abs(values), 1e-3)
        move = vectors @ ((vectors.T @ jax.grad(value)(u)) / safe)
        better = u + move * jnp.minimum(1.0, 1.0 / jnp.maximum(jnp.linalg.norm(move), 1e-12))
        return jnp.where(value(better) > value(u), better, u)

    def one(u):
        u = jax.lax.fori_loop(0, 5, newton, u)
        return u, value(u), jax.grad(value)(u), -jax.hessian(value)(u)

    return jax.lax.map(one, u)


def starts(generator: np.random.Generator, moved: Moved) -> Float[np.ndarray, "m d"]:
    """Whitened starts: the student's own draws, draws blown up 3 to 10 times, a box around zero."""
    n, d = moved.before.shape
    own = moved.scale.whiten(moved.before[generator.integers(0, n, OWN + SCALED)])
    own[OWN:] *= generator.uniform(3, 10, (SCALED, 1))
    box = generator.uniform(-2, 2, (BLOCK - OWN - SCALED, d))
    return np.concatenate([own, moved.scale.whiten(box)])


def mode_check(
    key: PRNGKeyArray,
    target: Target,
    student: Student,
    x: Condition,
    moved: Moved,
    rows: int,
    names: Sequence[str],
) -> Finding:
    """Climb from dispersed starts and compare the masses of the peaks with the student's shares."""
    generator = np.random.default_rng(int(jax.random.bits(key)))
    dtype = jnp.result_type(float)
    scale = [jnp.asarray(part, dtype) for part in moved.scale]
    ends, values = climb(target, x, *scale, jnp.asarray(starts(generator, moved), dtype))
    ends, values = np.asarray(ends, float), np.asarray(values, float)
    own, strange = _distinct_ends(ends, values, moved)
    pictures = {"ends": moved.scale.colour(ends), "values": values, "own": np.arange(BLOCK) < OWN}
    if not len(strange) and (len(own) < 2 or len(own) > _MOST):
        words = f"{BLOCK} climbs end nowhere that the student's own draws do not lead to"
        return Finding("modes", "ok", 0.0, words, pictures)
    padded = np.resize(np.concatenate([own[:_MOST], strange]), (2 * _MOST, ends.shape[1]))
    polished = polish(target, x, *scale, jnp.asarray(padded, dtype))
    peaks = _peaks(polished, min(len(own), _MOST), min(len(own), _MOST) + len(strange))
    return _weigh(generator, target, student, x, moved, rows, names, peaks, pictures)


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


def _distance(points: np.ndarray, end: np.ndarray) -> np.ndarray:
    return np.linalg.norm(points - end, axis=1)


def _distinct(points: Sequence[np.ndarray]) -> list[np.ndarray]:
    kept: list[np.ndarray] = []
    for point in points:
        if not kept or _distance(np.stack(kept), point).min() > _APART:
            kept.append(point)
    return kept


def _peaks(polished: tuple[Array, ...], own: int, total: int) -> list[Peak]:
    """Converged maxima with positive curvature, each once."""
    found: list[Peak] = []
    for i, (place, value, gradient, curvature) in enumerate(
        zip(*(np.asarray(part, float) for part in polished), strict=True)
    ):
        if i >= total or not np.isfinite(curvature).all() or np.linalg.eigvalsh(curvature).min() < 1e-6:
            continue
        if gradient @ np.linalg.solve(curvature, gradient) > 0.1:
            continue
        if found and _distance(np.stack([p.place for p in found]), place).min() < _APART / 2:
            continue
        factor = np.linalg.cholesky(np.linalg.inv(curvature))
        found.append(Peak(place, float(value), factor, i < own))
    return found


def _cells(peaks: Sequence[Peak], u: Float[np.ndarray, "n d"]) -> np.ndarray:
    return np.stack([peak.log_gaussian(u) for peak in peaks]).argmax(0)


def _log_masses(
    generator: np.random.Generator,
    target: Target,
    student: Student,
    x: Condition,
    moved: Moved,
    rows: int,
    peaks: Sequence[Peak],
) -> tuple[Float[np.ndarray, " k"], Float[np.ndarray, " k"]]:
    """Log mass of every cell and its relative error, by importance sampling."""
    masses, errors = [], []
    for k, peak in enumerate(peaks):
        d = peak.place.size
        noise = generator.normal(size=(_SAMPLES, d))
        stretch = generator.chisquare(_FREEDOM, (_SAMPLES, 1)) / _FREEDOM
        u = peak.place + noise / np.sqrt(stretch) @ peak.factor.T
        log_t = _log_student_t((noise**2 / stretch).sum(1), d) - np.log(np.diag(peak.factor)).sum()
        log_p, _ = log_densities(target, student, x, moved.scale.colour(u), rows)
        inside = (_cells(peaks, u) == k) & np.isfinite(log_p)
        weight = np.where(inside, log_p - log_t, -np.inf)
        masses.append(logsumexp(weight) - np.log(_SAMPLES) if inside.any() else -np.inf)
        w = np.exp(weight - weight.max()) if inside.any() else np.ones(1)
        errors.append(w.std() / w.mean() / np.sqrt(_SAMPLES))
    return np.array(masses), np.array(errors)


def _log_student_t(square: np.ndarray, d: int) -> np.ndarray:
    from scipy.special import gammaln

    v = _FREEDOM
    constant = gammaln((v + d) / 2) - gammaln(v / 2) - d / 2 * np.log(v * np.pi)
    return constant - (v + d) / 2 * np.log1p(square / v)


def _weigh(
    generator: np.random.Generator,
    target: Target,
    student: Student,
    x: Condition,
    moved: Moved,
    rows: int,
    names: Sequence[str],
    peaks: list[Peak],
    pictures: dict[str, np.ndarray],
) -> Finding:
    if len(peaks) < 2:
        words = "climbs that end elsewhere do not converge to a peak"
        return Finding("modes", "ok", 0.0, words, pictures)
    log_mass, error = _log_masses(generator, target, student, x, moved, rows, peaks)
    mass = np.exp(log_mass - logsumexp(log_mass))
    counts = np.bincount(_cells(peaks, moved.scale.whiten(moved.before)), minlength=len(peaks))
    share = counts / counts.sum()
    reliable = error < 0.2
    lacking = mass - share
    pictures = pictures | {
        "peaks": moved.scale.colour(np.stack([peak.place for peak in peaks])),
        "mass": mass,
        "share": share,
    }
    worst = int(np.argmax(np.where(reliable, lacking, -1)))
    where = ", ".join(
        f"{name} = {value:.3g}" for name, value in zip(names[:4], pictures["peaks"][worst], strict=False)
    ) + (", ..." if len(names) > 4 else "")
    measured = f"the peak at {where} holds about {100 * mass[worst]:.0f} % of the mass and "
    verdict: Verdict = "ok"
    words = f"{len(peaks)} peaks, each with its share of the draws"
    missing = reliable & (mass > MISSING) & (share < mass / 4) & (lacking > MISSING)
    if missing.any() or (reliable[worst] and lacking[worst] > OFF + 3 * mass[worst] * error[worst]):
        verdict = "fail"
        words = f"{measured}{100 * share[worst]:.0f} % of the draws: fit again with more starts"
    return Finding("modes", verdict, float(max(lacking[worst], 0)), words, pictures)
