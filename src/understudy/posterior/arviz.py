"""Posteriors for ArviZ: named draws, densities, predictions and pointwise likelihoods."""

from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Literal

import jax
import numpy as np

from understudy.core import Key, Student
from understudy.posterior.improve import log_densities
from understudy.posterior.program import in_blocks, name_rows

Kind = Literal["datatree", "inferencedata"]
Groups = dict[str, dict[str, np.ndarray]]


def to_arviz(
    key: Key,
    target: Any,
    student: Student,
    z: np.ndarray,
    chains: int,
    kind: Kind | None,
    predictive: bool,
    log_likelihood: bool,
) -> Any:
    """Groups of ArviZ from flat draws; the rows are dealt to ``chains`` labels."""
    sites = in_blocks(lambda rows: name_rows(target, rows), z)
    log_p, log_q = log_densities(target, student, z)
    stats = {"lp": log_p} if log_q is None else {"lp": log_p, "log_student": log_q}
    groups: Groups = {"posterior": sites, "sample_stats": stats}
    observed: dict[str, np.ndarray] = {}
    if hasattr(target, "arguments"):
        latents = {site.name: sites[site.name] for site in target.sites}
        observed = _observed(target)
        if predictive and observed:
            groups["posterior_predictive"] = _predict(key, target, latents, list(observed))
        if log_likelihood and observed:
            groups["log_likelihood"] = _likelihood(target, latents, list(observed))
    groups = {name: _dealt(group, chains) for name, group in groups.items()}
    return _tree(groups | ({"observed_data": observed} if observed else {}), kind)


def _dealt(group: dict[str, np.ndarray], chains: int) -> dict[str, np.ndarray]:
    return {
        name: np.asarray(value).reshape(chains, -1, *value.shape[1:]) for name, value in group.items()
    }


def _observed(target: Any) -> dict[str, np.ndarray]:
    from numpyro.distributions import Unit
    from numpyro.handlers import seed, trace

    args, kwargs = target.arguments
    sites = trace(seed(target.model, jax.random.key(0))).get_trace(*args, **kwargs).values()
    seen = [s for s in sites if s["type"] == "sample" and s["is_observed"]]
    # A factor is no datum.
    return {s["name"]: np.asarray(s["value"]) for s in seen if not isinstance(s["fn"], Unit)}


def _predict(
    key: Key, target: Any, latents: dict[str, np.ndarray], names: list[str]
) -> dict[str, np.ndarray]:
    from numpyro.handlers import uncondition
    from numpyro.infer import Predictive

    args, kwargs = target.arguments
    model = uncondition(_as_large_as_data(target.model))
    # One draw after the other inside one program, so memory beyond the result does not grow.
    draw = Predictive(model, latents, return_sites=names, parallel=False)
    return {name: np.asarray(value) for name, value in draw(key, *args, **kwargs).items()}


def _as_large_as_data(model: Callable) -> Callable:
    """The model with the distribution of every datum expanded to the datum's shape."""
    from numpyro.primitives import Messenger

    class Expand(Messenger):
        def process_message(self, msg: dict[str, Any]) -> None:
            if msg["type"] == "sample" and msg["is_observed"]:
                fn, shape = msg["fn"], np.shape(msg["value"])
                msg["fn"] = fn.expand(shape[: len(shape) - fn.event_dim])

    return Expand(model)


def _likelihood(target: Any, latents: dict[str, np.ndarray], names: list[str]) -> dict[str, np.ndarray]:
    from numpyro.infer import log_likelihood

    args, kwargs = target.arguments
    values = log_likelihood(target.model, latents, *args, parallel=False, **kwargs)
    return {name: np.asarray(values[name]) for name in names}


def _tree(groups: Groups, kind: Kind | None) -> Any:
    if (kind or ("inferencedata" if _old_arviz() else "datatree")) == "inferencedata":
        import arviz  # pyright: ignore[reportMissingImports]

        return arviz.from_dict(**groups)
    import arviz_base

    return arviz_base.from_dict(groups)


def _old_arviz() -> bool:
    try:
        return version("arviz").startswith("0.")
    except PackageNotFoundError:
        return False
