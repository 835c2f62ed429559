"""The methods of the table: what they are, what is tuned, and what they predict."""

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from arviz_stats.base import array_stats
from jaxtyping import Float, Int

from experiments.bnn.averaging import Average, averaged
from experiments.bnn.course import Course, Outcome, follow
from experiments.bnn.problems import Problems, error, inner, log_likelihood
from experiments.bnn.recipes import (
    LEAPFROGS,
    PAPER_ACCEPTANCE,
    Sizes,
    energy_matching,
    hamiltonian,
    langevin,
    member,
    pupil,
    variational,
)

RATES, MATCHING_RATES = (0.001, 0.01, 0.06), (0.01, 0.03)
ACCEPTANCES = (0.6, 0.9, 0.99)
PAPER_RATE, MEMBER_RATE, PUPIL_RATE = 0.001, 0.01, 0.003
# Networks predict better from a posterior colder than Bayes' (Wenzel et al., "How good is the Bayes
# posterior in deep neural networks really?", 2020).
COLD = 0.2
# Chains are given so many passes of a transition over rows; the more rows, the fewer chains.
ROWS, TRANSITIONS, MEMBERS = 3_000, 24, 16


class Result(NamedTuple):
    """One method on all splits.

    Attributes:
        mean: probability of label 1 for every test row.
        seconds: CPU time that each split's own training takes, tuning apart.
        extra: what else a row should say; arrays hold one value per split.
    """

    mean: Float[np.ndarray, "s m"]
    seconds: Float[np.ndarray, " s"]
    extra: dict[str, Any]


Results = dict[str, Result]


def tune(
    course: Course, problems: Problems, sizes: Sizes, settings: tuple[float, ...], folds: int
) -> tuple[Int[np.ndarray, " s"], Int[np.ndarray, " s"], Outcome]:
    """For every split the setting and the mark that predict its validation parts best."""
    parts = inner(problems, folds, sizes.seed)
    splits, tried = len(problems.labels), len(settings)
    each = np.repeat(np.asarray(settings), splits * folds)
    outcome = follow(course, sizes.key("tune"), parts.repeat(tried), each)
    labels = np.tile(np.asarray(parts.new_labels), (tried, 1))[:, None]
    values = log_likelihood(outcome.mean, labels).reshape(tried, splits, folds, -1).mean(2)
    best = values.transpose(1, 0, 2).reshape(splits, -1).argmax(1)
    return best // values.shape[2], best % values.shape[2], outcome


def at(marks: Any, chosen: Any) -> Any:
    """The chosen mark of every split, for an array or a module with axes (split, mark)."""
    pick = lambda leaf: leaf[jnp.arange(len(chosen)), jnp.asarray(chosen)]  # noqa: E731
    return jax.tree.map(lambda leaf: pick(leaf) if eqx.is_array(leaf) else leaf, marks)


def per_split(outcome: Outcome, course: Course, mark: Any) -> Float[np.ndarray, " s"]:
    """CPU seconds of one split up to its own mark."""
    marks = np.asarray(course.marks)
    return outcome.seconds / len(outcome.probabilities) * marks[np.asarray(mark)] / marks[-1]


def curve(outcome: Outcome, course: Course, problems: Problems) -> dict[str, Any]:
    """Test log-likelihood and error of every split at every mark, with the time it takes."""
    labels = np.asarray(problems.new_labels)[:, None]
    seconds = outcome.seconds / len(outcome.probabilities) * np.asarray(course.marks) / course.marks[-1]
    splits = len(labels)
    return {
        "curve_seconds": np.tile(seconds, (splits, 1)),
        "curve_ll": log_likelihood(outcome.mean, labels),
        "curve_error": error(outcome.mean, labels),
    }


def both(
    name: str, course: Course, problems: Problems, sizes: Sizes, tuned: Any, paper: float
) -> tuple[Outcome, Outcome]:
    """One program that trains every split twice: with its tuned setting, and with the paper's."""
    splits = len(problems.labels)
    settings = np.concatenate([tuned, np.full(splits, paper)])
    made = follow(course, sizes.key(name), problems.repeat(2), settings)
    students = jax.tree.map(lambda leaf: leaf[:splits] if eqx.is_array(leaf) else leaf, made.students)
    halves = made.probabilities[:splits], made.probabilities[splits:]
    return Outcome(halves[0], students, made.seconds / 2), Outcome(halves[1], None, made.seconds / 2)


def result(final: Outcome, course: Course, problems: Problems, mark: Any, **extra: Any) -> Result:
    """What a course predicts at the chosen mark of every split."""
    if mark is None:
        mark = np.full(len(problems.labels), len(course.marks) - 1)
    extra |= {"updates": np.asarray(course.marks)[mark]} | curve(final, course, problems)
    return Result(at(final.mean, mark), per_split(final, course, mark), extra)


