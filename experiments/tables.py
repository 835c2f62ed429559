"""Tables of the documents, made from the rows in ``results``: ``python -m experiments tables``."""

import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks import posteriors_report as posteriors
from benchmarks import sbi_report as sbi
from experiments.appendix import tables as appendix
from experiments.bnn import report as bnn
from experiments.bnn.predictions import load_predictions
from experiments.mnist import tables as mnist
from understudy import files

Row = Mapping[str, Any]


def table(header: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """A Markdown table; words in its place where there are no rows yet."""
    if not lines:
        return "*There are no rows of this yet; the command makes them.*"
    rows = [header, ["---"] * len(header), *lines]
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)


def mixture_table(results: Path) -> str:
    """Every row of the mixture experiment beside exact draws."""
    rows = files.read_rows(results / "mixture.jsonl")
    header = ("row", "both modes", "KSD", "W1", "weight error", "mode variance", "run / compile s")
    lines = [_mixture_line(row) for row in rows if row["kind"] == "summary"]
    for row in rows:
        if row["kind"] == "exact":
            lines.append(("*exact draws*", "", *_numbers(row, "ksd", "w1", "weight_error"), "", ""))
    return table(header, lines)


def mixture_gains(results: Path) -> str:
    """What longer chains gain: the fall of KSD and W1 from T=1 to T=10."""
    header = (
        *("student", "T x eta", "KSD, equal updates", "W1, equal updates"),
        *("KSD, equal time", "W1, equal time"),
    )
    rows = [row for row in files.read_rows(results / "mixture.jsonl") if row["kind"] == "gain"]
    return table(header, [_gain_line(row) for row in rows])


def _gain_line(row: Row) -> tuple[str, ...]:
    names = [f"{figure}_gain_{at}" for at in ("updates", "seconds") for figure in ("ksd", "w1")]
    gains = (f"{row[name]:+.3f} ± {row[f'{name}_se']:.3f}" for name in names)
    return (row["student"], f"{row['distance']:g}", *gains)


def appendix_table(results: Path, part: str) -> str:
    """One part of the appendix."""
    return table(appendix.PARTS[part].header, appendix.lines(results, part))


def _mixture_line(row: Row) -> tuple[str, ...]:
    name = f"{row['name']} (paper)" if row["from_paper"] else row["name"]
    variances = " / ".join("-" if v is None else f"{v:.2f}" for v in row["mode_variances"])
    times = f"{row['seconds']:.0f} / {row['compile_seconds']:.0f}"
    numbers = _numbers(row, "ksd", "w1", "weight_error")
    return (name, f"{row['both_modes']} of {row['repeats']}", *numbers, variances, times)


def _numbers(row: Row, *names: str) -> tuple[str, ...]:
    return tuple(f"{row[name]:.3f}" for name in names)


def toys_table(results: Path) -> str:
    """The five targets in the plane and the forty modes: distances over those of exact draws."""
    header = ("target", "student", "W1", "exact", "MMD", "exact", "modes", "weights off", "within")
    rows = (row for row in files.read_rows(results / "toys.jsonl") if row["w1"] is not None)
    return table(header, [_toy_line(row) for row in rows])


def _toy_line(row: Row) -> tuple[str, ...]:
    modes = "" if row["modes"] is None else f"{row['modes']} of {row['modes_total']}"
    off = "" if row["weight_tv"] is None else f"{row['weight_tv']:.3f}"
    distances = _numbers(row, "w1", "w1_floor", "mmd", "mmd_floor")
    return (row["target"], row["composition"], *distances, modes, off, "yes" if row["within"] else "no")


def ising_table(results: Path) -> str:
    """Exact total variation of the Ising students, all repeats."""
    rows = (row for row in files.read_rows(results / "toys.jsonl") if row["target"] == "ising")
    lines = [(row["teacher"], f"{row['total_variation']:.4f}", f"{row['seconds']:.0f}") for row in rows]
    return table(("teacher", "total variation", "run s"), lines)


def bnn_table(results: Path, name: str, best: Callable) -> str:
    """Mean and standard error over splits; bold for the best and for what ties with it."""
    rows = files.read_rows(results / "bnn.jsonl")
    sets, methods = bnn.datasets(rows), _methods_run(rows)
    columns = [bnn.cells(rows, d, name, methods, best) for d in sets]
    return table(("", *sets), list(zip(methods, *columns, strict=True)))


def _methods_run(rows: Sequence[Row]) -> list[str]:
    run = {row["method"] for row in bnn.summaries(rows)}
    return [method for method in bnn.METHODS if method in run]


