import functools
import os
import subprocess
import sys
import warnings
from collections.abc import Callable
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import paramax
import pytest
import safetensors.numpy
from flowjax.bijections import RationalQuadraticSpline
from flowjax.distributions import MultivariateNormal, Normal
from flowjax.flows import coupling_flow, masked_autoregressive_flow

from understudy import files
from understudy.files.saving import StoreError
from understudy.networks import Critic, Perceptron


class Pair(NamedTuple):
    first: object
    second: object


def double(x):
    return 2 * x


class Mine(eqx.Module):
    network: Perceptron
    rate: jax.Array
    key: jax.Array
    things: dict
    activation: Callable = eqx.field(static=True)
    frozen: object = None

    class Nested(eqx.Module):
        a: jax.Array


def mine(activation=jax.nn.relu):
    key = jax.random.key(3, impl="unsafe_rbg")
    things = {
        "bfloat16": jnp.arange(4, dtype=jnp.bfloat16) / 3,
        "float8": jnp.arange(3, dtype=jnp.float8_e4m3fn),
        "int4": jnp.arange(3, dtype=jnp.int4),
        "scalar": jnp.asarray(0.25),
        "weak": jnp.broadcast_to(jnp.asarray(0.5), (2, 3)),
        "numpy": np.arange(6.0).reshape(2, 3).T,
        "numpy scalar": np.float64(1 / 3),
        "empty": jnp.zeros((0, 2)),
        "complex": np.array([1 + 2j]),
        "keys": jax.random.split(jax.random.key(1), 3),
        "tuple keys": {(1, "a"): jnp.ones(1)},
        "plain": [1, True, None, 0.1, "text", float("inf"), 2j, (), (1, (2,))],
        "partial": functools.partial(jax.nn.leaky_relu, negative_slope=0.3),
        "slice": slice(1, None, 2),
        "dtype": np.dtype("bfloat16"),
        "pair": Pair(1, jnp.ones(2)),
        "set": frozenset({1}),
    }
    network = Perceptron(jax.random.key(0), [2, 3, 1], jnp.tanh)
    return Mine(network, jnp.asarray(0.1), key, things, activation, paramax.non_trainable(jnp.ones(2)))


def assert_same(a, b):
    assert jax.tree.structure(a) == jax.tree.structure(b)
    for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True):
        assert type(x) is type(y)
        if files._is_array(x):
            assert x.dtype == y.dtype
            assert x.shape == y.shape
            assert getattr(x, "weak_type", None) == getattr(y, "weak_type", None)
            x, y = (jax.random.key_data(v) if files.is_key(v) else v for v in (x, y))
            assert np.asarray(x).tobytes() == np.asarray(y).tobytes()
        elif not callable(x):
            assert x == y


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


def test_files_are_plain_safetensors(tmp_path):
    arrays = {"a": np.arange(3.0), "b": np.array(True), "big endian": np.arange(3, dtype=">i4")}
    files.write(tmp_path / "f", arrays, {"note": 'é "sha256":"'})
    plain = safetensors.numpy.load_file(tmp_path / "f")
    back, description = files.read(tmp_path / "f")
    assert description == {"note": 'é "sha256":"'}
    for name, array in arrays.items():
        np.testing.assert_array_equal(plain[name], array)
        np.testing.assert_array_equal(back[name], array)
    with pytest.raises(StoreError, match="numbers only"):
        files.write(tmp_path / "g", {"a": np.array(["x"])}, {})


def test_bfloat16_is_stored_as_such(tmp_path):
    files.write(tmp_path / "f", {"a": np.ones(2, ml_dtypes.bfloat16)}, {})
    assert b'"BF16"' in (tmp_path / "f").read_bytes()
    assert files.read(tmp_path / "f")[0]["a"].dtype == ml_dtypes.bfloat16


def damage(raw, trial, rng):
    if trial % 2:
        place, bit = rng.integers(len(raw)), rng.integers(8)
        return raw[:place] + bytes([raw[place] ^ (1 << bit)]) + raw[place + 1 :]
    return raw[: rng.integers(len(raw))] if trial % 4 else raw + b"\0" * int(rng.integers(1, 5))


def test_no_damaged_file_loads(tmp_path):
    path = tmp_path / "f"
    files.save(path, Perceptron(jax.random.key(0), [2, 3, 1]))
    raw, rng, caught = path.read_bytes(), np.random.default_rng(0), 0
    for trial in range(200):
        path.write_bytes(damage(raw, trial, rng))
        with pytest.raises(StoreError, match=r"damaged|not written"):
            files.load(path)
        caught += 1
    path.write_bytes(raw)
    files.load(path)
    assert caught == 200


def test_every_bit_of_the_beginning_counts(tmp_path):
    path = tmp_path / "f"
    files.write(path, {}, {})
    raw = path.read_bytes()
    for place in range(len(raw)):
        path.write_bytes(raw[:place] + bytes([raw[place] ^ 1]) + raw[place + 1 :])
        with pytest.raises(StoreError):
            files.read(path)


def test_foreign_missing_and_newer_files(tmp_path, monkeypatch):
    safetensors.numpy.save_file({"a": np.ones(2)}, tmp_path / "foreign")
    with pytest.raises(StoreError, match="was not written by understudy"):
        files.read(tmp_path / "foreign")
    with pytest.raises(StoreError, match="does not exist"):
        files.read(tmp_path / "missing")
    with pytest.raises(StoreError, match="cannot be read"):
        files.read(tmp_path)
    files.write(tmp_path / "rows", {}, {"not": "a module"})
    with pytest.raises(StoreError, match="does not describe a module"):
        files.load(tmp_path / "rows")
    monkeypatch.setattr(store, "FORMAT", 2)
    files.write(tmp_path / "newer", {}, {})
    monkeypatch.undo()
    with pytest.raises(StoreError, match="update understudy"):
        files.read(tmp_path / "newer")


