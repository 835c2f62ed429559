"""Coordinates in which a posterior is nearly standard: margins, walls and correlations.

A draw z is made of coordinates u in three steps: u is turned and stretched (correlations), every
number goes through a sinh-arcsinh curve (skewness and tails; before it through Tukey's h where tails
fall as a power), and is shifted, scaled and, where the support has a wall, bent to stay inside it.
Everything is kept in double precision, since a mean of 1,000 with a deviation of 0.0001 needs it.
"""

import dataclasses
from functools import partial
from typing import Any, NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float
from scipy.special import ndtr, ndtri
from scipy.stats import rankdata

from understudy.numerics import AnyArray, in_blocks
from understudy.surroundings import double_precision

# Past this size a covariance is kept as a diagonal and a few directions.
FULL = 256
DIRECTIONS = 32
_SCORED, _MARGINS = 2048, 32_768
# Draws that tell skewness.
_FEW = 200
# More numbers than these go through a compiled program, so many at once.
_LARGE, _AT_ONCE = 2**21, 2**18
_LARGEST = 300.0
_KNOTS, _OUTER, _MISS, _TAIL, _FLATTEST = 21, 2.5, 0.03, 4, 0.002
# Steps of Newton's that give Lambert's function to rounding.
_NEWTON = 6
# Tukey's h that are tried where curves miss by more than the first number, and what they may miss by
# then, at most and as a share; and the draws that tell.
_HEAVY, _MISSES, _FITS, _BETTER, _MANY = (0.1, 0.2, 0.35, 0.5, 0.75, 1.0, 1.4), 0.05, 0.04, 0.6, 1000


class Walls(NamedTuple):
    """The support of every coordinate, infinite where there is no wall."""

    lower: Any
    upper: Any


class Coordinates(eqx.Module):
    """The map from u to z and back.

    Attributes:
        directions: orthonormal columns V of the turn w = u + V (stretch - 1) V'u.
        stretch: standard deviations along them.
        margins: rows shift, log scale, skew and log tail of every coordinate.
        walls: the support; None where it has no bounds.
        knots: where scores of the grid lie before the curve, a line between two of them; None leaves
            them where they are.
        grid: these scores of every coordinate; None spaces them equally.
        heavy: Tukey's h of every coordinate, whose tails fall as the power -1/h; None where no tail
            falls as a power.
    """

    directions: Float[AnyArray, "*b d r"]
    stretch: Float[AnyArray, "*b r"]
    margins: Float[AnyArray, "*b 4 d"]
    walls: Walls | None = None
    knots: Float[AnyArray, "*b d k"] | None = None
    grid: Float[AnyArray, "*b d k"] | None = None
    heavy: Float[AnyArray, "*b d"] | None = None

    @property
    def dim(self) -> int:
        """Size of a draw."""
        return self.margins.shape[-1]

    def colour(self, u: Any, xp: Any = np) -> tuple[Any, Any]:
        """From u to z, and the log volume change; rows are draws."""
        if _is_large(u, xp):
            return _in_blocks(_coloured, self, u)
        w = turned(u, self.directions, self.stretch)
        z, log_slope = self._bend(w, xp)
        return z, log_slope.sum(-1) + xp.log(self.stretch).sum()

    def _bend(self, w: Any, xp: Any) -> tuple[Any, Any]:
        shift, log_scale, skew, log_tail = self.margins
        log_line = log_heavy = 0.0
        if self.knots is not None:
            w, log_line = _along(w, self._lines, self.knots, xp)
        if self.heavy is not None:
            w, log_heavy = stretched(w, self.heavy, xp)
        y, log_slope = sinh_arcsinh(w, skew, log_tail, xp)
        raw = shift + xp.exp(log_scale) * y
        z, log_bend = _inside(raw, self.walls, xp)
        return z, log_slope + log_scale + log_bend + log_line + log_heavy

    @property
    def _lines(self) -> Any:
        assert self.knots is not None
        return _grid(self.knots.shape[1]) if self.grid is None else self.grid

    def scores(self, z: Any, xp: Any = np) -> tuple[Any, Any]:
        """From z to w, nearly standard in every coordinate but correlated, and log |dz/dw|."""
        if _is_large(z, xp):
            return _in_blocks(_scored, self, z)
        shift, log_scale, skew, log_tail = self.margins
        y = (_free(z, self.walls, xp) - shift) * xp.exp(-log_scale)
        w, _ = sinh_arcsinh(y, -skew * xp.exp(-log_tail), -log_tail, xp)
        if self.heavy is not None:
            w = shrunk(w, self.heavy, xp)
        if self.knots is not None:
            w, _ = _along(w, self.knots, self._lines, xp)
        return w, self._bend(w, xp)[1].sum(-1)

    def whiten(self, z: Any, xp: Any = np) -> tuple[Any, Any]:
        """From z to u, and log |dz/du|."""
        w, log_volume = self.scores(z, xp)
        return turned(w, self.directions, 1 / self.stretch), log_volume + xp.log(self.stretch).sum()

    def unturned(self) -> "Coordinates":
        """The same margins without the turn."""
        return eqx.tree_at(lambda c: c.stretch, self, np.ones_like(self.stretch))

    def straightened(self, z: Float[np.ndarray, "n d"]) -> "Coordinates":
        """Shift and scale alone, by draws, with the correlations of what they give as the turn.

        The scale lies between that of the middle and that of the tails, where these differ.
        """
        raw = _free(z, self.walls)
        low, middle, high = np.quantile(raw, [0.25, 0.5, 0.75], axis=0)
        width = np.maximum((high - low) / 1.349, 1e-300 + 1e-14 * np.abs(middle))
        scale = np.sqrt(width * np.clip(raw.std(0), 0.1 * width, 50 * width))
        plain = plain_coordinates(middle, scale, self.walls)
        directions, stretch = fit_turn(plain.scores(_some(z))[0], len(self.stretch), len(z) / 4)
        return Coordinates(directions, stretch, plain.margins, self.walls)


