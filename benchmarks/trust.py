"""What the check of trust catches and when it stays silent: planted faults, 20 seeds each.

``python benchmarks/trust.py`` writes ``results/trust.jsonl``. Students are rows of exact draws (wild) or
densities (explicit), spoilt by a fault whose size is known; every target compiles its check once.
"""

import argparse
import functools
import statistics
import time
from collections import Counter
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.suite.models import CASES
from experiments.rows import last_line, provenance, write_rows
from understudy.core import ExplicitStudent, Student, Target
from understudy.evaluation.trust.check import check, default_teacher
from understudy.evaluation.trust.moves import Claim, move
from understudy.students import FullGaussian, GaussianMixture
from understudy.targets import LogDensity
from understudy.targets.toy import MixtureOfGaussians, banana

SEEDS = 20
POOL = 6000
DRAWS = 4096
AUTOREGRESSIVE = 0.9


class Study(NamedTuple):
    """What is run, and how long every check took."""

    only: str
    seed: int
    seconds: list[float]


class Rows(Student):
    """A wild student: rows of a table, picked without replacement."""

    rows: jax.Array
    dim: int = eqx.field(static=True)

    def __init__(self, rows):
        self.rows = jnp.asarray(rows, float)
        self.dim = self.rows.shape[1]

    def sample(self, key, x, n):
        return jax.random.choice(key, self.rows, (n,), replace=False)


class StudentT(ExplicitStudent):
    """Independent Student t coordinates, scaled to variance one."""

    freedom: jax.Array
    dim: int = eqx.field(static=True)

    def sample(self, key, x, n):
        unit = jax.random.t(key, self.freedom, (n, self.dim))
        return unit * jnp.sqrt((self.freedom - 2) / self.freedom)

    def log_prob(self, z, x=None):
        scale = jnp.sqrt((self.freedom - 2) / self.freedom)
        return jax.scipy.stats.t.logpdf(z / scale, self.freedom).sum() - self.dim * jnp.log(scale)


class World(NamedTuple):
    name: str
    target: Target
    draw: Callable[[int], np.ndarray]


def fault(name: str, z: np.ndarray, seed: int) -> np.ndarray:
    """Exact draws with a planted fault."""
    n, d = z.shape
    generator, sd, mean = np.random.default_rng(seed), z.std(0), z.mean(0)
    one = np.eye(d)[seed % d]
    signs = generator.choice([-1.0, 1.0], d)
    covariance = np.atleast_2d(np.cov(z.T))
    return {
        "right": lambda: z,
        "almost right": lambda: mean + (z - mean) * (1 + 0.015 * signs) + 0.02 * sd * signs[::-1],
        "shift 0.3 sd, all": lambda: z + 0.3 * sd * signs,
        "shift 0.3 sd, one": lambda: z + 0.3 * sd * one,
        "scale x 0.8, all": lambda: mean + 0.8 * (z - mean),
        "scale x 0.8, one": lambda: mean + (z - mean) * (1 - 0.2 * one),
        "mean field": lambda: np.stack([generator.permutation(column) for column in z.T], 1),
        "Gaussian of right moments": lambda: generator.multivariate_normal(mean, covariance, n),
        "correlation 0.8 for 0.9": lambda: z @ np.linalg.inv(_root(0.9, d)).T @ _root(0.8, d).T,
    }[name]()


def _root(rho: float, d: int) -> np.ndarray:
    lags = np.abs(np.subtract.outer(np.arange(d), np.arange(d)))
    return np.linalg.cholesky(rho**lags)


def gaussian(name: str, factor: np.ndarray) -> World:
    """A Gaussian with mean zero."""
    inverse = jnp.asarray(np.linalg.inv(factor), float)
    target = LogDensity(lambda z: -0.5 * jnp.sum((inverse @ z) ** 2), len(factor))
    return World(
        name, target, lambda s: np.random.default_rng(s).normal(size=(POOL, len(factor))) @ factor.T
    )


def product(name: str, d: int, log_density: Callable, draw: Callable) -> World:
    """Independent coordinates."""
    target = LogDensity(lambda z: log_density(z).sum(), d)
    return World(name, target, lambda s: draw(np.random.default_rng(s), (POOL, d)))


def exact(name: str, target: Any) -> World:
    """A target with a sampler."""
    return World(
        name, target, lambda s: np.asarray(target.sample(jax.random.key(10_000 + s), POOL), float)
    )


def reference(name: str) -> World:
    """A posterior with reference draws, moved afresh for every seed."""
    case = CASES[name]
    assert case.stored is not None
    target, sites = case.make(), case.stored()
    named = {s.name: jnp.asarray(sites[s.name], float) for s in target.sites}
    z = np.asarray(jax.vmap(target.unconstrain)(named), float)
    teacher = default_teacher(jax.random.key(0), target, Rows(z[:POOL]))

    # Subsets of one reference share its error, so every seed moves its rows far from where they were.
    @functools.cache
    def fresh(seed):
        rows = np.random.default_rng(seed).permutation(z)[:POOL]
        return move(jax.random.key(seed), Claim(target, Rows(rows)), teacher, rows, 3)[0]

    return World(name, target, fresh)


