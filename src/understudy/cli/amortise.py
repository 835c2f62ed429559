"""``understudy amortise``: a posterior for every data set of a NumPyro model."""

import json
from collections.abc import Sequence
from pathlib import Path

from understudy.cli import models, runs
from understudy.cli.parsing import (
    Parser,
    UsageError,
    path_word,
    positive_number,
    seed_number,
    whole_between,
)

_EXAMPLE = "example:\n  understudy amortise model.py:regression --observed y --data x.json --out runs/lm"


def command(words: Sequence[str]) -> None:
    """Train one student for every data set of a NumPyro model."""
    given = _parser().read(words)
    if runs.is_amortised(given.out):
        raise UsageError(f"{given.out} holds an amortised model already; choose another --out.")
    raw = models.read_data(given.data)
    model, data = models.load_model(given.model), models.parse_data(given.data, raw)
    out = given.out.resolve()
    runs.make_writable(out)
    from understudy import files
    from understudy.amortising import amortise

    observed = [name.strip() for name in given.observed.split(",")]
    with models.users_code(given.model):
        inference = amortise(
            model,
            observed=observed,
            sizes=None if given.sizes is None else tuple(given.sizes),
            budget=given.budget,
            seed=given.seed,
            progress=False if given.quiet else None,
            **data,
        )
        inference.save(out / runs.AMORTISED)
    note = {"model": models.absolute_name(given.model), "observed": observed, "seed": given.seed}
    files.replace_file(out / runs.NOTE, [json.dumps(note, indent=1).encode()])
    if not given.quiet:
        print(inference)
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
    add("--budget", type=positive_number, metavar="S", help="seconds of training (default: as needed)")
    add("--seed", type=seed_number, default=0, metavar="N", help="of everything random")
    add("--quiet", action="store_true", help="print the last line of figures alone")
    return parser
