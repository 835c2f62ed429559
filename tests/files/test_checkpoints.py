"""Checkpoints: the newest valid one comes back, and nothing else stays."""

import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.files.examples import assert_same, mine
from understudy import files
from understudy.files import StoreError


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


def test_reading_a_good_checkpoint_is_silent(tmp_path):
    files.write_checkpoint(tmp_path, 5, [jnp.ones(1)], {})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert files.read_checkpoint(tmp_path, [jnp.zeros(1)])[0] == 5


def test_a_damaged_checkpoint_with_the_highest_number_goes_with_the_next_one(tmp_path):
    for step in (1, 2, 3):
        path = files.write_checkpoint(tmp_path, step, {"a": jnp.ones(2)}, {})
    path.write_bytes(b"damaged")
    (tmp_path / "checkpoint-00000009.safetensors").write_bytes(b"damaged too")
    files.write_checkpoint(tmp_path, 4, {"a": jnp.ones(2)}, {})
    names = sorted(file.name for file in tmp_path.iterdir())
    assert "checkpoint-00000009.safetensors" not in names
    files.write_checkpoint(tmp_path, 5, {"a": jnp.ones(2)}, {})
    assert sorted(file.name for file in tmp_path.iterdir()) == [
        "checkpoint-00000004.safetensors",
        "checkpoint-00000005.safetensors",
    ]


def test_a_folder_named_like_a_checkpoint_is_left_alone(tmp_path):
    (tmp_path / "checkpoint-00000007.safetensors").mkdir()
    (tmp_path / "checkpoint-best.safetensors").write_bytes(b"the user's own")
    for step in (1, 2, 3):
        files.write_checkpoint(tmp_path, step, {"a": jnp.ones(2)}, {})
    assert files.read_checkpoint(tmp_path, {"a": jnp.ones(2)})[0] == 3
    assert len(list(tmp_path.iterdir())) == 4


@pytest.mark.parametrize("step", [5, "3", 3.0, None, -3])
def test_a_checkpoint_with_another_step_than_its_name_is_skipped(tmp_path, step):
    tree = {"a": jnp.ones(2)}
    files.write_checkpoint(tmp_path, 2, tree, {})
    inside = {"step": step, "keys": {}, "order": ["['a']"], "description": {}}
    arrays = {"['a']": np.zeros(2, np.float32)}
    files.write(tmp_path / "checkpoint-00000003.safetensors", arrays, inside)
    with pytest.warns(UserWarning, match="not the checkpoint of the step in its name"):
        assert files.read_checkpoint(tmp_path, tree)[0] == 2


@pytest.mark.parametrize("inside", [{}, {"step": 3}, {"step": 3, "keys": [], "order": 5}])
def test_a_checkpoint_without_its_description_is_skipped(tmp_path, inside):
    files.write(tmp_path / "checkpoint-00000003.safetensors", {}, inside)
    with pytest.warns(UserWarning, match="A checkpoint was skipped"):
        assert files.read_checkpoint(tmp_path, {"a": jnp.ones(2)}) is None


def test_what_a_killed_writer_left_is_removed_by_the_next_checkpoint(tmp_path):
    litter = tmp_path / ".checkpoint-00000001.safetensors.0123abcd.tmp"
    litter.write_bytes(b"half")
    files.write_checkpoint(tmp_path, 2, {"a": jnp.ones(2)}, {})
    assert [file.name for file in tmp_path.iterdir()] == ["checkpoint-00000002.safetensors"]
