"""What data look like: named sites, rows, missing values; and how a network reads them."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from understudy.checks import shown
from understudy.core import IngredientError, Key
from understudy.networks.summaries import Read

# Past this many numbers of one data set a vector is left to the pooled rows alone.
_LONGEST_VECTOR = 512
# An event with so many rows and columns at least, and so many channels at most, is an image.
_LEAST_SIDE, _MOST_COLOURS = 8, 4
# Whole numbers of so few values name groups rather than amounts.
_MOST_LABELS = 24


class DataSet(NamedTuple):
    """One data set as a condition; arrays have a leading axis where it stands for several.

    Attributes:
        values: the observed sites by name, padded to the largest number of rows; where nothing was
            observed they hold numbers that are possible but mean nothing.
        seen: what was observed, by site, of the shape of its independent parts.
        arguments: what else differs between data sets: covariates, say.
    """

    values: dict[str, Any]
    seen: dict[str, Any]
    arguments: tuple[Any, ...] = ()


class ObservedSite(NamedTuple):
    """An observed site: its name, its shape, and how many of its last axes belong together."""

    name: str
    shape: tuple[int, ...]
    event: int

    @property
    def batch(self) -> tuple[int, ...]:
        """The shape of its independent parts."""
        return self.shape[: len(self.shape) - self.event]

    @property
    def image(self) -> tuple[int, int, int] | None:
        """Height, width and channels where the site is one image."""
        height, width, *colours = self.shape if len(self.shape) in (2, 3) else (0, 0)
        channels = colours[0] if colours else 1
        one = not self.batch and min(height, width) >= _LEAST_SIDE and channels <= _MOST_COLOURS
        return (height, width, channels) if one else None


class Layout(NamedTuple):
    """How data sets are laid out.

    Attributes:
        sites: the observed ones.
        rows: how many rows a data set has at most, along the first axis of every site; 0 without rows.
        least: how many at least.
        exchangeable: whether the order of the rows, covariates and all, does not matter.
        row_arguments: which of the arguments that a data set holds come in rows too.
        placed: whether a number's place says what it is, as with covariates that never change.
        maskable: whether what was not seen can be left out of the likelihood.
        missing: whether simulations hide some numbers, for real data that lack some.
    """

    sites: tuple[ObservedSite, ...]
    rows: int = 0
    least: int = 0
    exchangeable: bool = False
    row_arguments: tuple[bool, ...] = ()
    placed: bool = True
    maskable: bool = False
    missing: bool = False

    @property
    def varies(self) -> bool:
        """Whether the number of rows differs between data sets."""
        return self.least < self.rows

    def all_seen(self) -> dict[str, Array]:
        """What is seen where nothing is missing."""
        return {site.name: jnp.ones(site.batch, bool) for site in self.sites}

    def cut(self, x: DataSet, count: Any) -> DataSet:
        """The data set with its first rows alone."""
        seen = {
            site.name: x.seen[site.name]
            & (jnp.arange(self.rows) < count).reshape(-1, *[1] * (len(site.batch) - 1))
            for site in self.sites
        }
        return x._replace(seen=seen)


def hidden(key: Key, layout: Layout, x: DataSet) -> DataSet:
    """The data set with some numbers not seen: none of half of the data sets, up to half of others."""
    first, second, *keys = jax.random.split(key, 2 + len(layout.sites))
    share = jnp.where(jax.random.bernoulli(first), 0.5 * jax.random.uniform(second), 0.0)
    seen = {
        site.name: x.seen[site.name] & ~jax.random.bernoulli(k, share, site.batch)
        for k, site in zip(keys, layout.sites, strict=True)
    }
    return x._replace(seen=seen)


class Scale(eqx.Module):
    """Numbers made comparable: centred and scaled by their quantiles, with tails squashed.

    Where numbers are positive and span decades their logarithms are read too.

    Attributes:
        centre: medians.
        spread: distances of the quartiles, or deviations where those are zero.
        log_centre: medians of the logarithms.
        log_spread: of the logarithms.
        floor: added before a logarithm is taken.
        logged: whether logarithms are read.
    """

    centre: Float[Array, " p"]
    spread: Float[Array, " p"]
    log_centre: Float[Array, " p"]
    log_spread: Float[Array, " p"]
    floor: Float[Array, " p"]
    logged: bool = eqx.field(static=True)

    def __call__(self, values: Float[Array, "*n p"]) -> Float[Array, "*n q"]:
        """The numbers, about standard."""
        plain = jnp.arcsinh((values - self.centre) / self.spread)
        if not self.logged:
            return plain
        logs = jnp.log(jnp.maximum(values, 0.0) + self.floor)
        return jnp.concatenate([plain, jnp.arcsinh((logs - self.log_centre) / self.log_spread)], -1)


class Labels(eqx.Module):
    """Whole numbers that name something, a group say: a one in the place of the label, zeros elsewhere.

    Attributes:
        known: the labels.
    """

    known: Float[Array, " k"]

    def __call__(self, values: Float[Array, "*n p"]) -> Float[Array, "*n q"]:
        """The labels of every column, side by side; none for one that is not known."""
        hot = (values[..., None] == self.known).astype(float)
        return hot.reshape(*values.shape[:-1], -1)


def fit_scale(values: Float[np.ndarray, "n p"], present: Bool[np.ndarray, " n p"]) -> Scale:
    """The scale of columns of numbers, from those that are present."""
    columns = [
        column[kept & np.isfinite(column)] for column, kept in zip(values.T, present.T, strict=True)
    ]
    columns = [column if len(column) else np.zeros(1) for column in columns]
    centre, spread = (np.array(part) for part in zip(*map(_middle, columns), strict=True))
    heavy = [bool(c.min() >= 0 and np.quantile(c, 0.99) > 5 * np.median(c)) for c in columns]
    positive = [c[c > 0] for c in columns]
    floor = np.array([np.quantile(c, 0.05) if len(c) else 1.0 for c in positive])
    logs = [np.log(np.maximum(c, 0) + f) for c, f in zip(columns, floor, strict=True)]
    log_centre, log_spread = (np.array(part) for part in zip(*map(_middle, logs), strict=True))
    parts = (centre, spread, log_centre, log_spread, floor)
    return Scale(*(jnp.asarray(part, jnp.float32) for part in parts), logged=any(heavy))


def _middle(column: np.ndarray) -> tuple[float, float]:
    low, centre, high = np.quantile(column, [0.25, 0.5, 0.75])
    spread = (high - low) / 1.35
    if spread <= 1e-6 * (abs(centre) + 1e-12):
        spread = float(column.std())
    return float(centre), spread if spread > 1e-6 * (abs(centre) + 1e-12) else max(abs(centre), 1.0)


class Reading(eqx.Module):
    """How a network reads a data set: rows and covariates side by side, the rest as one vector.

    Attributes:
        vectors: scales of what has a place of its own, by kind and name.
        columns: scales of what comes in rows.
        images: scales of the channels of images.
        layout: of the data sets.
    """

    vectors: dict[str, Scale | Labels]
    columns: dict[str, Scale | Labels]
    images: dict[str, Scale | Labels]
    layout: Layout = eqx.field(static=True)

    def __call__(self, x: DataSet) -> Read:
        """One data set as numbers of about unit size; what was not seen is zero."""
        vectors, columns, pictures, masks = split(self.layout, x)
        parts = [jnp.zeros(0)]
        for name, scale in self.vectors.items():
            seen = _widened(masks[name], vectors[name])
            values = scale(vectors[name])
            parts.append(jnp.where(jnp.tile(seen, values.size // seen.size), values, 0.0))
            if self.layout.missing and not name.startswith("argument"):
                parts.append(seen.astype(float))
        vector = jnp.concatenate(parts)
        images = tuple(
            jnp.where(masks[name], scale(pictures[name]), 0.0) for name, scale in self.images.items()
        )
        if not self.columns:
            return Read(vector, images=images)
        rows, present = [], jnp.zeros(self.layout.rows, bool)
        for name, scale in self.columns.items():
            seen = _widened(masks[name], columns[name])
            values = scale(columns[name])
            rows.append(jnp.where(jnp.tile(seen, values.shape[1] // seen.shape[1]), values, 0.0))
            if not name.startswith("argument"):
                present = present | seen.any(-1)
                rows += [seen.astype(float)] if self.layout.missing else []
        return Read(vector, jnp.concatenate(rows, 1), present, images)


def _widened(seen: Array, values: Array) -> Array:
    return jnp.repeat(seen, values.shape[-1] // seen.shape[-1], -1)


def split(layout: Layout, x: DataSet) -> tuple[dict[str, Array], ...]:
    """What one data set has as vectors, as rows and as images, and what was seen of these, by name."""
    vectors, columns, images, seen = {}, {}, {}, {}
    for site in layout.sites:
        values, mask = jnp.asarray(x.values[site.name], float), x.seen[site.name]
        if layout.rows:
            name = f"rows {site.name}"
            columns[name] = values.reshape(layout.rows, -1)
            # The numbers of a series that is one event are seen together, or not at all.
            whole = mask if site.batch else jnp.broadcast_to(mask, (layout.rows,))
            seen[name] = whole.reshape(layout.rows, -1)
        if site.image is not None:
            name = f"image {site.name}"
            images[name], seen[name] = values.reshape(site.image), mask
        plain = not layout.rows and site.image is None
        if plain or (layout.placed and values.size <= _LONGEST_VECTOR):
            name = f"site {site.name}"
            vectors[name], seen[name] = values.ravel(), mask.ravel()
    for i, (value, in_rows) in enumerate(zip(x.arguments, layout.row_arguments, strict=True)):
        name, value = f"argument {i}", jnp.asarray(value, float)
        if in_rows:
            columns[name] = value.reshape(layout.rows, -1)
            seen[name] = jnp.ones((layout.rows, 1), bool)
        else:
            vectors[name] = value.ravel()
            seen[name] = jnp.ones(1, bool)
    return vectors, columns, images, seen


def fit_reading(layout: Layout, data: DataSet) -> Reading:
    """How to read data sets like these, simulated ones, one a row."""
    *kinds, seen = jax.jit(jax.vmap(lambda x: split(layout, x)))(data)
    scales: list[dict[str, Scale | Labels]] = [{}, {}, {}]
    for kind, parts in zip(scales, kinds, strict=True):
        for name, part in parts.items():
            values = np.asarray(part, float).reshape(-1, part.shape[-1])
            labels = _labels(name, data, values)
            known = seen[name] if part.ndim < 4 else seen[name][:, None, None, None]
            masks = np.broadcast_to(_widened(known, part), part.shape).reshape(values.shape)
            kind[name] = fit_scale(values, masks) if labels is None else labels
    return Reading(*scales, layout=layout)


def _labels(name: str, data: DataSet, values: Float[np.ndarray, "n p"]) -> Labels | None:
    """What whole numbers among the arguments name, where they are few; None for other numbers."""
    if not name.startswith("argument"):
        return None
    argument = data.arguments[int(name.split()[1])]
    known = np.unique(values) if np.issubdtype(argument.dtype, np.integer) else np.zeros(0)
    return Labels(jnp.asarray(known, jnp.float32)) if 2 <= len(known) <= _MOST_LABELS else None


def checked_values(layout: Layout, given: Any) -> dict[str, np.ndarray]:
    """Data by the names of their sites, or a sentence about what does not fit.

    Args:
        layout: of the data sets.
        given: a dictionary by site, or the values themselves where there is one site.
    """
    names = [site.name for site in layout.sites]
    if not isinstance(given, Mapping):
        if len(names) > 1:
            raise IngredientError(
                f"The data are a dictionary with {', '.join(map(repr, names))}; {shown(given)} came."
            )
        given = {names[0]: given}
    if set(given) != set(names):
        raise IngredientError(
            f"The data have the sites {', '.join(map(repr, names))}; "
            f"{', '.join(map(repr, given)) or 'nothing'} came; give those this was trained for."
        )
    return {name: _numbers(name, given[name]) for name in names}


def _numbers(name: str, value: Any) -> np.ndarray:
    if isinstance(value, np.ma.MaskedArray):
        raise IngredientError(
            f"The data of site {name!r} are a masked array; give NaN where a number is missing, such as "
            "y.filled(np.nan)."
        )
    try:
        array = np.asarray(value)
        if array.dtype.kind not in "fiub":
            raise ValueError
    except ValueError as error:
        raise IngredientError(
            f"The data of site {name!r} are an array of numbers; {shown(value)} came."
        ) from error
    return array


def complete(
    layout: Layout, values: dict[str, np.ndarray], arguments: tuple, filler: DataSet
) -> DataSet:
    """One data set, padded to the largest number of rows, with what is missing marked.

    Args:
        layout: of the data sets.
        values: of every site, NaN where a number is missing.
        arguments: of this data set.
        filler: a possible data set, whose numbers stand where nothing was observed.
    """
    count = _rows_of(layout, values)
    filled, seen = {}, {}
    for site in layout.sites:
        value, rest = values[site.name], np.asarray(filler.values[site.name])
        wanted = (count, *site.shape[1:]) if layout.rows else site.shape
        if value.shape != wanted:
            raise IngredientError(
                f"The data of site {site.name!r} have shape {site.shape}"
                f"{', its first number any up to that' if layout.varies else ''}; {value.shape} came."
            )
        if np.isinf(value).any():
            raise IngredientError(
                f"The data of site {site.name!r} hold infinite numbers; write NaN for what is missing."
            )
        if np.isnan(value).any() and not layout.maskable:
            raise IngredientError(
                f"The data of site {site.name!r} hold NaN, and numbers can be missing only in NumPyro "
                "models in which no number leans on another, as in a plate; fill them in."
            )
        padded = np.full(site.shape, np.nan)
        padded[tuple(slice(0, n) for n in value.shape)] = value
        known = ~np.isnan(padded)
        seen[site.name] = known.all(tuple(range(len(site.batch), len(site.shape))))
        if (
            site.event
            and (known.any(tuple(range(len(site.batch), len(site.shape)))) != seen[site.name]).any()
        ):
            raise IngredientError(
                f"The numbers of site {site.name!r} belong together {site.shape[len(site.batch) :]}; "
                "either all of them are missing (NaN) or none."
            )
        filled[site.name] = np.where(known, padded, rest).astype(rest.dtype)
    padded = tuple(
        _padded(argument, np.asarray(rest), count if in_rows and layout.varies else None)
        for argument, rest, in_rows in zip(
            arguments, filler.arguments, layout.row_arguments, strict=True
        )
    )
    return DataSet(filled, seen, padded)


def _rows_of(layout: Layout, values: dict[str, np.ndarray]) -> int:
    if not layout.rows:
        return 0
    counts = {value.shape[:1] for value in values.values()}
    if len(counts) != 1 or counts == {()}:
        raise IngredientError(
            f"Every site of a data set has as many rows; {[v.shape for v in values.values()]} came."
        )
    ((count,),) = counts
    if not min(layout.least, 1) <= count <= layout.rows:
        wanted = f"{layout.least} to {layout.rows}" if layout.varies else f"{layout.rows}"
        raise IngredientError(
            f"This was trained for data sets of {wanted} rows; one of {count} came; train with "
            f"sizes=({min(layout.least, count)}, {max(layout.rows, count)})."
        )
    if not layout.varies and count != layout.rows:
        raise IngredientError(
            f"This was trained for data sets of {layout.rows} rows; one of {count} came; train with "
            f"sizes=({min(layout.rows, count)}, {max(layout.rows, count)})."
        )
    return count


def _padded(argument: Any, rest: np.ndarray, count: int | None) -> np.ndarray:
    """An argument as training had it; in rows, as many as the data have, where there is a count."""
    value = np.asarray(argument)
    wanted = rest.shape if count is None else (count, *rest.shape[1:])
    if value.shape != wanted or not np.isfinite(value).all():
        raise IngredientError(
            f"An argument of the model has shape {wanted} for these data, all finite; "
            f"{shown(argument)} came."
        )
    return np.concatenate([value, rest[len(value) :]]).astype(rest.dtype)


def stacked(data: list[DataSet]) -> DataSet:
    """Several data sets as one, a row each."""
    return jax.tree.map(lambda *leaves: np.stack(leaves), *data)


def in_canonical_order(layout: Layout, x: DataSet) -> DataSet:
    """The data set with its rows sorted where their order does not matter, so that it cannot."""
    if not layout.exchangeable or layout.placed:
        return x
    rows = [np.asarray(x.seen[site.name]).reshape(layout.rows, -1) for site in layout.sites]
    rows = [~part for part in rows]
    rows += [np.asarray(x.values[site.name], float).reshape(layout.rows, -1) for site in layout.sites]
    held = zip(x.arguments, layout.row_arguments, strict=True)
    rows += [np.asarray(a, float).reshape(layout.rows, -1) for a, in_rows in held if in_rows]
    order = np.lexsort(np.concatenate(rows, 1).T[::-1])
    arguments = tuple(
        np.asarray(a)[order] if in_rows else a
        for a, in_rows in zip(x.arguments, layout.row_arguments, strict=True)
    )
    return DataSet(
        {name: np.asarray(value)[order] for name, value in x.values.items()},
        {name: np.asarray(value)[order] for name, value in x.seen.items()},
        arguments,
    )
