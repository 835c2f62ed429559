"""Is a student of many data sets right on average, and where not? Tests on simulated data."""

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from understudy.amortising.finishing import LARGEST_K, pareto_smooth
from understudy.amortising.simulators import Simulator, several, unseen
from understudy.core import Key
from understudy.evaluation.trust.calibration import BINS, TOLERANCE, calibration_of, shapes_of
from understudy.evaluation.trust.findings import Effects, Finding, Trust, joined
from understudy.evaluation.trust.gap import legendre
from understudy.numerics import effective_draws

if TYPE_CHECKING:
    import pandas

# What weights may lose of the log density of the truth, in nats, and how much one data set counts.
_LOSS, _MOST = 0.05, 20.0
_MANY_CHAINS, _SOME_CHAINS = 0.5, 0.9
_AT_ONCE = 32


class Facts(NamedTuple):
    """What was seen of simulated data sets, one a row.

    Attributes:
        truth: the parameters that made the data.
        ranks: of the truth among the draws, by coordinate.
        coverage: the share of the draws that are likelier than the truth to the student.
        nearer: the share of the draws that are nearer than the truth to that of another data set.
        mean: of the draws.
        deviation: of the draws.
        explained: the share of the draws to which the data and the prior are less likely than they are
            to the truth.
        weighted: the weight of the draws below the truth, by coordinate.
        gained: what weights add to the log density of the truth.
        pareto_k: of the weights.
        share: effective draws, as a share.
    """

    truth: Any
    ranks: Any
    coverage: Any
    nearer: Any
    mean: Any
    deviation: Any
    explained: Any
    weighted: Any
    gained: Any
    pareto_k: Any
    share: Any


def judge(
    key: Key,
    simulator: Simulator,
    student: Any,
    names: Sequence[str],
    simulations: int = 512,
    draws: int = 255,
    level: float = 0.01,
) -> Trust:
    """Tests of a student on fresh simulated data sets, one table.

    Args:
        key: random key.
        simulator: draws data sets and weighs parameters.
        student: draws parameters given data, with ``sample_and_log_prob``.
        names: of the coordinates.
        simulations: how many data sets; of a table, as many as it has beside those learnt from.
        draws: for each.
        level: probability with which each test warns of a right student.
    """
    started = time.perf_counter()
    facts = _finite_facts(key, simulator, student, simulations, draws)
    found = [
        calibration_of(facts.ranks, draws, level, names),
        _uniform("expected coverage", facts.coverage, draws, level, _COVERAGE),
        _uniform("TARP", facts.nearer, draws, level, _COVERAGE),
        _scores(facts, names, level),
        _recovery(facts, names),
    ]
    if simulator.likelihood:
        found += [
            _uniform("likelihood of the truth", facts.explained, draws, level, _EXPLAINED),
            _weighted(facts, names, level),
            _weights(facts),
        ]
    return Trust(tuple(found), time.perf_counter() - started, 0)


def recovery(
    key: Key, simulator: Simulator, student: Any, names: Sequence[str], simulations: int, draws: int
) -> "pandas.DataFrame":
    """A table of what data tell of every coordinate; the arguments are those of :func:`judge`."""
    import pandas

    facts = _finite_facts(key, simulator, student, simulations, draws)
    rank = facts.ranks / draws
    columns = {
        "prior mean": facts.truth.mean(0),
        "prior sd": facts.truth.std(0),
        "posterior sd": facts.deviation.mean(0),
        "narrowed": _narrowed(facts),
        "recovered": _recovered(facts),
        "in 90 %": ((rank > 0.05) & (rank < 0.95)).mean(0),
    }
    return pandas.DataFrame(columns, index=list(names))


def _finite_facts(key: Key, simulator: Simulator, student: Any, simulations: int, draws: int) -> Facts:
    facts = Facts(*map(np.asarray, _facts(key, unseen(simulator), student, simulations, draws)))
    kept = np.isfinite(facts.truth).all(1) & np.isfinite(facts.coverage)
    return Facts(*(part[kept] for part in facts))


