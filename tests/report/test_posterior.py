"""The page about a posterior, made of stand-ins: names and words of others stay words."""

from types import SimpleNamespace

import numpy as np

from tests.report.test_page import HOSTILE, Page
from tests.site_names import NAMES
from understudy.evaluation.trust.findings import Finding, Trust
from understudy.posterior.cost import BreakEven, NutsCost
from understudy.report.posterior import write_posterior_report


def write(path, columns, words="fine"):
    pictures = {"mass": np.array([0.7, 0.3]), "share": np.array([0.6, 0.4])}
    trust = Trust((Finding("modes", "warn", 0.1, words, pictures), Finding("drift", "ok", 0.0, words)))
    stage = SimpleNamespace(
        name=words, note=words, acceptance=0.9, gradients=1, seconds=1.0, compile_seconds=1.0, kept=True
    )
    result = SimpleNamespace(
        stages=(stage,),
        target=SimpleNamespace(dim=2),
        gradients=1,
        evaluations=1,
        seconds=1.0,
        compile_seconds=1.0,
    )
    even = BreakEven(10.0, 1.0, 100.0, NutsCost(1.0, 10.0))
    return Page(write_posterior_report(path, result, trust, even, columns).read_text())


def test_site_names_and_words_never_become_tags(tmp_path):
    values = np.random.default_rng(0).normal(size=(50,))
    page = write(tmp_path / "report.html", {HOSTILE: values, "mu": values}, HOSTILE)
    images = [found for tag, found in page.tags if tag == "img"]
    assert len(images) == 3
    assert all(
        found["src"].startswith("data:image/png") and set(found) == {"alt", "src"} for found in images
    )
    assert "script" not in {tag for tag, _ in page.tags}
    assert HOSTILE in page.words
    assert any(found.get("http-equiv") == "Content-Security-Policy" for _, found in page.tags)


def test_every_legal_name_is_shown(tmp_path):
    values = np.random.default_rng(0)
    page = write(tmp_path / "report.html", {name: values.normal(size=(20,)) for name in NAMES})
    shown = {name.encode(errors="replace").decode() for name in NAMES}
    words = {"".join(page.words)}
    assert all(name in next(iter(words)) for name in shown if name.isprintable())
