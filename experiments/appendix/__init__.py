"""The paper's appendices and stabilisers, a small measurement each: every notion has a row.

Each part takes a minute or two of one core. Rows are written as a part is done; parts that were not
asked for stay as they are.
"""

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from experiments.appendix import contrastive, lemma, networks, pairing, rates, samplers, stabilisers
from experiments.appendix.sizes import Sizes
from experiments.options import check_settings, option
from experiments.rows import provenance, write_rows
from experiments.settings import fill_preset, listed
from understudy import files

PARTS: dict[str, Callable[[Sizes], list[dict[str, Any]]]] = {
    "lemma": lemma.rows,
    "pairing": pairing.rows,
    "contrastive": contrastive.rows,
    "stabilisers": stabilisers.rows,
    "samplers": samplers.rows,
    "networks": networks.rows,
    "rates": rates.rows,
}
PRESETS = {
    "quick": {"updates": 200, "repeats": 2, "chains": 20_000, "splits": 2},
    "paper": {"updates": 3_000, "repeats": 5, "chains": 200_000, "splits": 10},
}


@dataclass(frozen=True)
class Settings:
    """Settings of the appendix."""

    preset: Literal["quick", "paper"] = option("quick", "quick: 200 updates, 2 repeats; paper: 3,000, 5")
    parts: str = option("", "parts, with commas between", shown="all")
    updates: int | None = option(None, "updates of every training", least=1, most=10**6)
    repeats: int | None = option(None, "trainings of every row, side by side", least=2, most=1000)
    chains: int | None = option(None, "chains of the lemma", least=1000, most=10**8)
    splits: int | None = option(None, "splits of the networks' data set", least=2, most=100)
    seed: int = option(0, "seed of everything random", least=0, most=2**31 - 10)

    def __post_init__(self):
        check_settings(self)
        fill_preset(self, PRESETS)
        listed(self.parts, PARTS, "A part")

    @property
    def chosen(self) -> list[str]:
        """The parts to run."""
        return listed(self.parts, PARTS, "A part") or list(PARTS)

    @property
    def sizes(self) -> Sizes:
        """How long everything runs."""
        return Sizes(*(getattr(self, name) for name in Sizes._fields))


def run(settings: Settings, out: str | Path, progress: bool | None = None) -> dict[str, Any]:
    """Measure the parts asked for and write ``appendix.jsonl``.

    Args:
        settings: of the appendix.
        out: a folder; the rows that it has of the same parts are made anew.
        progress: False prints nothing.
    """
    path, started = Path(out) / "appendix.jsonl", time.perf_counter()
    for part in settings.chosen:
        begun = time.perf_counter()
        made = PARTS[part](settings.sizes)
        given = {name: value for name, value in asdict(settings).items() if name != "parts"}
        source = provenance(given, settings.seed, time.perf_counter() - begun)
        files.keep_rows(path, lambda row, part=part: row["kind"] != part)
        write_rows(path, [{"kind": part, **row, **source} for row in made])
        if progress is not False:
            print(f"{part}: {len(made)} rows in {source['seconds']:.0f} s", flush=True)
    seconds = time.perf_counter() - started
    return {
        "experiment": "appendix",
        "parts": settings.chosen,
        **provenance(settings, settings.seed, seconds),
    }
