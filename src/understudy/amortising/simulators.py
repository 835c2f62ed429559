"""Where simulated pairs come from: a prior with a simulator, or a table; NumPyro models have a file."""

from abc import abstractmethod
from collections.abc import Callable, Mapping
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Scalar

from understudy.amortising.observations import DataSet, Layout, ObservedSite
from understudy.checks import calling, flag, function, instance, shown
from understudy.core import Condition, IngredientError, Key, Site, Target
from understudy.targets.parameters import Parameters

# Rows of a table that nothing is learnt from: a tenth of it, within these.
_LEAST_UNSEEN, _MOST_UNSEEN = 20, 4096


class Simulator(eqx.Module):
    """Draws pairs of parameters and data, and knows the parameters' names and supports.

    Attributes:
        target: log p(z, x) for a :class:`DataSet` x, up to a constant, with ``constrain``.
        layout: of the data sets.
        filler: a possible data set.
        likelihood: whether the target has a log density at all.
    """

    target: eqx.AbstractVar[Target]
    layout: eqx.AbstractVar[Layout]
    filler: eqx.AbstractVar[DataSet]
    likelihood: eqx.AbstractVar[bool]

    @abstractmethod
    def simulate(self, key: Key) -> tuple[Float[Array, " d"], DataSet]:
        """Draw z from the prior and data given it."""

    @abstractmethod
    def arguments(self, args: tuple, kwargs: Mapping[str, Any]) -> tuple:
        """The arguments that a data set holds, from what a user gave beside the data."""

    @abstractmethod
    def given(self, x: DataSet) -> Target:
        """The posterior of one data set, as a target without a condition."""

    @property
    @abstractmethod
    def argument_names(self) -> tuple[str, ...]:
        """Names of the arguments that come with every data set; none where they never change."""


class ParameterTarget(Target):
    """Named parameters with a log prior and, where there is one, a log likelihood of data x.

    Attributes:
        parameters: from free numbers to named ones.
        log_prior: of the parameters by name.
        log_likelihood: of the data and the parameters by name; None where it cannot be had.
        data: whose posterior it is; None where it comes as a condition.
    """

    parameters: Parameters
    log_prior: Callable | None = eqx.field(static=True)
    log_likelihood: Callable | None = eqx.field(static=True)
    data: Any
    dim: int = eqx.field(static=True)

    @property
    def sites(self) -> tuple[Site, ...]:
        """The parameters in the order in which they fill the flat vector."""
        return tuple(Site(one.name, one.free_shape) for one in self.parameters.every)

    def log_density(self, z: Float[Array, " d"], x: Condition = None) -> Scalar:
        """Log prior, log likelihood and log volume change; a sentence without a likelihood."""
        if self.log_likelihood is None or self.log_prior is None:
            raise IngredientError(
                "This was trained without a log likelihood, so no density of the posterior can be had: "
                "no weights, no chains, no refine; give amortise a log_likelihood to have them."
            )
        x = self.data if x is None else x
        values, log_det = self.parameters.constrain(z)
        data = next(iter(x.values.values())) if len(x.values) == 1 else x.values
        with calling(f"log_likelihood is a function of (data, {', '.join(values)}) to one number"):
            likelihood = jnp.asarray(self.log_likelihood(data, **values))
        if likelihood.shape != ():
            raise IngredientError(
                "A log likelihood gives one number for a data set and one set of parameters; this one "
                f"gives shape {likelihood.shape}; sum over the axes that are left."
            )
        return (self.log_prior(values) + likelihood + log_det).astype(jnp.result_type(float))

    def constrain(self, z: Float[Array, " d"], x: Condition = None) -> dict[str, Array]:
        """The parameters by name."""
        return self.parameters.constrain(z)[0]


def _target_of(
    parameters: Parameters, log_prior: Callable | None = None, log_likelihood: Callable | None = None
) -> ParameterTarget:
    return ParameterTarget(
        parameters=parameters,
        log_prior=log_prior,
        log_likelihood=log_likelihood,
        data=None,
        dim=parameters.dim,
    )


class OfParameters(Simulator):
    """Draws named parameters and data, and nothing else that a data set would have to hold."""

    target: eqx.AbstractVar[ParameterTarget]  # pyright: ignore[reportIncompatibleVariableOverride]

    def arguments(self, args: tuple, kwargs: Mapping[str, Any]) -> tuple:
        """Empty: such a simulator takes parameters alone."""
        if args or kwargs:
            raise IngredientError("This simulator takes no arguments beside the data; leave them out.")
        return ()

    @property
    def argument_names(self) -> tuple[str, ...]:
        """Empty: such a simulator takes parameters alone."""
        return ()

    def given(self, x: DataSet) -> Target:
        """The posterior of one data set; names alone where there is no likelihood."""
        return eqx.tree_at(lambda t: t.data, self.target, x, is_leaf=lambda leaf: leaf is None)