EVIL = [
    {"class": "os:system", "fields": {}},
    {"class": "builtins:eval", "fields": {}},
    {"class": "understudy.files.saving:os.system", "fields": {}},
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


@pytest.mark.parametrize("call", ["replace", "fsync"])
def test_a_failed_write_leaves_the_old_file(tmp_path, monkeypatch, call):
    path = tmp_path / "f"
    files.write(path, {"a": np.ones(2)}, {})
    before = path.read_bytes()

    def fail(*args):
        raise OSError("no space")

    monkeypatch.setattr(os, call, fail)
    with pytest.raises(StoreError, match="could not be written"):
        files.write(path, {"a": np.zeros(2)}, {})
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_an_interrupted_write_leaves_nothing(tmp_path, monkeypatch):
    def interrupt(*args):
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", interrupt)
    with pytest.raises(KeyboardInterrupt):
        files.write(tmp_path / "f", {}, {})
    assert list(tmp_path.iterdir()) == []


def test_checkpoints(tmp_path):
    tree = {"module": mine(lambda x: x), "step": jnp.asarray(7), "note": "text"}
    assert files.read_checkpoint(tmp_path, tree) is None
    for step in (100, 200, 100_000_000, 99_999_999):
        tree["step"] = jnp.asarray(step)
        files.write_checkpoint(tmp_path, step, tree, {"seed": np.int32(1)})
    assert sorted(p.name for p in tmp_path.iterdir()) == [
        "checkpoint-100000000.safetensors",
        "checkpoint-99999999.safetensors",
    ]
    step, back, description = files.read_checkpoint(tmp_path, tree)
    assert (step, description, int(back["step"])) == (100_000_000, {"seed": 1}, 100_000_000)
    tree["step"] = jnp.asarray(step)
    assert_same(tree, back)


def test_a_damaged_checkpoint_is_skipped_and_named(tmp_path):
    tree = {"a": jnp.ones(2)}
    for step in (1, 2):
        path = files.write_checkpoint(tmp_path, step, {"a": step * jnp.ones(2)}, {})
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.warns(UserWarning, match=f"{path.name} is damaged"):
        step, back, _ = files.read_checkpoint(tmp_path, tree)
    assert step == 1
    np.testing.assert_array_equal(back["a"], 1)


@pytest.mark.parametrize(
    ("like", "difference"),
    [
        (
            {"a": jnp.ones(3), "k": jax.random.key(0)},
            r"\['a'\] is float32\[2\] in the file and float32\[3\] here",
        ),
        (
            {"a": jnp.ones(2, int), "k": jax.random.key(0)},
            r"\['a'\] is float32\[2\] in the file and int32\[2\]",
        ),
        (
            {"a": jnp.ones(2), "k": jax.random.key(0, impl="rbg")},
            r"\['k'\] is uint32\[2\] of threefry2x32 keys",
        ),
        ({"a": jnp.ones(2), "k": jax.random.key_data(jax.random.key(0))}, r"\['k'\]"),
        ({"a": jnp.ones(2)}, r"\['k'\] is .* in the file and absent here"),
        ({"a": jnp.ones(2), "b": jnp.ones(1), "k": jax.random.key(0)}, r"\['b'\] is absent in the file"),
    ],
)
def test_a_checkpoint_of_other_settings_is_refused(tmp_path, like, difference):
    files.write_checkpoint(tmp_path, 1, {"a": jnp.ones(2), "k": jax.random.key(0)}, {})
    with pytest.raises(StoreError, match=f"{difference}.*settings of the run have changed"):
        files.read_checkpoint(tmp_path, like)


def test_rows(tmp_path):
    path = tmp_path / "folder" / "rows.jsonl"
    assert files.read_rows(path) == []
    row = {
        "step": jnp.asarray(1),
        "loss": np.float32(0.5),
        "bad": float("nan"),
        "z": jnp.array([1.0, jnp.inf]),
    }
    files.append_row(path, row | {"half": jnp.bfloat16(1.5), "flag": True, "none": None, "name": "é"})
    files.append_row(path, {"step": 2})
    first = {"step": 1, "loss": 0.5, "bad": None, "z": [1.0, None]}
    first |= {"half": 1.5, "flag": True, "none": None, "name": "é"}
    assert files.read_rows(path) == [first, {"step": 2}]
    with open(path, "a") as file:
        file.write('{"step": 3')
    assert files.read_rows(path) == [first, {"step": 2}]
    files.append_row(path, {"step": 4})
    assert files.read_rows(path) == [first, {"step": 2}, {"step": 4}]
    files.truncate_rows(path, 2)
    assert files.read_rows(path) == [first, {"step": 2}]
    assert [p.name for p in path.parent.iterdir()] == ["rows.jsonl"]
    files.truncate_rows(tmp_path / "absent", 2)


def test_a_damaged_row_is_named(tmp_path):
    (tmp_path / "rows").write_text('{"a": 1}\n{"a"\n{"a": 2}\n')
    with pytest.raises(StoreError, match="a line is not JSON"):
        files.read_rows(tmp_path / "rows")


def test_reading_a_good_checkpoint_is_silent(tmp_path):
    files.write_checkpoint(tmp_path, 5, [jnp.ones(1)], {})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert files.read_checkpoint(tmp_path, [jnp.zeros(1)])[0] == 5
