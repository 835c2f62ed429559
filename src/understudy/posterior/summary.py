"""A posterior in words: its verdict, its sites, how it was fitted and what to do next."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from understudy.core import HasSites, Key, Target
from understudy.display import Explained, table_of_draws
from understudy.posterior.draws import named_rows
from understudy.posterior.storing import StoredTarget

_DRAWS = 4096


def latents_first(target: Target, draws: Mapping[str, Any]) -> dict[str, Any]:
    """Draws by site, what the model samples before what it derives."""
    latents = [site.name for site in (target.sites if isinstance(target, HasSites) else ())]
    return {name: draws[name] for name in [*latents, *draws] if name in draws}


def draws_to_look_at(result: Any, key: Key, n: int = _DRAWS) -> dict[str, Any]:
    """Some named draws at no great cost: of the student where they are to be used, else finished."""
    record, doubted = result.record, result.verdict is not None and not result.verdict.own
    if doubted and record is not None and not isinstance(result.target, StoredTarget):
        places = np.linspace(0, len(record) - 1, min(n, len(record)))
        drawn = named_rows(result.target, record[places.astype(int)])
    else:
        drawn = result.sample(key, n, finish=False)
    return latents_first(result.target, drawn)


def summary(result: Any, key: Key, n: int) -> Any:
    """A table of every number of every site that varies."""
    error = 0.0 if result.verdict is None else result.verdict.chain_error
    return table_of_draws(draws_to_look_at(result, key, n), error)


def explained(result: Any, key: Key) -> Explained:
    """The posterior in words."""
    table = summary(result, key, _DRAWS)
    title = f"Posterior of {result.target.dim} dimensions"
    return Explained(title, _verdict(result), table, _made(result), _advice(result))


def _verdict(result: Any) -> str:
    if result.verdict is None:
        return "Not tested yet: nothing has compared the student's draws with the target."
    return result.verdict.sentence


def _made(result: Any) -> str:
    if not result.stages:
        return f"A {type(result.student).__name__}, put together by hand."
    stages = ", ".join(stage.name for stage in result.stages)
    costs = f"{result.seconds:.1f} s and {result.compile_seconds:.1f} s of compiling"
    kept = result.stages[-1].note
    return f"Fitted in {costs}, {result.gradients:,} gradients: {stages} ({kept})."


def _advice(result: Any) -> str:
    if result.verdict is None:
        return "Next: check() tests the draws."
    if result.trusted:
        return "Next: sample(key, n), check(), report('page.html'), to_arviz(key), save(path)."
    if result.verdict.agreed:
        return "Next: sample(key, n) as it is, or fit(target, budget=600) for a better student."
    return "Next: fit(target, budget=600), seeds=3 beside it, or another parametrisation."
