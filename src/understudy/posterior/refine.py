"""Draws of a student moved by a teacher, with diagnostics that say whether the moves were enough."""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from understudy.core import IngredientError, Key, Student, Target, Teacher, bind
from understudy.numerics import row_blocks
from understudy.posterior.draws import named_rows

CHAINS = 1024
SUPERCHAINS = 32


class Refined(NamedTuple):
    """Draws after teacher steps, and whether the steps were enough.

    Attributes:
        draws: named sites, one row for each chain: its last state.
        z: the same as flat vectors.
        r_hat: nested R-hat of every entry of every site, near 1 where chains that started at one draw
            of the student have forgotten it.
        ess: effective draws among all states of 1,024 chains, bulk, by site.
        acceptance: of the teacher's moves; not a number where there is no accept test.
        lost: share of the draws that started where the log density is not finite.
    """

    draws: dict[str, np.ndarray]
    z: Float[np.ndarray, "n d"]
    r_hat: dict[str, np.ndarray]
    ess: dict[str, np.ndarray]
    acceptance: float
    lost: float

    def __str__(self) -> str:
        worst = max(float(np.max(value)) for value in self.r_hat.values())
        least = min(float(np.min(value)) for value in self.ess.values())
        return (
            f"{len(self.z):,} draws, acceptance {self.acceptance:.2f}, largest nested R-hat "
            f"{worst:.3f}, least ESS {least:,.0f}"
        )


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
    n = len(z)
    rows = np.concatenate([starts, z, np.resize(z, (-n % CHAINS, z.shape[1]))])
    runs = [
        jax.tree.map(
            np.asarray, run_chains(jax.random.fold_in(key, i), target, student, teacher, part, steps)
        )
        for i, part in enumerate(row_blocks(rows, CHAINS))
    ]
    end = np.concatenate([run.trace[-1] for run in runs[1:]])[:n]
    lost = np.concatenate([run.lost for run in runs[1:]])[:n].mean()
    r_hat, ess = _diagnostics(target, runs[0].trace, runs[1].trace)
    acceptance = float(np.mean([run.acceptance for run in runs[1:]]))
    return Refined(named_rows(target, end), end, r_hat, ess, acceptance, float(lost))


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
    rows = np.concatenate([z, np.resize(z, (-n % CHAINS, z.shape[1]))])
    ends = [
        np.asarray(
            run_chains(jax.random.fold_in(key, i), target, student, teacher, part, steps).trace[-1]
        )
        for i, part in enumerate(row_blocks(rows, CHAINS))
    ]
    return np.concatenate(ends)[:n].astype(float)


class Run(NamedTuple):
    """What chains did: every state, which never had a finite start, and how often they accepted."""

    trace: Any
    lost: Any
    acceptance: Any


@eqx.filter_jit
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
        out = teacher.improve(key, target.log_density, z, bind(student, None))
        if out.log_weights is not None:
            raise IngredientError(
                "refine needs a teacher that leaves the target invariant, such as hmc(0.1); this one "
                "returns weighted draws. Leave teacher out to have one made."
            )
        z = jnp.where(out.finite[:, None], out.z, z)
        rates = [jnp.nan_to_num(rate).mean() for rate in jax.tree.leaves(out.acceptance)]
        return z, (z, out.finite, rates[0] if rates else jnp.asarray(jnp.nan))

    _, (trace, finite, rates) = jax.lax.scan(step, z, jax.random.split(key, steps))
    return Run(trace, ~finite[0], rates.mean())


def _diagnostics(
    target: Target, nested: np.ndarray, free: np.ndarray
) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    from arviz_stats.base import array_stats

    groups = np.repeat(np.arange(SUPERCHAINS), CHAINS // SUPERCHAINS)
    late = max(min(len(nested) // 2, len(nested) - 4), 0)
    r_hat = {
        name: _each(lambda v: array_stats.rhat_nested(v, superchain_ids=groups), value)
        for name, value in _traced(target, nested[late:]).items()
    }
    ess = {name: _each(array_stats.ess, value) for name, value in _traced(target, free).items()}
    return r_hat, ess


def _traced(target: Target, trace: Float[np.ndarray, "t c d"]) -> dict[str, np.ndarray]:
    """Named sites with the chains first and the steps second."""
    steps, chains, d = trace.shape
    sites = named_rows(target, trace.swapaxes(0, 1).reshape(-1, d))
    return {name: value.reshape(chains, steps, *value.shape[1:]) for name, value in sites.items()}


def _each(figure: Any, values: np.ndarray) -> np.ndarray:
    chains, steps, *shape = values.shape
    columns = np.moveaxis(values.reshape(chains, steps, -1), -1, 0)
    return np.array([float(figure(column)) for column in columns]).reshape(shape)
