"""The folder of a fit: ``posterior.safetensors``, and ``fit.json``, which says where the model is.

Drawing needs the first alone. Checking and reporting run the model's code again, which happens only
when the user names the model or says that the folder's own word is to be trusted.
"""

import contextlib
import json
import secrets
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from understudy.cli.models import load_model
from understudy.cli.parsing import Parser, UsageError

POSTERIOR, AMORTISED, NOTE = "posterior.safetensors", "amortised.safetensors", "fit.json"
TRAINING = "training"


def is_posterior(run: Path) -> bool:
    """Whether a folder holds a fitted posterior."""
    return (run / POSTERIOR).exists()


def has_stage(run: Path) -> bool:
    """Whether a folder holds something that a fit or a training can go on from."""
    if not run.is_dir():
        return False
    from understudy.fitting.keeping import STAGE

    kept = (STAGE, f"seed-*/{STAGE}", f"{TRAINING}/checkpoint-*.safetensors")
    return any(any(run.glob(names)) for names in kept)


def is_amortised(run: Path) -> bool:
    """Whether a folder holds an amortised model."""
    return (run / AMORTISED).exists()


def read_note(run: Path) -> dict[str, Any]:
    """What a fit was asked for, by name."""
    try:
        note = json.loads((run / NOTE).read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        raise UsageError(f"{run / NOTE} cannot be read; make the fit again.") from error
    if not isinstance(note, dict):
        raise UsageError(f"{run / NOTE} is not the note of a fit; make the fit again.")
    return note


def check_same(out: Path, note: Mapping[str, Any], resume: bool, what: str, is_finished: bool) -> None:
    """Whether what a folder holds already is what is asked for, and may be gone on with.

    Args:
        out: the folder.
        note: what is asked for.
        resume: whether to go on.
        what: a fit or a training.
        is_finished: whether it came to its end.
    """
    if not resume:
        state, verb = (
            (f"a finished {what}", "keep it")
            if is_finished
            else (f"a {what} that was stopped", "go on with it")
        )
        raise UsageError(f"{out} holds {state}; add --resume to {verb}, or choose another --out.")
    before = read_note(out)
    changed = [name for name in note if note[name] != before.get(name)]
    if changed:
        raise UsageError(
            f"{out} holds a {what} with another {changed[0]}; choose another --out for the new one."
        )


@contextlib.contextmanager
def kept_note(out: Path, note: Mapping[str, Any], begun: bool, shown: Path) -> Iterator[None]:
    """Around the work: the folder says what was asked for, unless nothing came of it.

    Args:
        out: the folder.
        note: what is asked for.
        begun: whether earlier work lies there already.
        shown: the folder as the user named it.
    """
    from understudy import files

    files.replace_file(out / NOTE, [json.dumps(note, indent=1).encode()])
    try:
        yield
    except KeyboardInterrupt:
        raise KeyboardInterrupt(
            f"Interrupted; what was learnt is in {shown}: add --resume to the same words."
        ) from None
    except BaseException:
        # What was learnt before a disk was full, say, can still be gone on with.
        if not begun and not has_stage(out):
            with contextlib.suppress(OSError):
                (out / NOTE).unlink()
        raise


def load_posterior(run: Path) -> Any:
    """The posterior of a folder, without its model."""
    if is_amortised(run):
        raise UsageError(f"{run} holds an amortised model; draw for data with understudy infer {run}.")
    if not is_posterior(run):
        raise UsageError(f"{run} holds no fitted posterior; make one with understudy fit --out {run}.")
    from understudy import files
    from understudy.posterior import Posterior

    return _of_kind(Posterior, files.load(run / POSTERIOR), run / POSTERIOR)


def _of_kind(kind: type, held: Any, path: Path) -> Any:
    if not isinstance(held, kind):
        raise UsageError(
            f"{path} holds a {type(held).__name__}, not a {kind.__name__}; name its folder."
        )
    return held


def add_model_options(parser: Parser) -> None:
    """The two ways to say which code is the model."""
    parser.add_argument("--model", metavar="FILE:NAME", help="the model, as it was given to fit")
    trust = "run the Python file that the folder names as its model"
    parser.add_argument("--trust-code", action="store_true", help=trust)


def load_result(run: Path, model: str | None, trusted: bool) -> Any:
    """The posterior or the amortised model of a folder, with its model.

    Args:
        run: the folder.
        model: where the model is, ``file.py:function``; None takes what the folder says.
        trusted: whether code that only the folder names may be run.
    """
    if is_amortised(run):
        return load_amortised(run, model, trusted)
    result = load_posterior(run)
    function = _model_of(run, model, trusted)
    return result.restored({getattr(result.target, "function", ""): function})


def load_amortised(run: Path, model: str | None, trusted: bool) -> Any:
    """The amortised model of a folder, with its model; arguments as for :func:`load_result`."""
    if not is_amortised(run):
        raise UsageError(
            f"{run} holds no amortised model; make one with understudy amortise --out {run}."
        )
    function = _model_of(run, model, trusted)
    from understudy import files
    from understudy.amortising import Amortised

    return _of_kind(Amortised, files.load(run / AMORTISED, classes=[function]), run / AMORTISED)


def _model_of(run: Path, model: str | None, trusted: bool) -> Any:
    if model is None:
        named = str(read_note(run).get("model"))
        if not trusted:
            raise UsageError(
                f"{run / NOTE} names the model {named!r}, whose code would be run; give --model "
                "FILE:NAME yourself, or add --trust-code if this folder is your own."
            )
        model = named
    return load_model(model)


def make_writable(folder: Path) -> None:
    """Make a folder and try to write into it, before any work is begun that it is to hold."""
    probe = folder / f".{secrets.token_hex(4)}.tmp"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        probe.touch()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise UsageError(f"{folder} cannot be written to ({reason}); choose another path.") from error
    finally:
        with contextlib.suppress(OSError, ValueError):
            probe.unlink(missing_ok=True)