def variational_family(problems: Problems, sizes: Sizes) -> Results:
    """VI with its rate and updates tuned and not, and the tuned one calibrated."""
    course, folds, splits = variational(sizes), sizes.folds, len(problems.labels)
    rate, mark, tried = tune(course, problems, sizes, RATES, folds)
    rates = np.asarray(RATES)[rate]
    final, paper = both("vi", course, problems, sizes, rates, PAPER_RATE)
    vi = result(final, course, problems, mark, rate=rates)
    held = _chosen(tried.mean, rate, mark, folds).reshape(splits, -1)
    labels = inner(problems, folds, sizes.seed).new_labels.reshape(splits, -1)
    calibrated = averaged([held], labels, [vi.mean])
    return {
        "VI": vi,
        "VI (paper)": result(paper, course, problems, None),
        "VI calibrated": Result(calibrated.mean, vi.seconds, {"slope": calibrated.slopes[:, 0]}),
    }


def finished_family(problems: Problems, sizes: Sizes) -> Results:
    """A mixture by VI, the same finished by HMC, and a mixture taught by those chains."""
    splits, rows = problems.labels.shape
    parts = inner(problems, sizes.folds, sizes.seed)
    chains = chains_for(rows)
    course = hamiltonian(chains, tuple(range(1, TRANSITIONS + 1)), temperature=COLD)
    tried, made = (
        _taught(course, some, sizes, max(MEMBERS, chains), word)
        for some, word in ((parts, "folds"), (problems, "all"))
    )
    labels = np.asarray(parts.new_labels).reshape(splits, -1)
    alone = result(made.mixture, member(sizes), problems, None)

    def join(held: Any, new: Any) -> Average:
        both = (leaf.reshape(splits, -1) for leaf in (tried.mixture.mean[:, -1], held))
        return averaged(tuple(both), labels, [alone.mean, new])

    shown = TRANSITIONS // 2, TRANSITIONS
    finished = [join(late(tried.chains.mean), late(made.chains.mean, t)) for t in shown]
    learnt = join(tried.pupil.mean[:, -1], made.pupil.mean[:, -1])
    seconds = alone.seconds + made.chains.seconds / splits
    curve_of = _finished_curve([one.mean for one in finished], shown, made.chains, problems, alone)
    return {
        "VI mixture": alone,
        "finished": Result(finished[-1].mean, seconds, _shares(finished[-1]) | curve_of),
        "taught mixture": Result(learnt.mean, seconds + made.pupil.seconds / splits, _shares(learnt)),
    }


