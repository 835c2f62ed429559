"""``python -m experiments NAME [options]``: run an experiment of the paper again.

An experiment is one module, listed in :data:`EXPERIMENTS`, with ``Settings`` that become options and
``run(settings, out, progress)``. What is heavy is imported when it is asked for.
"""

import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from experiments.options import run_with_settings
from understudy.cli.main import guarded, load
from understudy.cli.parsing import Parser, UsageError, name_table, unknown_word

EXPERIMENTS = {
    "mixture": "Two Gaussians, short chains: section 5.1.",
    "toys": "Targets whose answer is known: five in the plane, forty modes, an Ising model.",
    "bnn": "Bayesian neural networks on tables: section 5.2.",
    "mnist": "Generative models of digits: section 5.3.",
    "imputation": "Missing halves of digits, by the models that mnist trained: section 5.3.",
    "appendix": "The appendices and stabilisers: pairing, contrastive divergence, the lemma, and more.",
}
TABLES = "tables"
PROGRAM = "python -m experiments"

_EXAMPLES = f"""\
examples:
  {PROGRAM} mixture --preset quick   the paper's first experiment, made small
  {PROGRAM} mixture --help           every option, with its default
  {PROGRAM} tables                   fill the tables of the documents from the rows in results

An experiment prints its figures as one JSON object in its last line, and writes rows, pictures and a
page to runs/NAME; with --preset paper the rows also go to results.
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one experiment and return its exit code: 0, 2 for bad input, 1 where no chain can move."""
    return guarded(_dispatch, argv)


def _dispatch(words: list[str]) -> None:
    if not words or words[0] in ("-h", "--help"):
        _print_help()
    elif words[0] == TABLES:
        _fill_tables(words[1:])
    elif words[0].startswith("-"):
        raise UsageError(f"Name the experiment first: {PROGRAM} mixture {words[0]}.")
    elif words[0] not in EXPERIMENTS:
        raise unknown_word(words[0], "an experiment", [*EXPERIMENTS, TABLES])
    else:
        _run(words[0], words[1:])


def _print_help() -> None:
    known = name_table("experiments", EXPERIMENTS)
    parser = Parser(PROGRAM, "Run an experiment of the paper again.", f"{known}\n\n{_EXAMPLES}")
    parser.usage = f"{PROGRAM} EXPERIMENT [options]"
    parser.print_help()


def _fill_tables(words: Sequence[str]) -> None:
    what = "Fill the tables of the documents from the rows in results."
    Parser(f"{PROGRAM} {TABLES}", what).read(words)
    from experiments.tables import fill_documents

    fill_documents()


def _run(name: str, words: Sequence[str]) -> None:
    module = load(f"experiments.{name}", words)
    settings, out, _ = run_with_settings(f"{PROGRAM} {name}", module, words, Path("runs", name))
    if getattr(settings, "preset", "") == "paper":
        publish(out, Path("results"), name)


def publish(out: Path, results: Path, name: str) -> None:
    """Rows, arrays and picture of a full run also go to ``results``, where the documents read them."""
    if out.resolve() == results.resolve():
        return
    results.mkdir(exist_ok=True)
    for file in sorted(out.glob(f"{name}*")):
        if file.suffix in (".jsonl", ".npz", ".png"):
            shutil.copyfile(file, results / file.name)


if __name__ == "__main__":
    sys.exit(main())
