"""One training on several devices gives what it gives on one."""

import json
import os
import subprocess
import sys
from pathlib import Path

import jax
import pytest

from benchmarks import devices as benchmark
from understudy import IngredientError, LogDensity, train
from understudy.devices import mesh_of
from understudy.feedbacks import InclusiveKL
from understudy.students import FullGaussian
from understudy.teachers import mala

ROOT = Path(__file__).parents[2]
# A feedback over sets of draws, a critic over conditions and a projection.
FEW = (
    "Implicit/EnergyDistance, pooled",
    "Implicit, conditional/JensenShannon",
    "FullGaussian/MomentProjection",
)


def differences(*pairs):
    eight = os.environ | {"JAX_NUM_CPU_DEVICES": "8"}
    command = [sys.executable, "-m", "tests.training.devices_agree", *pairs]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True, env=eight)
    return json.loads(ran.stdout.splitlines()[-1])


def test_eight_devices_agree_with_one():
    found = differences(*FEW)
    assert set(found) == set(FEW)
    assert max(found.values()) < 1e-4, found


@pytest.mark.slow
def test_eight_devices_agree_with_one_for_every_student_and_feedback():
    found = differences()
    assert len(found) > 100
    assert max(found.values()) < 1e-4, {k: v for k, v in found.items() if v >= 1e-4}


@pytest.mark.parametrize(
    ("devices", "words"),
    [
        (10_000, "JAX sees"),
        (0, "devices"),
        (["cpu"], "a list of jax.devices"),
        ("two", "devices"),
    ],
)
def test_devices_that_are_not_there_are_named(devices, words):
    target = LogDensity(lambda z: -0.5 * z @ z, 2)
    with pytest.raises(IngredientError, match=words):
        train(target, FullGaussian(2), mala(0.3), InclusiveKL(), updates=1, devices=devices)


def test_one_device_is_a_mesh_too():
    mesh = mesh_of(jax.devices()[:1])
    assert mesh is not None
    assert mesh.size == 1
    assert mesh_of(mesh).size == 1
    assert mesh_of(None) is None


DRAWN = """
import jax, jax.numpy as jnp, numpy as np, understudy
from understudy.posterior import Posterior, draws
from understudy.students import FullGaussian
from understudy.teachers import mala

draws.CHUNK = 512
target = understudy.LogDensity(lambda z: -0.5 * z @ z, 2)
result = Posterior(target, FullGaussian(2, jnp.ones(2)), teacher=mala(0.3), record=np.ones((64, 2)))
every = {
    "sample": lambda devices: result.sample(0, 3000, devices=devices)["z"],
    "finished": lambda devices: result.sample(0, 3000, finish=True, devices=devices)["z"],
    "refine": lambda devices: result.refine(0, 3000, 4, devices=devices).z,
    "resample": lambda devices: result.resample(0, 3000, devices=devices).z,
    "independence": lambda devices: result.resample(0, 3000, "independence", devices=devices).z,
    "check": lambda devices: [f.figure for f in result.check(0, draws=512, devices=devices).findings],
}
for name, call in every.items():
    np.testing.assert_array_equal(call(None), call(2), err_msg=name)
placed = []
from understudy.devices import drawing_on, in_turn
with drawing_on(2):
    in_turn(lambda i, block: placed.append((jnp.ones(3) + block).devices()) or block, list(range(8)))
assert len(set().union(*placed)) == 2, placed
"""


def test_draws_are_the_same_on_any_number_of_devices():
    two = os.environ | {"JAX_NUM_CPU_DEVICES": "2"}
    ran = subprocess.run([sys.executable, "-c", DRAWN], env=two, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr[-2000:]


def test_the_figures_of_the_benchmark_are_the_worst_of_all_work():
    rates = {"digits": (10, 16, 18), "simulated": (100, 150, 190), "evaluated": (5, 9, 8)}
    rows = [
        {"kind": "devices", "work": work, "setting": setting, "rate": rate}
        for work, several in rates.items()
        for setting, rate in zip(("one core", "default", "2 devices"), several, strict=True)
    ]
    rows += [{"kind": "devices agree", "name": "a pair", "difference": d} for d in (1e-7, 3e-6)]
    found = benchmark.figures(rows)
    assert found["devices_agree"] == 3e-6
    assert found["two_over_one"] == pytest.approx(1.6)
    assert found["default_over_best"] == pytest.approx(150 / 190)


@pytest.mark.slow
def test_the_benchmark_ends_in_its_figures(tmp_path):
    words = ["--works", "simulated", "--pairs", "none", "--out", str(tmp_path / "rows.jsonl")]
    command = [sys.executable, "-m", "benchmarks.devices", *words]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    assert json.loads(ran.stdout.splitlines()[-1])["two_over_one"] > 0.3
    assert len((tmp_path / "rows.jsonl").read_text().splitlines()) == 3
