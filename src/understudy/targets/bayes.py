"""Posteriors of Bayesian networks as targets over one flat vector of weights."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import paramax
from jax.scipy.special import entr, logsumexp, xlogy
from jax.scipy.stats import norm
from jaxtyping import Array, ArrayLike, Float, Int, Scalar

from understudy.checks import function, not_negative, number, one_of, positive, shown, sizes, whole
from understudy.core import Condition, IngredientError, Key, Target
from understudy.networks import join_layers, layers_size, split_layers


class Prediction(NamedTuple):
    """What a set of weights says together about every row.

    Attributes:
        mean: of the label: the probability of class 1, of every class, or the mean of a number.
        entropy: of the label in nats; of a number, that of the Gaussian with its mean and variance.
        deviation: standard deviation of the label (of the indicator of every class).
        log_likelihood: of the labels, where they were given: log of the mean density over draws.
    """

    mean: Float[Array, "m ..."]
    entropy: Float[Array, " m"]
    deviation: Float[Array, "m ..."]
    log_likelihood: Float[Array, " m"] | None = None


class BayesianNetwork(Target):
    """The posterior of a network's weights: N(z; 0, s^2 I) prod_i p(y_i | f_z(x_i)).

    The condition x is None for all the data, or indices of the rows of a minibatch, whose
    log-likelihood is scaled by N / n. Weights and biases share the prior. Data are leaves, so the
    posteriors of several data sets of one size are one ``vmap``.

    Reference: Neal, "Bayesian Learning for Neural Networks", 1996.

    Args:
        features: one row per datum, scaled beforehand.
        labels: 0 or 1; a class, counted from 0; or a number; as ``likelihood`` says.
        hidden: widths of the hidden layers; () is a linear model.
        likelihood: "binary" (one logit), "categorical" (a logit per class) or "gaussian".
        activation: between layers.
        prior_scale: s, the standard deviation of every weight.
        noise: standard deviation of the labels around the network, for "gaussian".
        weights: of the rows, in the log-likelihood; a zero leaves a row out.
        classes: number of classes, for "categorical".

    Examples:
        >>> import numpy as np
        >>> from understudy.targets import BayesianNetwork
        >>> x = np.random.default_rng(0).normal(size=(20, 3))
        >>> BayesianNetwork(x, (x[:, 0] > 0).astype(int), hidden=(5,)).dim
        26
    """

    features: Float[Array, "n p"]
    labels: Array
    weights: Float[Array, " n"]
    prior_scale: Float[Array, ""]
    noise: Float[Array, ""]
    widths: tuple[int, ...] = eqx.field(static=True)
    likelihood: str = eqx.field(static=True)
    activation: Callable = eqx.field(static=True)
    dim: int = eqx.field(static=True)

    def __init__(
        self,
        features: ArrayLike,
        labels: ArrayLike,
        hidden: Sequence[int] = (50,),
        likelihood: str = "binary",
        *,
        activation: Callable = jax.nn.relu,
        prior_scale: ArrayLike = 1.0,
        noise: ArrayLike = 1.0,
        weights: ArrayLike | None = None,
        classes: int = 2,
    ):
        features, labels = number("features", features), number("labels", labels)
        _check_rows(features, labels)
        self.likelihood = one_of("likelihood", ("binary", "categorical", "gaussian"), likelihood)
        classes = whole("classes", classes, least=2)
        outputs = classes if likelihood == "categorical" else 1
        _check_labels(labels, likelihood, outputs)
        self.widths = (features.shape[1], *sizes("hidden", hidden), outputs)
        self.activation = function("activation", activation)
        self.dim = layers_size(self.shapes)
        rows = _weights_of_rows(weights, labels)
        frozen = (features, labels, rows, positive("prior_scale", prior_scale), positive("noise", noise))
        names = ("features", "labels", "weights", "prior_scale", "noise")
        for name, leaf in zip(names, frozen, strict=True):
            setattr(self, name, paramax.non_trainable(leaf))

    @property
    def shapes(self) -> list[tuple[int, int]]:
        """(inputs, outputs) of every layer."""
        return list(zip(self.widths[:-1], self.widths[1:], strict=True))

    def log_density(self, z: Float[Array, " d"], x: Condition = None) -> Scalar:
        """Log prior plus the log-likelihood of the rows ``x``, scaled to all the data."""
        one = paramax.unwrap(self)
        features, labels, weights, scale = one.features, one.labels, one.weights, 1.0
        if x is not None:
            features, labels, weights = features[x], labels[x], weights[x]
            scale = one.labels.shape[0] / labels.shape[0]
        values = one.log_likelihood(one.outputs(z, features), labels)
        return norm.logpdf(z, 0.0, one.prior_scale).sum() + scale * jnp.sum(weights * values)

    def outputs(self, z: Float[Array, " d"], features: Float[Array, "m p"]) -> Float[Array, "m o"]:
        """The network's outputs (logits or means) for every row of ``features``."""
        (weight, bias), *others = split_layers(z, self.shapes)
        h = features @ weight + bias
        for weight, bias in others:
            h = self.activation(h) @ weight + bias
        return h

    def log_likelihood(self, outputs: Float[Array, "m o"], labels: Array) -> Float[Array, " m"]:
        """Log probability (density) of every label given the network's outputs."""
        if self.likelihood == "categorical":
            chosen = jnp.take_along_axis(outputs, labels.astype(int)[:, None], 1)[:, 0]
            return chosen - logsumexp(outputs, axis=1)
        if self.likelihood == "binary":
            return -jax.nn.softplus(jnp.where(labels > 0.5, -1.0, 1.0) * outputs[:, 0])
        return norm.logpdf(labels, outputs[:, 0], paramax.unwrap(self.noise))

    def tempered(self, temperature: ArrayLike) -> "BayesianNetwork":
        """The posterior to the power 1/T: a prior as much narrower as the rows count more.

        Below 1 it is cold: networks drawn from it are surer, and on small tables often predict better.

        Reference: Wenzel et al., "How good is the Bayes posterior in deep neural networks really?",
        2020.
        """
        one, heat = paramax.unwrap(self), positive("temperature", temperature)
        leaves = one.prior_scale * jnp.sqrt(heat), one.weights / heat
        frozen = tuple(map(paramax.non_trainable, leaves))
        return eqx.tree_at(lambda network: (network.prior_scale, network.weights), self, frozen)

    def start(self, key: Key, n: int) -> Float[Array, "n d"]:
        """Weights to start from: units of variance one in every layer, no biases, within the prior."""
        one = paramax.unwrap(self)
        squares = [jnp.mean(jnp.sum(one.features**2, 1)), *self.widths[1:-1]]
        scales = [
            (jnp.full((i, o), 1 / jnp.sqrt(jnp.maximum(square, 1e-12))), jnp.zeros(o))
            for (i, o), square in zip(self.shapes, squares, strict=True)
        ]
        scale = jnp.minimum(join_layers(scales), one.prior_scale)
        return scale * jax.random.normal(key, (n, self.dim))

    def minibatches(self, size: int) -> "RandomRows":
        """Conditions for ``train``: ``size`` rows at random, as one minibatch posterior."""
        rows = paramax.unwrap(self.labels).shape[0]
        return RandomRows(rows, whole("size", size))

    def predict(
        self,
        draws: Float[Array, "k d"],
        features: ArrayLike,
        labels: ArrayLike | None = None,
        batch: int = 64,
    ) -> Prediction:
        """The mean prediction over draws of the weights, ``batch`` draws at a time.

        Args:
            draws: of the posterior, or of a student.
            features: rows to predict, scaled like the training rows.
            labels: their labels, to have the log-likelihood.
            batch: draws in memory at once.
        """
        features = number("features", features)
        if features.ndim != 2 or features.shape[1] != self.widths[0]:
            raise IngredientError(
                f"features to predict have {self.widths[0]} columns; shape {features.shape} came."
            )
        outputs = jax.lax.map(partial(self.outputs, features=features), draws, batch_size=batch)
        mean, variance, entropy = self._moments(outputs)
        if labels is None:
            return Prediction(mean, entropy, jnp.sqrt(variance))
        labels = number("labels", labels)
        values = jax.vmap(lambda out: self.log_likelihood(out, labels))(outputs)
        log_mean = logsumexp(values, axis=0) - jnp.log(draws.shape[0])
        return Prediction(mean, entropy, jnp.sqrt(variance), log_mean)

    def _moments(self, outputs: Float[Array, "k m o"]) -> tuple[Array, Array, Array]:
        if self.likelihood == "gaussian":
            mean = outputs.mean(0)[:, 0]
            variance = outputs.var(0)[:, 0] + paramax.unwrap(self.noise) ** 2
            return mean, variance, 0.5 * jnp.log(2 * jnp.pi * jnp.e * variance)
        if self.likelihood == "binary":
            mean = jax.nn.sigmoid(outputs[..., 0]).mean(0)
            return mean, mean * (1 - mean), entr(mean) - xlogy(1 - mean, 1 - mean)
        mean = jax.nn.softmax(outputs).mean(0)
        return mean, mean * (1 - mean), entr(mean).sum(-1)