def tally(target: Target, make: Callable[[int], Student], study: Study) -> dict:
    """Verdicts of many checks."""
    found = []
    for seed in range(study.seed, study.seed + SEEDS):
        started = time.perf_counter()
        found.append(check(jax.random.key(seed), target, make(seed), draws=DRAWS))
        study.seconds.append(time.perf_counter() - started)
    by_test = {
        name: dict(Counter(trust.verdicts[name] for trust in found)) for name in found[0].verdicts
    }
    warned = sum(t.trusted and "warn" in t.verdicts.values() for t in found)
    flagged = sum(not trust.trusted for trust in found)
    figures = {"seeds": SEEDS, "flagged": flagged, "warned": warned, "tests": by_test}
    return {**figures, "first_seconds": study.seconds[-SEEDS]}


MOMENTS = ("shift 0.3 sd, all", "shift 0.3 sd, one", "scale x 0.8, all", "scale x 0.8, one")


def worlds() -> list[tuple[World, tuple[str, ...]]]:
    """Targets with the faults that mean something there."""
    scales = np.diag(10.0 ** np.linspace(-2, 2, 10))
    correlated = gaussian("correlated, badly scaled, d=10", scales @ _root(AUTOREGRESSIVE, 10))
    pair = gaussian("correlated pair, rho 0.9", _root(AUTOREGRESSIVE, 2))
    t4 = functools.partial(jax.scipy.stats.t.logpdf, df=4)
    return [
        (gaussian("Gaussian, d=1", np.eye(1)), ("shift 0.3 sd, all", "scale x 0.8, all")),
        (gaussian("Gaussian, d=10", np.eye(10)), MOMENTS),
        (gaussian("Gaussian, d=30", np.eye(30)), ("shift 0.3 sd, one", "scale x 0.8, one")),
        (correlated, (*MOMENTS, "mean field")),
        (pair, ("mean field", "correlation 0.8 for 0.9")),
        (
            product("Student t(4), d=10", 10, t4, lambda g, shape: g.standard_t(4, shape)),
            (*MOMENTS, "Gaussian of right moments"),
        ),
        (
            product("Laplace, d=1", 1, lambda z: -jnp.abs(z), lambda g, shape: g.laplace(size=shape)),
            ("Gaussian of right moments",),
        ),
        (exact("banana", banana()), (*MOMENTS, "mean field", "Gaussian of right moments")),
        (
            reference("eight_schools_noncentred"),
            (*MOMENTS, "Gaussian of right moments"),
        ),
        (reference("garch11"), (*MOMENTS, "mean field", "Gaussian of right moments")),
    ]


def wild_cases(study: Study) -> list[dict]:
    """Every target with every fault, students without a density."""
    rows = []
    for world, faults in worlds():
        for name in ("right", "almost right", *faults):
            if study.only not in world.name:
                continue
            make = functools.partial(_spoilt, world, name)
            rows.append(_row(world.name, "wild", name, tally(world.target, make, study)))
    return rows


def _spoilt(world: World, name: str, seed: int) -> Student:
    return Rows(fault(name, world.draw(seed), seed))


def _row(target: str, student: str, name: str, figures: dict) -> dict:
    row = {"target": target, "student": student, "fault": name, **figures}
    print(
        f"{target:32} {student:9} {name:28} flagged {row['flagged']:3} warned {row['warned']:3} of "
        f"{row['seeds']}  {_failing(row['tests'])}",
        flush=True,
    )
    return row


def _failing(tests: dict) -> str:
    parts = {name: (counts.get("fail", 0), counts.get("warn", 0)) for name, counts in tests.items()}
    return ", ".join(f"{name} {fail}+{warn}" for name, (fail, warn) in parts.items() if fail + warn)


def explicit_cases(study: Study) -> list[dict]:
    """Students with a density: Gaussians and Student t's on targets of unit variance."""
    d = 10
    normal = gaussian("Gaussian, d=10", np.eye(d)).target
    unit = jnp.sqrt(2.0)
    heavy = LogDensity(lambda z: jax.scipy.stats.t.logpdf(z * unit, 4).sum(), d)
    laplace = LogDensity(lambda z: -jnp.sqrt(2.0) * jnp.abs(z).sum(), d)

    def shifted(seed):
        return FullGaussian(d, 0.3 * np.eye(d)[seed % d])

    def scaled(seed):
        return FullGaussian(d, 0.0, 1 - 0.2 * np.eye(d)[seed % d])

    def almost(seed):
        signs = np.random.default_rng(seed).choice([-1.0, 1.0], (2, d))
        return FullGaussian(d, 0.02 * signs[0], 1 + 0.015 * signs[1])

    cases = [
        ("Gaussian, d=10", normal, "right", lambda s: FullGaussian(d)),
        ("Gaussian, d=10", normal, "almost right", almost),
        ("Gaussian, d=10", normal, "shift 0.3 sd, one", shifted),
        ("Gaussian, d=10", normal, "scale x 0.8, one", scaled),
        (
            "Gaussian, d=10",
            normal,
            "Student t(4) of right moments",
            lambda s: StudentT(jnp.array(4.0), d),
        ),
        ("Student t(4), d=10", heavy, "right", lambda s: StudentT(jnp.array(4.0), d)),
        ("Student t(4), d=10", heavy, "Gaussian of right moments", lambda s: FullGaussian(d)),
        ("Laplace, d=10", laplace, "Gaussian of right moments", lambda s: FullGaussian(d)),
    ]
    return _counted(cases, study)


