"""The demo's model: eight schools, fitted without settings and held beside NUTS."""

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpyro
import numpyro.distributions as dist

from understudy.display import entries
from understudy.fitting import Gradients, fit
from understudy.posterior import Posterior
from understudy.posterior.draws import named_rows
from understudy.report import write_picture
from understudy.report.draws import marginals
from understudy.targets.numpyro import from_numpyro

EFFECTS = np.array([28.0, 8, -3, 7, -1, 1, 18, 12])
ERRORS = np.array([15.0, 10, 16, 11, 9, 11, 10, 18])
SHOWN = ("mu", "tau", "theta[0]", "theta[2]")
MANY = 1_000_000


def eight_schools(y: Any, sigma: Any) -> None:
    """Effects of coaching in eight schools.

    Reference: Rubin, "Estimation in Parallel Randomized Experiments", 1981.
    """
    mu = numpyro.sample("mu", dist.Normal(0, 5))
    tau = numpyro.sample("tau", dist.HalfCauchy(5))
    noise = numpyro.sample("noise", dist.Normal(0, 1).expand([8]).to_event(1))
    theta = numpyro.deterministic("theta", mu + tau * noise)
    numpyro.sample("y", dist.Normal(theta, sigma), obs=y)


def fit_schools(seed: int) -> Posterior:
    """Fit the model with nothing set but a bound on the work, which a busy machine does not shorten."""
    target = from_numpyro(eight_schools, EFFECTS, ERRORS)
    return fit(target, seed=seed, budget=Gradients(1_500_000), verbose=False)


def compare(result: Posterior, out: Path) -> dict[str, Any]:
    """Hold a fit beside NUTS: a picture of margins, the largest distance of means, the costs."""
    cost = result.nuts_cost()
    assert cost.draws is not None
    nuts = entries(named_rows(result.target, cost.draws))
    seconds, draws = _many(result)
    student = entries(draws)
    shown = {name: student[name] for name in SHOWN}
    write_picture(marginals(shown, {"NUTS": nuts}), out / "schools.png")
    return {
        "schools_trusted": result.trusted,
        "schools_gap": largest_gap(student, nuts),
        "schools_fit_seconds": result.seconds + result.compile_seconds,
        "schools_million_seconds": seconds,
        "schools_nuts_effective_per_second": cost.effective_per_second,
    }


def largest_gap(a: Mapping[str, np.ndarray], b: Mapping[str, np.ndarray]) -> float:
    """Largest distance of means over the columns of the second, in its deviations."""
    return float(max(abs(a[name].mean() - b[name].mean()) / b[name].std() for name in b))


def _many(result: Posterior) -> tuple[float, dict[str, np.ndarray]]:
    result.sample(0, 1, finish=False)
    started = time.perf_counter()
    draws = result.sample(1, MANY, finish=False)
    return time.perf_counter() - started, draws
