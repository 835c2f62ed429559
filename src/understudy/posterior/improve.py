"""Draws of a student made better afterwards: by teacher steps, or by weights."""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from understudy.core import ExplicitStudent, IngredientError, Key, Student, Target, Teacher, bind
from understudy.evaluation.trust.weights import independence_acceptance, pareto_smoothed
from understudy.posterior.program import in_blocks, name_rows
from understudy.teachers import IndependenceMetropolis

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


class Resampled(NamedTuple):
    """Draws corrected by the ratio of the target's density to the student's.

    Attributes:
        draws: named sites.
        z: the same as flat vectors.
        pareto_k: shape of the tail of the weights; above 0.7 do not rely on the draws.
        ess: effective draws among the candidates (weights), or the number of chains (Metropolis).
        acceptance: of independence moves.
    """

    draws: dict[str, np.ndarray]
    z: Float[np.ndarray, "n d"]
    pareto_k: float
    ess: float
    acceptance: float


class Densities(NamedTuple):
    """Log density of the target and of the student (None for wild students) at draws."""

    target: Float[np.ndarray, " n"]
    student: Float[np.ndarray, " n"] | None


def log_densities(target: Target, student: Student, z: Float[np.ndarray, "n d"]) -> Densities:
    """Both log densities at flat draws, in bounded memory."""
    return Densities(*in_blocks(lambda rows: _densities(target, student, rows), z))


@eqx.filter_jit
def _densities(target: Target, student: Student, z: Float[Array, "n d"]) -> Any:
    def both(z):
        log_q = student.log_prob(z) if isinstance(student, ExplicitStudent) else None
        return target.log_density(z), log_q

    return jax.lax.map(both, z, batch_size=256)


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
            np.asarray, _chains(jax.random.fold_in(key, i), target, student, teacher, part, steps)
        )
        for i, part in enumerate(jnp.asarray(rows).reshape(-1, CHAINS, z.shape[1]))
    ]
    end = np.concatenate([run.trace[-1] for run in runs[1:]])[:n]
    lost = np.concatenate([run.lost for run in runs[1:]])[:n].mean()
    r_hat, ess = _diagnostics(target, runs[0].trace, runs[1].trace)
    acceptance = float(np.mean([run.acceptance for run in runs[1:]]))
    return Refined(_named(target, end), end, r_hat, ess, acceptance, float(lost))


class _Run(NamedTuple):
    trace: Any
    lost: Any
    acceptance: Any


@eqx.filter_jit
def _chains(
    key: Key,
    target: Target,
    student: Student,
    teacher: Teacher,
    z: Float[Array, "n d"],
    steps: int,
) -> _Run:
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
    return _Run(trace, ~finite[0], rates.mean())


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
    sites = _named(target, trace.swapaxes(0, 1).reshape(-1, d))
    return {name: value.reshape(chains, steps, *value.shape[1:]) for name, value in sites.items()}


def _each(figure: Any, values: np.ndarray) -> np.ndarray:
    chains, steps, *shape = values.shape
    columns = np.moveaxis(values.reshape(chains, steps, -1), -1, 0)
    return np.array([float(figure(column)) for column in columns]).reshape(shape)


def _named(target: Target, z: np.ndarray) -> dict[str, np.ndarray]:
    return in_blocks(lambda rows: name_rows(target, rows), z)


def importance_resample(
    key: Key, target: Target, student: ExplicitStudent, z: Float[np.ndarray, "m d"], n: int
) -> Resampled:
    """Pick ``n`` of the candidates with Pareto-smoothed importance weights, evenly (systematic).

    Reference: Vehtari, Simpson, Gelman, Yao and Gabry, "Pareto Smoothed Importance Sampling", 2024.
    """
    log_weights = _log_weights(target, student, z)
    log_smooth, k = pareto_smoothed(log_weights)
    weights = np.exp(log_smooth - log_smooth.max())
    weights /= weights.sum()
    generator = np.random.default_rng(np.asarray(jax.random.key_data(key)).ravel())
    points = (np.arange(n) + generator.uniform()) / n
    picked = z[generator.permutation(np.searchsorted(np.cumsum(weights)[:-1], points))]
    ess, acceptance = float(1 / (weights**2).sum()), independence_acceptance(log_weights)
    return Resampled(_named(target, picked), picked, k, ess, acceptance)


def independence_resample(
    key: Key, target: Target, student: ExplicitStudent, z: Float[np.ndarray, "n d"], moves: int
) -> Resampled:
    """Run a chain of independence Metropolis moves from every draw, the student proposing.

    Reference: Tierney, "Markov chains for exploring posterior distributions", 1994.
    """
    _, k = pareto_smoothed(_log_weights(target, student, z))
    n, teacher, ends, rates = len(z), IndependenceMetropolis(moves), [], []
    padded = np.concatenate([z, np.resize(z, (-n % CHAINS, z.shape[1]))])
    for i, part in enumerate(jnp.asarray(padded).reshape(-1, CHAINS, z.shape[1])):
        run = _chains(jax.random.fold_in(key, i), target, student, teacher, part, 1)
        ends.append(np.asarray(run.trace[-1]))
        rates.append(float(run.acceptance))
    end = np.concatenate(ends)[:n]
    return Resampled(_named(target, end), end, k, float(n), float(np.mean(rates)))


def _log_weights(target: Target, student: ExplicitStudent, z: np.ndarray) -> np.ndarray:
    log_p, log_q = log_densities(target, student, z)
    assert log_q is not None
    weights = np.where(np.isfinite(log_p) & np.isfinite(log_q), log_p - log_q, -np.inf).astype(float)
    if not np.isfinite(weights).any():
        raise IngredientError(
            "The log density is not finite at any draw of the student, so nothing can be resampled; "
            "fit the student again."
        )
    return weights