def _narrowed(facts: Facts) -> np.ndarray:
    """The share of the prior's variance that data take away, by coordinate."""
    return 1 - (facts.deviation**2).mean(0) / np.maximum(facts.truth.var(0), 1e-12)


def _recovered(facts: Facts) -> np.ndarray:
    """Correlations of posterior means with truths."""
    both = zip(facts.truth.T, facts.mean.T, strict=True)
    return np.array([np.corrcoef(truth, mean)[0, 1] for truth, mean in both])


@eqx.filter_jit
def _facts(key: Key, simulator: Simulator, student: Any, simulations: int, draws: int) -> Facts:
    def one(pair):
        own, truth, x, point = pair
        z, log_q = student.sample_and_log_prob(own, x, draws)
        deviation = z.std(0)
        away = jnp.sum(((truth - point) / (deviation + 1e-9)) ** 2)
        nearer = (jnp.sum(((z - point) / (deviation + 1e-9)) ** 2, -1) < away).mean()
        known = student.log_prob(truth, x)
        coverage = (log_q > known).mean()
        facts = Facts(truth, (z < truth).sum(0), coverage, nearer, z.mean(0), deviation, *[jnp.nan] * 5)
        if not simulator.likelihood:
            return facts._replace(weighted=jnp.full(truth.shape, jnp.nan))
        log_p = jax.vmap(lambda z: simulator.target.log_density(z, x))(z)
        log_weights = jnp.where(jnp.isfinite(log_p), log_p - log_q, -jnp.inf)
        smooth, k = pareto_smooth(log_weights)
        of_truth = simulator.target.log_density(truth, x)
        explained = (log_p < of_truth).mean()
        weighted = jnp.sum(jnp.exp(smooth)[:, None] * (z < truth), 0)
        evidence = jax.nn.logsumexp(log_weights) - jnp.log(draws)
        gained = jnp.nan_to_num(jnp.clip(of_truth - known - evidence, -_MOST, _MOST), nan=-_MOST)
        share = effective_draws(smooth) / draws
        return facts._replace(
            explained=explained, weighted=weighted, gained=gained, pareto_k=k, share=share
        )

    first, second = jax.random.split(key)
    truth, data = several(first, simulator, simulations)
    own = jax.random.split(second, len(truth))
    # The truth of another data set is a point picked at random.
    pairs = (own, truth, data, jnp.roll(truth, 1, axis=0))
    return jax.lax.map(one, pairs, batch_size=_AT_ONCE)


# What a mean above or below a half says, and then what lies at the ends or in the middle.
_COVERAGE = (("too wide", "too narrow"), ("too wide in places", "too narrow in places"))
_EXPLAINED = (
    ("less likely than the truth: the student leaves out what the data say", "likelier than the truth"),
    ("of another likelihood than the truth", "of another likelihood than the truth"),
)


def _uniform(
    name: str, shares: np.ndarray, draws: int, level: float, said: tuple[tuple[str, str], ...]
) -> Finding:
    """Whether shares of draws are uniform, as they are for a right student."""
    jittered, effects = shapes_of(np.round(shares * draws)[:, None], draws)
    size = effects.size
    verdict, worst = effects.verdict(level), effects.worst
    if name == "likelihood of the truth":
        words = said[min(worst, 1)][0 if size[worst] > 0 else 1]
    else:
        words = said[min(worst, 1)][int(size[worst] > 0)]
    shown = float(abs(size[worst]))
    sentence = {
        "ok": f"shares of draws over {len(shares)} simulated data sets are uniform",
        "warn": f"the student's draws are {words}, by {shown:.2f} sd, which is little",
        "fail": f"the student's draws are {words}, by {shown:.2f} sd; train longer",
    }[verdict]
    edges = np.linspace(0, 1, BINS + 1)
    pictures = {"edges": edges, "counts": np.histogram(jittered, edges)[0]}
    return Finding(name, verdict, shown, sentence, pictures)


