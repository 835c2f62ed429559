"""How often ``inference.check()`` flags a planted fault, and how often a student that is right.

A linear regression of three weights and ten numbers has a known posterior, so that the student is right
exactly, or wrong in one known way: its width, its place, what it reads of the data; or the student is
right and the likelihood, or the prior, that weighs its draws is not the simulator's.
"""

import dataclasses
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist

sys.path.insert(0, str(Path(__file__).parents[1]))

from experiments.__main__ import publish
from experiments.options import check_settings, option, run_with_settings
from experiments.rows import provenance
from understudy import files
from understudy.amortising import PriorSimulator
from understudy.amortising.judging import judge
from understudy.cli.main import guarded
from understudy.core import ExplicitStudent

ROWS = "faults.jsonl"
DIM, ROWS_OF_DATA, NOISE = 3, 10, 0.5
COVARIATES = np.random.default_rng(0).normal(size=(ROWS_OF_DATA, DIM)).astype(np.float32)


@dataclasses.dataclass(frozen=True)
class Settings:
    """What is run."""

    seeds: int = option(20, "of every fault", least=1)
    seed: int = option(1000, "the first of them", least=0)

    def __post_init__(self):
        """Only what can be."""
        check_settings(self)


class Exact(ExplicitStudent):
    """The posterior of the weights, or a wrong one.

    Args:
        shift: of the first weight, in deviations.
        width: of all, as a share of the right one.
        read: how many of the numbers are read.
        shuffled: whether the numbers are read in another order than they have.
    """

    shift: jax.Array
    factor: jax.Array
    gain: jax.Array
    dim: int = eqx.field(static=True, default=DIM)

    def __init__(
        self, shift: float = 0.0, width: float = 1.0, read: int = ROWS_OF_DATA, shuffled: bool = False
    ):
        seen = np.where(np.arange(ROWS_OF_DATA)[:, None] < read, COVARIATES, 0.0)
        covariance = np.linalg.inv(np.eye(DIM) + seen.T @ seen / NOISE**2)
        gain = covariance @ seen.T / NOISE**2
        deviation = np.sqrt(np.diag(covariance)) * (np.arange(DIM) == 0)
        self.gain = jnp.asarray(np.roll(gain, 1, 1) if shuffled else gain, jnp.float32)
        self.shift = jnp.asarray(shift * deviation, jnp.float32)
        self.factor = jnp.asarray(width * np.linalg.cholesky(covariance), jnp.float32)

    def _law(self, x: Any) -> Any:
        mean = self.gain @ x.values["x"] + self.shift
        return dist.MultivariateNormal(mean, scale_tril=self.factor)

    def sample(self, key: Any, x: Any, n: int) -> Any:
        """Draw for one data set."""
        return self._law(x).sample(key, (n,))

    def sample_and_log_prob(self, key: Any, x: Any, n: int) -> Any:
        """Draws and their log densities."""
        z = self.sample(key, x, n)
        return z, self._law(x).log_prob(z)

    def log_prob(self, z: Any, x: Any = None) -> Any:
        """The log density of one draw."""
        return self._law(x).log_prob(z)


def _simulator(noise: float = NOISE, prior_shift: float = 0.0) -> PriorSimulator:
    """The regression; another noise or prior than that of the simulations weighs the draws."""

    def simulate(key, weights):
        return COVARIATES @ weights + NOISE * jax.random.normal(key, (ROWS_OF_DATA,))

    def log_likelihood(x, weights):
        other = dist.Normal(prior_shift, 1).log_prob(weights) - dist.Normal(0, 1).log_prob(weights)
        return dist.Normal(COVARIATES @ weights, noise).log_prob(x).sum() + other.sum()

    prior = dist.Normal(0, 1).expand([DIM]).to_event(1)
    return PriorSimulator({"weights": prior}, simulate, log_likelihood)


class Planted(NamedTuple):
    """A student and the simulator, one of them wrong, and whether that is a fault."""

    student: Callable[[], Exact]
    simulator: Callable[[], PriorSimulator] = _simulator
    fault: bool = True


PLANTED = {
    "right": Planted(Exact, fault=False),
    "too wide by a quarter": Planted(lambda: Exact(width=1.25)),
    "too narrow by a quarter": Planted(lambda: Exact(width=0.75)),
    "one weight shifted by .4 sd": Planted(lambda: Exact(shift=0.4)),
    "three of ten numbers not read": Planted(lambda: Exact(read=7)),
    "numbers read in a wrong order": Planted(lambda: Exact(shuffled=True)),
    "likelihood with twice the noise": Planted(Exact, lambda: _simulator(noise=2 * NOISE)),
    "likelihood with half the noise": Planted(Exact, lambda: _simulator(noise=NOISE / 2)),
    "prior shifted by 1 sd": Planted(Exact, lambda: _simulator(prior_shift=1.0)),
}


def run(settings: Settings, out: Path, progress: bool | None = None) -> dict[str, Any]:
    """Check every student with as many seeds as are asked for."""
    del progress
    for name, planted in PLANTED.items():
        started, simulator, student = time.perf_counter(), planted.simulator(), planted.student()
        names, found = [f"weights[{i}]" for i in range(DIM)], []
        for seed in range(settings.seed, settings.seed + settings.seeds):
            found.append(judge(jax.random.key(seed), simulator, student, names).verdicts)
        failed = {test: sum(one[test] == "fail" for one in found) for test in found[0]}
        row = {"kind": "fault", "name": name, "fault": planted.fault, "seeds": settings.seeds}
        row |= {"flagged": sum("fail" in one.values() for one in found)}
        row |= {"warned": sum("warn" in one.values() for one in found)}
        row |= {"tests": {test: count for test, count in failed.items() if count}}
        row |= provenance(settings, settings.seed, time.perf_counter() - started)
        files.write_rows(out / ROWS, [row])
        print(name, row["flagged"], row["warned"], row["tests"], flush=True)
    return {row["name"]: row["flagged"] for row in files.read_rows(out / ROWS)}


def main(words: list[str]) -> None:
    """The command: options are those of ``Settings``; the rows also go to ``results``."""
    module, out = sys.modules[__name__], Path("runs", "faults")
    _, out, _ = run_with_settings("python benchmarks/sbi_faults.py", module, words, out)
    publish(out, Path("results"), "faults")


if __name__ == "__main__":
    sys.exit(guarded(main))