class RandomRows(eqx.Module):
    """Indices of ``size`` rows out of ``rows``, drawn with replacement, as one condition."""

    rows: int = eqx.field(static=True)
    size: int = eqx.field(static=True)

    def __call__(self, key: Key) -> Int[Array, "1 n"]:
        """One minibatch."""
        return jax.random.randint(key, (1, self.size), 0, self.rows)


def logistic_regression(
    features: ArrayLike, labels: ArrayLike, prior_scale: ArrayLike = 1.0
) -> BayesianNetwork:
    """Bayesian logistic regression, y ~ Bernoulli(sigmoid(w x + b)); the last weight is b.

    Examples:
        >>> import numpy as np
        >>> from understudy.targets import logistic_regression
        >>> x = np.random.default_rng(0).normal(size=(20, 3))
        >>> logistic_regression(x, (x[:, 0] > 0).astype(int)).dim
        4
    """
    return BayesianNetwork(features, labels, (), prior_scale=prior_scale)


def _weights_of_rows(weights: Any, labels: Array) -> Array:
    given = not_negative("weights", 1.0 if weights is None else weights)
    if given.shape not in {(), labels.shape}:
        raise IngredientError(
            f"weights are one number or one for every label, of shape {labels.shape}; "
            f"{shown(weights)} came."
        )
    return jnp.broadcast_to(given, labels.shape)


def _check_rows(features: Array, labels: Array) -> None:
    if features.ndim != 2 or labels.ndim != 1 or len(features) != len(labels) or not len(labels):
        raise IngredientError(
            "features have shape (n, p) and labels shape (n,), one per row; "
            f"{features.shape} and {labels.shape} came."
        )


def _check_labels(labels: Array, likelihood: str, classes: int) -> None:
    if likelihood == "gaussian" or isinstance(labels, jax.core.Tracer):
        return
    allowed = np.arange(2 if likelihood == "binary" else classes)
    if not np.isin(np.asarray(labels), allowed).all():
        raise IngredientError(
            f"Labels of a {likelihood} likelihood are {', '.join(map(str, allowed.tolist()))}; "
            f"{shown(sorted(set(labels.tolist()))[:5])} came; recode them, or choose another likelihood."
        )
