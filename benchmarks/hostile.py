"""Hand damaged and hostile files to the readers, and count what is let in, crashes, hangs or grows.

The files come from right ones: a posterior, a student, a posterior for all data sets, and exports. Half
are damaged as a disk or a network damages (bytes changed, an end missing, pieces swapped, two files
mixed) and must be refused. Half have a right checksum, as somebody with bad intent would make them:
entries of their description replaced by what should never run or fit, programs that call what they may
not. Such a file may also turn out legal, another file of the same kind with other numbers in it; then it
must draw, or say in one sentence why not. Processes of their own read them.
Run: ``python benchmarks/hostile.py``.
"""

import argparse
import collections
import json
import multiprocessing
import resource
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.export
import jax.numpy as jnp
import numpy as np
import numpyro
from numpyro import distributions as dist

import understudy
from experiments.rows import commit, last_line, provenance, write_rows
from tests.files.hostile import (
    DAMAGE,
    flipped,
    mixed,
    other_description,
    other_header,
    other_program,
    reseal,
    reseal_export,
)
from understudy.core import IngredientError
from understudy.files import StoreError
from understudy.files.exported import packed
from understudy.posterior import Posterior
from understudy.students import FullGaussian, SplineFlow

SPAWN = multiprocessing.get_context("spawn")
SECONDS = 120.0
FILES_A_READER = 50  # programs of other files that a process keeps are not the next one's memory
COVARIATES = np.random.default_rng(0).normal(size=(10, 2)).astype(np.float32)
Words = dict[str, Any]


class Sources(NamedTuple):
    """Right files of every kind, as bytes."""

    saved: list[bytes]
    exported: list[bytes]


class Trial(NamedTuple):
    """A file to be read; ``sealed`` if its checksum is right, so that it may turn out legal."""

    content: bytes
    exported: bool
    sealed: bool


def regression(covariates, y=None):
    weights = numpyro.sample("weights", dist.Normal(0, 1).expand([2]).to_event(1))
    with numpyro.plate("rows", len(covariates)):
        numpyro.sample("y", dist.Normal(covariates @ weights, 1.0), obs=y)


def small_flow(key, dim, summary):
    return SplineFlow(key, dim, summary, layers=1, width=8, bins=4)


def sources(folder: Path) -> Sources:
    """Write right files and read their bytes."""
    target = understudy.from_numpyro(regression, COVARIATES, np.ones(10, np.float32))
    posterior = Posterior(target, FullGaussian(2))
    given = {"observed": "y", "budget": 3.0, "student": small_flow, "progress": False, "cache": False}
    inference = understudy.amortise(regression, COVARIATES, **given)
    students = (FullGaussian(2), SplineFlow(jax.random.key(0), 2, layers=1, width=8, bins=4))
    for i, one in enumerate((posterior, inference, *students)):
        understudy.save(folder / f"{i}.saved", one)
    for i, one in enumerate((posterior, inference)):
        one.export(folder / f"{i}.exported")
    return Sources(*([p.read_bytes() for p in sorted(folder.glob(f"*.{n}"))] for n in Sources._fields))


def ways(right: Sources) -> dict[str, Callable[[np.random.Generator], Trial]]:
    """How a file is spoilt, by name."""

    def pick(among: list[bytes], rng: np.random.Generator) -> bytes:
        return among[int(rng.integers(len(among)))]

    def spoilt(kind: str, change: Callable, seal: Callable | None = None) -> Callable:
        def trial(rng: np.random.Generator) -> Trial:
            made = change(pick(getattr(right, kind), rng), rng)
            return Trial(seal(made) if seal else made, kind == "exported", seal is not None)

        return trial

    def mix(raw: bytes, rng: np.random.Generator) -> bytes:
        return mixed(raw, pick(right.saved + right.exported, rng), rng)

    made: dict[str, Callable] = {}
    for kind, seal in {"saved": reseal, "exported": reseal_export}.items():
        for change in (*DAMAGE, mix):
            made[f"{kind}, {change.__name__}"] = spoilt(kind, change)
        for change in DAMAGE:
            made[f"{kind}, {change.__name__} and sealed"] = spoilt(kind, change, seal)
    made["description"] = spoilt("saved", other_description, reseal)
    made["header"] = spoilt("exported", other_header, reseal_export)
    made["program"] = spoilt("exported", other_program(flipped), reseal_export)
    made["call"] = lambda rng: Trial(hostile_call(right.exported[0], rng), True, True)
    return made


CALLS = (
    *("hostile", "xla_python_cpu_callback", "xla_ffi_python_cpu_callback", "lapack_sgeev_ffi"),
    *("lapack_spotrf_ffi", "lapack_sgetrf_ffi", "lapack_strsm_ffi", "__gpu$xla.gpu.triton", "topk"),
)


def hostile_call(raw: bytes, rng: np.random.Generator) -> bytes:
    """An exported posterior whose program calls what it may not, or with shapes that do not fit."""
    header = json.loads(raw.split(b"\n", 2)[1])
    name, size = str(rng.choice(CALLS)), int(rng.integers(1, 600))

    def draw(words: Any, arrays: Any) -> Words:
        shape = jax.ShapeDtypeStruct((size + 1, size), jnp.float32)
        wrong = jax.ffi.ffi_call(name, shape)(jnp.zeros((size, size)))[0, 0]
        sites = header["sites"].items()
        return {n: jnp.zeros((header["chunk"], *s), header["dtypes"][n]) + wrong for n, s in sites}

    arrays = [np.zeros(shape, dtype) for dtype, shape in header["arrays"]]
    allowed = [jax.export.DisabledSafetyCheck.custom_call(name)]
    made = jax.export.export(jax.jit(draw, keep_unused=True), disabled_checks=allowed)(
        np.zeros(4, np.uint32), arrays
    )
    return b"".join(packed(header, arrays, made.mlir_module_serialized))


