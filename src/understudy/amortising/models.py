"""NumPyro models as simulators: their data drawn anew, read, masked and weighed."""

import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from numpyro import distributions
from numpyro.distributions import biject_to
from numpyro.handlers import condition, seed, trace, uncondition
from numpyro.primitives import Messenger

from understudy.amortising.observations import DataSet, Layout, ObservedSite, hidden
from understudy.amortising.simulators import Simulator
from understudy.checks import calling, first_line, shown
from understudy.core import IngredientError, Key, Target
from understudy.surroundings import own_settings
from understudy.targets.numpyro import NumPyroTarget, check_arguments, filled, from_numpyro

_NO_MASK = (
    "numbers that were not seen would have a say in the log density of this model, as where later data "
    "lean on earlier ones"
)
# Shorter ordered data are read as a vector.
_SHORTEST_SERIES = 24


class Observing:
    """A model that is called with a :class:`DataSet` and has it as its data.

    Args:
        model: a function with NumPyro's ``sample`` statements.
        names: of the observed sites.
        args: what it is called with; arrays among them can be replaced by those of a data set.
        kwargs: the same, by name.
        held: which of the arrays a data set holds, by their place among the arrays.
    """

    def __init__(
        self, model: Callable, names: Sequence[str], args: tuple, kwargs: dict, held: Sequence[int] = ()
    ):
        self.model, self.names, self.args, self.kwargs = model, tuple(names), args, kwargs
        self.held = tuple(held)
        self.__name__ = getattr(model, "__name__", type(model).__name__)

    def called_with(self, arguments: tuple) -> tuple[tuple, dict]:
        """The model's arguments with those of a data set in their places."""
        leaves, structure = jax.tree.flatten((self.args, self.kwargs))
        for place, value in zip(self.held, arguments, strict=True):
            leaves[place] = value
        return jax.tree.unflatten(structure, leaves)

    def __call__(self, x: DataSet) -> Any:
        """Run the model with its sites observed, what was not seen left out of the likelihood."""
        args, kwargs = self.called_with(x.arguments)
        with condition(data=dict(x.values)), _Masked(x.seen):
            return self.model(*args, **kwargs)

    def names_of_held(self) -> tuple[str, ...]:
        """The names of the arrays that a data set holds, with a number where a name has several."""
        parameters = list(inspect.signature(self.model).parameters)
        leaves, _ = jax.tree_util.tree_flatten_with_path((self.args, self.kwargs))
        paths = [leaves[place][0] for place in self.held]
        named = [p[1].key if p[0].idx else parameters[min(p[1].idx, len(parameters) - 1)] for p in paths]
        return tuple(
            name if named.count(name) == 1 else f"{name}_{named[:i].count(name)}"
            for i, name in enumerate(named)
        )

    def drawn(self, key: Key, arguments: tuple) -> dict[str, Any]:
        """A run of the model with its sites drawn."""
        args, kwargs = self.called_with(arguments)
        return trace(seed(uncondition(self.model), key)).get_trace(*args, **kwargs)


class _Masked(Messenger):
    """Leaves out of the likelihood what was not seen of the sites."""

    def __init__(self, seen: Mapping[str, Array]):
        super().__init__(None)
        self.seen = seen

    def process_message(self, msg: dict[str, Any]) -> None:
        if msg["type"] == "sample" and msg["name"] in self.seen:
            fn = msg["fn"]
            shape = jnp.shape(self.seen[msg["name"]])
            msg["fn"] = (fn if fn.batch_shape == shape else fn.expand(shape)).mask(
                self.seen[msg["name"]]
            )


class ModelTarget(Target):
    """log p(z, x) of a NumPyro model for a :class:`DataSet` x.

    Attributes:
        target: the model's posterior of some data set.
    """

    target: NumPyroTarget
    dim: int = eqx.field(static=True)

    @property
    def sites(self) -> Any:
        """The latents in the order in which they fill the flat vector."""
        return self.target.sites

    def log_density(self, z: Float[Array, " d"], x: Any = None) -> Array:
        """Log joint density of one flat draw and the data set, Jacobian included."""
        return self.target.log_density(z, None if x is None else ((x,), {}))

    def constrain(self, z: Float[Array, " d"], x: Any = None) -> dict[str, Array]:
        """The named sites of one flat draw."""
        return self.target.constrain(z, None if x is None else ((x,), {}))


