"""The wheel alone, in an empty folder: it holds nothing of the checkout and looks for nothing of it."""

import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def run(*words, folder, **variables):
    environment = {n: v for n, v in os.environ.items() if n not in ("PYTHONPATH", "UNDERSTUDY_DEBUG")}
    return subprocess.run(
        [sys.executable, *words],
        capture_output=True,
        text=True,
        cwd=folder,
        env=environment | variables,
        check=False,
    )


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    pytest.importorskip("hatchling")
    folder = tmp_path_factory.mktemp("wheel")
    options = ["-q", "--no-deps", "--no-build-isolation", "--disable-pip-version-check"]
    ran = run("-m", "pip", "wheel", *options, "-w", str(folder), str(ROOT), folder=folder)
    assert ran.returncode == 0, ran.stderr
    [path] = folder.glob("*.whl")
    return path


@pytest.fixture(scope="module")
def alone(wheel, tmp_path_factory):
    target = tmp_path_factory.mktemp("alone")
    options = ["-q", "--no-deps", "--disable-pip-version-check", "--target", str(target)]
    ran = run("-m", "pip", "install", *options, str(wheel), folder=target)
    assert ran.returncode == 0, ran.stderr
    return target


def test_it_holds_the_package_and_nothing_beside_it(wheel):
    with zipfile.ZipFile(wheel) as folder:
        names = folder.namelist()
    tops = {name.split("/")[0] for name in names}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"understudy"}
    assert not [name for name in names if re.search(r"experiments|benchmarks|tests", name)]
    for needed in ("py.typed", "__main__.py", "data/tables/pima.csv", "data/tables/LICENCES.md"):
        assert f"understudy/{needed}" in names


def test_it_looks_for_no_checkout(wheel):
    with zipfile.ZipFile(wheel) as folder:
        sources = {n: folder.read(n).decode() for n in folder.namelist() if n.endswith(".py")}
    for name, text in sources.items():
        assert not re.search(r"(from|import) (experiments|benchmarks|tests)\b", text), name
        assert not re.search(r"[\"']git[\"']", text), name
        assert not re.search(r"[\"'](experiments|benchmarks)[.\"']", text), name


@pytest.mark.parametrize(
    "words", [(), *((name,) for name in ("demo", "fit", "sample", "check", "report"))], ids=str
)
def test_every_command_has_its_help(alone, tmp_path, words):
    ran = run("-P", "-m", "understudy", *words, "--help", folder=tmp_path, PYTHONPATH=str(alone))
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.startswith("usage: understudy")
    assert ran.stderr == ""
    assert not list(tmp_path.iterdir())


def test_it_is_the_wheel_that_runs(alone, tmp_path):
    ran = run(
        "-P",
        "-c",
        "import understudy; print(understudy.__file__)",
        folder=tmp_path,
        PYTHONPATH=str(alone),
    )
    assert ran.stdout.startswith(str(alone))


@pytest.mark.slow
def test_the_demo_runs(alone, tmp_path):
    words = ["demo", "--updates", "50", "--draws", "10000", "--quiet"]
    ran = run("-P", "-m", "understudy", *words, folder=tmp_path, PYTHONPATH=str(alone))
    assert ran.returncode == 0, ran.stderr
    assert (tmp_path / "runs" / "demo" / "report.html").exists()