class PriorSimulator(OfParameters):
    """A prior and a simulator written in JAX, with a log likelihood if there is one.

    Args:
        prior: distributions of NumPyro by name, ``{"rate": dist.Gamma(2.0, 1.0)}``.
        simulate: a function of a key and the parameters by name to an array, or to a dictionary of
            arrays.
        log_likelihood: of what ``simulate`` gives and the parameters by name, one number; None trains
            on simulations alone, and weights and chains cannot be had.
        exchangeable: whether the rows of the data (their first axis) can be in any order.

    Examples:
        >>> import jax
        >>> from numpyro import distributions as dist
        >>> from understudy.amortising import PriorSimulator
        >>> def simulate(key, mu):
        ...     return mu + jax.random.normal(key, (4,))
        >>> simulator = PriorSimulator({"mu": dist.Normal(0.0, 1.0)}, simulate)
        >>> simulator.likelihood
        False
    """

    target: ParameterTarget
    filler: DataSet
    layout: Layout = eqx.field(static=True)
    likelihood: bool = eqx.field(static=True)
    prior: Any = eqx.field(static=True)
    simulator: Callable = eqx.field(static=True)

    def __init__(
        self,
        prior: Mapping[str, Any],
        simulate: Callable,
        log_likelihood: Callable | None = None,
        exchangeable: bool = False,
    ):
        held = _Prior(prior)
        self.prior, self.simulator = held, function("simulate", simulate)
        if log_likelihood is not None:
            function("log_likelihood", log_likelihood)
        parameters = Parameters({name: (one.support, one.shape()) for name, one in prior.items()})
        self.target = _target_of(parameters, held.log_prob, log_likelihood)
        self.likelihood = log_likelihood is not None
        values = self._simulated(jax.random.key(0), held.sample(jax.random.key(1)))
        self.layout = _layout_of(values, flag("exchangeable", exchangeable))
        self.filler = DataSet(values, self.layout.all_seen())

    def simulate(self, key: Key) -> tuple[Float[Array, " d"], DataSet]:
        """Draw parameters and data."""
        first, second = jax.random.split(key)
        values = self.prior.sample(first)
        data = self._simulated(second, values)
        return self.target.parameters.unconstrain(values), DataSet(data, self.layout.all_seen())

    def _simulated(self, key: Key, values: Mapping[str, Array]) -> dict[str, Array]:
        with calling(f"simulate is a function of (key, {', '.join(values)}) to arrays of numbers"):
            made = self.simulator(key, **values)
            made = made if isinstance(made, Mapping) else {"x": made}
            return {name: jnp.asarray(value, float) for name, value in made.items()}


