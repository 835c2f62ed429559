"""One self-contained page about a posterior: verdict, draws, trust, stages, costs."""

import html
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from understudy import files
from understudy.report.draws import MOST_MARGINALS, MOST_PAIRS, first_of, marginals, pairs
from understudy.report.figures import STUDENT, Picture, blank_panels, picture_bytes, plain_text
from understudy.report.findings import finding_picture
from understudy.report.page import as_bytes, document, figures_table, inlined, show, table

Arrays = Mapping[str, np.ndarray]

_QUANTILES = (0.05, 0.5, 0.95)
_NOTHING: Mapping[str, Arrays] = MappingProxyType({})

_FINE = "The draws can be trusted as far as these tests see."
_WRONG = "The draws should not be trusted: see which test failed, and what it says to do."
_USELESS = "No draws should be used: fit with a larger budget, or write the model another way."
_FINISHED = "sample() gives finished draws, {how}. The tests below are of the student's own: {so}."
_NO_EVEN = (
    "The student's own draws are not trusted, so that they have no price to compare with that of NUTS."
)


def write_posterior_report(
    path: str | Path,
    result: Any,
    trust: Any,
    even: Any,
    columns: Arrays,
    others: Mapping[str, Arrays] = _NOTHING,
    names: Sequence[str] = (),
) -> Path:
    """Write the page.

    Args:
        path: of the page.
        result: a posterior, for its verdict, stages and costs.
        trust: what its check found.
        even: its break-even against NUTS; None where its own draws are not to be used.
        columns: draws to show, one row a draw, by name; those that do not vary are left out before.
        others: further draws of the same columns, to lay over the marginals: "prior", "NUTS".
        names: of the coordinates of a flat draw.
    """
    parts = [
        _sentence(result),
        "<h2>Draws</h2>",
        inlined(picture_bytes(marginals(columns, others)), "Marginals", _caption(columns, others)),
        _summary(columns),
    ]
    if len(columns) > 1:
        parts.append(inlined(picture_bytes(pairs(columns)), "Pairs", first_of(columns, MOST_PAIRS)))
    parts += [
        trust_table(trust),
        *(finding_part(finding, names) for finding in trust.findings),
        stages_table(result.stages),
        figures_table(_costs(result, even), "Costs"),
        f"<p>{html.escape(_NO_EVEN if even is None else str(even))}</p>",
        again(f"result = understudy.fit(target, seed={result.seed})", "result", result),
    ]
    lead = f"{result.target.dim} unconstrained dimensions, {len(columns):,} numbers that vary."
    page = document("Posterior", lead, [part for part in parts if part], _verdict(result, trust))
    files.replace_file(path, [as_bytes(page)])
    return Path(path)


def _verdict(result: Any, trust: Any) -> tuple[str, str]:
    """What to think of the draws that ``sample`` gives, by the fit's own word and by the tests."""
    fitted = getattr(result, "verdict", None)
    if fitted is None or fitted.own:
        return ("ok", _FINE) if trust.trusted else ("fail", _WRONG)
    if fitted.route != "weights" and not fitted.agreed:
        return "fail", _USELESS
    how = "picked by weights" if fitted.route == "weights" else "moved on by transitions"
    so = "none fails" if trust.trusted else "do not use these as they are"
    return "warn", _FINISHED.format(how=how, so=so)


def _sentence(result: Any) -> str:
    """What the fit said of itself."""
    fitted = getattr(result, "verdict", None)
    return "" if fitted is None else f"<p>When it was fitted: {html.escape(fitted.sentence)}</p>"


def _caption(columns: Arrays, others: Mapping[str, Arrays]) -> str:
    lines = {"prior": "dashes are the prior", "NUTS": "the line is NUTS"}
    seen = "; ".join(lines.get(name, name) for name in others)
    return f"{first_of(columns, MOST_MARGINALS)} Bars are the draws{f'; {seen}' if seen else ''}."


