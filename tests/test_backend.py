"""What is chosen for the machine: threads of linear algebra, devices of a CPU."""

import os
import subprocess
import sys

import pytest
from threadpoolctl import threadpool_info

from understudy.backend import cores, plain_algebra, see_cores


def threads_of_algebra():
    return [library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"]


def test_plain_algebra_takes_one_thread_and_gives_the_others_back():
    with plain_algebra():
        pass  # loads the library
    before = threads_of_algebra()
    assert before
    first, second = plain_algebra(), plain_algebra()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert set(threads_of_algebra()) == {1}, "the second block is under way"
    second.__exit__(None, None, None)
    assert threads_of_algebra() == before


BATCHED = """
import jax, jax.numpy as jnp, numpy as np
from jax.sharding import NamedSharding, PartitionSpec
from understudy.backend import cores, plain_algebra
from understudy.devices import AXIS, mesh_of_cores
jax.config.update("jax_enable_x64", True)
mesh = mesh_of_cores(128)
root = np.random.default_rng(0).normal(size=(52, 52))
matrix = root @ root.T + 52 * np.eye(52)
def value(u):
    return (jnp.linalg.cholesky(matrix + jnp.exp(u[0]) * jnp.eye(52)) @ u).sum()
rows, by_row = np.random.default_rng(1).normal(size=(128, 52)), PartitionSpec(AXIS)
split = jax.shard_map(jax.vmap(jax.grad(value)), mesh=mesh, in_specs=by_row, out_specs=by_row)
run, place = jax.jit(split), NamedSharding(mesh, by_row)
with plain_algebra():
    for _ in range(200):
        print(jax.device_get(run(jax.device_put(rows, place))).sum())
"""


@pytest.mark.skipif(cores() < 2, reason="needs two cores")
def test_batched_linear_algebra_on_every_core_ends():
    command = [sys.executable, "-c", BATCHED]
    made = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True)
    first, *others = map(float, made.stdout.split())
    assert others == pytest.approx([first] * 199, rel=1e-9)


def test_the_user_says_how_many_threads_there_are(monkeypatch):
    monkeypatch.setenv("PJRT_NPROC", "3")
    see_cores()
    assert os.environ["PJRT_NPROC"] == "3"