class ModelSimulator(Simulator):
    """The prior predictive of a NumPyro model; made by :func:`simulator_of`."""

    target: ModelTarget  # pyright: ignore[reportIncompatibleVariableOverride]
    filler: DataSet
    layout: Layout = eqx.field(static=True)
    model: Observing = eqx.field(static=True)
    renew: Callable | None = eqx.field(static=True)
    likelihood: bool = eqx.field(static=True, default=True)

    def simulate(self, key: Key) -> tuple[Float[Array, " d"], DataSet]:
        """Draw arguments, latents and data, and how many rows there are."""
        with own_settings():
            first, second, third = jax.random.split(key, 3)
            arguments = self._renewed(first)
            run = self.model.drawn(second, arguments)
            parts = [_free(run[site.name]) for site in self.target.sites]
            values = {site.name: run[site.name]["value"] for site in self.layout.sites}
            x = DataSet(values, self.layout.all_seen(), arguments)
            if self.layout.varies:
                x = self.layout.cut(x, _size(third, self.layout))
            if self.layout.missing:
                x = hidden(jax.random.fold_in(third, 1), self.layout, x)
            return jnp.concatenate(parts), x

    def _renewed(self, key: Key) -> tuple:
        if self.renew is not None:
            return _picked(self.model, *_as_arguments(self.renew(key)))
        if not self.layout.varies:
            return tuple(jnp.asarray(a) for a in self.filler.arguments)
        # Covariates of a smaller data set are rows of those that were given, picked at random.
        order = jax.random.permutation(key, self.layout.rows)
        held = zip(self.filler.arguments, self.layout.row_arguments, strict=True)
        return tuple(jnp.asarray(a)[order] if in_rows else jnp.asarray(a) for a, in_rows in held)

    def arguments(self, args: tuple, kwargs: Mapping[str, Any]) -> tuple:
        """The arguments that a data set holds, from what a user gave beside the data."""
        if args or kwargs:
            if self.renew is None and not self.layout.varies:
                raise IngredientError(
                    "The arguments of the model were the same in training, so they cannot be others "
                    "now; train with arguments= (a function of a key) or sizes= to vary them."
                )
            return _picked(self.model, tuple(args), dict(kwargs))
        if self.renew is not None or (self.layout.varies and any(self.layout.row_arguments)):
            raise IngredientError(
                "The arguments of the model differ between data sets; give them after the data, as in "
                "inference(y, X)."
            )
        return tuple(np.asarray(a) for a in self.filler.arguments)

    def given(self, x: DataSet) -> Target:
        """The posterior of one data set."""
        return self.target.target.with_arguments(x)

    @property
    def argument_names(self) -> tuple[str, ...]:
        """The names that the model's function has for the arguments of a data set."""
        if self.renew is None and not self.layout.varies:
            return ()
        return self.model.names_of_held()


def simulator_of(
    model: Any,
    args: tuple,
    kwargs: dict[str, Any],
    observed: Any,
    arguments: Callable | None = None,
    sizes: Any = None,
    missing: bool = False,
) -> ModelSimulator:
    """A NumPyro model as a simulator.

    Args:
        model: a function with NumPyro's ``sample`` statements.
        args: what it is called with, data left out.
        kwargs: the same, by name.
        observed: the name of the observed site, or several.
        arguments: a function of a key to other arguments, a tuple or a dictionary; None keeps them.
        sizes: the least and the largest number of rows of a data set; None has as many as the model.
        missing: whether numbers of real data sets can be missing.
    """
    names = _names(observed)
    with own_settings():
        if arguments is not None:
            with calling("arguments is a function of a key to the model's arguments"):
                given = _as_arguments(arguments(jax.random.key(0)))
            args, kwargs = given[0] or args, {**kwargs, **given[1]}
        args, kwargs = _without_data(model, args, kwargs)
        check_arguments(model, args, kwargs)
        plain = Observing(model, names, args, kwargs)
        run = _first_run(plain)
        _refuse_other_data(run, names)
        sites = tuple(_observed_site(run, name, plain.__name__) for name in names)
        rows = _rows(run, sites)
        arrays = [
            (place, np.asarray(leaf))
            for place, leaf in enumerate(jax.tree.leaves((args, kwargs)))
            if eqx.is_array_like(leaf) and np.ndim(leaf) > 0
        ]
        in_rows = [rows > 0 and len(array) == rows for _, array in arrays]
        varied = arguments is not None
        kept = [i for i, of_rows in enumerate(in_rows) if varied or of_rows]
        observing = Observing(model, names, args, kwargs, [arrays[i][0] for i in kept])
        filler = DataSet(
            {site.name: np.asarray(run[site.name]["value"]) for site in sites},
            {site.name: np.ones(site.batch, bool) for site in sites},
            tuple(arrays[i][1] for i in kept),
        )
        target = from_numpyro(observing, filler)
        whole = ModelTarget(target=target, dim=target.dim)
        layout = Layout(sites, rows, rows, row_arguments=tuple(in_rows[i] for i in kept))
        other = observing.drawn(jax.random.key(1), filler.arguments)
        layout = layout._replace(maskable=_can_miss(layout, whole, filler, other))
        if missing and not layout.maskable:
            raise IngredientError(f"missing=True cannot be had: {_NO_MASK}; leave missing out.")
        layout = _read_order(layout, whole, filler, run, varied, sizes)
        layout = layout._replace(missing=bool(missing))
        return ModelSimulator(
            target=whole, filler=filler, layout=layout, model=observing, renew=arguments
        )


