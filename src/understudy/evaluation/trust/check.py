"""Whether to trust a student's draws: several tests, one table."""

import time
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from understudy.backend import backend
from understudy.checks import (
    concrete_key,
    fits,
    instance,
    one_fraction,
    same_size,
    several,
    whole,
)
from understudy.core import Condition, Key, Student, Target, Teacher
from understudy.display import coordinate_names
from understudy.evaluation.trust.calibration import Simulate, calibration, check_simulate
from understudy.evaluation.trust.classifier import classifier
from understudy.evaluation.trust.climbs import STEPS
from understudy.evaluation.trust.findings import Finding, Trust
from understudy.evaluation.trust.gap import drift, teacher_gap
from understudy.evaluation.trust.modes import mode_check
from understudy.evaluation.trust.moves import (
    BLOCK,
    LEAPFROGS,
    PILOTS,
    Claim,
    Moved,
    moved,
    propose,
)
from understudy.evaluation.trust.scales import scale_check
from understudy.evaluation.trust.seeds import disagreement
from understudy.evaluation.trust.weights import importance

_STUCK = 0.05


def check(
    key: Key,
    target: Target,
    student: Student,
    *,
    teacher: Teacher | None = None,
    repeats: Sequence[Student] = (),
    x: Condition = None,
    simulate: Simulate | None = None,
    draws: int = 4096,
    turns: int = 3,
    level: float = 0.01,
) -> Trust:
    """Test a student against its target in several ways that see different faults.

    The teacher's moves leave the target as it is, so draws that they change were wrong (teacher gap,
    drift, classifier); weights compare densities (importance weights); draws pulled together and apart
    look for mass at other scales, climbs from far away for what the student never visits (modes).
    Calling it again with other numbers of the same shapes compiles nothing.

    Args:
        key: random key.
        target: what the draws should come from; its log density has a gradient.
        student: explicit or wild.
        teacher: whose moves should not change the draws; None makes Hamiltonian moves scaled by the
            student's draws, with an adapted step.
        repeats: students of other seeds.
        x: the condition, for amortised students.
        simulate: from a key to (z, x), for the calibration of amortised students.
        draws: how many draws are tested, rounded up to a multiple of 256.
        turns: how often the teacher moves every draw.
        level: probability with which each test warns of a right student.

    Examples:
        >>> import jax, jax.numpy as jnp, understudy
        >>> from understudy.evaluation import check
        >>> from understudy.students import FullGaussian
        >>> target = understudy.LogDensity(lambda z: -0.5 * jnp.sum(z**2), dim=2)
        >>> check(jax.random.key(0), target, FullGaussian(2, mean=0.5)).trusted
        False
    """
    started = time.perf_counter()
    instance("target", Target, "LogDensity(function, dim)", target)
    instance("student", Student, "FullGaussian(dim)", student)
    if teacher is not None:
        instance("teacher", Teacher, "hmc(0.1)", teacher)
    repeats = several("repeats", Student, "FullGaussian(dim)", repeats)
    same_size(target, student, *repeats)
    if simulate is not None:
        check_simulate(simulate, target.dim)
    wanted = fits("draws", whole("draws", draws, least=BLOCK), target.dim)
    n = -(-wanted // BLOCK) * BLOCK
    level = one_fraction("level", level)
    keys = _five_keys(concrete_key(key))
    names = coordinate_names(target)
    found = _tests(
        keys,
        Claim(target, student, x),
        teacher,
        n,
        whole("turns", turns),
        level,
        names,
    )
    if repeats:
        sets = [_finite(propose(k, s, x, n)) for k, s in _numbered(keys[3], [student, *repeats])]
        found.append(disagreement(sets, names, level))
    if simulate is not None:
        found.append(calibration(keys[4], simulate, student, level=level, names=names))
    spent = BLOCK * STEPS + (2 * LEAPFROGS * (n * turns + PILOTS * BLOCK) if teacher is None else 0)
    return Trust(tuple(found), time.perf_counter() - started, spent)


def _tests(
    keys: list[Key],
    claim: Claim,
    teacher: Teacher | None,
    n: int,
    turns: int,
    level: float,
    names: Sequence[str],
) -> list[Finding]:
    draws = moved(keys[0], claim, teacher, n, turns)
    if draws is None:
        words = "the log density is not finite at the student's draws; nothing else can be tested"
        return [Finding("teacher gap", "fail", np.inf, words)]
    found = [_judged(draws, teacher_gap(draws, names, level)), drift(draws, names, level)]
    if draws.log_q is not None:
        found.append(importance(draws, level))
    found.append(classifier(int(jax.random.bits(keys[1])), draws, level))
    found.append(scale_check(claim, draws, n, level))
    found.append(mode_check(keys[2], claim, draws, n, names))
    return found


def _judged(draws: Moved, gap: Finding) -> Finding:
    """The teacher gap, unless the teacher could not move or too many draws have no density."""
    if draws.acceptance < _STUCK:
        words = (
            f"teacher moves are accepted in {100 * draws.acceptance:.1f} % of cases, so nothing can be "
            "seen; give a teacher that can move"
        )
        return Finding("teacher gap", "fail", gap.figure, words, gap.pictures)
    if draws.lost > 0:
        words = f"the log density is not finite at {100 * draws.lost:.2g} % of the draws; {gap.words}"
        verdict = "fail" if draws.lost > 0.01 or gap.verdict == "fail" else "warn"
        return Finding("teacher gap", verdict, gap.figure, words, gap.pictures)
    return gap


def _five_keys(key: Key) -> list[Key]:
    """Keys of a generator that compiles faster, unless the key's own is not the default one."""
    if jnp.issubdtype(key.dtype, jax.dtypes.prng_key) and "rbg" in str(jax.random.key_impl(key)):
        return list(jax.random.split(key, 5))
    words = np.asarray(jax.random.bits(key, (5, 4), jnp.uint32))
    return [jax.random.wrap_key_data(row, impl=backend().keys) for row in words]


def _numbered(key: Key, students: Sequence[Student]) -> list[tuple[Key, Student]]:
    return list(zip(jax.random.split(key, len(students)), students, strict=True))


def _finite(z: Any) -> np.ndarray:
    z = np.asarray(z, float)
    return z[np.isfinite(z).all(1)]
