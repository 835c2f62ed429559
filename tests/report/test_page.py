"""The report is one self-contained page, and its pictures show what they say."""

from html.parser import HTMLParser

import jax
import numpy as np
import pytest

from tests.site_names import NAMES
from understudy.core import IngredientError
from understudy.files import StoreError, append_row
from understudy.report import (
    describe_run,
    draws_beside_exact,
    student_against_density,
    training_curves,
    write_picture,
    write_report,
)
from understudy.report.figures import blank_panels, picture_bytes, plain_text
from understudy.report.page import POLICY, show
from understudy.targets import LogDensity, eight_gaussians, two_gaussians


class Page(HTMLParser):
    """Tags with their attributes, and the text."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.words = [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data):
        self.words.append(data)


@pytest.fixture(scope="module")
def draws():
    return two_gaussians().sample(jax.random.key(0), 2000)


@pytest.fixture
def run(tmp_path, draws):
    write_picture(student_against_density(draws, two_gaussians()), tmp_path / "density.png")
    for step in (1, 200, 400):
        row = {"step": step, "seconds": 0.1, "loss": 1 / step, "move": None}
        append_row(tmp_path / "metrics.jsonl", row)
    describe_run(
        tmp_path,
        "A <b>run</b>",
        "What it shows.",
        {"seed": 3, "names": ["a", "b"]},
        [
            {"name": "KSD", "value": 0.04321, "goal": 0.05, "meaning": "smaller is better & good"},
            {"name": "speed", "value": 1234567.8, "meaning": "draws a second"},
            {"name": "broken", "value": float("nan"), "meaning": "not known"},
        ],
        [{"file": "density.png", "title": "Density", "caption": "Bars follow the line."}],
        ["One note."],
    )
    return tmp_path


def test_the_contents_lead_to_every_head(run):
    page = Page(write_report(run).read_text())
    heads = ["#" + attributes["id"] for tag, attributes in page.tags if tag == "h2"]
    assert heads == [attributes["href"] for tag, attributes in page.tags if tag == "a"]
    assert len(heads) >= 3


def test_the_page_is_self_contained(run):
    path = write_report(run)
    assert path == run / "report.html"
    text = path.read_text()
    page = Page(text)
    assert "://" not in text
    [policy] = [found["content"] for tag, found in page.tags if found.get("http-equiv")]
    assert policy == POLICY
    assert policy.startswith("default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src")
    assert "url(" not in text
    assert not {"script", "link", "iframe", "b>run"} & {tag for tag, _ in page.tags}
    assert all(attributes["href"].startswith("#") for tag, attributes in page.tags if tag == "a")
    images = [attributes for tag, attributes in page.tags if tag == "img"]
    assert len(images) == 2
    assert all(image["src"].startswith("data:image/png;base64,") and image["alt"] for image in images)
    assert not any({"src", "href"} & set(found) for tag, found in page.tags if tag not in ("img", "a"))


def test_the_page_says_everything(run):
    words = " ".join(Page(write_report(run).read_text()).words)
    for expected in (
        "A <b>run</b>",
        "What it shows.",
        "0.04321",
        "0.05",
        "1,234,568",
        "smaller is better & good",
        "Bars follow the line.",
        "Means over chunks",
        "One note.",
        "a, b",
    ):
        assert expected in words
    assert words.count("\u2013") == 1


def test_the_page_can_be_written_again(run):
    first = write_report(run).read_bytes()
    assert write_report(run).read_bytes() == first
    assert not list(run.glob(".*"))


def test_a_run_of_fit_alone_gives_a_page(tmp_path):
    metrics = {"loss": [0.5, None], "acceptance": [0.6, 0.7], "lost": [0.0, 0.0]}
    for step in (1, 2):
        append_row(tmp_path / "metrics.jsonl", {"step": step, "seconds": 0.2, **metrics})
    page = Page(write_report(tmp_path).read_text())
    words = " ".join(page.words)
    assert tmp_path.name in words
    assert "0.6, 0.7" in words
    assert [tag for tag, _ in page.tags].count("img") == 1


def test_folders_without_a_run_are_refused(tmp_path):
    with pytest.raises(StoreError, match="not a folder"):
        write_report(tmp_path / "nowhere")
    with pytest.raises(StoreError, match=r"neither report\.json nor metrics\.jsonl"):
        write_report(tmp_path)


@pytest.mark.parametrize(
    ("name", "text", "match"),
    [
        ("report.json", "{", "cannot be read as JSON"),
        ("report.json", "\udcff", "cannot be read as JSON"),
        ("report.json", "[1]", "not the description of a run"),
        ("report.json", '{"settings": 3}', "not the description of a run"),
        ("report.json", '{"figures": {"a": 1}}', "figures is a list of entries with name"),
        ("report.json", '{"figures": [{"name": "a"}]}', "figures is a list of entries with name"),
        ("report.json", '{"pictures": ["a.png"]}', "pictures is a list of entries with file"),
        ("report.json", '{"pictures": [{"file": "none.png"}]}', "none.png does not exist"),
        ("report.json", '{"pictures": [{"file": "../x.png"}]}', "outside its run"),
        ("report.json", '{"pictures": [{"file": "report.json"}]}', "not a PNG"),
        ("report.json", "[" * 100_000, "cannot be read as JSON"),
        ("metrics.jsonl", "x\n", "is damaged"),
        ("metrics.jsonl", '{"other": 1}\n', "does not hold rows of a training"),
        ("metrics.jsonl", '{"step": 1, "loss": "high"}\n', "does not hold rows of a training"),
    ],
)
def test_broken_files_are_refused_in_one_sentence(tmp_path, name, text, match):
    (tmp_path / name).write_bytes(text.encode(errors="surrogateescape"))
    with pytest.raises(StoreError, match=match) as raised:
        write_report(tmp_path)
    assert "\n" not in str(raised.value)
    assert not (tmp_path / "report.html").exists()


def test_the_density_is_normalised_on_the_picture(draws):
    unnormalised = LogDensity(lambda z: two_gaussians().log_density(z) + 5.0, 1)
    axes = student_against_density(draws, unnormalised).axes[0]
    grid, density = axes.lines[0].get_data()
    exact = (np.exp(-((grid + 3) ** 2) / 2) + np.exp(-((grid - 3) ** 2) / 2)) / np.sqrt(8 * np.pi)
    assert np.allclose(density, exact, rtol=0.01, atol=1e-4)
    heights = np.array([bar.get_height() for bar in axes.patches])
    assert np.isclose((heights * axes.patches[0].get_width()).sum(), 1.0, atol=0.01)


def test_training_curves_show_repeats_and_leave_out_what_is_missing():
    other = {"acceptance": None, "lost": 0.0}
    history = [{"step": s, "loss": [1.0 * s, 3.0 * s], **other} for s in (1, 2, 3)]
    figure = training_curves(history)
    assert [axes.get_title(loc="left") for axes in figure.axes] == [
        "the student's loss",
        "share of chains lost",
    ]
    *repeats, median = figure.axes[0].lines
    assert len(repeats) == 2
    assert median.get_ydata().tolist() == [2.0, 4.0, 6.0]


def test_a_scatter_for_the_plane():
    exact = eight_gaussians().sample(jax.random.key(1), 500)
    student, truth = draws_beside_exact(exact + 1.0, exact).axes
    assert student.get_xlim() == truth.get_xlim()
    assert np.allclose(student.collections[0].get_offsets(), exact + 1.0)


def test_pictures_refuse_other_shapes(draws):
    with pytest.raises(IngredientError, match=r"shape \(n, 1\)"):
        student_against_density(np.zeros((5, 2)), two_gaussians())
    with pytest.raises(IngredientError, match=r"shape \(n, 2\)"):
        draws_beside_exact(draws, draws)
    with pytest.raises(IngredientError, match="finite"):
        student_against_density(np.full((5, 1), np.nan), two_gaussians())
    with pytest.raises(IngredientError, match="Rows of a training"):
        training_curves([])


@pytest.mark.parametrize(
    ("value", "shown"),
    [(0.123456, "0.1235"), (12, "12"), (10_000, "10,000"), (1e6, "1,000,000"), (True, "True")],
)
def test_numbers_for_people(value, shown):
    assert show(value) == shown


@pytest.mark.parametrize("folder", [5, None, "", "a\0b", ["runs"]], ids=repr)
def test_folders_that_are_no_names_are_refused(folder):
    unchecked = getattr(write_report, "__wrapped__", write_report)
    with pytest.raises(StoreError, match="folder is the name of a folder"):
        unchecked(folder)


HOSTILE = "<img src=x onerror=alert(1)>\"'&$\\badmath{$"


def test_nothing_that_is_not_ours_becomes_a_tag(tmp_path):
    (tmp_path / "density.png").write_bytes(picture_bytes(training_curves([{"step": 1, "loss": 1.0}])))
    describe_run(
        tmp_path,
        HOSTILE,
        HOSTILE,
        {HOSTILE: HOSTILE, "nested": {HOSTILE: [HOSTILE]}},
        [{"name": HOSTILE, "value": HOSTILE, "goal": HOSTILE, "meaning": HOSTILE}],
        [{"file": "density.png", "title": HOSTILE, "caption": HOSTILE}],
        [HOSTILE],
    )
    page = Page(write_report(tmp_path).read_text())
    images = [found for tag, found in page.tags if tag == "img"]
    assert all(
        found["src"].startswith("data:image/png") and set(found) == {"alt", "src"} for found in images
    )
    assert " ".join(page.words).count("onerror") >= 9


@pytest.mark.parametrize("name", NAMES, ids=ascii)
def test_any_name_can_stand_in_a_picture(name):
    figure, (axes,) = blank_panels(1, (2.0, 2.0))
    axes.set(title=plain_text(name), xlabel=plain_text(name))
    assert picture_bytes(figure).startswith(b"\x89PNG")
