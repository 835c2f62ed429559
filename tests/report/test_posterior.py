"""The page about a posterior, made of stand-ins: names and words of others stay words."""

import base64
import hashlib
import re
from types import SimpleNamespace

import numpy as np

from tests.evaluation.test_modes import verdict as verdict_of_modes
from tests.report.test_page import HOSTILE, Page
from tests.site_names import NAMES
from understudy.evaluation.trust.findings import Finding, Trust
from understudy.posterior.cost import BreakEven, NutsCost
from understudy.posterior.verdict import Figure, Verdict
from understudy.report.posterior import write_posterior_report


def write(path, columns, words="fine", modes=None, verdict=None):
    pictures = {"mass": np.array([0.7, 0.3]), "share": np.array([0.6, 0.4])}
    modes = modes or Finding("modes", "warn", 0.1, words, pictures)
    trust = Trust((modes, Finding("drift", "ok", 0.0, words)))
    stage = SimpleNamespace(
        name=words, note=words, acceptance=0.9, gradients=1, seconds=1.0, compile_seconds=1.0, kept=True
    )
    result = SimpleNamespace(
        stages=(stage,),
        target=SimpleNamespace(dim=2),
        verdict=verdict,
        gradients=1,
        evaluations=1,
        seed=3,
        seconds=1.0,
        compile_seconds=1.0,
    )
    even = BreakEven(10.0, 1.0, 100.0, NutsCost(1.0, 10.0))
    return Page(write_posterior_report(path, result, trust, even, columns).read_text())


def test_site_names_and_words_never_become_tags(tmp_path):
    values = np.random.default_rng(0).normal(size=(50,))
    page = write(tmp_path / "report.html", {HOSTILE: values, "mu": values}, HOSTILE)
    images = [found for tag, found in page.tags if tag == "img"]
    assert len(images) == 4
    assert all(
        found["src"].startswith("data:image/png") and set(found) == {"alt", "src"} for found in images
    )
    assert [tag for tag, _ in page.tags].count("script") == 1
    assert HOSTILE in page.words
    assert any(found.get("http-equiv") == "Content-Security-Policy" for _, found in page.tags)


def test_the_page_says_of_modes_what_their_chart_shows(tmp_path):
    columns = {"mu": np.random.default_rng(0).normal(size=(50,))}
    for share in (0.65, 0.76):
        modes = verdict_of_modes(share)
        shown = " ".join("".join(write(tmp_path / "report.html", columns, modes=modes).words).split())
        assert modes.words in shown
        right = np.abs(modes.pictures["mass"] - modes.pictures["share"]).max() < 0.03
        assert right == (share == 0.76)
        assert ("each with its share" in shown) == right


def test_every_legal_name_is_shown(tmp_path):
    values = np.random.default_rng(0)
    page = write(tmp_path / "report.html", {name: values.normal(size=(20,)) for name in NAMES})
    shown = {name.encode(errors="replace").decode() for name in NAMES}
    words = {"".join(page.words)}
    assert all(name in next(iter(words)) for name in shown if name.isprintable())


def test_the_one_script_is_the_one_that_the_policy_allows(tmp_path):
    values = np.random.default_rng(0).normal(size=(20,))
    page = write(tmp_path / "report.html", {"mu": values, "tau": values})
    text = (tmp_path / "report.html").read_text()
    [script] = re.findall(r"<script>(.*?)</script>", text, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    [policy] = [found["content"] for _, found in page.tags if found.get("http-equiv")]
    assert f"'sha256-{digest}'" in policy


def test_long_tables_are_folded_and_short_ones_are_not(tmp_path):
    values = np.random.default_rng(0).normal(size=(20,))
    few = write(tmp_path / "few.html", {"mu": values})
    many = write(tmp_path / "many.html", {f"mu{i}": values for i in range(40)})
    assert "details" not in {tag for tag, _ in few.tags}
    assert "details" in {tag for tag, _ in many.tags}
    assert "mu39" in many.words


def test_the_verdict_is_of_the_draws_that_sample_gives(tmp_path):
    columns = {"mu": np.arange(20.0)}
    doubted, lost = Figure("quantiles", 1.0, 0.05), Figure("groups", 1.0, 0.05, "chains")
    for figures, said, kind in (
        ((), "can be trusted", "ok"),
        ((doubted,), "finished draws, moved on", "warn"),
        ((doubted, lost), "No draws should be used", "fail"),
    ):
        page = write(tmp_path / "report.html", columns, verdict=Verdict(figures))
        [box] = [found for tag, found in page.tags if "verdict" in (found.get("class") or "")]
        assert box["class"] == f"verdict {kind}"
        assert said in " ".join(page.words)


def test_the_verdict_stands_before_everything_else(tmp_path):
    page = write(tmp_path / "report.html", {"mu": np.arange(20.0)})
    words = " ".join(page.words)
    assert words.index("can be trusted") < words.index("Marginals")
    assert "understudy.fit(target, seed=3)" in words