def bnn_means(results: Path, name: str, digits: int) -> str:
    """Means over splits alone."""
    rows = files.read_rows(results / "bnn.jsonl")
    found = {(r["dataset"], r["method"]): r[name] for r in bnn.summaries(rows)}
    sets = bnn.datasets(rows)
    lines = [
        [m, *(f"{found[d, m]:.{digits}f}" if (d, m) in found else "" for d in sets)]
        for m in _methods_run(rows)
    ]
    return table(("", *sets), lines)


def bnn_goals(results: Path) -> str:
    """Ours against the others, set by set."""
    rows, arrays = files.read_rows(results / "bnn.jsonl"), load_predictions(results)
    figures = (
        "paper's AMC",
        "energy matching",
        "best amortised",
        "refined",
        "ours - VI",
        "ours - VI calibrated",
        "ours - MALA-100",
        "time / MALA-100",
        "ours - HMC",
        "R-hat of HMC",
        "ECE, ours / VI",
        "ECE of all splits together, ours / VI",
    )
    columns = [bnn.goal_line(rows, arrays, dataset) for dataset in bnn.datasets(rows)]
    return table(("", *bnn.datasets(rows)), list(zip(figures, *columns, strict=True)))


def figures_table(results: Path) -> str:
    """The figures that matter most, each with the command that makes it again."""
    mixture = {
        r["name"]: r for r in files.read_rows(results / "mixture.jsonl") if r["kind"] == "summary"
    }
    (cost,) = files.read_rows(results / "update_cost.jsonl")
    reproduce = "`python -m experiments mixture --preset paper`"
    benchmark = "`python benchmarks/update_cost.py`"
    bench = "`python benchmarks/posteriors.py --preset paper`"
    names = ("program, energy distance", "gated, tempered", "mixture, independence")
    lines = [
        *(
            (f"a fit without settings: {what}", f"{looked_at}; held out: {held_out}", bench)
            for what, looked_at, held_out in posteriors.goals(results)
        ),
        *((*_what(mixture[name]), reproduce) for name in names),
        ("a compiled update over the sum of its parts", f"{cost['fused_over_parts']:.2f}", benchmark),
        (
            "a BlackJAX MALA teacher over a hand-written one",
            f"{cost['blackjax_over_hand']:.2f}",
            benchmark,
        ),
        (
            "progress, metrics and checkpoints over a bare loop",
            f"{cost['callbacks_over_bare']:.2f}",
            benchmark,
        ),
    ]
    return table(("figure", "measured", "made by"), lines)


def splits_table(results: Path) -> str:
    """What one program for all splits saves, and the memory of the widest network."""
    (row,) = files.read_rows(results / "bnn_splits.jsonl")
    lines = [
        (
            "CPU time of 20 runs one after another over one program, compilation included",
            "with_compilation",
        ),
        ("the same without compilation", "without_compilation"),
        ("GiB for 20 splits of the plain network on colon, 100,101 weights", "colon_gib"),
    ]
    return table(("figure", "measured"), [(what, f"{row[name]:.1f}") for what, name in lines])


def langevin_table(results: Path) -> str:
    """What a step of a chain and the decoder's gradient cost."""
    (row,) = files.read_rows(results / "langevin.jsonl")
    lines = [
        ("a Langevin step inside a chain over a bare gradient", "step_over_gradient"),
        ("the decoder's gradient in z over PyTorch's", "gradient_over_torch"),
        ("an update of the VAE over PyTorch's", "vae_step_over_torch"),
    ]
    return table(("figure", "measured"), [(what, f"{row[name]:.2f}") for what, name in lines])


def trust_table(results: Path) -> str:
    """How often the check of trust fails planted faults and right students."""
    header = ("target", "student", "planted", "not trusted", "warned only", "tests that fail")
    rows = [row for row in files.read_rows(results / "trust.jsonl") if row["kind"] == "power"]
    return table(header, [_trust_line(row) for row in rows])


def _trust_line(row: Row) -> tuple[str, ...]:
    fails = {name: counts.get("fail", 0) for name, counts in row["tests"].items()}
    seen = ", ".join(f"{name} {fail}" for name, fail in fails.items() if fail)
    flagged = f"{row['flagged']} of {row['seeds']}"
    return (row["target"], row["student"], row["fault"], flagged, str(row["warned"]), seen)


def trust_summary(results: Path) -> str:
    """The figures of the check of trust over all targets."""
    rows = files.read_rows(results / "trust.jsonl")
    (row,) = (r for r in rows if r["kind"] == "summary")
    right, almost = ([r for r in rows if r.get("fault") == f] for f in ("right", "almost right"))
    lines = [
        ("planted faults flagged", f"{100 * row['planted_flagged']:.1f} %"),
        ("least flagged of any fault", f"{100 * row['least_flagged']:.0f} %"),
        ("right students flagged; warned of", _shares(right)),
        ("almost right students flagged; warned of", _shares(almost)),
        ("a check, compiled", f"{row['seconds_a_check']:.2f} s"),
        ("the first check of a target, with compilation", f"{row['seconds_first_check']:.1f} s"),
    ]
    return table(("figure", "measured"), lines)


