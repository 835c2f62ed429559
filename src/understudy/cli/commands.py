"""Commands about a posterior: ``understudy fit``, ``sample`` and ``check``.

A run's folder holds ``posterior.safetensors`` and ``fit.json``, which says where the model is. Sampling
needs the first alone; checking and reporting run the model's file again. What is heavy is imported
inside commands.
"""

import difflib
import hashlib
import importlib
import importlib.util
import inspect
import io
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from understudy.cli.parsing import Parser, UsageError, number, summary, whole_number

_FILE, _NOTE = "posterior.safetensors", "fit.json"
_SUFFIXES = (".nc", ".npz", ".csv")


def fit(words: Sequence[str]) -> None:
    """Fit a NumPyro model with no settings."""
    parser = Parser(
        "understudy fit",
        summary(fit),
        "example:\n  understudy fit model.py:eight_schools --data data.json --out runs/schools",
    )
    parser.add_argument(
        "model", help="a function in a file (model.py:name) or in a module (package:name)"
    )
    parser.add_argument("--data", type=Path, metavar="FILE", help="JSON: names to numbers or arrays")
    place = {"default": Path("runs", "posterior"), "help": "where to write (default: %(default)s)"}
    parser.add_argument("--out", type=Path, metavar="FOLDER", **place)
    parser.add_argument("--seed", type=whole_number, default=0, metavar="N", help="of everything random")
    budget = "seconds (120), or gradient evaluations (500000g), after which no work is begun"
    parser.add_argument("--budget", type=_budget, metavar="S", help=budget)
    parser.add_argument(
        "--seeds", type=whole_number, default=1, metavar="N", help="students fitted side by side"
    )
    parser.add_argument("--resume", action="store_true", help="keep a fit that is finished already")
    parser.add_argument("--quiet", action="store_true", help="print the last line of figures alone")
    given = parser.read(words)
    note = {"model": _absolute(given.model), "seed": given.seed, "seeds": given.seeds}
    note["budget"] = given.budget
    note["data"] = _digest(given.data)
    if is_posterior(given.out):
        _finished(given.out, note, given.resume)
    else:
        _fit(given, note)
    _last_line(given.out)


def sample(words: Sequence[str]) -> None:
    """Draw from a fitted posterior into a file of netCDF, NumPy or CSV."""
    parser = Parser("understudy sample", summary(sample), "example:\n  understudy sample runs/posterior")
    parser.add_argument("run", type=Path, help="the folder of a fit")
    parser.add_argument("-n", type=whole_number, default=4000, help="draws (default: %(default)s)")
    parser.add_argument(
        "--out", type=Path, metavar="FILE", help="draws.nc, .npz or .csv (default: in run)"
    )
    parser.add_argument("--seed", type=whole_number, default=0, metavar="N", help="of the draws")
    given = parser.read(words)
    out = given.out or given.run / "draws.nc"
    if out.suffix not in _SUFFIXES:
        raise UsageError(f"--out ends in {', '.join(_SUFFIXES)}; {str(out)!r} came.")
    if given.seed < 0:
        raise UsageError(f"--seed is a whole number of at least 0; {given.seed} came.")
    result = _load(given.run)
    import jax

    from understudy import files

    draws = result.sample(jax.random.key(given.seed), given.n)
    files.replace_file(out, [_written(draws, out.suffix)])
    print(out)


def check(words: Sequence[str]) -> None:
    """Say whether the draws of a fitted posterior can be trusted."""
    parser = Parser("understudy check", summary(check), "example:\n  understudy check runs/posterior")
    parser.add_argument("run", type=Path, help="the folder of a fit")
    parser.add_argument("--seed", type=whole_number, default=0, metavar="N", help="of the tests")
    parser.add_argument("--model", metavar="FILE:NAME", help="where the model is now, if it has moved")
    given = parser.read(words)
    result = _with_model(given.run, given.model)
    import jax
    from experiments.rows import last_line

    trust = result.check(jax.random.key(given.seed))
    print(trust)
    last_line({"trusted": trust.trusted, "verdicts": trust.verdicts, "seconds": trust.seconds})


def is_posterior(run: Path) -> bool:
    """Whether a folder holds a fitted posterior."""
    return (run / _FILE).exists()


def report_posterior(run: Path, model: str | None = None) -> Path:
    """Write ``report.html`` about a fitted posterior."""
    return _with_model(run, model).report(run / "report.html")


def load_model(name: str) -> Callable:
    """A model by ``file.py:name`` or ``package.module:name``."""
    place, _, function = name.rpartition(":")
    if not place or not function:
        raise UsageError(f"A model is named file.py:function or package.module:function; {name!r} came.")
    module = _module(place)
    found = getattr(module, function, None)
    if found is None:
        names = [
            n
            for n, v in vars(module).items()
            if inspect.isfunction(v) and v.__module__ == module.__name__
        ]
        near = difflib.get_close_matches(function, names, 1)
        hint = f"; did you mean {near[0]}?" if near else f"; it has {', '.join(names) or 'no function'}."
        raise UsageError(f"{place} has no function {function!r}{hint}")
    if not inspect.isfunction(found):
        raise UsageError(
            f"{name} is a {type(found).__name__}; name a function that calls numpyro.sample."
        )
    return found


def load_data(path: Path | None) -> dict[str, Any]:
    """Data by name from a JSON file: numbers stay numbers, lists become arrays."""
    if path is None:
        return {}
    try:
        data = json.loads(path.read_bytes())
    except OSError as error:
        raise UsageError(f"--data {path} cannot be read ({error.strerror}); check the name.") from error
    except ValueError as error:
        raise UsageError(f"--data {path} is not JSON ({error}); see understudy fit --help.") from error
    if not isinstance(data, dict):
        raise UsageError(
            f"--data {path} holds a {type(data).__name__}; write a dictionary of the model's arguments."
        )
    return {name: _value(name, value) for name, value in data.items()}


