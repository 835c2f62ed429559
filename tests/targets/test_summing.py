"""Discrete latents of NumPyro models are summed out: held against sums written by hand."""

import importlib.util

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import pytest
from numpyro import distributions as dist
from numpyro.contrib.control_flow import scan

from understudy import IngredientError, fit, from_numpyro, load

pytest.importorskip("funsor", reason="the extra understudy[discrete] is not installed")

Y = np.array([-2.1, -1.7, 2.4, -2.6, 1.8, -1.2, 2.2])
PLACES = jnp.array([-2.0, 2.0])


def labelled(y):
    share = numpyro.sample("share", dist.Beta(2, 2))
    mu = numpyro.sample("mu", dist.Normal(PLACES, 1).to_event(1))
    numpyro.deterministic("gap", mu[1] - mu[0])
    with numpyro.plate("rows", len(y)):
        label = numpyro.sample("label", dist.Bernoulli(share))
        numpyro.deterministic("place", mu[label])
        numpyro.sample("y", dist.Normal(mu[label], 1), obs=y)


def summed_by_hand(y):
    share = numpyro.sample("share", dist.Beta(2, 2))
    mu = numpyro.sample("mu", dist.Normal(PLACES, 1).to_event(1))
    weights = dist.Categorical(jnp.stack([1 - share, share]))
    with numpyro.plate("rows", len(y)):
        numpyro.sample("y", dist.MixtureSameFamily(weights, dist.Normal(mu, 1)), obs=y)


def hidden_markov(y):
    stay = numpyro.sample("stay", dist.Beta(2, 2).expand([2]).to_event(1))
    moves = jnp.array([[stay[0], 1 - stay[0]], [1 - stay[1], stay[1]]])

    def step(state, y):
        state = numpyro.sample("state", dist.Categorical(moves[state]))
        numpyro.sample("y", dist.Normal(PLACES[state], 1), obs=y)
        return state, None

    scan(step, 0, y)


def forward(z):
    """The same log density by the forward recursion."""
    stay = jax.nn.sigmoid(z)
    moves = jnp.array([[stay[0], 1 - stay[0]], [1 - stay[1], stay[1]]])
    likely = jnp.array([1.0, 0.0])
    for y in Y:
        likely = (likely @ moves) * jnp.exp(dist.Normal(PLACES, 1).log_prob(y))
    prior = dist.Beta(2, 2).log_prob(stay) + jnp.log(stay) + jnp.log1p(-stay)
    return jnp.log(likely.sum()) + prior.sum()


def grid(d):
    return jnp.asarray(np.random.default_rng(0).normal(size=(8, d)), float)


def test_labels_are_summed_out():
    ours, by_hand = from_numpyro(labelled, Y), from_numpyro(summed_by_hand, Y)
    assert ours.dim == by_hand.dim == 3
    for value in (lambda target: target.log_density, lambda target: jax.grad(target.log_density)):
        pairs = [np.asarray(jax.vmap(value(target))(grid(3))) for target in (ours, by_hand)]
        np.testing.assert_allclose(*pairs, rtol=1e-4, atol=1e-4)


def test_states_of_a_series_are_summed_out():
    target = from_numpyro(hidden_markov, Y)
    found = np.asarray(jax.vmap(target.log_density)(grid(2)))
    np.testing.assert_allclose(found, np.asarray(jax.vmap(forward)(grid(2))), rtol=1e-4)


def test_what_depends_on_a_label_is_not_given():
    assert set(from_numpyro(labelled, Y).constrain(jnp.zeros(3))) == {"share", "mu", "gap"}


def test_a_posterior_without_its_labels_goes_every_way(tmp_path):
    result = fit(from_numpyro(labelled, Y), budget=20, flows=False, verbose=False)
    draws = result.sample(0, 20_000)
    by_hand = fit(from_numpyro(summed_by_hand, Y), budget=20, flows=False, verbose=False).sample(
        0, 20_000
    )
    for name in ("share", "mu"):
        np.testing.assert_allclose(draws[name].mean(0), by_hand[name].mean(0), atol=0.05)
    assert result.predict(0)["y"].shape[-1] == len(Y)
    groups = set(result.to_arviz(0, n=200).children)
    assert {"posterior", "posterior_predictive"} <= groups
    assert "log_likelihood" not in groups
    path = result.save(tmp_path / "mixture.safetensors")
    again = load(path or tmp_path / "mixture.safetensors").restored({"labelled": labelled})
    np.testing.assert_allclose(again.sample(1, 5)["mu"], result.sample(1, 5)["mu"])


def test_without_funsor_a_sentence_says_how_to_get_it(monkeypatch):
    found = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: (name != "funsor" and found(name)) or None
    )
    with pytest.raises(IngredientError, match=r"pip install 'understudy\[discrete\]'"):
        from_numpyro(labelled, Y)


@pytest.mark.parametrize("rows", [2, 3])
def test_rows_outside_a_plate_get_a_sentence(rows):
    def model(y):
        mu = numpyro.sample("mu", dist.Normal(0, 1))
        label = numpyro.sample("label", dist.Bernoulli(0.5))
        numpyro.sample("y", dist.Normal(mu + label, 1), obs=y)

    with pytest.raises(
        IngredientError, match=r"put data and sites that are repeated into a numpyro\.plate"
    ):
        from_numpyro(model, Y[:rows])