def _scores(facts: Facts, names: Sequence[str], level: float) -> Finding:
    """Posterior z, the truth's distance from the mean in deviations: mean zero, mean square one."""
    z = np.clip((facts.truth - facts.mean) / np.maximum(facts.deviation, 1e-12), -8, 8)
    n, d = z.shape
    size = np.concatenate([z.mean(0), ((z**2).mean(0) - 1) / 2])
    error = np.concatenate([z.std(0), (z**2).std(0) / 2]) / np.sqrt(n)
    effects = Effects(size, error, np.full_like(size, 2 * TOLERANCE))
    verdict, worst = effects.verdict(level), effects.worst
    which = names[worst % d]
    what = ("shifted" if worst < d else "too narrow" if size[worst] > 0 else "too wide") + f" in {which}"
    words = {
        "ok": f"truths lie {z.std():.2f} deviations from the mean, as they should",
        "warn": f"the draws are {what} a little ({size[worst]:.2f})",
        "fail": f"the draws are {what} ({size[worst]:.2f}); train longer",
    }[verdict]
    return Finding("posterior z", verdict, float(abs(size[worst])), words, {"z": z})


def _recovery(facts: Facts, names: Sequence[str]) -> Finding:
    """How well means recover truths, and how far the data narrow the prior."""
    contraction, both = _narrowed(facts), _recovered(facts)
    least = int(np.argmin(contraction))
    words = (
        f"{names[least]} is narrowed least, by {100 * max(contraction[least], 0):.0f} % of the prior's "
        f"variance; means correlate with truths by {np.nanmin(both):.2f} to {np.nanmax(both):.2f}"
    )
    pictures = {"truth": facts.truth, "mean": facts.mean, "contraction": contraction}
    return Finding("recovery", "ok", float(contraction[least]), words, pictures)


def _weighted(facts: Facts, names: Sequence[str], level: float) -> Finding:
    """Calibration after weighting: sees a likelihood that is not the simulator's.

    Ranks are almost blind to a likelihood that is too wide, so the log density that weighted draws give
    to the truth is compared with the student's own. With the right likelihood weights can only add to
    it, whatever the student: the mean of what they add is the student's KL divergence.
    """
    fine = facts.pareto_k < LARGEST_K
    if fine.sum() < 50:
        words = "the weights of too few data sets can be relied upon to test them; train longer"
        return Finding("weighted calibration", "warn", float(fine.mean()), words)
    # Weighted shares are means over fewer draws than there are, hence noisier, but not biased.
    shares = facts.weighted[fine]
    size = legendre(np.clip(shares, 0, 1)).mean(1).ravel()
    error = np.full_like(size, fine.sum() ** -0.5)
    ranks = Effects(size, error, np.full_like(size, TOLERANCE))
    effects = joined(ranks, _loss(facts.gained[fine]))
    verdict, worst = effects.verdict(level), effects.worst
    shown = float(abs(effects.size[worst]))
    off = f"weighted draws of {names[worst % shares.shape[1]]} are off by {shown:.2f} sd"
    if worst == size.size:
        off = f"weighted draws make the truth less likely than the student's own, by {shown:.2f} nats"
    words = {
        "ok": "weighted draws agree with the truths: simulator and likelihood are one model",
        "warn": f"{off}, which is little",
        "fail": f"{off}: is it the same model?",
    }[verdict]
    return Finding("weighted calibration", verdict, shown, words)


def _loss(gained: Float[np.ndarray, " m"]) -> Effects:
    """What weights take from the log density of the truth; a gain is no fault."""
    error = gained.std() / np.sqrt(len(gained))
    parts = (max(-float(gained.mean()), 0.0), float(error), _LOSS)
    return Effects(*(np.array([part]) for part in parts))


def _weights(facts: Facts) -> Finding:
    """Pareto k over simulated data sets: how many can be served without chains."""
    served = float(np.mean(facts.pareto_k < LARGEST_K))
    share = float(np.median(facts.share))
    verdict = "fail" if served < _MANY_CHAINS else "warn" if served < _SOME_CHAINS else "ok"
    words = (
        f"{100 * served:.0f} % of simulated data sets need no chains; median effective share {share:.2f}"
        f"{'' if verdict == 'ok' else '; train longer'}"
    )
    pictures = {"pareto_k": facts.pareto_k, "share": facts.share}
    return Finding("weights over data sets", verdict, 1 - served, words, pictures)