def check_arguments(model: Callable, data: Mapping[str, Any]) -> None:
    """Whether the data are just what the model takes."""
    parameters = inspect.signature(model).parameters.values()
    names = [p.name for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
    open_ended = any(p.kind is p.VAR_KEYWORD for p in parameters)
    unknown = [name for name in data if name not in names and not open_ended]
    if unknown:
        takes = ", ".join(names) or "nothing"
        raise UsageError(
            f"The data hold {unknown[0]!r}, which {model.__name__} does not take; it takes {takes}."
        )
    needed = [p.name for p in parameters if p.name in names and p.default is p.empty]
    missing = [name for name in needed if name not in data]
    if missing:
        raise UsageError(
            f"{model.__name__} needs {missing[0]!r}, which the data do not hold; they hold "
            f"{', '.join(data) or 'nothing'}."
        )


def _fit(given: Any, note: dict[str, Any]) -> None:
    from understudy import files
    from understudy.fitting import Gradients, fit
    from understudy.targets.numpyro import from_numpyro

    model, data = load_model(given.model), load_data(given.data)
    check_arguments(model, data)
    target = from_numpyro(model, **data)
    budget = given.budget
    if isinstance(budget, str):
        budget = Gradients(whole_number(budget.removesuffix("g")))
    result = fit(target, budget=budget, seed=given.seed, seeds=given.seeds, verbose=not given.quiet)
    given.out.mkdir(parents=True, exist_ok=True)
    files.replace_file(given.out / _NOTE, [json.dumps(note, indent=1).encode()])
    result.save(given.out / _FILE)


def _budget(text: str) -> float | str:
    if text.endswith("g"):
        whole_number(text.removesuffix("g"))
        return text
    return number(text)


def _finished(out: Path, note: dict[str, Any], resume: bool) -> None:
    if not resume:
        raise UsageError(
            f"{out} holds a finished fit; add --resume to keep it, or choose another --out."
        )
    before = _note(out)
    changed = [name for name in note if note[name] != before.get(name)]
    if changed:
        raise UsageError(
            f"{out} holds a fit with another {changed[0]}; choose another --out for the new one."
        )


def _last_line(out: Path) -> None:
    from experiments.rows import last_line

    result = _load(out)
    kept = [stage for stage in result.stages if stage.kept]
    last_line(
        {
            "out": str(out),
            "stage": kept[0].name if kept else None,
            "acceptance": kept[0].acceptance if kept else None,
            "gradients": result.gradients,
            "run_seconds": result.seconds,
            "compile_seconds": result.compile_seconds,
        }
    )


def _note(run: Path) -> dict[str, Any]:
    try:
        note = json.loads((run / _NOTE).read_bytes())
        return note if isinstance(note, dict) else {}
    except (OSError, ValueError) as error:
        raise UsageError(f"{run / _NOTE} cannot be read; make the fit again.") from error


def _load(run: Path) -> Any:
    if not is_posterior(run):
        raise UsageError(f"{run} holds no fitted posterior; make one with understudy fit --out {run}.")
    from understudy import files

    return files.load(run / _FILE)


def _with_model(run: Path, model: str | None) -> Any:
    result = _load(run)
    function = load_model(model or str(_note(run).get("model")))
    return result.restored({result.target.function: function})


def _absolute(name: str) -> str:
    place, colon, function = name.rpartition(":")
    return f"{Path(place).resolve()}{colon}{function}" if place.endswith(".py") else name


def _digest(path: Path | None) -> str | None:
    return hashlib.sha256(path.read_bytes()).hexdigest() if path and path.is_file() else None


def _module(place: str) -> ModuleType:
    path = Path(place)
    folder = str(path.resolve().parent if path.suffix == ".py" else Path.cwd())
    if path.suffix == ".py" and not path.is_file():
        raise UsageError(f"{place} does not exist; give the file of the model.")
    sys.path.insert(0, folder)
    try:
        return _from_file(path) if path.suffix == ".py" else importlib.import_module(place)
    except Exception as error:
        first = (str(error).strip().splitlines() or [""])[0]
        raise UsageError(f"{place} cannot be imported ({type(error).__name__}: {first}).") from error
    finally:
        sys.path.remove(folder)


def _from_file(path: Path) -> ModuleType:
    name = path.stem if path.stem not in sys.modules else f"_model_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def _value(name: str, value: Any) -> Any:
    import numpy as np

    try:
        array = np.asarray(value)
    except ValueError as error:
        raise UsageError(f"Data {name!r} have rows of different lengths; make them equal.") from error
    if array.dtype.kind not in "fiub":
        raise UsageError(f"Data {name!r} are numbers or arrays of numbers; {str(value)[:40]!r} came.")
    if not np.isfinite(array).all():
        raise UsageError(f"Data {name!r} hold a value that is not finite; drop it or fill it in.")
    return array if array.ndim else value


def _written(draws: dict[str, Any], suffix: str) -> bytes:
    import numpy as np

    buffer = io.BytesIO()
    if suffix == ".npz":
        np.savez(buffer, **draws)
    elif suffix == ".csv":
        from understudy.report.posterior import scalars

        columns = scalars(draws)
        names = ",".join(f'"{name}"' if "," in name else name for name in columns)
        np.savetxt(buffer, np.stack(list(columns.values()), 1), "%.7g", ",", header=names, comments="")
    else:
        import arviz_base

        tree = arviz_base.from_dict({"posterior": {k: v[None] for k, v in draws.items()}})
        return bytes(tree["posterior"].to_dataset().to_netcdf(engine="scipy"))
    return buffer.getvalue()