def hardening_table(results: Path) -> str:
    """What became of processes that were killed, and of files that were damaged."""
    (row,) = files.read_rows(results / "hostile.jsonl")
    refused = f"{row['refused']:,} refused, {row['legal']} legal (numbers alone were altered)"
    worst = row["loaded"] + row["crashed"] + row["hung"] + row["traceback"]
    memory = f"{row['largest_reader_kilobytes'] / 2**20:.2f} GiB"
    lines = [
        *(_kills_line(row) for row in files.read_rows(results / "kills.jsonl")),
        (f"{row['files']:,} damaged and hostile files", refused),
        ("let in with a wrong checksum, crashed, hung or ended in a traceback", str(worst)),
        ("memory of the largest reader, with all it imports", memory),
    ]
    return table(("tried", "what came of it"), lines)


def _kills_line(row: Row) -> tuple[str, str]:
    came = f"{row['resumed']} went on, {row['whole']} left whole files, {row['litter']} left litter"
    return f"{row['kills']} kills (`kill -9`) in `{row['name']}`", came


def _shares(rows: Sequence[Row]) -> str:
    seeds = sum(row["seeds"] for row in rows)
    parts = [sum(row[name] for row in rows) for name in ("flagged", "warned")]
    return "; ".join(f"{part} of {seeds}" for part in parts)


def _what(row: Row) -> tuple[str, str]:
    return (
        f"two Gaussians: {row['name']} ({row['student']}, {row['feedback']})",
        f"both modes in {row['both_modes']} of {row['repeats']}, KSD {row['ksd']:.3f}, W1 "
        f"{row['w1']:.3f}, weight error {row['weight_error']:.3f}",
    )


TABLES: dict[str, Callable[[Path], str]] = {
    "mixture": mixture_table,
    "mixture_gains": mixture_gains,
    **{f"appendix_{part}": partial(appendix_table, part=part) for part in appendix.PARTS},
    "toys": toys_table,
    "ising": ising_table,
    "figures": figures_table,
    "trust": trust_table,
    "trust_summary": trust_summary,
    "hardening": hardening_table,
    "posteriors": lambda results: table(posteriors.EACH, posteriors.each(results)),
    "leave_one_out": lambda results: table(posteriors.LEAVE_ONE_OUT, posteriors.leave_one_out(results)),
    "posteriors_families": lambda results: table(posteriors.FAMILIES, posteriors.families(results)),
    "posteriors_goals": lambda results: table(posteriors.GOALS, posteriors.goals(results)),
    "sbi": lambda results: table(sbi.C2ST, sbi.accuracies(results)),
    "sbi_costs": lambda results: table(sbi.COSTS, sbi.costs(results)),
    "amortised_faults": lambda results: table(sbi.FAULTS, sbi.faults(results)),
    "strangers": lambda results: table(sbi.STRANGERS, sbi.strangers(results)),
    "workflow": lambda results: table(*sbi.workflow(results)),
    "bnn_ll": partial(bnn_table, name="test_ll", best=max),
    "bnn_error": partial(bnn_table, name="test_error", best=min),
    "bnn_ece": partial(bnn_means, name="ece", digits=3),
    "bnn_seconds": partial(bnn_means, name="train_seconds", digits=2),
    "bnn_goals": bnn_goals,
    "bnn_splits": splits_table,
    "langevin": langevin_table,
    "mnist": lambda results: table(mnist.LIKELIHOODS, mnist.likelihoods(results)),
    "mnist_differences": lambda results: table(mnist.DIFFERENCES, mnist.differences(results)),
    "mnist_short": lambda results: table(mnist.SHORT, mnist.short(results)),
    "imputation": lambda results: table(mnist.IMPUTATION, mnist.imputations(results)),
}


def filled(text: str, results: Path) -> str:
    """A document with every block ``<!-- table: name -->`` made anew."""

    def make(found: re.Match) -> str:
        return f"<!-- table: {found[1]} -->\n{TABLES[found[1]](results)}\n<!-- end -->"

    return re.sub(r"<!-- table: (\w+) -->\n.*?<!-- end -->", make, text, flags=re.DOTALL)


def fill_documents(root: Path = Path()) -> None:
    """Fill the tables of the README and of all pages in ``docs``."""
    for page in [root / "README.md", *sorted((root / "docs").rglob("*.md"))]:
        files.replace_file(page, [filled(page.read_text(), root / "results").encode()])