def _summary(columns: Arrays) -> str:
    heads = ("site", "mean", "sd", *(f"{100 * level:g} %" for level in _QUANTILES))
    lines = []
    for name, column in columns.items():
        values = np.asarray(column, float)
        figures = (values.mean(), values.std(), *np.quantile(values, _QUANTILES))
        lines.append([name, *(f"{value:.4g}" for value in figures)])
    return table(heads, lines, "Every number")


def trust_table(trust: Any) -> str:
    """Every test with its figure, its verdict and what it means."""
    lines = [(f.name, show(float(f.figure)), f.verdict, f.words) for f in trust.findings]
    return "<h2>Trust</h2>\n" + table(("test", "figure", "verdict", "meaning"), lines, "Tests")


def finding_part(finding: Any, names: Sequence[str] = ()) -> str:
    """The picture of a test, empty where there is none."""
    drawn = finding_picture(finding, names)
    if drawn is None:
        return ""
    return inlined(picture_bytes(drawn[0]), finding.name[0].upper() + finding.name[1:], drawn[1])


def stages_table(stages: Sequence[Any]) -> str:
    """What every stage did and cost."""
    if not stages:
        return ""
    heads = ("stage", "what it did", "acceptance", "gradients", "run s", "compile s", "kept")
    lines = [
        (
            stage.name,
            stage.note,
            "" if math.isnan(stage.acceptance) else f"{stage.acceptance:.3f}",
            f"{stage.gradients:,}",
            f"{stage.seconds:.1f}",
            f"{stage.compile_seconds:.1f}",
            "yes" if stage.kept else "",
        )
        for stage in stages
    ]
    caption = "Gradient evaluations over wall time; a dot is the end of a stage."
    made = "<h2>Stages</h2>\n" + table(heads, lines, "Stages")
    if not any(stage.gradients for stage in stages):
        return made
    return made + inlined(picture_bytes(stages_picture(stages)), "Course of the fit", caption)


def stages_picture(stages: Sequence[Any]) -> Picture:
    """Gradients over seconds, every stage by its name."""
    seconds = np.cumsum([0.0, *(stage.seconds + stage.compile_seconds for stage in stages)])
    gradients = np.cumsum([0, *(stage.gradients for stage in stages)])
    figure, (axes,) = blank_panels(1, (7.2, 2.6))
    axes.plot(seconds, gradients, color=STUDENT, marker="o", markersize=4)
    last = -math.inf
    for i, stage in enumerate(stages):
        place = (seconds[i + 1], gradients[i + 1])
        if place[1] - last > gradients[-1] / 12:  # names that would lie upon each other are in the table
            name = plain_text(stage.name, 20)
            axes.annotate(name, place, (-4, 5), textcoords="offset points", fontsize=8, ha="right")
            last = place[1]
    axes.set(xlabel="seconds, compiling included", ylabel="gradients")
    axes.margins(0.08, 0.18)
    return figure


def _costs(result: Any, even: Any) -> list[dict[str, Any]]:
    rows = (
        ("gradients", result.gradients, "gradient evaluations of the log density spent on the fit"),
        ("evaluations", result.evaluations, "evaluations without a gradient spent on the fit"),
        ("run seconds", float(result.seconds), "run time of the fit, without compilation"),
        ("compile seconds", float(result.compile_seconds), "spent compiling"),
    )
    if even is not None:
        means = "effective draws from which the fit pays against NUTS"
        rows += (
            ("draws per second", float(even.draws_per_second), "named draws, measured"),
            ("break-even draws", float(even.draws), means),
        )
    return [{"name": name, "value": value, "meaning": meaning} for name, value, meaning in rows]


def again(call: str, name: str, result: Any) -> str:
    """How to make a result again.

    Args:
        call: what made it, as far as it is known.
        name: of the result in there.
        result: for its seed and time.
    """
    versions = files.provenance({}, result.seed, result.seconds)["versions"]
    known = ", ".join(f"{name} {version}" for name, version in versions.items())
    words = f"{call}  # and the settings that were given\n{name}.report('report.html')"
    code = f"<pre>{html.escape(words)}</pre>\n<p>With {html.escape(known)}.</p>"
    return f"<h2>How to make it again</h2>\n{code}"
