"""Modules saved and loaded: the same bits back, and nothing in a file runs."""

import os
import resource
import subprocess
import sys

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flowjax.bijections import RationalQuadraticSpline
from flowjax.distributions import MultivariateNormal, Normal
from flowjax.flows import coupling_flow, masked_autoregressive_flow

from tests.files.examples import Mine, Pair, assert_same, double, mine
from tests.files.test_container import sealed
from understudy import files
from understudy.files import StoreError
from understudy.files.allowed import Known
from understudy.networks import Critic, Perceptron


def test_round_trip_is_bit_identical(tmp_path):
    before = mine()
    files.save(tmp_path / "a" / "mine.safetensors", before)
    after = files.load(tmp_path / "a" / "mine.safetensors", classes=[Mine, Pair])
    partials = [module.things.pop("partial") for module in (before, after)]
    assert_same(before, after)
    assert after.activation is jax.nn.relu
    assert after.network.activation is jnp.tanh
    assert partials[0](-1.0) == partials[1](-1.0)
    assert jax.random.key_impl(after.key) == "unsafe_rbg"


def test_user_functions_and_nested_classes_need_to_be_handed_over(tmp_path):
    path = tmp_path / "mine"
    files.save(path, (mine(double), Mine.Nested(jnp.ones(1))))
    with pytest.raises(StoreError, match=r"classes=\[...\]"):
        files.load(path)
    with pytest.raises(StoreError, match=r"double.*classes=\[...\]"):
        files.load(path, classes=[Mine, Mine.Nested, Pair])
    first, second = files.load(path, classes=[Mine, Mine.Nested, Pair, double])
    assert first.activation is double
    assert type(second) is Mine.Nested


@pytest.mark.parametrize(
    "bad", [lambda x: x, type("T", (), {})(), object()], ids=["lambda", "instance", "object"]
)
def test_what_cannot_be_described_is_refused_by_field(tmp_path, bad):
    with pytest.raises(StoreError, match=r"Mine\.activation is .*; use .*nothing was written"):
        files.save(tmp_path / "mine", mine(bad))
    assert list(tmp_path.iterdir()) == []


def test_local_functions_and_classes_are_refused(tmp_path):
    def local(x):
        return x

    class Local(eqx.Module):
        a: int = 1

    for bad in (local, Local()):
        with pytest.raises(StoreError, match="made inside a function"):
            files.save(tmp_path / "mine", [bad])
    cycle = []
    cycle.append(cycle)
    with pytest.raises(StoreError, match="refers to itself"):
        files.save(tmp_path / "mine", cycle)


def flows():
    key, base = jax.random.key(0), Normal(jnp.zeros(3))
    full = MultivariateNormal(jnp.zeros(3), jnp.eye(3) + 0.5)
    spline = RationalQuadraticSpline(knots=4, interval=3)
    options = {"nn_width": 4, "nn_depth": 1, "flow_layers": 2}
    return {
        "coupling": coupling_flow(key, base_dist=base, **options),
        "spline": coupling_flow(key, base_dist=full, transformer=spline, invert=False, **options),
        "autoregressive": masked_autoregressive_flow(key, base_dist=base, **options),
    }


@pytest.mark.parametrize("name", ["coupling", "spline", "autoregressive"])
def test_flows_give_the_same_draws(tmp_path, name):
    before = flows()[name]
    files.save(tmp_path / "flow", before)
    after = files.load(tmp_path / "flow")
    draw = eqx.filter_jit(lambda flow: (z := flow.sample(jax.random.key(1), (5,)), flow.log_prob(z)))
    for x, y in zip(draw(before), draw(after), strict=True):
        np.testing.assert_array_equal(x, y)


def test_layers_round_trip(tmp_path):
    keys = jax.random.split(jax.random.key(0), 3)
    layers = (
        eqx.nn.MLP(2, 2, 3, 1, key=keys[0]),
        eqx.nn.Conv2d(1, 2, 3, key=keys[1]),
        eqx.nn.GRUCell(2, 3, key=keys[2]),
        Critic(keys[0], 2, None),
        eqx.nn.Lambda(eqx.if_array(0)),
    )
    files.save(tmp_path / "layers", layers)
    after = files.load(tmp_path / "layers")
    assert_same(layers, after)
    np.testing.assert_array_equal(layers[0](jnp.ones(2)), after[0](jnp.ones(2)))


