"""Tables of the comparison on eight posteriors, medians over seeds."""

import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from understudy import files

GUIDES = ("AutoNormal", "AutoMultivariateNormal", "AutoIAFNormal", "AutoBNAFNormal")
VARIATIONAL = (*GUIDES, "Pathfinder")


class Medians:
    """Medians over seeds of every figure, by posterior and method."""

    def __init__(self, results: Path):
        self.rows = files.read_rows(results / "guides.jsonl")
        self.posteriors = list(dict.fromkeys(row["posterior"] for row in self.rows))

    def of(self, posterior: str, method: str, figure: str, **where: Any) -> float | None:
        """The median of a figure over the rows of a posterior and method."""
        wanted = {"posterior": posterior, "method": method, **where}
        values = [
            row[figure]
            for row in self.rows
            if all(row.get(name) == value for name, value in wanted.items())
            and row.get(figure) is not None
        ]
        return float(statistics.median(values)) if values else None

    def spread(self, posterior: str) -> float:
        """Largest difference of a mean between two seeds of ours, in standard deviations."""
        rows = [
            row["mean_errors"]
            for row in self.rows
            if row["posterior"] == posterior and row["method"] == "understudy"
        ]
        return max(max(column) - min(column) for column in zip(*rows, strict=True))

    def best_guide(self, posterior: str) -> tuple[str, float] | None:
        """The variational rival with the least worst W1."""
        found = [(self.of(posterior, name, "worst_w1"), name) for name in VARIATIONAL]
        known = [(value, name) for value, name in found if value is not None]
        least, name = min(known, default=(None, ""))
        return None if least is None else (name, least)


def accuracy(results: Path) -> list[Sequence[str]]:
    """Worst marginal W1 of every method, in standard deviations of the reference."""
    medians = Medians(results)
    return [
        (
            name,
            _number(medians.of(name, "understudy", "worst_w1")),
            *(_number(medians.of(name, guide, "worst_w1")) for guide in VARIATIONAL),
            _number(medians.of(name, "NUTS", "worst_w1")),
            _number(medians.of(name, "NUTS long", "worst_w1")),
        )
        for name in medians.posteriors
    ]


ACCURACY = ("posterior", "understudy", *VARIATIONAL, "NUTS, 4 x 1,000", "NUTS, 4 x 5,000")


def ours(results: Path) -> list[Sequence[str]]:
    """Further figures of ours."""
    medians = Medians(results)
    figures = ("mean_w1", "worst_mean_error", "sd_ratio_min", "sd_ratio_max", "worst_correlation_error")
    return [
        (
            name,
            *(_number(medians.of(name, "understudy", figure)) for figure in (*figures, "c2st")),
            _number(medians.of(name, "understudy", "acceptance")),
        )
        for name in medians.posteriors
    ]


OURS = (
    *(
        "posterior",
        "mean W1",
        "worst mean error",
        "least sd ratio",
        "largest",
        "worst correlation error",
    ),
    *("classifier", "independence acceptance"),
)


def costs(results: Path) -> list[Sequence[str]]:
    """Seconds, gradients and draws per second, ours beside NUTS with 4 x 1,000 draws."""
    medians = Medians(results)
    return [_costs(medians, name) for name in medians.posteriors]


def _costs(medians: Medians, name: str) -> Sequence[str]:
    wall = medians.of(name, "NUTS", "wall_seconds")
    cold = medians.of(name, "understudy", "wall_seconds", cache="cold")
    warm = medians.of(name, "understudy", "wall_seconds", cache="warm")
    speeds = [medians.of(name, m, "effective_draws_per_second") for m in ("understudy", "NUTS")]
    ratio = speeds[0] / speeds[1] if speeds[0] and speeds[1] else None
    gradients = [medians.of(name, m, "gradients") for m in ("understudy", "NUTS")]
    return (
        name,
        _number(medians.of(name, "understudy", "run_seconds"), 1),
        _number(cold, 1),
        _number(warm, 1),
        _number(wall, 1),
        *(_number(g, 0) for g in gradients),
        _number(speeds[0], 0),
        _number(speeds[1], 0),
        _number(ratio, 0),
    )


COSTS = (
    *("posterior", "run s", "wall s, cold", "wall s, cached", "NUTS wall s", "gradients", "NUTS"),
    *("draws / s", "NUTS effective / s", "ratio"),
)


def goals(results: Path) -> list[Sequence[str]]:
    """The comparison in one figure each."""
    medians = Medians(results)
    names = medians.posteriors
    value = lambda name, figure: medians.of(name, "understudy", figure) or 0.0  # noqa: E731
    close = [
        value(n, "worst_w1") <= 0.05
        and value(n, "worst_mean_error") <= 0.05
        and value(n, "sd_ratio_min") >= 0.95
        and value(n, "sd_ratio_max") <= 1.05
        for n in names
    ]
    nuts = [(value(n, "worst_w1"), medians.of(n, "NUTS", "worst_w1") or 0.0) for n in names]
    total = f"of {len(names)}"
    return [
        ("worst W1 and mean error at most 0.05 sd, sd ratios in 0.95 to 1.05", f"{sum(close)} {total}"),
        *_beside_guides(medians),
        (
            "worst W1 not above that of NUTS with 4 x 1,000 draws",
            f"{sum(a <= b for a, b in nuts)} {total}",
        ),
        ("largest difference of any mean between two of five seeds", f"{_seeds(medians):.3f} sd"),
        *_ratios(medians),
    ]


def _beside_guides(medians: Medians) -> list[Sequence[str]]:
    pairs = [
        (medians.of(name, "understudy", "worst_w1") or 0.0, best[1])
        for name in medians.posteriors
        if (best := medians.best_guide(name))
    ]
    if not pairs:
        return []
    total = f"of {len(pairs)}"
    near = sum(ours <= best + 0.01 for ours, best in pairs)
    half = sum(2 * ours <= best for ours, best in pairs)
    return [
        ("worst W1 below the best guide's, or within 0.01", f"{near} {total}"),
        ("worst W1 at most half the best guide's", f"{half} {total}"),
    ]


def _seeds(medians: Medians) -> float:
    return max(medians.spread(name) for name in medians.posteriors)


def _ratios(medians: Medians) -> list[Sequence[str]]:
    found: dict[str, list[float]] = {"cold": [], "warm": [], "speed": []}
    for name in medians.posteriors:
        wall = medians.of(name, "NUTS", "wall_seconds")
        speeds = [medians.of(name, m, "effective_draws_per_second") for m in ("understudy", "NUTS")]
        for cache in ("cold", "warm"):
            mine = medians.of(name, "understudy", "wall_seconds", cache=cache)
            if mine and wall:
                found[cache].append(mine / wall)
        if speeds[0] and speeds[1]:
            found["speed"].append(speeds[0] / speeds[1])
    words = {
        "cold": "wall time to the first draw over that of NUTS (4 x 1,000), nothing compiled before",
        "warm": "the same with the programs in the cache",
        "speed": "effective draws per second after training over those of NUTS after warm-up",
    }
    digits = {"speed": 0}
    return [(words[k], f"{statistics.median(v):,.{digits.get(k, 2)}f} x") for k, v in found.items() if v]


def _number(value: float | None, digits: int = 3) -> str:
    return "" if value is None else f"{value:,.{digits}f}"
