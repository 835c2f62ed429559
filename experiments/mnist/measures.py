"""Test likelihoods of a trained decoder, on the same images for every method."""

from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from jaxtyping import Array, Float, UInt8

from understudy.batches import binarise
from understudy.core import ExplicitStudent
from understudy.evaluation import (
    annealed_evidence,
    bidirectional,
    gaussian_base,
    importance_weighted,
)
from understudy.targets import LatentVariableModel

IMAGES_SEED, NOISE_SEED, FEW, SIMULATED = 20, 21, 10, 64


@dataclass(frozen=True)
class Sizes:
    """How much is spent on measuring.

    Attributes:
        iw_images: images whose likelihood is estimated by importance sampling.
        iw_samples: draws for each.
        hais_images: images annealed, the first of the same order.
        hais_chains: chains for each.
        hais_rungs: intermediate distributions.
    """

    iw_images: int
    iw_samples: int
    hais_images: int
    hais_chains: int
    hais_rungs: int


def test_images(pixels: UInt8[np.ndarray, "n h w"], count: int) -> Float[Array, "m h w"]:
    """Images in a random order that is always the same, binarised once."""
    order = np.random.default_rng(IMAGES_SEED).permutation(len(pixels))[:count]
    # Every image has a key of its own, so that asking for more images does not change the first ones.
    keys = jax.random.split(jax.random.key(NOISE_SEED), len(pixels))[:count]
    return jax.vmap(binarise)(keys, jax.numpy.asarray(pixels[order]))


def measure(
    model: LatentVariableModel,
    proposal: ExplicitStudent,
    pixels: UInt8[np.ndarray, "n h w"],
    sizes: Sizes,
) -> tuple[dict[str, Any], Float[np.ndarray, " m"]]:
    """The figures of a row, and the annealed log-likelihood of every image.

    Images differ by far more than methods do, so the importance-weighted figure is a difference
    estimate for all test images: those that have many draws say what these add to a few draws. The gap
    is between annealing forth and back on images that the model simulated: the truth lies within.
    """
    iw_key, base_key, hais_key, few_key = jax.random.split(jax.random.key(NOISE_SEED + 1), 4)
    gap_key = jax.random.key(NOISE_SEED + 2)
    x = test_images(pixels, len(pixels))
    weighted = importance_weighted(iw_key, model, proposal, x[: sizes.iw_images], sizes.iw_samples)
    few = importance_weighted(few_key, model, proposal, x, FEW, chunk=FEW).log_evidence
    added = np.asarray(weighted.log_evidence - few[: sizes.iw_images])
    some = x[: sizes.hais_images]
    base = gaussian_base(base_key, model, some, proposal)
    annealed = annealed_evidence(
        hais_key, model, some, base, chains=sizes.hais_chains, rungs=sizes.hais_rungs
    )
    values = np.asarray(annealed.log_evidence)
    simulated = min(SIMULATED, sizes.hais_images)
    bounds = bidirectional(
        gap_key, model, simulated, proposal, chains=sizes.hais_chains, rungs=sizes.hais_rungs
    )
    gaps = np.asarray(bounds.upper - bounds.lower)
    iw_of_same = np.asarray(weighted.log_evidence)[: sizes.hais_images]
    row = {
        "iw_ll": float(few.mean() + added.mean()),
        "iw_se": float(added.std() / np.sqrt(len(added))),
        "iw_ll_of_images": float(weighted.log_evidence.mean()),
        "iw_ess": float(weighted.effective.mean()),
        "hais_ll": float(values.mean()),
        "hais_se": float(values.std(ddof=1) / np.sqrt(len(values))),
        "hais_ess": float(annealed.effective.mean()),
        "iw_ll_of_hais_images": float(iw_of_same.mean()),
        "gap": float(gaps.mean()),
        "gap_se": float(gaps.std(ddof=1) / np.sqrt(len(gaps))),
    }
    return row, values
