"""A two-sample classifier: can draws of the student be told from refined draws?"""

from itertools import pairwise

import numpy as np
from jaxtyping import Float
from scipy.special import ndtri
from scipy.stats import norm

from understudy.evaluation.trust.findings import Finding, Verdict
from understudy.evaluation.trust.gap import uniform_ranks
from understudy.evaluation.trust.moves import Moved
from understudy.numerics import whitening

FOLDS = 5
RANDOM = 96
_PRODUCTS_UP_TO = 14
_RIDGE = 0.03
# Folds share training draws, so accuracy spreads 1.2 to 1.5 times as far as coin tosses (measured).
_SPREAD = 1.4


def classifier(seed: int, moved: Moved, level: float, tolerance: float = 0.02) -> Finding:
    """Held-out accuracy of a regularised classifier on nonlinear features.

    Half the draws are the student's, the other half are refined from other draws of the student, so that
    all are independent. The classifier is linear in scores, their squares and products, and random tanh
    features; ridge regression has a closed form.

    Reference: Lopez-Paz and Oquab, "Revisiting Classifier Two-Sample Tests", 2017.
    """
    half = len(moved.before) // 2
    z = np.concatenate([moved.before[:half], moved.after[half : 2 * half]])
    label = np.repeat([-1.0, 1.0], half)
    generator = np.random.default_rng(seed)
    order = generator.permutation(2 * half)
    features = _features(generator, whitening(z).whiten(z))[order]
    score = _held_out(features, label[order])
    accuracy = float(((score > 0) == (label[order] > 0)).mean())
    error = _SPREAD * 0.5 / np.sqrt(2 * half)
    critical = norm.isf(level)
    verdict: Verdict = "warn" if accuracy - 0.5 > critical * error else "ok"
    if accuracy - 0.5 - tolerance > critical * error:
        verdict = "fail"
    chance = f"{accuracy:.3f} of student and refined draws told apart; guessing gives 0.5 +- {error:.3f}"
    rest = {"ok": "", "warn": "; seen, but small", "fail": "; they differ: use refine() or train longer"}
    low, high = np.quantile(score, [0.005, 0.995])
    edges = np.linspace(low, high, 31)
    counts = [np.histogram(score[label[order] == sign], edges)[0] for sign in (-1, 1)]
    pictures = {"edges": edges, "student": counts[0], "refined": counts[1]}
    return Finding("classifier", verdict, accuracy, chance + rest[verdict], pictures)


def _features(generator: np.random.Generator, u: Float[np.ndarray, "m d"]) -> Float[np.ndarray, "m f"]:
    s = ndtri(uniform_ranks(u))
    d = s.shape[1]
    directions = generator.normal(size=(d, RANDOM)) / np.sqrt(d)
    tanh = np.tanh(1.5 * s @ directions + generator.normal(size=RANDOM))
    parts = [s, s**2, s**3, tanh]
    if 1 < d <= _PRODUCTS_UP_TO:
        i, j = np.triu_indices(d, 1)
        parts.append(s[:, i] * s[:, j])
    both = np.concatenate(parts, 1)
    both = (both - both.mean(0)) / np.maximum(both.std(0), 1e-12)
    return np.concatenate([both, np.ones((len(both), 1))], 1)


def _held_out(features: Float[np.ndarray, "m f"], label: Float[np.ndarray, " m"]) -> np.ndarray:
    m, f = features.shape
    gram, moment = features.T @ features, features.T @ label
    score = np.empty(m)
    for start, stop in pairwise(np.linspace(0, m, FOLDS + 1).astype(int)):
        test = features[start:stop]
        left = gram - test.T @ test + _RIDGE * m * np.eye(f)
        score[start:stop] = test @ np.linalg.solve(left, moment - test.T @ label[start:stop])
    return score