class Pairs(OfParameters):
    """A table of parameters and data that were simulated elsewhere.

    A tenth of the rows, picked at random, is never learnt from: training stops where these say that it
    learns the table by heart, and the student is judged by them.

    Args:
        parameters: arrays by name, one row a pair.
        data: an array, or arrays by name, one row a pair.
        supports: constraints of NumPyro by name, for parameters that are bounded; draws stay inside.
        exchangeable: whether the rows of one data set (its first axis) can be in any order.

    Examples:
        >>> import numpy as np
        >>> from understudy.amortising import Pairs
        >>> mu = np.random.default_rng(0).normal(size=1000)
        >>> data = mu[:, None] + np.random.default_rng(1).normal(size=(1000, 4))
        >>> Pairs({"mu": mu}, data).likelihood
        False
    """

    target: ParameterTarget
    filler: DataSet
    z: Float[Array, "m d"]
    data: dict[str, Array]
    rest: tuple[Float[Array, "r d"], dict[str, Array]]
    layout: Layout = eqx.field(static=True)
    likelihood: bool = eqx.field(static=True)

    def __init__(
        self,
        parameters: Mapping[str, Any],
        data: Any,
        supports: Mapping[str, Any] | None = None,
        exchangeable: bool = False,
    ):
        instance("parameters", Mapping, '{"rate": rates}', parameters)
        values = {name: _numbers(name, value) for name, value in parameters.items()}
        made = dict(data) if isinstance(data, Mapping) else {"x": data}
        made = {name: _numbers(name, value) for name, value in made.items()}
        counts = {len(array) if array.ndim else 0 for array in [*values.values(), *made.values()]}
        if len(counts) != 1 or counts == {0}:
            raise IngredientError(
                f"parameters and data have one row a pair, all as many; {sorted(counts)} came."
            )
        from numpyro.distributions import constraints

        bounds = instance("supports", Mapping, "{}", {} if supports is None else supports)
        names = Parameters(
            {
                name: (bounds.get(name, constraints.real), value.shape[1:])
                for name, value in values.items()
            }
        )
        z = np.asarray(jax.vmap(names.unconstrain)({n: jnp.asarray(v) for n, v in values.items()}))
        kept = np.isfinite(z).all(1)
        for array in made.values():
            kept &= np.isfinite(array.reshape(len(array), -1)).all(1)
        if kept.sum() < 100:
            raise IngredientError(
                f"A table needs 100 finite pairs at least, inside their supports; {kept.sum()} came."
            )
        rows = np.random.default_rng(0).permutation(np.flatnonzero(kept))
        unseen, learnt = np.split(rows, [min(max(len(rows) // 10, _LEAST_UNSEEN), _MOST_UNSEEN)])
        self.z, self.data = _of_table(z, made, learnt)
        self.rest = _of_table(z, made, unseen)
        self.target = _target_of(names)
        self.likelihood = False
        first = {name: array[0] for name, array in self.data.items()}
        self.layout = _layout_of(first, flag("exchangeable", exchangeable))
        self.filler = DataSet(first, self.layout.all_seen())

    def simulate(self, key: Key) -> tuple[Float[Array, " d"], DataSet]:
        """A pair of the table, picked at random."""
        return self._pair(jax.random.randint(key, (), 0, len(self.z)))

    def several(self, key: Key, count: int) -> tuple[Float[Array, "m d"], DataSet]:
        """Different pairs of the table."""
        return jax.vmap(self._pair)(jax.random.permutation(key, len(self.z))[:count])

    @property
    def count(self) -> int:
        """How many pairs there are, those that nothing is learnt from included."""
        return len(self.z) + len(self.rest[0])

    @property
    def unseen(self) -> "Pairs":
        """The rows that nothing is learnt from."""
        return eqx.tree_at(lambda pairs: (pairs.z, pairs.data), self, self.rest)

    def _pair(self, row: Array) -> tuple[Float[Array, " d"], DataSet]:
        return self.z[row], DataSet({n: v[row] for n, v in self.data.items()}, self.layout.all_seen())


def several(key: Key, simulator: Simulator, count: int) -> tuple[Float[Array, "m d"], DataSet]:
    """Different pairs: as many as asked for, or as a table has."""
    if isinstance(simulator, Pairs):
        return simulator.several(key, count)
    return jax.lax.map(simulator.simulate, jax.random.split(key, count), batch_size=256)


def unseen(simulator: Simulator) -> Simulator:
    """Draws pairs that nothing is learnt from: fresh ones, or the rest of a table."""
    return simulator.unseen if isinstance(simulator, Pairs) else simulator


class _Prior:
    """Independent distributions by name; compared by identity, as functions are."""

    def __init__(self, prior: Any):
        from numpyro.distributions import Distribution

        named = isinstance(prior, Mapping) and prior
        if not named or not all(isinstance(one, Distribution) for one in prior.values()):
            raise IngredientError(
                'prior holds distributions of NumPyro by name, such as {"rate": dist.Gamma(2.0, 1.0)}; '
                f"{shown(prior)} came."
            )
        self.every = dict(prior)

    def sample(self, key: Key) -> dict[str, Array]:
        keys = jax.random.split(key, len(self.every))
        return {n: one.sample(k) for k, (n, one) in zip(keys, self.every.items(), strict=True)}

    def log_prob(self, values: Mapping[str, Array]) -> Scalar:
        return sum((jnp.sum(one.log_prob(values[n])) for n, one in self.every.items()), jnp.zeros(()))


def _numbers(name: str, value: Any) -> np.ndarray:
    try:
        return np.asarray(value, float)
    except Exception as error:
        raise IngredientError(f"{name} holds numbers, one row a pair; {shown(value)} came.") from error


def _of_table(z: np.ndarray, data: Mapping[str, np.ndarray], rows: np.ndarray) -> tuple:
    return jnp.asarray(z[rows]), {name: jnp.asarray(array[rows]) for name, array in data.items()}


def _layout_of(values: Mapping[str, Array], exchangeable: bool) -> Layout:
    sites = tuple(
        ObservedSite(name, jnp.shape(value), jnp.ndim(value)) for name, value in values.items()
    )
    lengths = {site.shape[:1] for site in sites}
    if not exchangeable:
        return Layout(sites)
    if len(lengths) != 1 or lengths == {()}:
        raise IngredientError(
            "exchangeable=True needs data with as many rows in every array; "
            f"{[site.shape for site in sites]} came."
        )
    ((rows,),) = lengths
    sites = tuple(site._replace(event=len(site.shape) - 1) for site in sites)
    return Layout(sites, rows, rows, exchangeable=True, placed=False)
