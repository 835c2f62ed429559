"""``understudy check``: whether draws can be trusted."""

from collections.abc import Sequence

from understudy.cli import runs
from understudy.cli.models import users_code
from understudy.cli.parsing import Parser, path_word, seed_number

_EXAMPLE = "example:\n  understudy check runs/posterior --model model.py:eight_schools"


def command(words: Sequence[str]) -> None:
    """Say whether the draws of a posterior or an amortised model can be trusted."""
    what = "Say whether the draws of a posterior or an amortised model can be trusted."
    parser = Parser("understudy check", what, _EXAMPLE)
    parser.add_argument("run", type=path_word, help="the folder of a fit, or of an amortised model")
    parser.add_argument("--seed", type=seed_number, default=0, metavar="N", help="of the tests")
    runs.add_model_options(parser)
    given = parser.read(words)
    result = runs.load_result(given.run, given.model, given.trust_code)
    from understudy import files

    with users_code(given.model or str(given.run)):
        trust = result.check(given.seed)
    print(trust)
    files.last_line({"trusted": trust.trusted, "verdicts": trust.verdicts, "seconds": trust.seconds})
