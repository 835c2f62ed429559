"""Draws of a student moved by a teacher, with diagnostics that say whether the moves were enough."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Array, Float

from understudy.core import Key, Student, Target, Teacher
from understudy.devices import in_turn
from understudy.numerics import row_blocks
from understudy.posterior.draws import named_rows
from understudy.programs import jit_of_few
from understudy.teachers.turns import turn

CHAINS = 1024
SUPERCHAINS = 32
# Above these a run has not converged.
_FORGOTTEN, _STILL, _LOST = 1.1, 0.05, 0.05


class Refined(NamedTuple):
    """Draws after teacher steps, and whether the steps were enough.

    Attributes:
        draws: named sites, one row for each chain: its last state.
        z: the same as flat vectors.
        r_hat: nested R-hat of every entry of every site, near 1 where chains that started at one draw
            of the student have forgotten it; not a number where an entry is constant.
        drift: how far the mean of every entry moved in the second half of the steps, beyond chance, in
            deviations; not a number where an entry is constant.
        ess: effective draws among all states of 1,024 chains, by how far the chains' means differ; not
            a number where an entry is constant.
        acceptance: of the teacher's moves; not a number where there is no accept test.
        lost: share of the draws that started where the log density is not finite.
    """

    draws: dict[str, np.ndarray]
    z: Float[np.ndarray, "n d"]
    r_hat: dict[str, np.ndarray]
    drift: dict[str, np.ndarray]
    ess: dict[str, np.ndarray]
    acceptance: float
    lost: float

    @property
    def converged(self) -> bool:
        """Whether the chains forgot where they began and no longer drift."""
        return _worst(self.r_hat) < _FORGOTTEN and _worst(self.drift) < _STILL and self.lost < _LOST

    def __str__(self) -> str:
        figures = (
            f"{len(self.z):,} draws, acceptance {self.acceptance:.2f}, largest nested R-hat "
            f"{_worst(self.r_hat):.3f}, largest drift {_worst(self.drift):.3f} sd"
        )
        if not self.converged:
            return f"not converged: {figures}; take more steps, or fit with a larger budget"
        least = min(float(np.nanmin(value)) for value in self.ess.values() if not _constant(value))
        return f"{figures}, least ESS {least:,.0f}"


def _worst(figures: dict[str, np.ndarray]) -> float:
    """The largest of all entries that are not constant."""
    return max((float(np.nanmax(v)) for v in figures.values() if not _constant(v)), default=0.0)


def _constant(figures: np.ndarray) -> bool:
    return bool(np.isnan(figures).all())


def refine(
    key: Key,
    target: Target,
    student: Student,
    teacher: Teacher,
    z: Float[np.ndarray, "m d"],
    steps: int,
) -> Refined:
    """Move every draw by ``steps`` calls of the teacher; the first 32 rows are for the diagnostics.

    R-hat is nested: 32 draws of the student start 32 chains each, and the spread between those groups is
    compared with the spread within, which needs no long chain.

    Reference: Margossian et al., "Nested R-hat: Assessing the Convergence of Markov Chain Monte Carlo
    When Running Many Short Chains", 2024.
    """
    starts, z = np.repeat(z[:SUPERCHAINS], CHAINS // SUPERCHAINS, 0), z[SUPERCHAINS:]
    n, rows = len(z), np.concatenate([starts, z])
    runs = run_all(key, target, student, teacher, rows, steps, lambda run: run)
    end = np.concatenate([run.trace[-1] for run in runs[1:]])[:n]
    lost = np.concatenate([run.lost for run in runs[1:]])[:n].mean()
    nested, free = (_traced(target, run.trace) for run in runs[:2])
    figures = {
        name: jax.tree.map(figure, nested if name == "r_hat" else free)
        for name, figure in (("r_hat", _nested_r_hat), ("drift", _drift), ("ess", _effective))
    }
    acceptance = float(np.mean([run.acceptance for run in runs[1:]]))
    return Refined(named_rows(target, end), end, **figures, acceptance=acceptance, lost=float(lost))


def finished(
    key: Key,
    target: Target,
    student: Student,
    teacher: Teacher,
    record: Float[np.ndarray, "m d"],
    n: int,
    steps: int = 4,
) -> Float[np.ndarray, "n d"]:
    """Draws of chains, picked at random and moved on by ``steps`` calls of the teacher each."""
    generator = np.random.default_rng(np.asarray(jax.random.key_data(key)).ravel())
    order = [generator.permutation(len(record)) for _ in range(-(-n // len(record)))]
    z = record[np.concatenate(order)[:n]]
    ends = run_all(key, target, student, teacher, z, steps, lambda run: run.trace[-1])
    return np.concatenate(ends)[:n].astype(float)


class Run(NamedTuple):
    """What chains did: every state, which never had a finite start, and how often they accepted."""

    trace: Any
    lost: Any
    acceptance: Any


def run_all(
    key: Key,
    target: Target,
    student: Student,
    teacher: Teacher,
    z: Float[np.ndarray, "n d"],
    steps: int,
    kept: Callable[[Run], Any],
) -> list[Any]:
    """What is kept of chains from every row, a block of them at a time; the last block is filled up."""
    padded = np.concatenate([z, np.resize(z, (-len(z) % CHAINS, z.shape[1]))])

    def run(i: int, block: Any) -> Any:
        return kept(run_chains(jax.random.fold_in(key, i), target, student, teacher, block, steps))

    return in_turn(run, row_blocks(padded, CHAINS))


@jit_of_few
def run_chains(
    key: Key,
    target: Target,
    student: Student,
    teacher: Teacher,
    z: Float[Array, "n d"],
    steps: int,
) -> Run:
    """Call a teacher ``steps`` times for every draw."""

    def step(z, key):
        made = turn(key, teacher, target, student, z)
        return made.z, (made.z, made.finite, made.acceptance)

    _, (trace, finite, rates) = jax.lax.scan(step, z, jax.random.split(key, steps))
    return Run(trace, ~finite[0], rates.mean())


def _nested_r_hat(values: Float[np.ndarray, "c t ..."]) -> np.ndarray:
    from arviz_stats.base import array_stats

    groups = np.repeat(np.arange(SUPERCHAINS), CHAINS // SUPERCHAINS)
    late = max(min(values.shape[1] // 2, values.shape[1] - 4), 0)
    return _each(lambda v: array_stats.rhat_nested(v[:, late:], superchain_ids=groups), values)


def _drift(values: Float[np.ndarray, "c t ..."]) -> np.ndarray:
    """How far the mean moves from the middle of the run to its end, beyond three standard errors."""

    def figure(v: np.ndarray) -> float:
        moved = v[:, -1] - v[:, v.shape[1] // 2]
        beyond = np.abs(moved.mean()) - 3 * moved.std() / np.sqrt(len(v))
        return max(float(beyond), 0.0) / float(v.std())

    return _each(figure, values)


def _effective(values: Float[np.ndarray, "c t ..."]) -> np.ndarray:
    """Independent chains: their means vary as those of that many draws do."""

    def figure(v: np.ndarray) -> float:
        return min(len(v) * float(v.var()) / max(float(v.mean(1).var()), 1e-300), float(v.size))

    return _each(figure, values)


def _traced(target: Target, trace: Float[np.ndarray, "t c d"]) -> dict[str, np.ndarray]:
    """Named sites with the chains first and the steps second."""
    steps, chains, d = trace.shape
    sites = named_rows(target, trace.swapaxes(0, 1).reshape(-1, d))
    return {name: value.reshape(chains, steps, *value.shape[1:]) for name, value in sites.items()}


def _each(figure: Any, values: np.ndarray) -> np.ndarray:
    chains, steps, *shape = values.shape
    columns = np.moveaxis(values.reshape(chains, steps, -1), -1, 0)
    figures = [float(figure(v)) if np.ptp(v) > 0 else np.nan for v in columns]
    return np.array(figures).reshape(shape)
