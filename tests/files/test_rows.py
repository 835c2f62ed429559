"""Rows of JSON lines."""

import jax.numpy as jnp
import numpy as np
import pytest

from understudy import files
from understudy.files import StoreError


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


@pytest.mark.parametrize("line", ["5", "[]", "null", '"x"', "[" * 100_000])
def test_a_line_that_is_no_row_gets_a_sentence(tmp_path, line):
    path = tmp_path / "rows.jsonl"
    path.write_text(f'{{"step": 1}}\n{line}\n')
    for call in (files.read_rows, lambda p: files.truncate_rows(p, 0)):
        with pytest.raises(StoreError, match=r"is damaged: .*remove that line"):
            call(path)


def test_a_step_that_is_no_number_gets_a_sentence(tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_text('{"step": "x"}\n')
    with pytest.raises(StoreError, match="the step 'x'"):
        files.truncate_rows(path, 0)