def _is_large(rows: Any, xp: Any) -> bool:
    return xp is np and rows.ndim == 2 and rows.size > _LARGE


def _in_blocks(function: Any, coordinates: Coordinates, rows: np.ndarray) -> Any:
    """A compiled function of some rows at a time: numpy goes through memory for every operation."""
    with double_precision():
        return in_blocks(partial(function, coordinates), rows, block=max(1, _AT_ONCE // rows.shape[1]))


@eqx.filter_jit
def _coloured(coordinates: Coordinates, u: Any) -> tuple[Any, Any]:
    return coordinates.colour(u, jnp)


@eqx.filter_jit
def _scored(coordinates: Coordinates, z: Any) -> tuple[Any, Any]:
    return coordinates.scores(z, jnp)


def turned(u: Any, directions: Any, stretch: Any) -> Any:
    """Stretch u along some directions and leave the rest as it is."""
    return u + ((u @ directions) * (stretch - 1)) @ directions.T


def sinh_arcsinh(x: Any, skew: Any, log_tail: Any, xp: Any) -> tuple[Any, Any]:
    """The curve sinh(tail arcsinh(x) + skew) and the log of its slope.

    Reference: Jones and Pewsey, "Sinh-arcsinh distributions", 2009.
    """
    inner = xp.clip(xp.exp(log_tail) * xp.arcsinh(x) + skew, -_LARGEST, _LARGEST)
    return xp.sinh(inner), log_tail + _log_cosh(inner, xp) - xp.log(xp.hypot(1.0, x))


def stretched(w: Any, heavy: Any, xp: Any) -> tuple[Any, Any]:
    """The curve w exp(h w^2 / 2) and the log of its slope.

    Reference: Tukey, "Modern techniques in data analysis", 1977.
    """
    inner = xp.minimum(0.5 * heavy * w**2, _LARGEST)
    return w * xp.exp(inner), inner + xp.log1p(2 * inner)


def shrunk(v: Any, heavy: Any, xp: Any) -> Any:
    """The inverse of :func:`stretched`: v exp(-W(h v^2) / 2) with Lambert's function W."""
    tiny, huge = xp.finfo(v.dtype).tiny, xp.sqrt(xp.finfo(v.dtype).max) / 4
    x = heavy * xp.clip(v, -huge, huge) ** 2 + tiny
    inner = xp.log1p(x)
    for _ in range(_NEWTON):
        inner = inner * (1 + xp.log(x) - xp.log(inner)) / (1 + inner)
    return v * xp.exp(-0.5 * inner)


def _grid(knots: int) -> np.ndarray:
    return np.linspace(-_OUTER, _OUTER, knots)


def _along(w: Any, xs: Any, ys: Any, xp: Any) -> tuple[Any, Any]:
    """Lines through knots (xs, ys) of every column, the last ones going on; values and log slopes."""
    d, k = w.shape[-1], max(xs.shape[-1], ys.shape[-1])
    xs, ys = xp.broadcast_to(xs, (d, k)), xp.broadcast_to(ys, (d, k))
    slopes = (ys[:, 1:] - ys[:, :-1]) / (xs[:, 1:] - xs[:, :-1])
    # The line of every piece where it begins to hold takes the place of the one before.
    value, slope = ys[:, 0] + slopes[:, 0] * (w - xs[:, 0]), slopes[:, 0]
    for i in range(1, k - 1):
        past = w > xs[:, i]
        value = xp.where(past, ys[:, i] + slopes[:, i] * (w - xs[:, i]), value)
        slope = xp.where(past, slopes[:, i], slope)
    return value, xp.log(slope)


def fit_knots(coordinates: Coordinates, z: Float[np.ndarray, "n d"]) -> Coordinates:
    """The coordinates with lines that carry normal scores to where the draws' own scores lie.

    What the curves of the margins miss is left to the lines, in the columns where it is not chance.
    """
    grid = _grid(_KNOTS)
    found = _score_quantiles(coordinates, z, ndtr(grid))
    miss = np.sqrt(np.mean((found - grid) ** 2, 1))
    found = _rising(np.where((miss > _MISS)[:, None], found, grid))
    fitted = eqx.tree_at(lambda c: c.knots, coordinates, found, is_leaf=lambda leaf: leaf is None)
    scores, _ = fitted.scores(_some(z))
    directions, stretch = fit_turn(scores, len(coordinates.stretch), float(len(z)) / 2)
    return eqx.tree_at(lambda c: (c.directions, c.stretch), fitted, (directions, stretch))


def match_knots(
    coordinates: Coordinates, h: Float[np.ndarray, "n d"], z: Float[np.ndarray, "m d"], miss: float
) -> Coordinates:
    """The coordinates with knots that give draws h of a student the margins of draws z.

    What a student has right but for ``miss``, in scores, is left to it: draws can tell no more.
    """
    w = turned(h, np.asarray(coordinates.directions), np.asarray(coordinates.stretch))
    bare = dataclasses.replace(coordinates, knots=None, grid=None)
    levels = np.linspace(0, 1, 2 * _KNOTS + 1)[1:-1]
    levels = np.unique(np.r_[0.006, 0.02, levels, 0.98, 0.994])
    xs, ys = np.quantile(w, levels, axis=0).T, _score_quantiles(bare, z, levels)
    off = np.sqrt(np.mean((ys - xs) ** 2, 1)) / np.maximum(ys.std(1), 1e-12)
    ys = np.where((off > miss)[:, None], ys, xs)
    wide = np.maximum(np.diff(xs, axis=1), 1e-9)
    slopes = np.maximum(np.diff(ys, axis=1) / wide, _FLATTEST)
    for end, inner in ((0, slice(0, _TAIL)), (-1, slice(-_TAIL, None))):
        slopes[:, end] = (slopes[:, inner] * wide[:, inner]).sum(1) / wide[:, inner].sum(1)
    xs = xs[:, :1] + np.cumsum(np.pad(wide, ((0, 0), (1, 0))), 1)
    rise = np.cumsum(np.pad(slopes * wide, ((0, 0), (1, 0))), 1)
    middle = xs.shape[1] // 2
    ys = ys[:, middle : middle + 1] + rise - rise[:, middle : middle + 1]
    where = lambda c: (c.knots, c.grid)  # noqa: E731
    return eqx.tree_at(where, bare, (ys, xs), is_leaf=lambda leaf: leaf is None)


def _score_quantiles(coordinates: Coordinates, z: Any, levels: np.ndarray) -> Float[np.ndarray, "d k"]:
    """Quantiles of the scores of draws, at levels that lie evenly about a half.

    They are the scores of quantiles, in turned order where larger draws have smaller scores (under an
    upper wall).
    """
    return np.sort(coordinates.scores(np.quantile(z, levels, axis=0))[0].T, 1)


def _rising(knots: np.ndarray) -> np.ndarray:
    """The knots with gaps of some width between them."""
    least = 0.05 * 2 * _OUTER / (_KNOTS - 1)
    gaps = np.maximum(np.diff(knots, axis=1), least)
    # The last lines go on without end. Too steep a fall there would starve the tails, which a few
    # extreme draws cannot tell: no steeper than the curve's own, or than several gaps together say.
    for end, inner in ((0, slice(0, _TAIL)), (-1, slice(-_TAIL, None))):
        gaps[:, end] = np.maximum(gaps[:, inner].mean(1), 2 * _OUTER / gaps.shape[1])
    first = knots[:, 1:2] - gaps[:, :1]
    return np.concatenate([first, first + np.cumsum(gaps, 1)], 1)


def _log_cosh(x: Any, xp: Any) -> Any:
    size = xp.abs(x)
    return size + xp.log1p(xp.exp(-2 * size)) - np.log(2.0)


def _inside(raw: Any, walls: Walls | None, xp: Any) -> tuple[Any, Any]:
    if walls is None:
        return raw, 0.0
    lower, upper = walls
    below, above = xp.isfinite(lower), xp.isfinite(upper)
    low, high = xp.where(below, lower, 0.0), xp.where(above, upper, 1.0)
    bent = xp.clip(raw, -_LARGEST, _LARGEST)
    grown = xp.exp(xp.where(below & above, -xp.abs(bent), xp.where(below | above, bent, 0.0)))
    share = xp.where(bent >= 0, 1 / (1 + grown), grown / (1 + grown))
    wide = xp.where(below & above, high - low, 1.0)
    both = low + wide * share
    log_both = xp.log(wide) - xp.abs(bent) - 2 * xp.log1p(grown)
    z = xp.where(below & above, both, xp.where(below, low + grown, xp.where(above, high - grown, raw)))
    log_bend = xp.where(below & above, log_both, xp.where(below | above, bent, 0.0))
    return z, log_bend


def _free(z: Any, walls: Walls | None, xp: Any = np) -> Any:
    if walls is None:
        return z
    lower, upper = walls
    below, above = xp.isfinite(lower), xp.isfinite(upper)
    tiny = np.finfo(z.dtype).tiny
    from_low = xp.log(xp.maximum(z - xp.where(below, lower, 0.0), tiny))
    from_high = xp.log(xp.maximum(xp.where(above, upper, 0.0) - z, tiny))
    raw = xp.where(below & above, from_low - from_high, xp.where(below, from_low, from_high))
    return xp.where(below | above, raw, z)


def rank_of(dim: int) -> int:
    """Directions of the turn for draws of this size."""
    return dim if dim <= FULL else DIRECTIONS


def plain_coordinates(
    shift: Float[np.ndarray, " d"], scale: Float[np.ndarray, " d"], walls: Walls | None = None
) -> Coordinates:
    """Coordinates that shift and scale alone (before the walls, where there are any)."""
    d = len(shift)
    rank = rank_of(d)
    directions = np.eye(d)[:, :rank]
    margins = np.stack([shift, np.log(scale), np.zeros(d), np.zeros(d)])
    return Coordinates(directions, np.ones(rank), margins, walls)


def fit_coordinates(
    z: Float[np.ndarray, "n d"], walls: Walls | None, effective: float, curved: bool = True
) -> Coordinates:
    """The coordinates in which draws are nearly standard.

    Args:
        z: the draws.
        walls: of the support.
        effective: about how many independent draws they are worth; correlations shrink by it.
        curved: whether to fit skewness and tails.
    """
    margins, heavy = fit_margins(_free(_some(z, _MARGINS), walls), effective if curved else 0.0)
    d = z.shape[1]
    rank = rank_of(d)
    coordinates = Coordinates(np.eye(d)[:, :rank], np.ones(rank), margins, walls, heavy=heavy)
    directions, stretch = fit_turn(coordinates.scores(_some(z))[0], rank, effective)
    return eqx.tree_at(lambda c: (c.directions, c.stretch), coordinates, (directions, stretch))


def _some(rows: Float[np.ndarray, "n d"], most: int = 4 * _SCORED) -> Float[np.ndarray, "m d"]:
    """So many rows at most, evenly."""
    return rows[np.linspace(0, len(rows) - 1, min(len(rows), most)).astype(int)]


def fit_turn(
    w: Float[np.ndarray, "n d"], rank: int, effective: float
) -> tuple[Float[np.ndarray, "d r"], Float[np.ndarray, " r"]]:
    """Directions and deviations of the correlations of normal scores, which no tail can spoil."""
    w = _some(w, 4 * _SCORED if rank == w.shape[1] else _SCORED)
    n, d = w.shape
    scores = ndtri((rankdata(w, axis=0) - 0.5) / n)
    scores /= np.maximum(scores.std(0), 1e-12)
    if d == 1:
        return np.eye(1), np.ones(1)
    effective = min(effective, n)
    if rank == d:
        correlation = scores.T @ scores / n
        shrunk = (effective * correlation + _PRIOR * np.eye(d)) / (effective + _PRIOR)
        if effective < 2 * d:
            shrunk = np.eye(d) + (shrunk - np.eye(d)) * effective / (effective + 2 * d)
        values, vectors = np.linalg.eigh(shrunk)
        return vectors, np.sqrt(np.maximum(values, 1e-10))
    return _leading(scores, rank, effective)


_PRIOR = 2.0


def _leading(scores: np.ndarray, rank: int, effective: float) -> tuple[np.ndarray, np.ndarray]:
    """The leading directions, as far as they stand out of what noise alone would show."""
    n, d = scores.shape
    generator = np.random.default_rng(0)
    basis = scores.T @ (scores @ generator.normal(size=(d, 2 * rank)))
    for _ in range(2):
        basis = scores.T @ (scores @ np.linalg.qr(basis)[0])
    basis = np.linalg.qr(basis)[0]
    _, singular, right = np.linalg.svd(scores @ basis, full_matrices=False)
    values = (singular**2 / n)[:rank]
    edge = (1 + np.sqrt(d / effective)) ** 2
    kept = np.where(values > 1.2 * edge, values - (edge - 1), 1.0)
    return basis @ right[:rank].T, np.sqrt(kept)


def fit_margins(
    raw: Float[np.ndarray, "n d"], effective: float
) -> tuple[Float[np.ndarray, "4 d"], Float[np.ndarray, " d"] | None]:
    """Shift, log scale, skew and log tail of every column, and Tukey's h, from its quantiles.

    Args:
        raw: the columns.
        effective: about how many independent draws tell; few of them tell no skewness and no tails.
    """
    normal = np.linspace(-1, 1, 25) * ndtri(1 - np.clip(4 / len(raw), 0.002, 0.25))
    quantiles = np.quantile(raw, ndtr(normal), axis=0).T
    shape, heavy = np.zeros((2, raw.shape[1])), np.zeros(raw.shape[1])
    if effective > _FEW:
        straight = _misfit(quantiles, np.broadcast_to(normal, quantiles.shape), normal)
        shape, misfit = _fit_curves(quantiles, normal, straight)
        # A straight line that misses by less than this is kept: its curve would be noise.
        shape = np.where(straight > 0.03, shape, 0.0)
        if effective > _MANY and (misfit > _MISSES).any():
            shape, heavy = _fit_heavy(quantiles, normal, shape, misfit)
    curve = _curve(stretched(normal, heavy[:, None], np)[0], *shape)
    centre, spread = _line(quantiles, curve)
    floor = 1e-300 + 1e-14 * np.abs(quantiles).max(1)
    margins = np.stack([centre, np.log(np.maximum(spread, floor)), *shape])
    return margins, heavy if heavy.any() else None


def _fit_heavy(
    quantiles: np.ndarray, normal: np.ndarray, shape: np.ndarray, misfit: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Curves with tails that fall as a power, in the columns which they fit far better."""
    shape, heavy, best = shape.copy(), np.zeros(len(quantiles)), np.minimum(_BETTER * misfit, _FITS)
    bad = np.flatnonzero(misfit > _MISSES)
    for h in _HEAVY:
        found, missed = _fit_curves(quantiles[bad], normal, np.full(len(bad), np.inf), h)
        better = missed < best[bad]
        shape[:, bad[better]], heavy[bad[better]] = found[:, better], h
        best[bad] = np.minimum(best[bad], missed)
    return shape, heavy


def _fit_curves(
    quantiles: np.ndarray, normal: np.ndarray, straight: np.ndarray, heavy: float = 0.0
) -> tuple[np.ndarray, np.ndarray]:
    """Skew and log tail of every column, and how far their curves miss; never further than a line."""
    d, base = len(quantiles), stretched(normal, heavy, np)[0]
    skew, log_tail, best = np.zeros(d), np.zeros(d), straight
    wide = np.array([1.0, 1.0])
    offsets = np.stack(np.meshgrid(*[np.linspace(-1, 1, 7)] * 2), -1).reshape(-1, 2)
    for _ in range(6):
        start = skew.copy(), log_tail.copy()
        for move in offsets * wide:
            new = start[0] + move[0], np.clip(start[1] + move[1], -1.2, 1.8)
            misfit = _misfit(quantiles, _curve(base, *new), normal)
            better = misfit < best
            skew, log_tail = np.where(better, new[0], skew), np.where(better, new[1], log_tail)
            best = np.minimum(best, misfit)
        wide = wide / 2.2
    return np.stack([skew, log_tail]), best


def _curve(normal: np.ndarray, skew: np.ndarray, log_tail: np.ndarray) -> np.ndarray:
    return sinh_arcsinh(np.atleast_2d(normal), skew[:, None], log_tail[:, None], np)[0]


def _line(quantiles: np.ndarray, curve: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The line of the quantiles over the curve, with errors counted as those of normal scores are."""
    near = 1 / np.maximum(np.gradient(curve, axis=1), 1e-100) ** 2
    near = near / near.sum(1, keepdims=True)
    middle = (near * curve).sum(1, keepdims=True)
    centre = (near * quantiles).sum(1, keepdims=True)
    slope = (near * (curve - middle) * (quantiles - centre)).sum(1) / (near * (curve - middle) ** 2).sum(
        1
    )
    return centre[:, 0] - slope * middle[:, 0], slope


def _misfit(quantiles: np.ndarray, curve: np.ndarray, normal: np.ndarray) -> np.ndarray:
    """Root mean square distance of the fitted quantiles from the true ones, as normal scores."""
    centre, slope = _line(quantiles, curve)
    fitted = centre[:, None] + slope[:, None] * curve
    unit = np.maximum(np.abs(np.gradient(fitted, normal, axis=1)), 1e-300)
    return np.sqrt(np.mean(np.minimum(((fitted - quantiles) / unit) ** 2, 1e6), 1))
