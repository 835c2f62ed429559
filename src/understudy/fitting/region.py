"""The region of the mass, found by chains that run until they agree."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from understudy.coordinates import (
    Coordinates,
    Walls,
    fit_coordinates,
    fit_knots,
    plain_coordinates,
)
from understudy.core import IngredientError
from understudy.fitting import judge
from understudy.fitting.budget import Budget
from understudy.fitting.chains import GROUPS, Agreement, Chains, agreement
from understudy.fitting.discrete import ADVICE
from understudy.fitting.learning import COPULA, Candidate
from understudy.fitting.starts import Starts

_WINDOWS = (8, 8, 12, 16, 24, 32)
_PROBE, _FIRST, _GROWTH, _TRIES = 4, 48, 1.3, 2
_KEPT = 20_000_000
# Shares of the budget after which the chains, if they do not agree, and chains that go on without a
# student's help, are stopped.
_SHARE, _ALONE = 0.4, 0.25
# A scale that grows by a fifth over any two windows, at least five times and tenfold, has no end.
_GROWS, _DRIFTING, _FAR = np.log(1.2), 5, np.log(10.0)
_MOST = 40
_LONGEST = 12


class Region(NamedTuple):
    """Where the mass is.

    Attributes:
        z: draws of the chains in the order in which they were made, (t, m, d).
        coordinates: in which they are nearly standard.
        agreement: of the chains.
    """

    z: Float[np.ndarray, "t m d"]
    coordinates: Coordinates
    agreement: Agreement


def every(chains: Chains, updates: int) -> int:
    """Updates between two kept draws, so that a window fits in memory."""
    return max(1, int(np.ceil(updates * chains.u.size / _KEPT)))


def begin(chains: Chains, starts: Starts, walls: Walls | None) -> None:
    """Put groups of chains at draws of all paths, the best and the least of them."""
    firsts = starts.z[np.linspace(0, starts.paths - 1, GROUPS).round().astype(int)]
    if len(starts.early):
        firsts[1::2] = starts.early[np.linspace(0, len(starts.early) - 1, GROUPS // 2).astype(int)]
    if walls is not None:
        chains.change(fit_coordinates(starts.z, walls, 10.0, curved=False))
    else:
        chains.change(plain_coordinates(np.median(starts.z, 0), np.clip(starts.scale, 1e-300, 1e300)))
    chains.pace(0.1)
    chains.place(np.repeat(firsts, chains.count // GROUPS, 0))


def go_on(chains: Chains, z: Float[np.ndarray, "n d"], walls: Walls | None) -> None:
    """Put the chains at draws of an earlier run, in coordinates that fit them."""
    chains.change(fit_coordinates(z, walls, len(z) / 8))
    chains.pace(0.3)
    chains.place(z[np.linspace(0, len(z) - 1, chains.count).astype(int)])


def warm_up(chains: Chains, walls: Walls | None, budget: Budget, canyons: bool = False) -> None:
    """Windows that grow; after each the coordinates follow the chains.

    Args:
        chains: at their starts.
        walls: of the support.
        budget: of the fit; past half of its share the last windows are left out.
        canyons: whether some chains began where the density grows without bound; the step then follows
            the others, and those that cannot move with it join them. Elsewhere a chain that needs a
            smaller step may sit in a narrow mode, and stays.
    """
    for i, updates in enumerate(_WINDOWS):
        if budget.share > _SHARE / 2:
            break
        trace = chains.run(updates, every(chains, updates), best_half=canyons)
        if canyons:
            trace = trace[:, chains.relocate()]
        late = trace[len(trace) // 3 :]
        effective = float(np.median(agreement(late).effective))
        fitted = fit_coordinates(chains.colour(late), walls, effective, curved=i > 2)
        chains.change(fitted)
        chains.pace(min(chains.step_size, 1.0) if i > 1 else 0.1)


def settle(chains: Chains, walls: Walls | None, budget: Budget) -> Region:
    """Run until the chains agree, or the budget says stop."""
    streak, scales, meter = 0, [chains.coordinates.margins[1]] * 2, budget.meter()
    chains.pace(chains.step_size)
    chains.run(_PROBE)
    updates = meter.afford(_FIRST, _PROBE, _SHARE)
    windows = 0
    while True:
        windows += 1
        chains.pace(chains.step_size)
        meter = budget.meter()
        trace = chains.run(updates, every(chains, updates))
        found = agreement(trace)
        chains.seen["R-hat"] = found.r_hat
        z = chains.colour(trace)
        fitted = fit_coordinates(z, walls, float(np.median(found.effective)))
        scales = [*scales, fitted.margins[1]]
        grows = bool((scales[-1] - scales[-3]).max() > _GROWS)
        streak = streak + 1 if grows else 0
        if streak >= _DRIFTING and (scales[-1] - scales[-1 - streak]).max() > _FAR:
            raise IngredientError(_improper_sentence(chains.home, fitted))
        steady = windows > _TRIES and not streak
        if (found.settled and not grows) or steady or budget.share > _SHARE or windows == _MOST:
            return Region(z.reshape(trace.shape), chains.home, found)
        chains.change(fitted)
        updates = meter.afford(int(_GROWTH * updates), updates, _SHARE)


def lengthen(
    chains: Chains,
    found: Region,
    budget: Budget,
    walls: Walls | None,
    columns: judge.Columns,
) -> Region:
    """Go on in the same coordinates until means and quantiles are known well enough.

    Args:
        chains: that go on.
        found: what they have come to.
        budget: of the fit.
        walls: of the support.
        columns: from draws to all the numbers that a user sees.
    """
    u, _ = chains.coordinates.whiten(found.z.reshape(-1, found.z.shape[-1]))
    trace, agreed, most = u.reshape(found.z.shape), found.agreement, _LONGEST * len(found.z)
    more, meter = len(trace), budget.meter()
    while True:
        longer = refitted(Region(chains.traced(trace), found.coordinates, agreed), walls)
        if len(trace) >= most or budget.share > _ALONE:
            return longer
        if judge.told(copula(longer), longer.z, agreed, columns, chains):
            return longer
        new = chains.run(more, every(chains, more), adapt=False)
        trace = np.concatenate([trace, new])
        agreed = agreement(trace)
        chains.seen["R-hat"] = agreed.r_hat
        more = meter.afford(max(len(found.z), len(trace) // 3), len(trace) - len(found.z), _ALONE)


def copula(found: Region) -> Candidate:
    """The student that is a Gaussian in the region's coordinates."""
    return Candidate(None, found.coordinates, COPULA)


def refitted(found: Region, walls: Walls | None) -> Region:
    """The region in coordinates that fit its draws, margins to the letter."""
    z = found.z.reshape(-1, found.z.shape[-1])
    fitted = fit_coordinates(z, walls, float(np.median(found.agreement.effective)))
    return found._replace(coordinates=fit_knots(fitted, z))


def _improper_sentence(old: Coordinates, new: Coordinates) -> str:
    which = int(np.argmax(new.margins[1] - old.margins[1]))
    return (
        f"The posterior looks improper: the chains spread without end along coordinate {which} (scale "
        f"{np.exp(new.margins[1][which]):.1e} and growing). Give it a proper prior; {ADVICE}."
    )
