"""The reference has an entry for every public name, each with words, most with an example that runs."""

import doctest
import importlib
import inspect
import re
from pathlib import Path

import pytest

from tests.docs.public_names import NAMESPACES, names_of, public

REFERENCE = Path(__file__).parents[2] / "docs" / "reference"
ENTRIES = {
    entry
    for page in REFERENCE.glob("*.md")
    for entry in re.findall(r"^::: ([\w.]+)$", page.read_text(), re.MULTILINE)
}
# A few of every kind always run; the rest with the slow tests.
ALWAYS = {"understudy.fit", "understudy.Posterior", "understudy.Student", "understudy.LogDensity"}
ALWAYS |= {"understudy.students.FullGaussian", "understudy.teachers.mala", "understudy.data.load"}


def described(value):
    return not isinstance(value, str | tuple | list | dict)


def example(value):
    return ">>>" in (inspect.getdoc(value) or "") if described(value) else False


def found(entry):
    module, _, name = entry.rpartition(".")
    return getattr(importlib.import_module(module), name)


def test_every_public_name_has_an_entry():
    entered = {id(found(entry)) for entry in ENTRIES}
    missing = [name for name, value in public().items() if id(value) not in entered]
    assert not missing, f"add ::: {missing} to a page of docs/reference"


def test_every_entry_is_there():
    for entry in ENTRIES:
        assert found(entry) is not None, entry


def test_every_public_name_has_words_of_its_own():
    for name, value in public().items():
        if described(value):
            assert (value.__doc__ or "").strip(), name
            assert not (value.__doc__ or "").startswith("Alias"), name


def test_most_public_names_have_an_example():
    every = public()
    share = sum(example(value) for value in every.values()) / len(every)
    assert share >= 0.6, f"{share:.0%} of {len(every)} names have an example"


CASES = [
    pytest.param(name, value, marks=() if name in ALWAYS else pytest.mark.slow)
    for name, value in public().items()
    if example(value)
]


@pytest.mark.parametrize(("name", "value"), CASES, ids=[case.values[0] for case in CASES])
def test_examples_run(name, value):
    runner = doctest.DocTestRunner(verbose=False)
    parts = doctest.DocTestParser().get_doctest(inspect.getdoc(value), {}, name, None, 0)
    assert parts.examples
    outcome = runner.run(parts)
    assert outcome.failed == 0, f"the example of {name} fails"


def test_namespaces_are_those_of_the_site():
    assert all((REFERENCE / f"{name}.md").exists() for name in NAMESPACES)
    assert names_of("understudy.students")
