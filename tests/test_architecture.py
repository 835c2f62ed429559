"""The shape of the tree: imports point one way, and only some rooms touch the disk."""

import ast
import importlib
import inspect
from pathlib import Path

import equinox as eqx
import pytest

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "understudy"
FILES = sorted(SOURCE.rglob("*.py"))

BASE = {
    *("core", "checks", "numerics", "coordinates", "networks"),
    *("surroundings", "display", "progress", "devices", "backend", "programs"),
}
INGREDIENTS = {"targets", "students", "teachers", "feedbacks"}
TRAINING = BASE | {"batches", "files", "training"}
VERBS = {"methods", "fitting", "amortising", "posterior", "evaluation", "report", "data"}
LIBRARY = TRAINING | INGREDIENTS | VERBS | {"jobs"}
ALLOWED = {
    "core": set(),
    "surroundings": {"core", "checks", "backend"},
    "backend": set(),
    "programs": set(),
    "display": {"core"},
    "progress": set(),
    "checks": {"core"},
    "devices": {"core", "checks", "backend"},
    "jobs": {"core", "checks"},
    "numerics": {"core", "checks", "devices", "programs"},
    "coordinates": {"core", "checks", "numerics", "surroundings"},
    "networks": {"core", "checks", "backend"},
    "batches": {"core", "checks"},
    "files": {"core", "checks", "backend"},
    **dict.fromkeys(INGREDIENTS, BASE),
    "evaluation": BASE | {"teachers"},
    "training": TRAINING | {"report"},
    "data": {"core", "checks", "files"},
    "report": BASE | {"files"},
    "methods": TRAINING | INGREDIENTS,
    "posterior": TRAINING | INGREDIENTS | {"evaluation", "report", "data"},
    "fitting": TRAINING | INGREDIENTS | {"evaluation", "posterior"},
    "amortising": TRAINING | INGREDIENTS | {"evaluation", "posterior", "report"},
    "cli": LIBRARY,
    "__main__": {"cli"},
    "__init__": LIBRARY,
}


def layer(path: Path) -> str:
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def imported(tree: ast.AST) -> set[str]:
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module == "understudy":
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("understudy."):
            names.add(node.module.split(".")[1])
        elif isinstance(node, ast.Import):
            names |= {a.name.split(".")[1] for a in node.names if a.name.startswith("understudy.")}
    return names


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_imports_point_one_way(path):
    used = imported(ast.parse(path.read_text())) - {layer(path)}
    assert used <= ALLOWED[layer(path)], f"{path.name} imports {sorted(used - ALLOWED[layer(path)])}"


def test_the_package_knows_neither_experiments_nor_a_checkout():
    for path in FILES:
        tree = ast.parse(path.read_text())
        names = [node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
        names += [a.name for node in ast.walk(tree) if isinstance(node, ast.Import) for a in node.names]
        outside = {name.split(".")[0] for name in names} & {"experiments", "benchmarks", "tests"}
        assert not outside, f"{path.name} imports {outside}"
        strings = {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant)}
        assert not strings & {"git", "results", "experiments", "benchmarks"}, path.name


def test_only_some_modules_touch_the_disk():
    for path in FILES:
        if layer(path) in {"files", "data", "report", "cli"} or path.stem in {"export", "writing"}:
            continue
        calls = {
            node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            for node in ast.walk(ast.parse(path.read_text()))
            if isinstance(node, ast.Call)
        }
        touching = calls & {
            "open",
            "write_text",
            "write_bytes",
            "read_text",
            "read_bytes",
            "mkdir",
            "unlink",
        }
        assert not touching, f"{path.name} calls {touching}"


def test_nothing_is_pickled():
    for path in FILES:
        names = {getattr(a, "name", "") for n in ast.walk(ast.parse(path.read_text()))
                 if isinstance(n, ast.Import | ast.ImportFrom) for a in n.names}  # fmt: skip
        assert not names & {"pickle", "cloudpickle", "dill", "joblib"}, path.name


def test_what_depends_on_the_machine_is_chosen_in_one_place():
    for path in FILES:
        tree = ast.parse(path.read_text())
        strings = [n.value for n in ast.walk(tree) if isinstance(n, ast.Constant)]
        words = {word for word in strings if isinstance(word, str) and " " not in word}
        chosen = {word for word in words if word.startswith("xla_") or word == "unsafe_rbg"}
        if layer(path) == "backend":
            assert chosen, "the choices were looked for by names that are no longer used"
            continue
        assert not chosen, f"{path.name} names {chosen}"
        asked = {n.attr for n in ast.walk(tree) if isinstance(n, ast.Attribute)} & {"default_backend"}
        assert not asked or path.stem == "exported", f"{path.name} asks for the machine"


def modules():
    names = (".".join(p.relative_to(SOURCE.parent).with_suffix("").parts) for p in FILES)
    return [importlib.import_module(name.removesuffix(".__init__")) for name in names]


def is_abstract(cls) -> bool:
    return bool(cls.__abstractmethods__ or cls.__abstractvars__ or cls.__abstractclassvars__)


def test_a_concrete_module_is_never_subclassed():
    classes = {cls for module in modules() for cls in vars(module).values() if inspect.isclass(cls)}
    ours = [c for c in classes if issubclass(c, eqx.Module) and c.__module__.startswith("understudy")]
    assert len(ours) > 40
    for cls in ours:
        for base in cls.__bases__:
            if base.__module__.startswith("understudy") and issubclass(base, eqx.Module):
                assert is_abstract(base), f"{cls.__name__} subclasses the concrete {base.__name__}"