def test_loads_in_a_fresh_process(tmp_path):
    network = Perceptron(jax.random.key(0), [2, 3, 1])
    files.save(tmp_path / "network", network)
    code = (
        "from understudy import files; import jax.numpy as jnp;"
        f"net = files.load({str(tmp_path / 'network')!r}); print(float(net(jnp.ones(2))[0]).hex())"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == float(network(jnp.ones(2))[0]).hex()


EVIL = [
    {"class": "os:system", "fields": {}},
    {"class": "builtins:eval", "fields": {}},
    {"class": "understudy.files.replacing:os.system", "fields": {}},
    {"class": "understudy.files.saving:Path", "fields": {}},
    {"class": "understudy.networks:Perceptron.__init__.__globals__", "fields": {}},
    {"class": "understudy.networks:Perceptron", "fields": {"__class__": 1}},
    {"class": "understudy.__main__:main", "fields": {}},
    {"class": "understudy_evil:Perceptron", "fields": {}},
    {"class": "understudy.nowhere:Perceptron", "fields": {}},
    {"class": "understudy.networks:flat", "fields": {}},
    {"class": 3, "fields": {}},
    {"function": "os:system"},
    {"function": "builtins:eval"},
    {"function": "jax.numpy:save"},
    {"function": "jax.numpy:np.save"},
    {"function": "jax.numpy:__builtins__"},
    {"function": "jax.nn:__loader__"},
    {"function": "jax._src.numpy.vectorize:functools"},
    {"function": "understudy.files.saving:save"},
    {"function": "understudy.networks:jax"},
    {"function": "understudy.networks:jax.numpy.save"},
    {"function": "understudy.core:partial"},
    {"function": "equinox:tree_serialise_leaves"},
    {"partial": [{"function": "os:system"}, {"tuple": ["true"]}, {"dict": []}], "tree": False},
    {"closure": "subprocess:run", "index": 0, "cells": {}, "defaults": [None, None]},
    {
        "closure": "understudy.core:bind.<locals>.<lambda>",
        "index": 7,
        "cells": {},
        "defaults": [None, None],
    },
    {"unknown": 1},
    {"array": 5},
    {"key": 0, "impl": "none"},
]


@pytest.mark.parametrize("node", EVIL, ids=str)
def test_malicious_descriptions_are_refused(tmp_path, node, monkeypatch):
    monkeypatch.setattr(os, "system", lambda command: pytest.fail("the file ran a command"))
    files.write(tmp_path / "evil", {}, {"module": [node]})
    with pytest.raises(StoreError, match="cannot be loaded"):
        files.load(tmp_path / "evil")


def test_float64_is_never_cut_down_in_silence(tmp_path):
    files.write(tmp_path / "f", {"0": np.ones(2)}, {"module": {"array": 0}})
    with pytest.raises(StoreError, match="jax_enable_x64"):
        files.load(tmp_path / "f")


RUNS = [
    {"function": "jax.numpy:set_printoptions"},
    {"function": "jax.numpy:fromfile"},
    {"function": "jax.numpy:vectorize"},
    {"function": "jax.lax:infeed"},
    {"dict": [[{"class": "equinox.nn:Identity", "fields": {}}, 1]]},
    {"set": [{"tuple": [[]]}]},
    {"class": "understudy.cli.main:Command", "fields": {}},
    {"class": "equinox.internal:while_loop", "fields": {}},
    {},
    {"dtype": ["float32"]},
]


@pytest.mark.parametrize("node", RUNS, ids=str)
def test_what_is_not_on_the_list_is_refused(tmp_path, node):
    files.write(tmp_path / "evil", {}, {"module": [node]})
    with pytest.raises(StoreError, match="cannot be loaded"):
        files.load(tmp_path / "evil")


def test_an_array_named_many_times_is_refused_before_it_is_copied(tmp_path):
    big = np.zeros(2_500_000, np.float32)
    files.write(tmp_path / "f", {"0": big}, {"module": [{"array": 0}] * 400})
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(StoreError, match="named before"):
        files.load(tmp_path / "f")
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200_000


def test_a_deep_description_gets_a_sentence(tmp_path):
    for depth in (700, 50_000):
        text = '{"module": ' + "[" * depth + "]" * depth + "}"
        (tmp_path / "f").write_bytes(sealed({"__metadata__": {"description": text}}, b""))
        with pytest.raises(StoreError, match=r"cannot be loaded|does not write"):
            files.load(tmp_path / "f")


@pytest.mark.parametrize(
    ("classes", "words"),
    [
        ([5], "5 came"),
        (5, "classes is a list"),
        ("Mine", "classes is a list"),
        (Mine, "classes is a list"),
        ([Mine, None], "None came"),
        ([len, "x"], "'x' came"),
    ],
)
def test_classes_that_are_none_get_a_sentence(classes, words):
    with pytest.raises(StoreError, match=words):
        Known(classes)


def test_a_function_that_the_file_does_not_name_is_not_ignored(tmp_path):
    files.save(tmp_path / "f", jnp.ones(2))
    with pytest.raises(StoreError, match="double, which it does not name"):
        files.load(tmp_path / "f", classes=[double])
    files.load(tmp_path / "f", classes=[Mine])