def _names(observed: Any) -> tuple[str, ...]:
    names = (observed,) if isinstance(observed, str) else observed
    several = isinstance(names, list | tuple) and bool(names)
    if not several or not all(isinstance(name, str) for name in names) or len(set(names)) < len(names):
        raise IngredientError(
            f"observed is the name of a site, or a list of different ones; {shown(observed)} came."
        )
    return tuple(names)


def _as_arguments(given: Any) -> tuple[tuple, dict]:
    if isinstance(given, Mapping):
        return (), dict(given)
    if isinstance(given, tuple):
        return given, {}
    raise IngredientError(
        "arguments is a function of a key to a tuple of the model's arguments, or to a dictionary of "
        f"them by name; it gave {shown(given)}."
    )


def _picked(observing: Observing, args: tuple, kwargs: dict) -> tuple:
    """Those arguments that a data set holds, in their order."""
    args, kwargs = _without_data(observing.model, args, kwargs)
    before = jax.tree.structure((observing.args, observing.kwargs))
    if jax.tree.structure((args, kwargs)) != before:
        raise IngredientError(
            f"The model {observing.__name__} was trained with arguments of the form "
            f"{before}; give them in the same way."
        )
    leaves = jax.tree.leaves((args, kwargs))
    return tuple(leaves[place] for place in observing.held)


def _without_data(model: Any, args: tuple, kwargs: dict) -> tuple[tuple, dict]:
    """The arguments with None for those that are left out and have no default: the data."""
    if not callable(model):
        raise IngredientError(
            "amortise takes a NumPyro model, a function that calls numpyro.sample, or a simulator such "
            f"as PriorSimulator(prior, simulate); a {type(model).__name__} came."
        )
    return filled(model, args, kwargs)


def _first_run(observing: Observing) -> dict[str, Any]:
    try:
        return observing.drawn(jax.random.key(0), ())
    except IngredientError:
        raise
    except Exception as error:
        raise IngredientError(
            f"The model {observing.__name__} cannot be run without its data ({type(error).__name__}: "
            f"{first_line(error)}); give all its other arguments, and let it draw the observed sites "
            "where their data are None."
        ) from error


def _observed_site(run: dict[str, Any], name: str, model: str) -> ObservedSite:
    site = run.get(name)
    drawn = [n for n, s in run.items() if s["type"] == "sample"]
    if site is None or site["type"] != "sample":
        raise IngredientError(
            f"The model {model} has no site {name!r} to observe; its sites are {', '.join(drawn)}."
        )
    return ObservedSite(name, tuple(jnp.shape(site["value"])), site["fn"].event_dim)


def _refuse_other_data(run: dict[str, Any], names: Sequence[str]) -> None:
    for name, site in run.items():
        if site["type"] == "sample" and isinstance(site["fn"], distributions.Unit):
            raise IngredientError(
                f"The model has a factor {name!r}, which no simulation follows; write what it stands "
                "for with numpyro.sample instead."
            )
        if site["type"] == "sample" and site["infer"].get("was_observed") and name not in names:
            raise IngredientError(
                f"Site {name!r} is observed too, and simulations do not follow its data; add it to "
                f"observed=({', '.join(map(repr, names))}, {name!r})."
            )


def _rows(run: dict[str, Any], sites: tuple[ObservedSite, ...]) -> int:
    """The size of the plate along the first axis of every site, or of the series; 0 without rows."""
    first = {site.shape[:1] for site in sites}
    if len(first) != 1 or first == {()} or any(site.image for site in sites):
        return 0
    ((rows,),) = first
    plated = [_is_plate(run[site.name], site) for site in sites]
    return rows if all(plated) or rows >= _SHORTEST_SERIES else 0


def _is_plate(site: dict[str, Any], shape: ObservedSite) -> bool:
    frames = site.get("cond_indep_stack") or []
    return any(len(shape.batch) + frame.dim == 0 for frame in frames)