def reader(pipe: Connection) -> None:
    """Read files as they are named, and answer what became of each."""
    warnings.simplefilter("ignore")
    for question in iter(pipe.recv, None):
        pipe.send((*outcome(*question), *memory()))


def memory() -> tuple[int, int]:
    """Kilobytes that this process, and those that it had look at programs, took at most so far."""
    status = Path("/proc/self/status").read_text()
    own = int(status.partition("VmHWM:")[2].split()[0])
    return own, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss


def outcome(path: str, exported: bool, sealed: bool) -> tuple[str, str]:
    """What became of one file, and the sentence."""
    try:
        made = (understudy.load_exported if exported else understudy.load)(path)
        if not sealed:
            return "loaded", ""
        used(made)
    except (StoreError, IngredientError) as error:
        return ("refused" if "\n" not in str(error) else "long"), str(error)
    except Exception:
        return "traceback", traceback.format_exc()
    return "legal", ""


def used(made: Any) -> None:
    """Do with something that was loaded what its owner would do first."""
    str(made)
    if isinstance(made, Posterior):
        made.sample(0, 4)
    elif isinstance(made, understudy.Amortised):
        made(np.ones(10, np.float32)).sample(0, 4)
    elif hasattr(made, "inputs"):
        made.sample(0, 4, **{name: np.ones(shape) for name, shape in made.inputs.items()})
    elif hasattr(made, "log_prob"):
        made.sample(jax.random.key(0), None, 4)


class Readers:
    """A process that reads files, and another in its place where one ends or takes too long."""

    def __init__(self) -> None:
        self._process: BaseProcess | None = None
        self._pipe: Any = None
        self._asked = 0

    def ask(self, *question: Any) -> tuple[str, str, int, int]:
        self._asked += 1
        if self._asked % FILES_A_READER == 0:
            self.close()
        if self._process is None:
            self._pipe, theirs = SPAWN.Pipe()
            self._process = SPAWN.Process(target=reader, args=(theirs,), daemon=True)
            self._process.start()
            theirs.close()
        try:
            self._pipe.send(question)
            if self._pipe.poll(SECONDS):
                return self._pipe.recv()
        except (EOFError, OSError):
            return "crashed", f"exit code {self._stop()}", 0, 0
        self._stop()
        return "hung", f"more than {SECONDS:.0f} seconds", 0, 0

    def close(self) -> None:
        """End the process."""
        if self._process is not None:
            self._pipe.send(None)
            self._process.join()
            self._process = None

    def _stop(self) -> int | None:
        process, self._process = self._process, None
        if process is None:
            return None
        process.join(2.0)
        code = process.exitcode
        process.kill()
        process.join()
        return code


def count(trials: int, seed: int, shown: bool = False) -> dict[str, Any]:
    """Try so many files; how many had which end, and the most memory that a reader took."""
    counts: collections.Counter = collections.Counter()
    by_way: dict[str, collections.Counter] = collections.defaultdict(collections.Counter)
    readers, most = Readers(), [0, 0]
    with tempfile.TemporaryDirectory() as room:
        right = sources(Path(room))
        made, path = ways(right), Path(room) / "hostile"
        for i in range(trials):
            way, spoil = list(made.items())[i % len(made)]
            trial = spoil(np.random.default_rng([seed, i]))
            if trial.content in right.saved + right.exported:
                continue
            path.write_bytes(trial.content)
            end, sentence, *kilobytes = readers.ask(str(path), trial.exported, trial.sealed)
            if shown and max(kilobytes) > max(most):
                print(i, way, end, kilobytes, flush=True)
            most = [max(pair) for pair in zip(most, kilobytes, strict=True)]
            counts[end] += 1
            by_way[way][end] += 1
            if shown and end not in ("refused", "legal"):
                print(i, way, end, sentence[-1500:], flush=True)
        readers.close()
    ends = ("refused", "legal", "loaded", "crashed", "hung", "traceback", "long")
    return {
        "files": sum(counts.values()),
        **{end: counts[end] for end in ends},
        "largest_reader_kilobytes": most[0],
        "largest_inspector_kilobytes": most[1],
        "by_way": {way: dict(ended) for way, ended in by_way.items()},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, default=1500, help="how many (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="of the damage")
    parser.add_argument("--out", default="results/hostile.jsonl", help="rows (default: %(default)s)")
    given = parser.parse_args()
    tried, began = commit(), time.perf_counter()
    counts = count(given.files, given.seed, shown=True)
    settings = {"files": given.files, "seconds_a_file": SECONDS}
    made = provenance(settings, given.seed, time.perf_counter() - began)
    write_rows(given.out, [{"kind": "hostile", "name": "files", **counts, **made, "commit": tried}])
    last_line({name: value for name, value in counts.items() if name != "by_way"})


if __name__ == "__main__":
    main()