def _counted(cases: list[tuple], study: Study) -> list[dict]:
    rows = []
    for name, target, planted, make in cases:
        if study.only in name:
            kind = "explicit" if isinstance(make(0), ExplicitStudent) else "wild"
            rows.append(_row(name, kind, planted, tally(target, make, study)))
    return rows


def mixture(target: MixtureOfGaussians, weights: list[float]) -> GaussianMixture:
    """The target's components with other weights."""
    start = GaussianMixture(jax.random.key(0), target.dim, len(weights))
    scales = jnp.broadcast_to(jnp.log(target.scales)[:, None], target.means.shape)
    new = (jnp.log(jnp.asarray(weights)), target.means, scales)
    return eqx.tree_at(lambda m: (m.logits, m.means, m.log_scales), start, new)


def rows_of(target: MixtureOfGaussians, weights: list[float], seed: int) -> Rows:
    """Draws of the components with other weights."""
    other = MixtureOfGaussians(target.means, target.scales, jnp.asarray(weights))
    return Rows(other.sample(jax.random.key(seed), POOL))


def mode_cases(study: Study) -> list[dict]:
    """Modes that the student lacks, or weighs wrongly."""
    line = MixtureOfGaussians([[-3.0], [3.0]])
    ten = MixtureOfGaussians(jnp.zeros((2, 10)).at[1].set(8 / np.sqrt(10)))
    plane = MixtureOfGaussians([[-4.0, 0.0], [4.0, 0.0], [0.0, 6.0]], weights=[0.45, 0.45, 0.1])
    cases = []
    for name, target, least in (
        ("two modes, d=1", line, 2),
        ("two modes, d=10", ten, 2),
        ("three modes, d=2", plane, 3),
    ):
        true = list(np.exp(target.log_weights))
        lacking = [1.0, *[1e-30] * (least - 1)] if least == 2 else [0.5, 0.5, 1e-30]
        wrong = [0.7, 0.3] if least == 2 else [0.25, 0.65, 0.1]
        for planted, weights in (
            ("right", true),
            ("a mode missing", lacking),
            ("mode weights off by 0.2", wrong),
        ):
            cases.append((name, target, planted, functools.partial(rows_of, target, weights)))
            cases.append((name, target, planted, lambda s, t=target, w=weights: mixture(t, w)))
    cases.sort(key=lambda case: (case[0], isinstance(case[3](0), ExplicitStudent)))
    return _counted(cases, study)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="targets whose name contains this; writes nothing")
    parser.add_argument("--seed", type=int, default=1000, help="the first of 20 (default: %(default)s)")
    given = parser.parse_args()
    started, study = time.perf_counter(), Study(given.only, given.seed, [])
    rows = [row for cases in (explicit_cases, mode_cases, wild_cases) for row in cases(study)]
    planted = [row for row in rows if "right" not in row["fault"].split(" of ")[0]]
    silent = [row for row in rows if row not in planted]
    figures = {
        "planted": len(planted),
        "least_flagged": min((row["flagged"] / row["seeds"] for row in planted), default=1.0),
        "planted_flagged": _share(planted, "flagged"),
        "right_flagged": _share(silent, "flagged"),
        "right_warned": _share(silent, "warned"),
        "seconds_a_check": statistics.median(study.seconds),
        "seconds_first_check": statistics.median(
            r["first_seconds"] for r in rows if r["fault"] == "right"
        ),
    }
    settings = {"seeds": SEEDS, "draws": DRAWS}
    source = provenance(settings, study.seed, time.perf_counter() - started)
    if not study.only:
        named = [
            {"kind": "power", "name": f"{r['target']}, {r['student']}, {r['fault']}", **r, **source}
            for r in rows
        ]
        write_rows(
            "results/trust.jsonl", [*named, {"kind": "summary", "name": "trust", **figures, **source}]
        )
    last_line({**figures, **source})


def _share(rows: list[dict], name: str) -> float:
    return sum(row[name] for row in rows) / max(sum(row["seeds"] for row in rows), 1)


if __name__ == "__main__":
    main()
