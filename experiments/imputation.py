"""Imputation of missing halves of digits: the end of section 5.3 of the paper.

Approximate Gibbs sampling with the encoders and decoders that the experiment mnist trained. For every
image and step the nearest training image, by the l1 distance, lends its label; the entropy of these
labels says how many answers the chain visits, the distance whether they still look like digits, and the
accuracy how often the answer is the true class. Two figures reward being right: the decoder's
log p(missing | observed), by annealing, and the energy score of the imputations against the truth.
"""

import dataclasses
import time
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float, Int
from matplotlib.figure import Figure

from experiments.mnist import METHODS, row_name
from experiments.mnist.course import load_trained
from experiments.options import check_settings, option
from experiments.rows import mean_and_error, provenance, write_rows
from experiments.settings import listed
from understudy import data, files
from understudy.batches import binarise
from understudy.core import Student
from understudy.evaluation import annealed_evidence, gaussian_base
from understudy.report import write_picture
from understudy.targets import LatentVariableModel, OfObserved, PartlyObserved
from understudy.teachers import hmc

MASKS = ("lower", "upper", "left", "right")
WITH_ENCODER = [name for name, method in METHODS.items() if method.encoder != "none"]
SHOWN = 12
# Stable on a trained decoder (largest curvature about 150), and far enough to cross the prior's width.
STEP, LARGEST_STEP, LEAPFROGS = 0.1, 0.5, 10
# Transitions from the prior to where half an image leads.
WARM_UP = 100


@dataclasses.dataclass(frozen=True)
class Settings:
    """Settings of the imputation."""

    runs: str = option("runs/mnist", "the folder of the experiment mnist")
    methods: str = option("VAE", "methods trained there, with semicolons between")
    masks: str = option("lower;upper;left;right", "missing halves, with semicolons between")
    steps: int = option(100, "steps of Gibbs sampling", least=1, most=10_000)
    transitions: int = option(
        0,
        "of a Hamiltonian teacher on what is observed, after every draw of the encoder",
        least=0,
        most=10_000,
    )
    power: float = option(
        1.0, "of the likelihood of what is observed, for that teacher", least=1e-4, most=1.0
    )
    per_class: int = option(10, "test images of every class", least=1, most=800)
    chains: int = option(16, "annealed, for every image and mask", least=2, most=10**4)
    rungs: int = option(200, "of every annealing", least=1, most=10**6)
    train_seed: int = option(0, "seed of the training", least=0, most=2**31 - 1)
    seed: int = option(0, "seed of the sampling", least=0, most=2**31 - 1)

    def __post_init__(self):
        check_settings(self)
        listed(self.masks, MASKS, "A mask", ";")
        listed(self.methods, WITH_ENCODER, "A method with an encoder", ";")

    @property
    def chosen_masks(self) -> list[str]:
        """The halves that are missing in turn."""
        return listed(self.masks, MASKS, "A mask", ";")

    @property
    def chosen_methods(self) -> list[str]:
        """The methods whose encoders are used."""
        return listed(self.methods, WITH_ENCODER, "A method with an encoder", ";")


def run(settings: Settings, out: str | Path, progress: bool | None = None) -> dict[str, Any]:
    """Impute with every method; ``imputation.jsonl`` and a picture for every method and mask.

    Args:
        settings: of the imputation.
        out: a folder.
        progress: not used.
    """
    del progress
    out, started = Path(out), time.perf_counter()
    digits = data.load("mnist")
    x, classes = first_of_each_class(digits, settings.per_class, settings.seed)
    found: dict[str, Any] = {}
    for name in settings.chosen_methods:
        folder = Path(settings.runs) / "runs" / str(settings.train_seed)
        trained = load_trained(folder, METHODS[name])
        assert trained.student is not None
        seen_whole = evidence(trained.model, x, None, settings)
        for mask in settings.chosen_masks:
            chains = gibbs(trained.model, trained.student, x, missing_half(mask), settings)
            labels, distances = nearest_labels(chains, digits)
            entropies = np.array([entropy(row) for row in labels])
            missing = missing_half(mask)
            rest = seen_whole - evidence(trained.model, x, ~missing, settings)
            scores = energy_scores(chains[..., missing], x[..., missing])
            label = name + _taught(settings)
            row = {
                "kind": "imputation",
                "name": f"{row_name(label, settings.train_seed)}, {mask}",
                "method": label,
                "train_seed": settings.train_seed,
                "learns_from_teacher": METHODS[name].learns_from_teacher,
                "refined": settings.transitions > 0,
                "mask": mask,
                **mean_and_error("entropy", entropies),
                "l1": float(distances.mean()),
                "accuracy": float((labels == classes[:, None]).mean()),
                **mean_and_error("log_missing", rest),
                **mean_and_error("energy_score", scores),
            }
            found[row["name"]] = row["entropy"]
            source = provenance(settings, settings.seed, time.perf_counter() - started)
            write_rows(out / "imputation.jsonl", [files.plain(row | source)])
            write_picture(picture(x, chains), out / "imputation" / f"{row['name']}.png")
    seconds = time.perf_counter() - started
    return {"experiment": "imputation", "entropy": found, **provenance(settings, settings.seed, seconds)}


def _taught(settings: Settings) -> str:
    if not settings.transitions:
        return ""
    power = f", power {settings.power:g}" if settings.power < 1 else ""
    return f" + {settings.transitions} transitions{power}"


