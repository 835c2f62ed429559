"""Where to begin: many starts, quasi-Newton paths from the best of them, and draws along the paths.

A posterior need not have a useful mode (the density of a hierarchical model grows without bound as a
scale shrinks, while the mass there is nil), so no path has to end: every point on it proposes a
Gaussian by its local curvature, and the one with the largest evidence bound is drawn from.

Reference: Zhang, Carpenter, Gelman and Vehtari, "Pathfinder: Parallel quasi-Newton variational
inference", 2022.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float

from understudy.coordinates import Walls, plain_coordinates
from understudy.core import IngredientError, Target
from understudy.fitting.evaluations import Evaluations
from understudy.numerics import log_standard
from understudy.posterior.prior import prior_draws

Evaluate = Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]

_ITERATIONS = 80
_HISTORY = 6
_ROUGH = 0.01


class Effort(NamedTuple):
    """How much is tried.

    Attributes:
        candidates: places that are looked at.
        paths: that climb from the best of them.
        points: of each path that propose a Gaussian.
        draws: of each Gaussian, to tell its evidence bound.
    """

    candidates: int = 2048
    paths: int = 32
    points: int = 24
    draws: int = 8


# Where a gradient is dear, the chains need most of the budget.
_THRIFTY = Effort(candidates=256, paths=16, points=8, draws=4)


class Starts(NamedTuple):
    """Draws near the mass, and a rough idea of their spread.

    Attributes:
        z: draws, best paths first and in turn.
        scale: standard deviations by the best path's curvature.
        bounds: the evidence bound of every path that was kept; row i is of path i modulo their number.
        early: places near the beginning of paths that were still climbing when they were left: where the
            density grows without bound but holds no mass, they are nearer to the mass than the bounds.
    """

    z: Float[np.ndarray, "n d"]
    scale: Float[np.ndarray, " d"]
    bounds: Float[np.ndarray, " p"]
    early: Float[np.ndarray, "m d"]

    @property
    def paths(self) -> int:
        """Number of paths that were kept."""
        return len(self.bounds)


class _Path(NamedTuple):
    """A path in units of its own, z = unit x: places and slopes in x, and log densities."""

    x: np.ndarray
    slope: np.ndarray
    log_p: np.ndarray
    unit: np.ndarray


class _Gaussian(NamedTuple):
    """A Gaussian with covariance diag(alpha) + beta gamma beta', by its square root."""

    mean: np.ndarray
    root: np.ndarray
    basis: np.ndarray
    inner: np.ndarray
    log_root: float

    def scaled(self, unit: np.ndarray) -> "_Gaussian":
        """The Gaussian of unit times a draw."""
        log_root = self.log_root + float(np.log(unit).sum())
        return self._replace(mean=self.mean * unit, root=self.root * unit, log_root=log_root)

    def draw(self, noise: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Draws and their log densities."""
        seen = noise @ self.basis
        z = self.mean + (noise + (seen @ self.inner.T - seen) @ self.basis.T) * self.root
        return z, log_standard(noise) - self.log_root


def candidates(target: Target, generator: np.random.Generator, count: int) -> Float[np.ndarray, "n d"]:
    """Places to begin: Stan's cube, and smaller or larger ones."""
    d = target.dim
    cube = generator.uniform(-2, 2, (count // 2, d))
    half = generator.uniform(0, 1, (count // 8, d))
    equal = np.repeat(generator.normal(size=(count // 8, 1)) * 3, d, 1)
    sizes = 10.0 ** generator.uniform(-4, 4, (count // 8, 1))
    scaled = sizes * generator.normal(size=(count // 8, d))
    return np.concatenate([np.zeros((1, d)), cube, half, equal, scaled])


def find_starts(
    evaluate: Evaluations, target: Target, seed: int, draws: int = 256, walls: Walls | None = None
) -> Starts:
    """Draws near the mass of the target.

    Args:
        evaluate: the target's log density and gradient.
        target: for its size and its prior.
        seed: of everything random.
        draws: how many.
        walls: of the support; the paths then run in coordinates that cannot leave it.
    """
    effort = _THRIFTY if evaluate.slow else Effort()
    if walls is not None:
        bent = plain_coordinates(np.zeros(target.dim), np.ones(target.dim), walls)
        found = _find_starts(lambda u: evaluate(u, bent), target, seed, draws, effort)
        return found._replace(z=bent.colour(found.z)[0], early=bent.colour(found.early)[0])
    return _find_starts(evaluate, target, seed, draws, effort)


def _find_starts(evaluate: Evaluate, target: Target, seed: int, draws: int, effort: Effort) -> Starts:
    generator = np.random.default_rng(seed)
    first = _usable(evaluate, candidates(target, generator, effort.candidates), target, effort.paths)
    unit = _units(evaluate, first, generator)
    paths = _climb(evaluate, first / unit, unit)
    best = [
        one for one in (_best(evaluate, path, generator, effort) for path in paths) if one is not None
    ]
    if not best:
        rows = first[np.arange(draws) % len(first)]
        return Starts(rows, np.ones(target.dim), np.zeros(len(first)), _early(paths))
    lost = rough(evaluate, np.stack([gaussian.mean for _, gaussian in best]))
    best = [one for one, is_lost in zip(best, lost, strict=True) if not is_lost or lost.all()]
    bounds = np.array([bound for bound, _ in best])
    keep = np.flatnonzero(bounds >= bounds.max() - max(10.0, target.dim / 10))
    order = keep[np.argsort(-bounds[keep])]
    noise = generator.normal(size=(len(order), -(-draws // len(order)), target.dim))
    z = np.stack([best[i][1].draw(e)[0] for i, e in zip(order, noise, strict=True)], 1)
    leader = best[order[0]][1].draw(generator.normal(size=(256, target.dim)))[0]
    return Starts(z.reshape(-1, target.dim)[:draws], leader.std(0), bounds[order], _early(paths))


def _early(paths: list[_Path]) -> Float[np.ndarray, "m d"]:
    """Places near the beginning of paths whose log density still grew by far at their end."""
    open_ended = [path for path in paths if len(path.x) > 20 and path.log_p[-1] - path.log_p[-10] > 5]
    if 2 * len(open_ended) < len(paths):
        return np.zeros((0, paths[0].x.shape[1]))
    return np.concatenate([path.x[2:8] * path.unit for path in open_ended])


def _usable(evaluate: Evaluate, z: np.ndarray, target: Target, paths: int) -> np.ndarray:
    log_p, _ = evaluate(z)
    if np.isfinite(log_p).sum() < paths:
        z = np.concatenate([z, prior_draws(target, 0, 256)])
        log_p, _ = evaluate(z)
    fine = np.flatnonzero(np.isfinite(log_p))
    if len(fine) == 0:
        raise IngredientError(
            f"The log density or its gradient is not finite at any of {len(z)} starts; check data "
            "outside the support, missing values and divisions by zero, or shift and scale the "
            "parameters so that values near zero are allowed."
        )
    # The better half by density, the others as they come: one basin must not take all paths.
    order = fine[np.argsort(-log_p[fine], kind="stable")]
    head, rest = order[: 2 * paths], np.sort(order[2 * paths :])[: 2 * paths]
    halves = [_smooth_first(evaluate, z[part], paths // 2) for part in (head, rest) if len(part)]
    return np.concatenate(halves)


def _smooth_first(evaluate: Evaluate, z: np.ndarray, count: int) -> np.ndarray:
    """The first rows, those left to the last where rounding hides the log density."""
    return z[np.argsort(rough(evaluate, z), kind="stable")[:count]]


def rough(evaluate: Evaluate, z: Float[np.ndarray, "n d"]) -> Bool[np.ndarray, " n"]:
    """Where the log density is lost in rounding: it changes over a hair otherwise than its slope says.

    Far out, differences of large numbers (as of log gamma functions) can look like mass.
    """
    hair = 1e-7 * np.maximum(np.abs(z), 1e-3)
    (here, slope), (there, slope_there) = evaluate(z), evaluate(z + hair)
    with np.errstate(invalid="ignore"):
        change = 0.5 * ((slope + slope_there) * hair).sum(1)
        return ~(np.abs(there - here - change) < _ROUGH)


def _units(evaluate: Evaluate, z: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    """Units of every path: one for every other, the curvature at its start for the rest.

    Signs v at random and one more gradient give the diagonal of the curvature, v times H v on average;
    exactly so where coordinates do not interact.
    """
    turns, curvature = 4, np.zeros_like(z)
    _, slope = evaluate(z)
    for _ in range(turns):
        step = 1e-6 * generator.choice([-1.0, 1.0], z.shape) * np.maximum(np.abs(z), 1e-3)
        curvature += (slope - evaluate(z + step)[1]) / step / turns
    unit = 1 / np.sqrt(np.maximum(np.abs(curvature), 1e-24))
    unit[::2] = 1.0
    return np.where(np.isfinite(unit), unit, 1.0)


def _climb(evaluate: Evaluate, z: np.ndarray, unit: np.ndarray) -> list[_Path]:
    """Quasi-Newton ascent of all starts side by side, with a step that is shortened where it fails."""

    def both(z, unit):
        log_p, slope = evaluate(z * unit)
        return log_p, slope * unit

    n = len(z)
    log_p, slope = both(z, unit)
    trail = [[(z[i], slope[i], log_p[i])] for i in range(n)]
    pairs: list[list[tuple[np.ndarray, np.ndarray, float]]] = [[] for _ in range(n)]
    step, alive = np.ones(n), np.ones(n, bool)
    for _ in range(_ITERATIONS):
        rows = np.flatnonzero(alive)
        if len(rows) == 0:
            break
        move = np.stack([step[i] * _direction(slope[i], pairs[i]) for i in rows])
        new_log_p, new_slope = both(z[rows] + move, unit[rows])
        for k, i in enumerate(rows):
            rise = move[k] @ slope[i]
            if not new_log_p[k] >= log_p[i] + 1e-4 * rise:
                step[i] *= 0.25
                if step[i] < 1e-8:
                    alive[i] = bool(pairs[i])
                    pairs[i], step[i] = [], 1.0
                continue
            change = slope[i] - new_slope[k]
            curvature = move[k] @ change
            if curvature > 1e-12 * (change @ change):
                pairs[i] = [*pairs[i][-(_HISTORY - 1) :], (move[k], change, curvature)]
            gain = new_log_p[k] - log_p[i]
            z[i], log_p[i], slope[i] = z[i] + move[k], new_log_p[k], new_slope[k]
            step[i] = min(1.0, 4 * step[i])
            trail[i].append((z[i].copy(), slope[i].copy(), log_p[i]))
            alive[i] = gain > 1e-6 * max(1.0, abs(log_p[i]) * 1e-6) and np.isfinite(log_p[i])
    return [_stacked(points, own) for points, own in zip(trail, unit, strict=True)]


def _stacked(points: list[tuple], unit: np.ndarray) -> _Path:
    x, slope, log_p = (np.stack(part) for part in zip(*points, strict=True))
    return _Path(x, slope, log_p, unit)


def _direction(slope: np.ndarray, pairs: list) -> np.ndarray:
    """The two-loop recursion; without curvature a step of unit length at most."""
    if not pairs:
        return slope / max(1.0, float(np.linalg.norm(slope)))
    direction, shares = slope.copy(), []
    for move, change, curvature in reversed(pairs):
        share = (move @ direction) / curvature
        direction -= share * change
        shares.append(share)
    move, change, curvature = pairs[-1]
    direction *= curvature / (change @ change)
    for (move, change, curvature), share in zip(pairs, reversed(shares), strict=True):
        direction += move * (share - (change @ direction) / curvature)
    return direction


def _best(
    evaluate: Evaluate, path: _Path, generator: np.random.Generator, effort: Effort
) -> tuple[float, _Gaussian] | None:
    """The point of a path whose Gaussian has the largest evidence bound."""
    gaussians = _gaussians(path, effort.points)
    if not gaussians:
        return None
    noise = generator.normal(size=(effort.draws, path.x.shape[1]))
    drawn = [gaussian.draw(noise) for gaussian in gaussians]
    log_p, _ = evaluate(np.concatenate([z for z, _ in drawn]))
    log_q = np.concatenate([q for _, q in drawn])
    bounds = np.where(np.isfinite(log_p), log_p - log_q, -np.inf).reshape(-1, effort.draws).mean(1)
    chosen = int(np.argmax(bounds))
    return (float(bounds[chosen]), gaussians[chosen]) if np.isfinite(bounds[chosen]) else None


def _gaussians(path: _Path, most: int) -> list[_Gaussian]:
    """The Gaussians at some points of a path, those near its end among them."""
    alpha, found = np.ones(path.x.shape[1]), []
    moves, changes = np.diff(path.x, axis=0), -np.diff(path.slope, axis=0)
    used: list[int] = []
    wanted = set(np.unique(np.linspace(1, max(1, len(moves)), most).astype(int)).tolist())
    for t in range(1, len(path.x)):
        s, y = moves[t - 1], changes[t - 1]
        if s @ y > 1e-12 * (y @ y):
            alpha = _diagonal(alpha, s, y)
            used = [*used[-(_HISTORY - 1) :], t - 1]
        if t not in wanted or not used or not np.isfinite(alpha).all():
            continue
        try:
            one = _gaussian(path.x[t], path.slope[t], alpha, moves[used].T, changes[used].T)
            found.append(one.scaled(path.unit))
        except np.linalg.LinAlgError:
            continue
    return found


def _diagonal(alpha: np.ndarray, s: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Gilbert and Lemarechal's update of the diagonal of the inverse curvature."""
    a, b, c = y @ (alpha * y), y @ s, s @ (s / alpha)
    inverse = a / (b * alpha) + y * y / b - (a * s * s) / (b * c * alpha * alpha)
    return 1 / np.clip(inverse, 1e-300, 1e300)


def _gaussian(
    z: np.ndarray, slope: np.ndarray, alpha: np.ndarray, s: np.ndarray, y: np.ndarray
) -> _Gaussian:
    root = np.sqrt(alpha)
    upper = np.triu(s.T @ y)
    inverse = np.linalg.inv(upper)
    scaled = alpha[:, None] * y
    corner = inverse.T @ (np.diag(np.diag(upper)) + y.T @ scaled) @ inverse
    gamma = np.block([[np.zeros_like(upper), -inverse], [-inverse.T, corner]])
    beta = np.concatenate([scaled, s], 1)
    basis, triangle = np.linalg.qr(beta / root[:, None])
    inner = np.linalg.cholesky(np.eye(len(triangle)) + triangle @ gamma @ triangle.T)
    mean = z + alpha * slope + beta @ (gamma @ (beta.T @ slope))
    log_root = float(np.log(root).sum() + np.log(np.diag(inner)).sum())
    return _Gaussian(mean, root, basis, inner, log_root)
