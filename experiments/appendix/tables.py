"""Tables of the appendix, from its rows."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from understudy import files

Row = Mapping[str, Any]
Cells = tuple[str, ...]


class Part(NamedTuple):
    """How the rows of one part are shown."""

    header: Cells
    cells: Callable[[Row], Cells]


def lines(results: Path, part: str) -> list[Sequence[str]]:
    """The rows of a part."""
    rows = files.read_rows(results / "appendix.jsonl")
    return [PARTS[part].cells(row) for row in rows if row["kind"] == part]


def _either(row: Row, name: str, digits: int = 3) -> str:
    return f"{row[name]:.{digits}f} ± {row[f'{name}_se']:.{digits}f}"


def _lemma(row: Row) -> Cells:
    rise = f"{row['largest_rise']:+.4f} ± {row['rise_error']:.4f}"
    return (row["kernel"], row["start"], *(f"{kl:z.3f}" for kl in row["kl"]), rise)


def _pairing(row: Row) -> Cells:
    modes = f"{row['both_modes']} of {row['settings']['repeats']}"
    sure = "" if "Wasserstein" in row["feedback"] else _either(row, "sure")
    figures = (f"{row['ksd']:.3f}", f"{row['w1']:.3f}", modes)
    return (row["feedback"], row["pairing"], sure, _either(row, "pull"), *figures)


def _contrastive(row: Row) -> Cells:
    before = f"{row['kl_before']:.2f}"
    figures = (before, _either(row, "kl"), f"{row['mean_error']:.3f}", f"{row['scale']:.2f}")
    return (row["feedback"], str(row["transitions"]), *figures)


def _stabilisers(row: Row) -> Cells:
    names = ("ksd", "ksd_late", "ksd_swing", "w1", "weight_error")
    modes = f"{row['both_modes']} of {row['repeats']}"
    return (row["name"], modes, *(f"{row[name]:.3f}" for name in names))


def _samplers(row: Row) -> Cells:
    names = ("w1", "w1_floor", "mmd", "mmd_floor")
    figures = (f"{row[name]:.3f}" for name in names)
    return (row["target"], row["method"], *figures, f"{row['training_seconds']:.0f}")


def _networks(row: Row) -> Cells:
    gain = "" if row["gain"] == 0 else _either(row, "gain")
    chain = "yes" if row["chain_at_prediction"] else "no"
    seconds = f"{row['training_seconds']:.1f}"
    return (row["name"], chain, _either(row, "test_ll"), _either(row, "test_error"), gain, seconds)


def _rates(row: Row) -> Cells:
    paper = f"{row['paper']:.3f} ± {row['paper_se']:.3f}"
    middle = f"{row['curve_ll'][len(row['curve_ll']) // 2]:.3f}"
    reached = "yes" if row["test_ll"] >= row["paper"] - row["paper_se"] else "no"
    last = (middle, _either(row, "test_ll"), _either(row, "last_gain"), reached)
    return (row["dataset"], f"{row['rate']:g}", paper, *last)


PARTS = {
    "lemma": Part(
        (
            "kernel",
            "start",
            *(f"t={t}" for t in (0, 1, 2, 5, 10, 20, 50)),
            "largest rise in one transition",
        ),
        _lemma,
    ),
    "pairing": Part(
        ("feedback", "draws", "share the critic is sure of", "pull", "KSD", "W1", "both modes"), _pairing
    ),
    "contrastive": Part(
        ("feedback", "T", "KL at the start", "KL[q, p]", "mean off by", "scale (true: 1)"), _contrastive
    ),
    "stabilisers": Part(
        ("choice", "both modes", "KSD", "KSD, second half", "its swing", "W1", "weight error"),
        _stabilisers,
    ),
    "samplers": Part(("target", "method", "W1", "exact", "MMD", "exact", "run s"), _samplers),
    "networks": Part(
        (
            "student",
            "chain at prediction",
            "test LL",
            "test error",
            "LL less the first",
            "CPU s a split",
        ),
        _networks,
    ),
    "rates": Part(
        (
            *("set", "rate", "paper's AMC", "LL at a quarter of the updates", "LL at the end"),
            *("gain of the last doubling", "paper's reached"),
        ),
        _rates,
    ),
}