def missing_half(name: str, size: tuple[int, int] = (28, 28)) -> Bool[np.ndarray, "h w"]:
    """True in the lower, upper, left or right half."""
    mask = np.zeros(size, bool)
    middle = (size[0] // 2, size[1] // 2)
    where: dict[str, Any] = {
        "lower": np.s_[middle[0] :, :],
        "upper": np.s_[: middle[0], :],
        "left": np.s_[:, : middle[1]],
        "right": np.s_[:, middle[1] :],
    }
    mask[where[name]] = True
    return mask


def first_of_each_class(
    digits: data.Images, count: int, seed: int
) -> tuple[Float[np.ndarray, "n h w"], Int[np.ndarray, " n"]]:
    """The first test images of every class, binarised, and their classes."""
    classes = np.unique(digits.test_labels)
    rows = np.concatenate([np.flatnonzero(digits.test_labels == c)[:count] for c in classes])
    x = binarise(jax.random.key(seed), jnp.asarray(digits.test[rows]))
    return np.asarray(x), digits.test_labels[rows]


def gibbs(
    model: LatentVariableModel,
    student: Student,
    x: Float[np.ndarray, "n h w"],
    missing: Bool[np.ndarray, "h w"],
    settings: Settings,
) -> Float[np.ndarray, "n t h w"]:
    """Every image after every step; what is missing starts as noise."""
    start, key = jax.random.split(jax.random.key(settings.seed + 1))
    noise = jax.random.bernoulli(start, 0.5, x.shape).astype(float)
    filled = jnp.where(missing, noise, x)
    count = settings.transitions
    step = min(STEP / settings.power**0.5, LARGEST_STEP)
    teacher = hmc(step, LEAPFROGS, steps=count, jitter=0.5) if count else None

    @eqx.filter_jit
    def impute(model, student, keys, x):
        def one(key, x):
            return model.impute(
                key, student, x, jnp.asarray(missing), settings.steps, teacher, settings.power
            )

        return jax.vmap(one)(keys, x)

    return np.asarray(impute(model, student, jax.random.split(key, len(x)), filled))


def nearest_labels(
    chains: Float[np.ndarray, "n t h w"], digits: data.Images
) -> tuple[Int[np.ndarray, "n t"], Float[np.ndarray, "n t"]]:
    """The label of the nearest training image at every step, and its l1 distance a pixel.

    For a binary x and grey g the distance is sum_i |x_i - g_i| = sum g + x (1 - 2 g), one product.
    """
    grey = np.concatenate([digits.train, digits.validation]).reshape(-1, chains[0, 0].size)
    labels = np.concatenate([digits.train_labels, digits.validation_labels])
    grey = jnp.asarray(grey, jnp.float32) / 255

    @jax.jit
    def nearest(x, grey):
        distance = grey.sum(1) + x @ (1 - 2 * grey).T
        return distance.argmin(1), distance.min(1) / grey.shape[1]

    found = [nearest(jnp.asarray(chain.reshape(len(chain), -1)), grey) for chain in chains]
    rows, distances = (
        np.stack([np.asarray(part) for part in parts]) for parts in zip(*found, strict=True)
    )
    return labels[rows], distances


def entropy(labels: Int[np.ndarray, " t"]) -> float:
    """Of the empirical distribution of labels, in nats."""
    shares = np.unique(labels, return_counts=True)[1] / len(labels)
    return float(-(shares * np.log(shares)).sum())


def evidence(
    model: LatentVariableModel,
    x: Float[np.ndarray, "n h w"],
    observed: Bool[np.ndarray, "h w"] | None,
    settings: Settings,
) -> Float[np.ndarray, " n"]:
    """Log p of every image, or of what is observed of it, annealed from a Gaussian fitted to chains."""
    target, given = model, jnp.asarray(x)
    if observed is not None:
        target = OfObserved(model)
        given = PartlyObserved(given, jnp.broadcast_to(observed, x.shape))
    fit, anneal = jax.random.split(jax.random.key(settings.seed + 2))
    base = gaussian_base(fit, target, given, transitions=WARM_UP)
    found = annealed_evidence(anneal, target, given, base, chains=settings.chains, rungs=settings.rungs)
    return np.asarray(found.log_evidence)


def energy_scores(
    chains: Float[np.ndarray, "n t p"], truth: Float[np.ndarray, "n p"]
) -> Float[np.ndarray, " n"]:
    """E|Y - x| - E|Y - Y'| / 2 over the second half of each chain: least for the truth's own law.

    Reference: Gneiting and Raftery, "Strictly proper scoring rules, prediction, and estimation", 2007.
    """
    scores = []
    for chain, x in zip(chains, truth, strict=True):
        draws = chain[len(chain) // 2 :]
        apart = np.linalg.norm(draws[:, None] - draws, axis=2).sum() / (len(draws) * (len(draws) - 1))
        scores.append(np.linalg.norm(draws - x, axis=1).mean() - apart / 2)
    return np.array(scores)


def picture(x: Float[np.ndarray, "n h w"], chains: Float[np.ndarray, "n t h w"]) -> Figure:
    """An image a row: the original, then the chain every two steps."""
    rows = np.linspace(0, len(x) - 1, min(10, len(x))).astype(int)
    shown = [np.concatenate([x[i], *chains[i, 1 : 2 * SHOWN : 2]], axis=1) for i in rows]
    figure = Figure(figsize=(SHOWN / 1.5, len(rows) / 1.5))
    axes = figure.add_axes((0, 0, 1, 1))
    axes.imshow(np.concatenate(shown), cmap="gray_r", vmin=0, vmax=1)
    axes.set_axis_off()
    return figure
