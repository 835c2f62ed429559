"""Tables of the generative models: likelihoods beside the paper, differences to the VAE, imputation."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from understudy import files

Row = Mapping[str, Any]

# Tables 2 and 3 of the paper: IW-LL, IW-ESS, HAIS-LL, HAIS-ESS; entropy and l1 distance.
PAPER = {
    "VAE": (-81.31, 104.11, -80.64, 91.59),
    "MCMC-VI, T=5, eta=0.2": (-90.06, 110.58, -89.79, 85.63),
    "AMC Gaussian, T=5, eta=0.2": (-90.71, 49.02, -89.64, 87.93),
    "AMC CNN-G, T=5, eta=0.2": (-90.84, 31.60, -89.35, 87.49),
    "AMC CNN-G, T=50, eta=0.02": (-83.30, 6.84, -78.23, 77.78),
    "AVB CNN-G": (-94.97, 11.30, -85.92, 57.21),
    "AMC CNN-B, T=5, eta=0.2": (-90.75, 34.17, -89.42, 88.10),
    "AMC CNN-B, T=50, eta=0.02": (-83.62, 8.88, -80.03, 80.71),
    "AVB CNN-B": (-89.47, 8.98, -82.66, 76.90),
    "persistent MCMC, T=50, eta=0.02": (-84.43, 9.14, -78.88, 77.29),
}
PAPER_IMPUTATION = {"VAE": (0.411, 0.061), "CNN-G": (0.701, 0.059), "CNN-B": (0.933, 0.064)}

TAUGHT = "encoder learns from its teacher"
LIKELIHOODS = (
    *("row", "encoder", TAUGHT, "paper's IW-LL", "paper's HAIS-LL", "updates", "IW-LL", "IW-ESS"),
    *("HAIS-LL", "HAIS-ESS"),
)
DIFFERENCES = ("method", TAUGHT, "trainings", "HAIS-LL less the VAE's, paired over images")
SHORT = (
    "row",
    "encoder",
    TAUGHT,
    "eps of a step",
    "paper's HAIS-LL less its VAE's",
    "updates",
    "HAIS-LL less the VAE's",
)
EPS = {"eta": "eta", "root": "eta^2 / 2"}
IMPUTATION = (
    *("method", TAUGHT, "chains at prediction", "mask", "entropy", "l1 distance", "true class"),
    *("log p(missing, given the rest)", "energy score"),
)


def likelihoods(results: Path) -> list[Sequence[str]]:
    """Every row beside the paper's."""
    return [_likelihood(row) for row in files.read_rows(results / "mnist.jsonl")]


def _likelihood(row: Row) -> Sequence[str]:
    paper = PAPER.get(row["method"])
    theirs = ("", "") if paper is None else (f"{paper[0]:.2f}", f"{paper[2]:.2f}")
    return (
        row["name"],
        row["encoder"],
        _taught(row),
        *theirs,
        f"{row['updates']:,}",
        f"{row['iw_ll']:.2f}",
        f"{row['iw_ess']:.1f}",
        f"{row['hais_ll']:.2f} ± {row['hais_se']:.2f}",
        f"{row['hais_ess']:.1f}",
    )


def _taught(row: Row) -> str:
    return "yes" if row["learns_from_teacher"] else "no"


def differences(results: Path) -> list[Sequence[str]]:
    """Every method against the VAE of the same seed, on the same images."""
    taught = {row["method"]: _taught(row) for row in files.read_rows(results / "mnist.jsonl")}
    return [
        (method, taught[method], str(trainings), f"{mean:+.2f} ± {error:.2f}")
        for method, (mean, error, trainings) in paired(results).items()
    ]


def paired(results: Path) -> dict[str, tuple[float, float, int]]:
    """Mean difference to the VAE, its standard error over images, and the number of trainings."""
    rows, base = _with_values(results), _of_vae(results)
    found: dict[str, list[np.ndarray]] = {}
    for row, values in rows:
        if row["method"] != "VAE" and row["train_seed"] in base:
            found.setdefault(row["method"], []).append(values - base[row["train_seed"]])
    return {method: (*_mean(np.mean(apart, 0)), len(apart)) for method, apart in found.items()}


def short(results: Path) -> list[Sequence[str]]:
    """Every method of the paper for a short time, in both readings of its eta, against one VAE."""
    return _against_vae(*(results / f"short_{reading}" for reading in EPS))


def short_loops(results: Path) -> list[Sequence[str]]:
    """Encoders that learn from their teacher and a bound, for a short time, against their own VAE."""
    return _against_vae(results / "short_loops")


def _against_vae(*folders: Path) -> list[Sequence[str]]:
    """Every row of the folders against the VAE of the first."""
    base = _of_vae(folders[0])
    both = (pair for folder in folders for pair in _with_values(folder))
    return [_short(row, values - base[row["train_seed"]]) for row, values in both]


def _short(row: Row, apart: np.ndarray) -> Sequence[str]:
    paper, (mean, error) = PAPER.get(row["method"]), _mean(apart)
    return (
        row["method"],
        row["encoder"],
        _taught(row),
        EPS[row["settings"]["eta"]] if "eta" in row["method"] else "",
        "" if paper is None else f"{paper[2] - PAPER['VAE'][2]:+.2f}",
        f"{row['updates']:,}",
        "" if row["method"] == "VAE" else f"{mean:+.2f} ± {error:.2f}",
    )


def _with_values(folder: Path) -> list[tuple[Row, np.ndarray]]:
    """Every row with the annealed log-likelihoods of its images."""
    rows = files.read_rows(folder / "mnist.jsonl")
    values = np.load(folder / "mnist_hais.npz") if rows else {}
    return [(row, values[row["name"]]) for row in rows]


def _of_vae(folder: Path) -> dict[int, np.ndarray]:
    """The VAE's log-likelihoods, for every training seed."""
    return {row["train_seed"]: v for row, v in _with_values(folder) if row["method"] == "VAE"}


def _mean(numbers: np.ndarray) -> tuple[float, float]:
    return float(numbers.mean()), float(numbers.std(ddof=1) / len(numbers) ** 0.5)


def imputations(results: Path) -> list[Sequence[str]]:
    """Label entropy and distance after Gibbs sampling, the paper's first."""
    paper = [
        (f"{name} (paper)", "", "", "", f"{entropy:.3f}", f"{distance:.3f}", *[""] * 3)
        for name, (entropy, distance) in PAPER_IMPUTATION.items()
    ]
    rows = files.read_rows(results / "imputation.jsonl")
    ours = [
        (
            *(r["name"].removesuffix(f", {r['mask']}"), _taught(r)),
            *("refined" if r["refined"] else "none", r["mask"]),
            f"{r['entropy']:.3f} ± {r['entropy_se']:.3f}",
            *(f"{r['l1']:.3f}", f"{r['accuracy']:.2f}"),
            *(_with_error(r, name) for name in ("log_missing", "energy_score")),
        )
        for r in rows
    ]
    return [*paper, *ours]


def _with_error(row: Row, name: str) -> str:
    return f"{row[name]:.2f} ± {row[name + '_se']:.2f}" if name in row else ""