def _read_order(
    layout: Layout,
    target: ModelTarget,
    filler: DataSet,
    run: dict[str, Any],
    varied: bool,
    sizes: Any,
) -> Layout:
    """The layout with what the order of the rows means, and how many there may be."""
    if not layout.rows:
        if sizes is not None:
            raise IngredientError(
                "sizes needs observed sites in rows, inside one numpyro.plate; this model has none."
            )
        return layout._replace(row_arguments=(False,) * len(filler.arguments))
    apart = all(site.batch for site in layout.sites)
    exchangeable = apart and _is_exchangeable(layout, target, filler)
    fixed = any(layout.row_arguments) and not varied and sizes is None
    layout = layout._replace(exchangeable=exchangeable, placed=not exchangeable or fixed)
    if sizes is None:
        return layout
    whole = isinstance(sizes, tuple | list) and all(type(size) is int for size in sizes)
    if not (whole and len(sizes) == 2 and 1 <= sizes[0] <= sizes[1] == layout.rows):
        raise IngredientError(
            f"sizes is the least and the largest number of rows, the latter as many as the model has "
            f"with the arguments given, such as (10, {layout.rows}); {shown(sizes)} came."
        )
    if not layout.maskable:
        raise IngredientError(f"sizes cannot be had: {_NO_MASK}; leave sizes out.")
    if not apart:
        raise IngredientError(
            "sizes needs rows that are independent given the parameters, inside one numpyro.plate; here "
            "they are one event."
        )
    inside = [site for site in run.values() if _is_local(site, layout.rows, layout.sites)]
    if inside:
        raise IngredientError(
            f"Site {inside[0]['name']!r} has a value for every row, so the number of parameters would "
            "change with the data; leave sizes out, or sum that site out."
        )
    return layout._replace(least=sizes[0], placed=not exchangeable)


def _is_local(site: dict[str, Any], rows: int, sites: tuple[ObservedSite, ...]) -> bool:
    if site["type"] != "sample" or site["name"] in {one.name for one in sites}:
        return False
    return any(frame.size == rows for frame in site.get("cond_indep_stack") or [])


def _can_miss(layout: Layout, target: ModelTarget, filler: DataSet, other: dict[str, Any]) -> bool:
    """Whether numbers that were not seen have no say in the log density of those that were."""
    generator, values, seen = np.random.default_rng(2), {}, {}
    for name, shape, event in layout.sites:
        seen[name] = np.asarray(generator.random(shape[: len(shape) - event]) > 0.5)
        there = seen[name].reshape((*seen[name].shape, *[1] * event))
        values[name] = np.where(there, filler.values[name], np.asarray(other[name]["value"]))
    known = filler._replace(seen=seen)
    return _as_likely(target, known, known._replace(values=values))


def _is_exchangeable(layout: Layout, target: ModelTarget, filler: DataSet) -> bool:
    """Whether rows, covariates and all, can be permuted without any change of the log density."""
    order = np.random.default_rng(0).permutation(layout.rows)
    values = {name: value[order] for name, value in filler.values.items()}
    held = zip(filler.arguments, layout.row_arguments, strict=True)
    arguments = tuple(a[order] if in_rows else a for a, in_rows in held)
    return _as_likely(target, filler, DataSet(values, filler.seen, arguments))


def _as_likely(target: ModelTarget, one: DataSet, other: DataSet) -> bool:
    """Whether two data sets have the same log density at some draws."""
    z = jnp.asarray(np.random.default_rng(1).uniform(-1, 1, (8, target.dim)), float)
    before, after = (np.asarray(_log_densities(target, z, x), float) for x in (one, other))
    fine = np.isfinite(before) & np.isfinite(after)
    apart = np.abs(before - after)[fine] / (1 + np.abs(before[fine]))
    return bool(fine.any() and apart.max() < 1e-3)


@eqx.filter_jit
def _log_densities(target: ModelTarget, z: Float[Array, "n d"], x: DataSet) -> Float[Array, " n"]:
    return jax.vmap(lambda z: target.log_density(z, x))(z)


def _free(site: dict[str, Any]) -> Array:
    return jnp.ravel(biject_to(site["fn"].support).inv(jnp.asarray(site["value"], float)))


def _size(key: Key, layout: Layout) -> Array:
    """A number of rows, as likely to be below the middle of the orders of magnitude as above."""
    low, high = math.log(layout.least), math.log(layout.rows + 1)
    drawn = jnp.floor(jnp.exp(jax.random.uniform(key, minval=low, maxval=high)))
    return jnp.clip(drawn, layout.least, layout.rows)