def chains_for(rows: int) -> int:
    """How many chains: one for every Gaussian on tiny tables, a few where a gradient is long."""
    return min(max(ROWS // rows, 4), 2 * MEMBERS)


def _shares(made: Average) -> dict[str, Any]:
    """How much the second prediction was believed, and the slope of both."""
    return {"second_share": made.shares[:, 1], "slope": (made.shares * made.slopes).sum(1)}


class _Taught(NamedTuple):
    """A mixture for every problem, the chains that start at its draws, and what learns from them."""

    mixture: Outcome
    chains: Outcome
    pupil: Outcome


def _taught(course: Course, problems: Problems, sizes: Sizes, members: int, word: str) -> _Taught:
    student, count = mixture(problems, sizes, members, word), len(problems.labels)
    starts = at(student.students, np.full(count, -1))
    chains = follow(course, sizes.key(f"hmc {word}"), problems, np.zeros(count), starts)
    path, learning = kept(chains.students.z), pupil(sizes, course.particles)
    rates = np.full(count, PUPIL_RATE)
    return _Taught(student, chains, follow(learning, sizes.key(f"pupil {word}"), problems, rates, path))


def mixture(problems: Problems, sizes: Sizes, members: int, word: str) -> Outcome:
    """Gaussians from different random networks, each trained alone; at a mark, all draws up to there.

    The students have axes (problem, mark, member).
    """
    course, count = member(sizes), len(problems.labels)
    every = problems.repeat(members)
    made = follow(course, sizes.key(f"mixture {word}"), every, np.full(len(every.labels), MEMBER_RATE))

    def gathered(leaf: Any) -> Any:
        return leaf.reshape(members, count, *leaf.shape[1:]).swapaxes(0, 1).swapaxes(1, 2)

    students = jax.tree.map(lambda leaf: gathered(leaf) if eqx.is_array(leaf) else leaf, made.students)
    means = gathered(made.probabilities).mean((2, 3))
    so_far = means.cumsum(1) / np.arange(1, len(course.marks) + 1)[:, None]
    return Outcome(so_far[:, :, None], students, made.seconds)


def late(path: Any, transitions: int | None = None) -> Any:
    """The mean over so many transitions (all) but for their first quarter."""
    return kept(path, transitions).mean(1)


def kept(path: Any, transitions: int | None = None) -> Any:
    """So many transitions (all) but for their first quarter."""
    last = transitions or path.shape[1]
    return path[:, last // 4 : last]


def _finished_curve(means, shown, final: Outcome, problems: Problems, alone: Result) -> dict[str, Any]:
    labels = np.asarray(problems.new_labels)
    each = final.seconds / len(labels) / shown[-1]
    return {
        "curve_seconds": alone.seconds[:, None] + each * np.asarray(shown),
        "curve_ll": np.stack([log_likelihood(mean, labels) for mean in means], 1),
        "curve_error": np.stack([error(mean, labels) for mean in means], 1),
    }


def matching_family(problems: Problems, sizes: Sizes) -> Results:
    """The paper's AMC, its learning rate and updates tuned and not."""
    course = energy_matching(sizes)
    rate, mark, _ = tune(course, problems, sizes, MATCHING_RATES, sizes.folds)
    rates = np.asarray(MATCHING_RATES)[rate]
    final, paper = both("amc", course, problems, sizes, rates, PAPER_RATE)
    return {
        "AMC": result(final, course, problems, mark, rate=rates),
        "AMC (paper)": result(paper, course, problems, None),
    }


def langevin_family(problems: Problems, sizes: Sizes) -> Results:
    """MALA with 100 particles, acceptance and updates tuned (with ten) and not; and ten of them."""
    which, mark, _ = tune(langevin(sizes, 10), problems, sizes, ACCEPTANCES, sizes.folds)
    course, rates = langevin(sizes, 100), np.asarray(ACCEPTANCES)[which]
    final, paper = both("mala", course, problems, sizes, rates, PAPER_ACCEPTANCE)
    made = {}
    for count in (100, 10):
        some, less = (
            Outcome(o.probabilities[:, :, :count], None, o.seconds * count / 100) for o in (final, paper)
        )
        made[f"MALA-{count}"] = result(some, course, problems, mark, acceptance=rates)
        made[f"MALA-{count} (paper)"] = result(less, course, problems, None)
    return made


def reference(problems: Problems, sizes: Sizes, count: int = 4) -> Results:
    """Long full-data HMC from random networks, with the R-hat of its predictions."""
    marks = tuple(range(sizes.warm + 1, sizes.warm + sizes.kept + 1))
    course = hamiltonian(count, marks, 2 * LEAPFROGS)
    final = follow(course, sizes.key("reference"), problems, np.zeros(len(problems.labels)))
    hats = [rhat(one) for one in final.probabilities]
    mean = final.probabilities.mean((1, 2))
    seconds = np.full(len(mean), final.seconds / len(mean))
    return {"HMC": Result(mean, seconds, {"rhat_median": np.asarray(hats)})}


def rhat(probabilities: Float[np.ndarray, "draws chains m"]) -> float:
    """The median R-hat of predicted logits, over the rows whose prediction varies."""
    p = np.clip(probabilities.astype(np.float64), 1e-6, 1 - 1e-6)
    varying = p[..., np.ptp(p, (0, 1)) > 0]
    values = array_stats.rhat(np.log(varying / (1 - varying)), chain_axis=1, draw_axis=0)
    return float(np.nanmedian(values)) if varying.size else float("nan")


def _chosen(values: Any, rate: Any, mark: Any, folds: int) -> Any:
    """From axes (rate x split x fold, mark, ..) the chosen rate and mark of every split, all folds."""
    splits = len(rate)
    rows = (rate[:, None] * splits + np.arange(splits)[:, None]) * folds + np.arange(folds)
    return values[rows.ravel(), np.repeat(mark, folds)]


def _best(values: list[np.ndarray], splits: int, folds: int) -> Int[np.ndarray, " s"]:
    return np.stack(values).reshape(len(values), splits, folds).mean(2).argmax(0)


TASKS: dict[tuple[str, ...], Callable[[Problems, Sizes], Results]] = {
    ("VI", "VI (paper)", "VI calibrated"): variational_family,
    ("VI mixture", "finished", "taught mixture"): finished_family,
    ("MALA-100", "MALA-100 (paper)", "MALA-10", "MALA-10 (paper)"): langevin_family,
    ("AMC", "AMC (paper)"): matching_family,
    ("HMC",): reference,
}
