"""``understudy amortise``: a posterior for every data set of a NumPyro model."""

import argparse
import shutil
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

_EXAMPLE = "example:\n  understudy amortise model.py:regression --observed y --data x.json --out runs/lm"


def command(words: Sequence[str]) -> None:
    """Train one student for every data set of a NumPyro model."""
    given = _parser().read(words)
    raw = models.read_data(given.data)
    observed = [name.strip() for name in given.observed.split(",")]
    note = {"model": models.absolute_name(given.model), "seed": given.seed, "observed": observed}
    note |= {"budget": given.budget, "sizes": given.sizes, "missing": given.missing}
    note |= {"data": models.digest(given.data, raw)}
    begun = (given.out / runs.NOTE).exists() or runs.has_stage(given.out)
    if begun or runs.is_amortised(given.out):
        runs.check_same(given.out, note, given.resume, "training", runs.is_amortised(given.out))
    model = models.load_model(given.model)
    if not runs.is_amortised(given.out):
        _amortise(given, model, models.parse_data(given.data, raw), note, begun)
    _last_line(given, model)


def _amortise(
    given: argparse.Namespace, model: Callable, data: dict[str, Any], note: dict, begun: bool
) -> None:
    """Train and save; whether the folder can be written is tried before anything is computed."""
    out = given.out.absolute()
    runs.make_writable(out)
    from understudy.amortising import amortise

    with models.users_code(given.model), runs.kept_note(out, note, begun, given.out):
        inference = amortise(
            model,
            observed=note["observed"],
            sizes=None if given.sizes is None else tuple(given.sizes),
            missing=given.missing,
            budget=given.budget,
            seed=given.seed,
            progress=False if given.quiet else None,
            folder=out / runs.TRAINING,
            resume=given.resume,
            **data,
        )
        inference.save(out / runs.AMORTISED)
        shutil.rmtree(out / runs.TRAINING, ignore_errors=True)
    if not given.quiet:
        print(inference)


def _last_line(given: argparse.Namespace, model: Callable) -> None:
    from understudy import files

    inference = files.load(given.out / runs.AMORTISED, classes=[model])
    files.last_line(
        {
            "out": str(given.out),
            "simulations": inference.simulations,
            "run_seconds": inference.seconds,
            "compile_seconds": inference.compile_seconds,
        }
    )


def _parser() -> Parser:
    what = "Train one student for every data set of a NumPyro model."
    parser = Parser("understudy amortise", what, _EXAMPLE)
    add = parser.add_argument
    add("model", help="a function in a file (model.py:name) or in a module (package:name)")
    sites = "the observed site, or several with commas between them"
    add("--observed", required=True, metavar="NAME", help=sites)
    add("--data", type=path_word, metavar="FILE", help="JSON: the model's other arguments by name")
    place = {"default": Path("runs", "amortised"), "help": "where to write (default: %(default)s)"}
    add("--out", type=path_word, metavar="FOLDER", **place)
    rows = "least and largest number of rows of a data set"
    add("--sizes", type=whole_between(1, 10**9), nargs=2, metavar="N", help=rows)
    gaps = "numbers of real data sets can be missing (null)"
    add("--missing", action="store_true", help=gaps)
    add("--budget", type=positive_number, metavar="S", help="seconds of training (default: as needed)")
    add("--seed", type=seed_number, default=0, metavar="N", help="of everything random")
    stopped = "go on with a training that was stopped, keep a finished one"
    add("--resume", action="store_true", help=stopped)
    add("--quiet", action="store_true", help="print the last line of figures alone")
    return parser
