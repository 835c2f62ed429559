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
        (["cpu"], "a list of some of jax.devices"),
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


SPLIT = """
import jax, jax.numpy as jnp, numpy as np, understudy
from understudy.devices import mesh_of
from understudy.fitting.evaluations import Evaluations
from understudy.students import SplineFlow
from understudy.amortising.learning import Learning, simulate
from understudy.amortising.amortise import _begin
from understudy.amortising import finishing
from numpyro import distributions as dist
from understudy.devices import drawing_on

target = understudy.LogDensity(lambda z: -0.5 * jnp.sum(z**2 * jnp.arange(1, 4)), 3)
z = np.random.default_rng(0).normal(size=(200, 3))
one, three = Evaluations(target, mesh_of(1)), Evaluations(target, mesh_of(3))
for slow in (False, True):
    if slow:
        one.block, one._compiled, three.block, three._compiled = 32, {}, 32, {}
    for a, b in zip(one(z), three(z), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12)
assert (one.place, three.place) == ("on one device", "on 3 devices")

simulator = understudy.amortising.PriorSimulator(
    {"m": dist.Normal(0, 1).expand([2]).to_event(1)},
    lambda key, m: m + jax.random.normal(key, (2,)),
    lambda y, m: -0.5 * jnp.sum((y - m) ** 2),
)
seen = simulate(jax.random.key(0), simulator, 300)
small = lambda key, dim, summary: SplineFlow(key, dim, summary, layers=2, width=8, bins=4)
student = _begin(jax.random.key(1), simulator, seen, None, small)
learnt = []
for devices in (1, 3, 4):
    learning = Learning(simulator, student, seen, 0, devices)
    state, _ = learning.training.advance(learning.training.state, 3)
    learning.state = state
    learnt.append(jax.tree.leaves(learning.student))
for a, b, c in zip(*learnt, strict=True):
    assert all(len(leaf.devices()) == 1 for leaf in (b, c))
    np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(a, c, rtol=1e-4, atol=1e-6)
drawn = []
for devices in (1, 2):
    with drawing_on(devices):
        data = jax.tree.map(lambda leaf: leaf[:80], seen.data)
        drawn.append(finishing.unfinished(jax.random.key(2), student, simulator.target, data, 50).z)
np.testing.assert_array_equal(*drawn)
"""


def test_gradients_of_a_fit_and_simulations_of_amortise_are_split():
    ran = subprocess.run(
        [sys.executable, "-c", SPLIT],
        env=os.environ | {"JAX_NUM_CPU_DEVICES": "4"},
        capture_output=True,
        text=True,
        cwd=ROOT,
    )
    assert ran.returncode == 0, ran.stderr[-3000:]


CORES = """
import jax, jax.numpy as jnp, numpy as np, understudy
from understudy.feedbacks import EnergyDistance
from understudy.students import Implicit
from understudy.teachers import mala
from understudy.training import Learner, Training, loop

target = understudy.LogDensity(lambda z: -0.5 * z @ z, 2)
ingredients = target, Implicit(jax.random.key(0), 2, hidden=(8,)), mala(0.3)
def training(particles, split):
    return Training(Learner(EnergyDistance(), particles=particles), *ingredients, split=split).compile()
assert len(jax.devices()) == 2
assert training(8, True).mesh is None  # too small an update
loop._SHARED = 0.0
assert training(8, True).mesh.size == 2
assert training(7, True).mesh is None  # two devices cannot share seven draws
assert training(8, False).mesh is None
"""


def ran_with(program, **variables):
    told = {"JAX_NUM_CPU_DEVICES", "XLA_FLAGS"}
    env = {name: value for name, value in os.environ.items() if name not in told} | variables
    command = [sys.executable, "-c", program]
    return subprocess.run(command, env=env, capture_output=True, text=True, cwd=ROOT)


def test_large_updates_take_the_cores_of_a_cpu_by_themselves():
    ran = ran_with(CORES, JAX_NUM_CPU_DEVICES="2")
    assert ran.returncode == 0, ran.stderr[-3000:]


def test_cores_are_seen_as_devices_unless_jax_was_told_how_many():
    seen = (
        "import understudy.devices, understudy.backend as b, jax; print(len(jax.devices()), b.cores())"
    )
    found = ran_with(seen).stdout.split()
    assert found[0] == found[1]
    assert ran_with(seen, JAX_NUM_CPU_DEVICES="3").stdout.split()[0] == "3"
    flag = "--xla_force_host_platform_device_count=5"
    assert ran_with(seen, XLA_FLAGS=flag).stdout.split()[0] == "5"


PROGRAM = """
%inner (p: f32[2]) -> f32[2] {
  %p = f32[2]{0} parameter(0)
  ROOT %r = (f32[2,3]{1,0}, f64[]) all-reduce(%p, %p), to_apply=%sum
}

ENTRY %main (a: f32[2]) -> f32[2] {
  %a = f32[2]{0} parameter(0)
  %w = f32[2]{0} while(%a), condition=%c, body=%inner, backend_config={"known_trip_count":{"n":"4"}}
  ROOT %g = f32[8]{0} all-gather(%w), dimensions={0}
}
"""


def test_bytes_of_collectives_in_loops_are_counted_as_often_as_they_run():
    assert benchmark.exchanged(PROGRAM) == 4 * (2 * 3 * 4 + 8) + 8 * 4


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
