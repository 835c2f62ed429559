"""``understudy fit``: a NumPyro model with no settings."""

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from understudy.cli import models, runs
from understudy.cli.parsing import (
    Parser,
    path_word,
    positive_number,
    seed_number,
    whole_between,
)

_EXAMPLE = "example:\n  understudy fit model.py:eight_schools --data data.json --out runs/schools"


def command(words: Sequence[str]) -> None:
    """Fit a NumPyro model with no settings."""
    given = _parser().read(words)
    raw = models.read_data(given.data)
    note = {"model": models.absolute_name(given.model), "seed": given.seed, "seeds": given.seeds}
    note |= {"budget": given.budget, "data": models.digest(given.data, raw)}
    begun = (given.out / runs.NOTE).exists() or runs.has_stage(given.out)
    if begun or runs.is_posterior(given.out):
        runs.check_same(given.out, note, given.resume, "fit", runs.is_posterior(given.out))
    if not runs.is_posterior(given.out):
        _fit(given, raw, note, begun)
    _last_line(given.out)


def _parser() -> Parser:
    parser = Parser("understudy fit", "Fit a NumPyro model with no settings.", _EXAMPLE)
    parser.add_argument(
        "model", help="a function in a file (model.py:name) or in a module (package:name)"
    )
    add = parser.add_argument
    add("--data", type=path_word, metavar="FILE", help="JSON: names to numbers or arrays")
    place = {"default": Path("runs", "posterior"), "help": "where to write (default: %(default)s)"}
    add("--out", type=path_word, metavar="FOLDER", **place)
    add("--seed", type=seed_number, default=0, metavar="N", help="of everything random")
    budget = "seconds (120), or gradient evaluations (500000g), after which no work is begun"
    add("--budget", type=_budget, metavar="S", help=budget)
    side = "students fitted side by side"
    add("--seeds", type=whole_between(1, 1000), default=1, metavar="N", help=side)
    add("--resume", action="store_true", help="go on with a fit that was stopped, keep a finished one")
    add("--quiet", action="store_true", help="print the last line of figures alone")
    return parser


def _fit(given: argparse.Namespace, raw: bytes, note: dict[str, Any], begun: bool) -> None:
    """Fit and save; whether the folder can be written is tried before anything is computed."""
    out = given.out.absolute()
    model, data = models.load_model(given.model), models.parse_data(given.data, raw)
    models.check_arguments(model, data)
    runs.make_writable(out)
    with models.users_code(given.model):
        target = _target(model, data)
        with runs.kept_note(out, note, begun, given.out):
            result = _fitted(target, given, out)
            result.save(out / runs.POSTERIOR)


def _target(model: Callable, data: dict[str, Any]) -> Any:
    from understudy.targets.numpyro import from_numpyro

    return from_numpyro(model, **data)


def _fitted(target: Any, given: argparse.Namespace, out: Path) -> Any:
    from understudy.fitting import Gradients, fit

    budget = given.budget
    if isinstance(budget, str):
        budget = Gradients(int(budget.removesuffix("g")))
    return fit(
        target,
        budget=budget,
        seed=given.seed,
        seeds=given.seeds,
        verbose=not given.quiet,
        folder=out,
        resume=given.resume,
    )


def _budget(text: str) -> float | str:
    if text.endswith("g"):
        whole_between(1, 10**15)(text.removesuffix("g"))
        return text
    return positive_number(text)


def _last_line(out: Path) -> None:
    from understudy import files

    result = runs.load_posterior(out)
    files.last_line(
        {
            "out": str(out),
            "stage": result.stages[-1].name,
            "trusted": result.trusted,
            "gradients": result.gradients,
            "run_seconds": result.seconds,
            "compile_seconds": result.compile_seconds,
        }
    )
