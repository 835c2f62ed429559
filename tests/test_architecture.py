"""The shape of the tree: imports point one way, files and functions stay small."""

import ast
import importlib
import inspect
from pathlib import Path

import equinox as eqx
import pytest

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "understudy"
FILES = sorted(SOURCE.rglob("*.py"))

BASE = {"core", "networks", "checks", "convolutions", "image_networks"}
INGREDIENTS = {"targets", "students", "teachers", "feedbacks"}
STORE = {"store", "description"}
TRAINING = BASE | STORE | {"teaching", "learning", "callbacks"}
LIBRARY = (
    TRAINING
    | INGREDIENTS
    | {"preparation", "training", "methods", "auto", "evaluation", "exported", "report", "data"}
)
ALLOWED = {
    "core": set(),
    "checks": {"core"},
    "networks": {"core", "checks"},
    "convolutions": {"core", "checks"},
    "image_networks": {"core", "checks", "networks", "convolutions"},
    **dict.fromkeys(INGREDIENTS, BASE),
    "evaluation": {"core", "checks", "teachers"},
    "description": {"core"},
    "store": {"core", "description"},
    "teaching": BASE,
    "learning": BASE | {"teaching"},
    "callbacks": BASE | STORE | {"learning"},
    "preparation": BASE | {"learning"},
    "training": TRAINING | {"preparation"},
    "methods": TRAINING | INGREDIENTS | {"preparation", "training"},
    "exported": set(),
    "auto": TRAINING
    | INGREDIENTS
    | {"preparation", "training", "evaluation", "exported", "report", "data"},
    "report": BASE | STORE,
    "data": {"core", "checks", "store"},
    "experiments": LIBRARY,
    "parsing": set(),
    "commands": LIBRARY | {"experiments", "parsing"},
    "cli": LIBRARY | {"experiments", "parsing", "commands"},
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


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_files_and_functions_stay_small(path):
    text = path.read_text()
    assert text.count("\n") <= 350
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            body = node.body
            documented = isinstance(body[0], ast.Expr) and isinstance(body[0].value, ast.Constant)
            first = body[1 if documented and len(body) > 1 else 0].lineno
            assert node.end_lineno - first < 40, f"{path.name}: {node.name}"


def test_only_some_modules_touch_the_disk():
    for path in FILES:
        if layer(path) in {"store", "exported", "report", "experiments", "cli", "commands", "data"}:
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
            if base.__module__.startswith("understudy"):
                assert is_abstract(base), f"{cls.__name__} subclasses the concrete {base.__name__}"
