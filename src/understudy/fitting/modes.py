"""Modes that chains do not leave: told apart, and given their weights by draws offered between them."""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int
from scipy.cluster.hierarchy import fcluster, linkage
from scipy.special import logsumexp

from understudy.coordinates import Coordinates, Walls, fit_coordinates, fit_knots
from understudy.fitting.learning import COPULA, Candidate
from understudy.students import Mixture

_DIRECTIONS = 3
_APART = 1.5
_LEAST, _MOST = 3, 8


class Candidates(NamedTuple):
    """A mixture of candidates, one for each mode.

    Attributes:
        parts: the students.
        weights: their probabilities.
        coordinates: of all draws together.
        name: of its kind.
    """

    parts: tuple[Candidate, ...]
    weights: Float[np.ndarray, " k"]
    coordinates: Coordinates
    name: str = "mixture of Gaussian copulas"

    @property
    def student(self) -> Mixture:
        """As an ingredient."""
        return Mixture([part.student for part in self.parts], jnp.asarray(self.weights))

    def draw(
        self, seed: int, n: int, wide: bool = False
    ) -> tuple[Float[np.ndarray, "n d"], Float[np.ndarray, " n"]]:
        """Draws z and their log densities; wide ones, of longer tails, to be offered to chains."""
        branch = np.random.default_rng(seed).choice(len(self.parts), n, p=self.weights)
        every = np.stack([part.draw(seed + 31 * k, n, wide)[0] for k, part in enumerate(self.parts)])
        z = every[branch, np.arange(n)]
        return z, self.log_prob(z, wide)

    def log_probs(self, z: Float[np.ndarray, "n d"], wide: bool = False) -> Float[np.ndarray, "n k"]:
        """Weighted log density of every part."""
        return np.stack([part.log_prob(z, wide) for part in self.parts], 1) + np.log(self.weights)

    def log_prob(self, z: Float[np.ndarray, "n d"], wide: bool = False) -> Float[np.ndarray, " n"]:
        """Log density at draws."""
        return np.asarray(logsumexp(self.log_probs(z, wide), 1))


def find_modes(u: Float[np.ndarray, "t m d"]) -> Int[np.ndarray, " m"]:
    """The mode of every chain, by gaps between the chains' means that their own spread cannot explain.

    Chains that mix slowly leave no gaps and count as one mode.
    """
    u = np.clip(u, -50, 50)
    means = u.mean(0)
    own = np.sqrt(np.median(u.var(0), 0)) + 1e-3
    scaled = (means - np.median(means, 0)) / own
    _, _, right = np.linalg.svd(scaled - scaled.mean(0), full_matrices=False)
    seen = scaled @ right[:_DIRECTIONS].T
    labels = fcluster(linkage(seen, "single"), _APART, "distance") - 1
    return _merged(labels, seen)


def _merged(labels: np.ndarray, seen: np.ndarray) -> np.ndarray:
    """Small clusters go to the nearest large one; the largest ones are kept and numbered."""
    names, counts = np.unique(labels, return_counts=True)
    kept = names[np.argsort(-counts)][:_MOST]
    kept = [name for name in kept if (labels == name).sum() >= _LEAST] or [kept[0]]
    centres = np.stack([seen[labels == name].mean(0) for name in kept])
    nearest = np.argmin(((seen[:, None] - centres) ** 2).sum(-1), 1)
    own = {name: i for i, name in enumerate(kept)}
    return np.array([own.get(name, near) for name, near in zip(labels, nearest, strict=True)])


def mixture(
    z: Float[np.ndarray, "n d"], labels: Int[np.ndarray, " n"], walls: Walls | None, whole: Coordinates
) -> Candidates:
    """A Gaussian copula for the draws of every mode, weighed by how many there are."""
    parts, weights = [], []
    for k in np.unique(labels):
        own = z[labels == k]
        fitted = fit_coordinates(own, walls, len(own) / 4)
        parts.append(Candidate(None, fit_knots(fitted, own), COPULA))
        weights.append(len(own) / len(z))
    return Candidates(tuple(parts), np.array(weights), whole)
