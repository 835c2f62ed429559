"""Discrete latents of NumPyro models, summed out by funsor; needs the extra ``understudy[discrete]``."""

import importlib.util
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
from jax.extend.core import Literal
from numpyro.handlers import substitute, trace

from understudy.core import IngredientError


class Summed(NamedTuple):
    """The discrete latents of a model, which its log density sums out.

    Attributes:
        names: of their sites.
        plates: how many axes of a distribution its plates take.
        unknown: sites of whose value nothing is known without theirs.
    """

    names: tuple[str, ...]
    plates: int
    unknown: tuple[str, ...]


def is_discrete(site: Mapping[str, Any]) -> bool:
    """Whether a site is a latent of finitely or countably many values."""
    return site["type"] == "sample" and not site["is_observed"] and bool(site["fn"].support.is_discrete)


def check_summable(site: Mapping[str, Any]) -> None:
    """Refuse a discrete latent that cannot be summed out."""
    name, advice = site["name"], "write the log density yourself and choose a discrete student"
    if not site["fn"].has_enumerate_support:
        raise IngredientError(
            f"Site {name!r} is discrete, with values without end, which cannot be summed out; sum over "
            f"those that matter by hand, or {advice} such as Autoregressive."
        )
    if importlib.util.find_spec("funsor") is None:
        raise IngredientError(
            f"Site {name!r} is discrete; install funsor, which sums it out, with: pip install "
            f"'understudy[discrete]', sum it out by hand (with MixtureSameFamily, say), or {advice}."
        )


def summed_out(
    model: Callable, args: tuple, kwargs: dict[str, Any], found: Mapping[str, Any]
) -> Summed | None:
    """What is to be summed out of a model, None where nothing is.

    Args:
        model: with values of all latents.
        args: of the model.
        kwargs: of the model.
        found: its trace.
    """
    names = tuple(name for name, site in found.items() if is_discrete(site))
    if not names:
        return None
    frames = [frame for site in found.values() for frame in site.get("cond_indep_stack") or []]
    plates = max((-frame.dim for frame in frames), default=0)

    def others(values: dict[str, Any]) -> dict[str, Any]:
        again = trace(substitute(model, data=values)).get_trace(*args, **kwargs)
        return {name: site["value"] for name, site in again.items() if site["type"] == "deterministic"}

    unknown = _depend(others, {name: found[name]["value"] for name in names})
    return Summed(names, plates, unknown)


def enumerating(model: Callable, summed: Summed) -> Callable:
    """The model with every value of its discrete latents at once."""
    import funsor  # pyright: ignore[reportMissingImports]
    from numpyro.contrib.funsor import config_enumerate, enum

    funsor.set_backend("jax")
    return enum(config_enumerate(model), -summed.plates - 1)


def _depend(function: Callable, given: dict[str, Any]) -> tuple[str, ...]:
    """Names of a function's values that depend on what it is given."""
    names = sorted(jax.eval_shape(function, given))
    program = jax.make_jaxpr(lambda given: [function(given)[name] for name in names])(given).jaxpr
    reached = set(program.invars)
    for step in program.eqns:
        if any(not isinstance(one, Literal) and one in reached for one in step.invars):
            reached.update(step.outvars)
    pairs = zip(names, program.outvars, strict=True)
    return tuple(name for name, one in pairs if not isinstance(one, Literal) and one in reached)
