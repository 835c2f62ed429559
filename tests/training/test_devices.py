"""One training on several devices gives what it gives on one."""

import json
import os
import subprocess
import sys
from pathlib import Path

import jax
import pytest

from understudy import IngredientError, LogDensity, train
from understudy.devices import mesh_of
from understudy.feedbacks import InclusiveKL
from understudy.students import FullGaussian
from understudy.teachers import mala

ROOT = Path(__file__).parents[2]
# A set-wise feedback over draws, one over conditions, batch statistics, a critic and a projection.
FEW = (
    "Implicit/EnergyDistance",
    "Implicit, conditional/JensenShannon",
    "GaussianEncoder/InclusiveKL",
    "NoisyEncoder/EnergyDistance",
    "FullGaussian/MomentProjection",
    "Implicit/EnergyDistance, pooled",
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
