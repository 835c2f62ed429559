"""PyMC models as targets, through their JAX log density; needs the extra ``understudy[pymc]``."""

import math
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Scalar

from understudy.checks import first_line
from understudy.core import Condition, IngredientError, Key, Site, Target
from understudy.surroundings import with_own_settings


class PyMCTarget(Target):
    """The posterior of a PyMC model over its unconstrained values. Made by :func:`from_pymc`.

    Reference: Abril-Pla et al., "PyMC: a modern, and comprehensive probabilistic programming framework
    in Python", 2023.

    Attributes:
        sites: the unconstrained values in the order in which they fill the flat vector.
    """

    model: Any = eqx.field(static=True)
    log_joint: Callable = eqx.field(static=True)
    outputs: Callable = eqx.field(static=True)
    names: tuple[str, ...] = eqx.field(static=True)
    sites: tuple[Site, ...] = eqx.field(static=True)
    dim: int = eqx.field(static=True)

    @with_own_settings
    def log_density(self, z: Float[Array, " d"], x: Condition = None) -> Scalar:
        """Log joint density of one flat unconstrained draw and the data, Jacobian included."""
        return jnp.asarray(self.log_joint(*self._values(z))[0], jnp.result_type(float))

    @with_own_settings
    def constrain(self, z: Float[Array, " d"], x: Condition = None) -> dict[str, Array]:
        """The named variables of one flat draw on their own scale, deterministic ones included."""
        return dict(zip(self.names, map(jnp.asarray, self.outputs(*self._values(z))), strict=True))

    def observed(self) -> dict[str, np.ndarray]:
        """The data by the names of their variables."""
        values = {v.name: self.model.rvs_to_values[v] for v in self.model.observed_RVs}
        return {name: np.asarray(_number(value)) for name, value in values.items()}

    def predict(
        self, key: Key, draws: dict[str, np.ndarray], *args: Any, **kwargs: Any
    ) -> dict[str, np.ndarray]:
        """New data for every draw of the named variables.

        Args:
            key: random key.
            draws: of the free variables; others are ignored.
            args: none; PyMC models have no arguments.
            kwargs: other values of the model's ``pymc.Data``, by name.
        """
        import pymc  # pyright: ignore[reportMissingImports]

        if args:
            raise IngredientError(
                "A PyMC model has no arguments; give other values of its pymc.Data by name, x=new_x."
            )
        names = [v.name for v in self.model.observed_RVs]
        unknown = [name for name in kwargs if not hasattr(self.model.named_vars.get(name), "set_value")]
        if unknown:
            raise IngredientError(f"{unknown[0]!r} is not a pymc.Data of the model; give one by name.")
        before = {name: self.model[name].get_value() for name in kwargs}
        seed = int(jax.random.bits(key)) % 2**31
        with self.model:
            try:
                pymc.set_data(kwargs)
                made = pymc.sample_posterior_predictive(
                    self._traced(draws), var_names=names, random_seed=seed, progressbar=False
                )
            except (KeyError, TypeError, ValueError, IndexError) as error:
                raise IngredientError(
                    f"The PyMC model cannot predict at these values ({type(error).__name__}: "
                    f"{first_line(error)}); give values of its pymc.Data that fit together."
                ) from error
            finally:
                if before:
                    pymc.set_data(before)
        return {name: made.posterior_predictive[name].values[0] for name in names}

    def log_likelihood(self, draws: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Log likelihood of every datum for every draw of the named variables."""
        import pymc  # pyright: ignore[reportMissingImports]

        names = [v.name for v in self.model.observed_RVs]
        with self.model:
            made = pymc.compute_log_likelihood(
                self._traced(draws), var_names=names, extend_inferencedata=False, progressbar=False
            )
        return {name: made[name].values[0] for name in names}

    def axes(self) -> tuple[dict[str, list[Any]], dict[str, list[str | None]]]:
        """The model's coordinates, and the axes of every variable that names them."""
        lengths = {name: int(_number(size)) for name, size in self.model.dim_lengths.items()}
        given = self.model.coords
        coordinates = {
            name: list(range(size)) if given.get(name) is None else list(given[name])
            for name, size in lengths.items()
        }
        return coordinates, {name: list(axes) for name, axes in self.model.named_vars_to_dims.items()}

    def _traced(self, draws: dict[str, np.ndarray]) -> Any:
        """Draws of the free variables as PyMC's own functions take them: one chain of ArviZ's."""
        import arviz  # pyright: ignore[reportMissingImports]

        free = {v.name: np.asarray(draws[v.name])[None] for v in self.model.free_RVs}
        return arviz.from_dict(posterior=free)

    def _values(self, z: Float[Array, " d"]) -> list[Array]:
        sizes = [math.prod(site.shape) for site in self.sites]
        parts = jnp.split(z, np.cumsum(sizes)[:-1])
        return [part.reshape(site.shape) for part, site in zip(parts, self.sites, strict=True)]


def from_pymc(model: Any) -> PyMCTarget:
    """The posterior of a PyMC model, data included, as a target over flat vectors.

    Args:
        model: a ``pymc.Model`` with continuous free variables.
    """
    try:
        import pymc  # pyright: ignore[reportMissingImports]
        from pymc.sampling.jax import get_jaxified_graph  # pyright: ignore[reportMissingImports]
    except ImportError as error:
        raise IngredientError(
            "from_pymc needs PyMC; install it with: pip install 'understudy[pymc]'."
        ) from error
    if not isinstance(model, pymc.Model):
        raise IngredientError(f"from_pymc takes a pymc.Model; a {type(model).__name__} came.")
    _check_variables(model)
    start = model.initial_point()
    sites = tuple(
        Site(model.values_to_rvs[value].name, np.shape(start[value.name])) for value in model.value_vars
    )
    empty = [site.name for site in sites if 0 in site.shape]
    if empty:
        raise IngredientError(f"Variable {empty[0]!r} has no entry (its shape holds a 0); leave it out.")
    shown = [v for v in model.unobserved_value_vars if v not in set(model.value_vars)]
    untransformed = [
        v for v in model.value_vars if model.rvs_to_transforms[model.values_to_rvs[v]] is None
    ]
    return PyMCTarget(
        model=model,
        log_joint=get_jaxified_graph(inputs=model.value_vars, outputs=[model.logp()]),
        outputs=get_jaxified_graph(inputs=model.value_vars, outputs=[*untransformed, *shown]),
        names=tuple(v.name for v in [*untransformed, *shown]),
        sites=sites,
        dim=sum(math.prod(site.shape) for site in sites),
    )


def _check_variables(model: Any) -> None:
    if not model.free_RVs:
        raise IngredientError(
            "This PyMC model has no free variable to draw; give it one without observed=."
        )
    discrete = [v.name for v in model.discrete_value_vars]
    if discrete:
        raise IngredientError(
            f"Variable {discrete[0]!r} is discrete; sum it out (pymc_extras.marginalize), or write the "
            "log density yourself and choose a discrete student such as Autoregressive."
        )


def _number(value: Any) -> Any:
    """The value of a constant or shared variable of PyTensor."""
    if hasattr(value, "get_value"):
        return value.get_value()
    return value.data if hasattr(value, "data") else value.eval()
