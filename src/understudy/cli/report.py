"""``understudy report``: one page about a run."""

from collections.abc import Sequence

from understudy.cli import runs
from understudy.cli.models import users_code
from understudy.cli.parsing import Parser, path_word

_EXAMPLE = "example:\n  understudy report runs/demo"


def command(words: Sequence[str]) -> None:
    """Write one self-contained HTML page about a run."""
    parser = Parser("understudy report", "Write one self-contained HTML page about a run.", _EXAMPLE)
    parser.add_argument(
        "run", type=path_word, help="the folder of a run; report.html is written into it"
    )
    runs.add_model_options(parser)
    given = parser.read(words)
    if not (runs.is_posterior(given.run) or runs.is_amortised(given.run)):
        from understudy.report import write_report

        print(write_report(given.run))
        return
    result = runs.load_result(given.run, given.model, given.trust_code)
    runs.make_writable(given.run)
    page = given.run / "report.html"
    with users_code(given.model or str(given.run)):
        result.report(page.absolute())
    print(page)
