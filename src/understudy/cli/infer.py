"""``understudy infer``: draws for data sets that came, from an amortised model."""

from collections.abc import Sequence
from typing import Any

from understudy.cli import models, runs
from understudy.cli.parsing import Parser, UsageError, path_word, seed_number, whole_between

_EXAMPLE = "example:\n  understudy infer runs/lm data.json --model model.py:regression --out draws.npz"


def command(words: Sequence[str]) -> None:
    """Draw for data sets that came, with a verdict for each."""
    given = _parser().read(words)
    out = given.out or given.run / "draws.npz"
    if out.suffix != ".npz":
        raise UsageError(f"--out ends in .npz; {str(out)!r} came.")
    sets = _data_sets(given.data, models.read_data(given.data))
    inference = runs.load_amortised(given.run, given.model, given.trust_code)
    runs.make_writable(out.parent)
    from understudy import files
    from understudy.posterior.writing import write_draws

    names = {site.name for site in inference.simulator.layout.sites}
    data = [{name: one[name] for name in one if name in names} for one in sets]
    others = [name for name in sets[0] if name not in names]
    arguments = {name: [one.get(name) for one in sets] for name in others}
    drawn = inference.sample(given.seed, data, given.n, **arguments)
    print(write_draws(out, drawn.draws))
    files.last_line(
        {
            "data_sets": len(sets),
            "route": drawn.route.tolist(),
            "pareto_k": [round(float(k), 3) for k in drawn.pareto_k],
            "trusted": drawn.trusted.tolist(),
            "novel": drawn.novel.tolist(),
        }
    )


def _parser() -> Parser:
    parser = Parser(
        "understudy infer", "Draw for data sets that came, with a verdict for each.", _EXAMPLE
    )
    parser.add_argument("run", type=path_word, help="the folder of an amortised model")
    what = "JSON: observed sites and arguments by name, or a list of such; null where one is missing"
    parser.add_argument("data", type=path_word, metavar="FILE", help=what)
    many = whole_between(1, 10**9)
    parser.add_argument("-n", type=many, default=1000, help="draws for each (default: %(default)s)")
    place = "draws.npz, data sets first (default: in run)"
    parser.add_argument("--out", type=path_word, metavar="FILE", help=place)
    parser.add_argument("--seed", type=seed_number, default=0, metavar="N", help="of the draws")
    runs.add_model_options(parser)
    return parser


def _data_sets(path: Any, raw: bytes) -> list[dict[str, Any]]:
    try:
        held = models.from_json(raw)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{path} is not JSON ({error}); see understudy infer --help.") from error
    sets = held if isinstance(held, list) else [held]
    if not sets or not all(isinstance(one, dict) and set(one) == set(sets[0]) for one in sets):
        raise UsageError(f"{path} holds a dictionary by site, or a list of them with the same names.")
    return [{name: _array(name, value) for name, value in one.items()} for one in sets]


def _array(name: str, value: Any) -> Any:
    import numpy as np

    try:
        return np.asarray(value, float)
    except (TypeError, ValueError, OverflowError) as error:
        raise UsageError(
            f"Data {name!r} are numbers or arrays of numbers, null where missing."
        ) from error
