"""NumPyro models as targets: unconstrained flat vectors inside, named sites outside."""

import dataclasses
import inspect
import math
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree, Scalar
from numpyro import distributions
from numpyro.distributions import biject_to
from numpyro.handlers import seed, substitute, trace, uncondition
from numpyro.infer import Predictive, init_to_uniform
from numpyro.infer import log_likelihood as numpyro_log_likelihood
from numpyro.infer import util as numpyro_util
from numpyro.primitives import Messenger

from understudy.checks import first_line, native, shown
from understudy.core import Condition, IngredientError, Key, Site, Target
from understudy.programs import jit_of_few
from understudy.surroundings import own_settings, with_own_settings
from understudy.targets.summing import Summed, check_summable, enumerating, is_discrete, summed_out

Arguments = tuple[tuple[Any, ...], dict[str, Any]]

_TRIES = 20


class NumPyroTarget(Target):
    """The posterior of a NumPyro model over its unconstrained latents, log p(z, data) + log |Jacobian|.

    The data are leaves where the model allows it, so a condition ``x = (args, kwargs)`` replaces
    them and a ``vmap`` over conditions is a ``vmap`` over data sets. Made by :func:`from_numpyro`.

    Reference: Phan, Pradhan and Jankowiak, "Composable Effects for Flexible and Accelerated
    Probabilistic Programming in NumPyro", 2019.

    Attributes:
        sites: the latents in the order in which they fill the flat vector.
        summed: the discrete latents that are summed out, if the model has any.
    """

    data: PyTree
    model: Callable = eqx.field(static=True)
    rest: PyTree = eqx.field(static=True)
    sites: tuple[Site, ...] = eqx.field(static=True)
    dim: int = eqx.field(static=True)
    summed: "Summed | None" = eqx.field(static=True, default=None)

    @property
    def arguments(self) -> Arguments:
        """What the model is called with: ``(args, kwargs)``."""
        return _join(self.data, self.rest)

    def with_arguments(self, *args: Any, **kwargs: Any) -> "NumPyroTarget":
        """The same model called with other arrays, of the same shapes: another data set, say."""
        data, rest = _divide((args, kwargs))
        if rest != self.rest:
            raise IngredientError(
                f"The model {_name(self.model)} was called with other arguments than arrays, or with "
                "arrays in other places; give the same ones with other numbers in the arrays."
            )
        return eqx.tree_at(lambda target: target.data, self, data)

    @with_own_settings
    def log_density(self, z: Float[Array, " d"], x: Condition = None) -> Scalar:
        """Log joint density of one flat unconstrained draw and the data, Jacobian included."""
        data, rest = (self.data, self.rest) if x is None else _divide(x)
        value = _log_density(self.model, self.summed, rest, data, self._named(z))
        if jnp.issubdtype(value.dtype, jnp.complexfloating):
            raise IngredientError(
                f"The log density of the model {_name(self.model)} is complex and a density is real; "
                "give the real and the imaginary parts of data as two arrays."
            )
        return value.astype(jnp.result_type(float))

    @with_own_settings
    def constrain(self, z: Float[Array, " d"], x: Condition = None) -> dict[str, Array]:
        """The named sites of one flat draw on their own scale, deterministic sites included.

        Deterministic sites that depend on a discrete latent which is summed out are not.
        """
        args, kwargs = _join(*((self.data, self.rest) if x is None else _divide(x)))
        model = seed(self.model, jax.random.key(0))
        sites = numpyro_util.constrain_fn(model, args, kwargs, self._named(z), return_deterministic=True)
        unknown = self.summed.unknown if self.summed else ()
        return {name: value for name, value in sites.items() if name not in unknown}

    @with_own_settings
    def unconstrain(self, values: dict[str, Array], x: Condition = None) -> Float[Array, " d"]:
        """The flat draw whose latent sites have these values."""
        args, kwargs = _join(*((self.data, self.rest) if x is None else _divide(x)))
        model = seed(self.model, jax.random.key(0))
        latents = {site.name: jnp.asarray(values[site.name], float) for site in self.sites}
        free = numpyro_util.unconstrain_fn(model, args, kwargs, latents)
        return jnp.concatenate([free[site.name].ravel() for site in self.sites])

    def draw_prior(self, key: Key) -> Float[Array, " d"]:
        """One flat draw of the prior: the latent sites of the model, run forward."""
        args, kwargs = self.arguments
        run = trace(seed(self.model, key)).get_trace(*args, **kwargs)
        return self.unconstrain({site.name: run[site.name]["value"] for site in self.sites})

    def observed(self) -> dict[str, np.ndarray]:
        """The data by the names of their sites."""
        seen = [site for site in self._traced() if _is_datum(site)]
        return {site["name"]: np.asarray(site["value"]) for site in seen}

    @with_own_settings
    def predict(
        self, key: Key, draws: dict[str, np.ndarray], *args: Any, **kwargs: Any
    ) -> dict[str, np.ndarray]:
        """New data for every draw of the named sites.

        Args:
            key: random key.
            draws: of the latent sites; others are ignored.
            args: what the model is called with; nothing takes the target's own arguments.
            kwargs: the same, by name. What is left out and has no default is None.
        """
        names = list(self.observed())
        if not names:
            raise IngredientError(
                f"The model {_name(self.model)} has no observed site to predict; give it one with obs=."
            )
        given = filled(self.model, args, kwargs) if args or kwargs else self.arguments
        # One draw after the other inside one program, so memory beyond the result does not grow.
        model = uncondition(_Expanded(self.model))
        predictive = Predictive(model, self._latents(draws), return_sites=names, parallel=False)
        try:
            made = predictive(key, *given[0], **given[1])
        except Exception as error:
            raise _cannot_run(self.model, error) from error
        return {name: np.asarray(made[name]) for name in names}

    @with_own_settings
    def log_likelihood(self, draws: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Log likelihood of every datum for every draw of the named sites.

        There is none where discrete latents are summed out: data may share them.
        """
        if self.summed:
            return {}
        args, kwargs = self.arguments
        latents = self._latents(draws)
        values = numpyro_log_likelihood(self.model, latents, *args, parallel=False, **kwargs)
        return {name: np.asarray(values[name]) for name in self.observed()}

    def axes(self) -> tuple[dict[str, list[Any]], dict[str, list[str | None]]]:
        """Coordinates of the model's plates, and for every site the plate of each of its axes."""
        coordinates: dict[str, list[Any]] = {}
        axes: dict[str, list[str | None]] = {}
        for site in self._traced():
            frames = site.get("cond_indep_stack") or []
            if site["type"] == "sample" and frames:
                batch = len(site["fn"].batch_shape)
                axes[site["name"]] = [None] * np.ndim(site["value"])
                for frame in frames:
                    axes[site["name"]][batch + frame.dim] = frame.name
                    coordinates[frame.name] = list(range(frame.size))
        return coordinates, axes

    @with_own_settings
    def _traced(self) -> list[dict[str, Any]]:
        args, kwargs = self.arguments
        return list(trace(seed(self.model, jax.random.key(0))).get_trace(*args, **kwargs).values())

    def _latents(self, draws: dict[str, np.ndarray]) -> dict[str, Array]:
        return {site.name: jnp.asarray(draws[site.name], float) for site in self.sites}

    def _named(self, z: Float[Array, " d"]) -> dict[str, Array]:
        sizes = [math.prod(site.shape) for site in self.sites]
        parts = jnp.split(z, np.cumsum(sizes)[:-1])
        return {s.name: part.reshape(s.shape) for s, part in zip(self.sites, parts, strict=True)}


def from_numpyro(model: Any, *args: Any, **kwargs: Any) -> NumPyroTarget:
    """The posterior of a NumPyro model given its arguments, as a target over flat vectors.

    Args:
        model: a function with NumPyro's ``sample`` statements.
        args: what the model is called with: data, sizes, settings.
        kwargs: the same, by name.

    Examples:
        >>> import numpyro, numpyro.distributions as dist, understudy
        >>> def model(y):
        ...     mu = numpyro.sample("mu", dist.Normal(0, 5))
        ...     numpyro.sample("y", dist.Normal(mu, 1), obs=y)
        >>> understudy.from_numpyro(model, 1.3).dim
        1
    """
    if not callable(model):
        raise IngredientError(
            f"from_numpyro takes a NumPyro model, a function that calls numpyro.sample, and then its "
            f"arguments; a {type(model).__name__} came."
        )
    check_arguments(model, args, kwargs)
    with own_settings():
        return _target_of(model, args, kwargs)


def _target_of(model: Callable, args: tuple, kwargs: dict[str, Any]) -> NumPyroTarget:
    data, rest = _divide((args, kwargs))
    try:
        sites, summed = _inspect(model, data, rest)
    except (jax.errors.JAXTypeError, jax.errors.JAXIndexError):
        data, rest = None, _Fixed((args, kwargs))
        sites, summed = _inspect_fixed(model, rest)
    dim = sum(math.prod(site.shape) for site in sites)
    target = NumPyroTarget(data=data, model=model, rest=rest, sites=sites, dim=dim, summed=summed)
    if summed:
        _check_plates(target, summed)
    try:
        _check_start(target)
    except IngredientError:
        raise
    except Exception as error:
        raise _cannot_run(model, error) from error
    return target


def _inspect_fixed(model: Callable, rest: "_Fixed") -> tuple[tuple[Site, ...], Summed | None]:
    try:
        return _inspect(model, None, rest)
    except (jax.errors.JAXTypeError, jax.errors.JAXIndexError) as error:
        raise IngredientError(
            f"What the model {_name(model)} does depends on the value of a draw, or it calls NumPy on "
            f"one ({type(error).__name__}); its sites must be the same for every draw, so use jnp.where "
            "or jax.lax.cond and jax.numpy instead."
        ) from error


def check_arguments(model: Callable, args: tuple, kwargs: dict[str, Any]) -> None:
    """Whether every array holds numbers, before JAX says so in its own words."""
    named = {f"number {i + 1}": value for i, value in enumerate(args)} | kwargs
    for name, value in named.items():
        for leaf in jax.tree.leaves(value):
            fault = _fault_of(leaf)
            if fault:
                raise IngredientError(f"Argument {name} of the model {_name(model)} {fault}.")


def _fault_of(leaf: Any) -> str | None:
    if isinstance(leaf, np.ma.MaskedArray):
        return "is a masked array; leave masked entries out, or fill them in"
    if isinstance(leaf, np.ndarray | np.generic) and not _known_to_jax(leaf.dtype):
        return f"is an array of dtype {leaf.dtype}; give numbers of 64 bits or less"
    if isinstance(leaf, np.ndarray) and leaf.dtype.names is not None:
        return "is an array of records; give its columns as arrays of numbers"
    if hasattr(leaf, "to_numpy"):
        return f"is a {type(leaf).__name__}; give its .to_numpy()"
    try:
        hash(leaf) if not isinstance(leaf, np.ndarray | jax.Array) else None
    except (TypeError, ValueError):
        return f"is a {type(leaf).__name__}, which JAX cannot tell from another; give arrays or numbers"
    return None


def _known_to_jax(dtype: np.dtype) -> bool:
    """Whether JAX has numbers of this kind, or records of them, which have a sentence of their own."""
    return dtype.kind in "biuV" or (
        dtype.kind in "fc" and dtype.itemsize <= 8 * (1 + (dtype.kind == "c"))
    )


class _Fixed:
    """Arguments the model needs as they are: it looks at their values while it is traced.

    Whole numbers are of 32 bits, as those of JAX: a program with floats of 64 bits refuses to add
    indices of another size to them.
    """

    def __init__(self, arguments: Arguments):
        self.arguments = jax.tree.map(_as_jax_counts, arguments)


def _as_jax_counts(leaf: Any) -> Any:
    """NumPy's whole numbers in the dtype that JAX gives them, unless they do not fit."""
    if not (isinstance(leaf, np.ndarray) and leaf.dtype in (np.int64, np.uint64)):
        return leaf
    bounds = np.iinfo(np.int32)
    fits = not leaf.size or (leaf.min() >= bounds.min and leaf.max() <= bounds.max)
    return leaf.astype(np.int32) if fits else leaf


class _Static(NamedTuple):
    """What is left of the arguments without their arrays, in a form that can be compared."""

    leaves: tuple[Any, ...]
    structure: Any


def _divide(arguments: Any) -> tuple[PyTree, _Static]:
    if not (isinstance(arguments, tuple | list) and len(arguments) == 2):
        raise IngredientError(
            "The condition of a NumPyro target is x = (args, kwargs), a tuple and a dictionary; "
            f"a {type(arguments).__name__} came."
        )
    arguments = (tuple(arguments[0]), dict(arguments[1]))
    leaves, structure = jax.tree.flatten(arguments)
    arrays = tuple(jnp.asarray(native(leaf)) if _is_data(leaf) else None for leaf in leaves)
    others = tuple(None if _is_data(leaf) else leaf for leaf in leaves)
    return arrays, _Static(others, structure)


def _is_data(leaf: Any) -> bool:
    return eqx.is_array(leaf) or (isinstance(leaf, np.ndarray) and leaf.dtype.kind in "fiubcV")


def _join(data: PyTree, rest: Any) -> Arguments:
    if isinstance(rest, _Fixed):
        return rest.arguments
    leaves = [s if a is None else a for a, s in zip(data, rest.leaves, strict=True)]
    return jax.tree.unflatten(rest.structure, leaves)


# A nested jit is traced once, however often a teacher evaluates the density.
@jit_of_few
def _log_density(
    model: Callable, summed: Summed | None, rest: Any, data: PyTree, latents: dict[str, Array]
) -> Array:
    args, kwargs = _join(data, rest)
    enumerated = enumerating(model, summed) if summed else model
    energy = numpyro_util.potential_energy(enumerated, args, kwargs, latents, enum=summed is not None)
    return -jnp.asarray(energy)


def _inspect(model: Callable, data: PyTree, rest: Any) -> tuple[tuple[Site, ...], Summed | None]:
    sites: list[Site] = []
    summed: list[Summed | None] = []

    def run(key: Key, data: PyTree) -> None:
        args, kwargs = _join(data, rest)
        started = substitute(seed(model, key), substitute_fn=_start_value)
        found = trace(started).get_trace(*args, **kwargs)
        _check_sites(found.values())
        sites[:] = [Site(site["name"], _free_shape(site)) for site in found.values() if _is_latent(site)]
        summed[:] = [summed_out(started, args, kwargs, found)]

    try:
        jax.eval_shape(run, jax.random.key(0), data)
    except (IngredientError, jax.errors.JAXTypeError, jax.errors.JAXIndexError):
        raise
    except Exception as error:
        raise _cannot_run(model, error) from error
    empty = [site.name for site in sites if 0 in site.shape]
    if empty:
        raise IngredientError(
            f"Site {empty[0]!r} of the model {_name(model)} has no entry (its shape holds a 0); leave "
            "it out, or give data that are not empty."
        )
    if not sites and summed[0]:
        raise IngredientError(
            f"Site {summed[0].names[0]!r} is discrete, as all latents of the model {_name(model)} are; "
            "write the log density yourself and choose a discrete student such as Autoregressive."
        )
    if not sites:
        raise IngredientError(
            f"The model {_name(model)} has no latent variable to draw; give it a numpyro.sample without "
            "obs=, and pass data as arguments."
        )
    return tuple(sites), summed[0]


def _cannot_run(model: Callable, error: Exception) -> IngredientError:
    return IngredientError(
        f"The model {_name(model)} cannot be run with these arguments ({type(error).__name__}: "
        f"{first_line(error)}); call it as from_numpyro(model, *args, **kwargs) with the data it "
        "expects."
    )


def _start_value(site: dict[str, Any]) -> Any:
    if is_discrete(site):
        check_summable(site)
        return None
    return init_to_uniform(site)


def _is_latent(site: dict[str, Any]) -> bool:
    return site["type"] == "sample" and not site["is_observed"] and not is_discrete(site)


def _free_shape(site: dict[str, Any]) -> tuple[int, ...]:
    return tuple(biject_to(site["fn"].support).inverse_shape(jnp.shape(site["value"])))


def _check_sites(sites: Iterable[dict[str, Any]]) -> None:
    for site in sites:
        sentence = _fault(site)
        if sentence:
            raise IngredientError(sentence)


def _fault(site: dict[str, Any]) -> str | None:
    name = site["name"]
    if not isinstance(name, str):
        return f"A site of the model is named {name!r}; name sites by strings, such as {str(name)!r}."
    if site["type"] == "plate" and site["args"][1] not in (None, site["args"][0]):
        return (
            f"Plate {name!r} takes a random subsample inside the model; pass minibatches as arguments "
            "and scale their likelihood with numpyro.handlers.scale instead."
        )
    if site["type"] == "param":
        return (
            f"Site {name!r} is a numpyro.param, which a posterior cannot hold; give it a prior with "
            "numpyro.sample or pass its value as an argument."
        )
    if site["type"] == "deterministic" and not _is_array(site["value"]):
        return (
            f"Site {name!r} is {shown(site['value'])}, and a numpyro.deterministic holds one array of "
            "numbers; give every array a site of its own."
        )
    if site["type"] != "sample":
        return None
    if not site["is_observed"]:
        delta = isinstance(site["fn"], distributions.Delta)
        return f"Site {name!r} is a point mass; write numpyro.deterministic instead." if delta else None
    together = jnp.broadcast_shapes(site["fn"].shape(), jnp.shape(site["value"]))
    if together != jnp.shape(site["value"]):
        return (
            f"The data of site {name!r} have shape {jnp.shape(site['value'])} but its distribution has "
            f"shape {site['fn'].shape()}; give both the same shape."
        )
    return None


def _is_array(value: Any) -> bool:
    return isinstance(value, bool | int | float | complex) or eqx.is_array_like(value)


def _check_plates(target: NumPyroTarget, summed: Summed) -> None:
    """Refuse rows outside a plate, for which values that are summed out would be taken."""
    z, further = jnp.full(target.dim, 0.3), summed._replace(plates=summed.plates + 2)
    moved = dataclasses.replace(target, summed=further)
    try:
        values = [float(one.log_density(z)) for one in (target, moved)]
    except Exception:
        values = [np.nan, 0.0]
    if not np.isclose(*values, rtol=1e-4, atol=1e-4, equal_nan=True):
        raise IngredientError(
            f"Site {summed.names[0]!r} of the model {_name(target.model)} is discrete and cannot be "
            "summed out as it stands; put data and sites that are repeated into a numpyro.plate."
        )


def _check_start(target: NumPyroTarget) -> None:
    evaluate = eqx.filter_jit(lambda t, z: jax.value_and_grad(t.log_density)(z))
    draws = np.random.default_rng(0).uniform(-2, 2, (_TRIES, target.dim))
    for z in [np.zeros(target.dim), *draws]:
        value, gradient = evaluate(target, jnp.asarray(z, float))
        if np.isfinite(value) and np.isfinite(gradient).all():
            return
    raise IngredientError(
        f"The log density of {_name(target.model)} or its gradient is not finite at any of "
        f"{_TRIES + 1} starts{_culprits(target)}; check data outside the support, missing values and "
        "divisions by zero."
    )


def _culprits(target: NumPyroTarget) -> str:
    args, kwargs = _join(target.data, target.rest)

    def parts() -> dict[str, Array]:
        values = target.constrain(jnp.zeros(target.dim))
        model = seed(target.model, jax.random.key(0))
        return numpyro_util.compute_log_probs(model, args, kwargs, values)[0]

    bad = [repr(name) for name, value in jax.jit(parts)().items() if not np.isfinite(value)]
    return f" (not finite at zero: {', '.join(bad)})" if bad else ""


def _name(model: Callable) -> str:
    return getattr(model, "__name__", type(model).__name__)


def _is_datum(site: dict[str, Any]) -> bool:
    # A factor is no datum.
    return (
        site["type"] == "sample"
        and site["is_observed"]
        and not isinstance(site["fn"], distributions.Unit)
    )


class _Expanded(Messenger):
    """The model with the distribution of every datum expanded to the datum's shape."""

    def process_message(self, msg: dict[str, Any]) -> None:
        if msg["type"] == "sample" and msg["is_observed"]:
            fn, shape = msg["fn"], np.shape(msg["value"])
            msg["fn"] = fn.expand(shape[: len(shape) - fn.event_dim])


def filled(model: Callable, args: tuple, kwargs: dict[str, Any]) -> Arguments:
    """Arguments with None for what is left out and has no default: the data to predict."""
    try:
        bound = inspect.signature(model).bind_partial(*args, **kwargs)
    except (TypeError, ValueError) as error:
        raise IngredientError(
            f"The model {_name(model)} does not take these arguments ({error}); give those of the model."
        ) from error
    for name, parameter in inspect.signature(model).parameters.items():
        ordinary = parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
        if ordinary and parameter.default is parameter.empty:
            bound.arguments.setdefault(name, None)
    return bound.args, bound.kwargs
