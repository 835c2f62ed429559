"""``understudy sample``: draws of a fitted posterior into a file."""

from collections.abc import Sequence

from understudy.cli import runs
from understudy.cli.parsing import Parser, UsageError, path_word, seed_number, whole_between

_EXAMPLE = "example:\n  understudy sample runs/posterior -n 100000 --out draws.nc"
_SUFFIXES = (".nc", ".npz", ".csv")
# The draws, their bytes in the file's format, and what the writer needs besides.
_COPIES = 3


def command(words: Sequence[str]) -> None:
    """Draw from a fitted posterior into a file of netCDF, NumPy or CSV."""
    what = "Draw from a fitted posterior into a file of netCDF, NumPy or CSV."
    parser = Parser("understudy sample", what, _EXAMPLE)
    parser.add_argument("run", type=path_word, help="the folder of a fit")
    many = whole_between(1, 10**15)
    parser.add_argument("-n", type=many, default=4000, help="draws (default: %(default)s)")
    place = "draws.nc, .npz or .csv (default: in run)"
    parser.add_argument("--out", type=path_word, metavar="FILE", help=place)
    parser.add_argument("--seed", type=seed_number, default=0, metavar="N", help="of the draws")
    given = parser.read(words)
    out = given.out or given.run / "draws.nc"
    if out.suffix not in _SUFFIXES:
        raise UsageError(f"--out ends in {', '.join(_SUFFIXES)}; {str(out)!r} came.")
    if out.is_dir():
        raise UsageError(f"--out is a file; {str(out)!r} is a folder, choose another name.")
    result = runs.load_posterior(given.run)
    runs.make_writable(out.parent)
    _check_memory(sum(value.nbytes for value in result.sample(0, 1).values()), given.n)
    from understudy.posterior.writing import write_draws

    print(write_draws(out, result.sample(given.seed, given.n)))


def _check_memory(row: int, n: int) -> None:
    """Whether ``n`` draws of ``row`` bytes each fit into this machine's memory."""
    from understudy.checks import memory

    held = memory()
    if _COPIES * row * n > held:
        raise UsageError(
            f"-n {n} draws take {_COPIES * row * n / 2**30:,.0f} GB to write and this machine has "
            f"{held / 2**30:,.0f}; draw fewer at a time, each time with another --seed."
        )
