"""Several predictions made one, by what they say of validation rows."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

DOUBT, SURE = 0.1, 1e-4
FACTORS = np.linspace(0.2, 3.0, 141)


class Average(NamedTuple):
    """Several predictions made one.

    Attributes:
        mean: the probability of label 1.
        shares: how much every prediction is believed.
        slopes: what its logits are multiplied by.
    """

    mean: Float[np.ndarray, "s m"]
    shares: Float[np.ndarray, "s k"]
    slopes: Float[np.ndarray, "s k"]


def averaged(held: Sequence[Any], labels: Any, new: Sequence[Any]) -> Average:
    """Bayesian model averaging of predictions, each right but for a factor on its logits.

    All are believed alike beforehand. The factor has a Cauchy prior around 1; the labels of the
    validation rows speak by their likelihood, integrated over a grid of factors.

    Reference: Hoeting, Madigan, Raftery and Volinsky, "Bayesian model averaging: a tutorial", 1999.

    Args:
        held: predictions for the validation rows.
        labels: of these rows.
        new: the same predictions for the test rows.
    """
    made = _averaged(_logits(held), jnp.asarray(labels), _logits(new))
    return Average(*(np.asarray(leaf, np.float64) for leaf in made))


@jax.jit
def _averaged(
    held: Float[Array, "s k v"],
    labels: Float[Array, "s v"],
    new: Float[Array, "s k m"],
):
    slopes = jnp.asarray(FACTORS)[:, None, None]
    belief = -jnp.log1p(((jnp.asarray(FACTORS) - 1) / DOUBT) ** 2)[:, None]

    def one(given):
        held, labels, new = given
        logits = slopes * held
        values = belief + (labels * logits - jax.nn.softplus(logits)).sum(2)
        share = jax.nn.softmax(values.ravel()).reshape(values.shape)
        mean = jnp.einsum("gk,gkm->m", share, jax.nn.sigmoid(slopes * new))
        return mean, share.sum(0), (slopes[:, 0] * jax.nn.softmax(values, axis=0)).sum(0)

    return jax.lax.map(one, (held, labels, new))


def _logits(predictions: Sequence[Any]) -> Float[Array, "s k m"]:
    return jnp.stack([jax.scipy.special.logit(jnp.clip(p, SURE, 1 - SURE)) for p in predictions], 1)
