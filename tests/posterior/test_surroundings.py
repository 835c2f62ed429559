"""A posterior works whatever the user set in JAX, and says so where it cannot."""

import os
import subprocess
import sys
import textwrap

import pytest

CODE = """
import sys
import jax
import jax.numpy as jnp
import numpy as np
import numpyro
from numpyro import distributions as dist
import understudy
from understudy.coordinates import plain_coordinates
from understudy.fitting.learning import WHITE, Learning
from understudy.posterior import Posterior
from understudy.students import FullGaussian, Placed

for setting in eval(sys.argv[1]):
    jax.config.update(*setting)

def model(counts, x, y=None):
    slope = numpyro.sample("slope", dist.Normal(0, 1))
    numpyro.sample("counts", dist.Poisson(jnp.exp(slope)), obs=counts)
    numpyro.sample("y", dist.Normal(slope * x, 1), obs=y)

x = np.arange(4)
target = understudy.from_numpyro(model, np.array([1, 2, 0]), x, y=2.0 * x)
result = Posterior(target, FullGaussian(1, jnp.full(1, 1.2), 0.3 * jnp.eye(1)))
assert result.sample(0, 20_000)["slope"].dtype == np.float64
assert result.refine(0, 10, 4).z.shape == (10, 1)
assert result.resample(0, 10).z.shape == (10, 1)
tree = result.to_arviz(0, 8)
assert tree.children["posterior_predictive"]["y"].shape == (4, 2, 4)
assert result.predict(0, x=np.arange(2), draws=5)["y"].shape == (5, 2)
result.check(0, draws=256)
# Coordinates of NumPy's, in 64 bits, as a fit has them.
placed = Posterior(target, Placed(plain_coordinates(np.full(1, 1.2), np.full(1, 0.3))))
placed.save(sys.argv[2] + "/placed")
there = placed.sample(0, 5)["slope"]
loaded = understudy.load(sys.argv[2] + "/placed")
np.testing.assert_allclose(loaded.sample(0, 5)["slope"], there, rtol=1e-5)
result.save(sys.argv[2] + "/p")
result.export(sys.argv[2] + "/e")
wanted = result.sample(0, 5)["slope"]
np.testing.assert_allclose(understudy.load(sys.argv[2] + "/p").sample(0, 5)["slope"], wanted, rtol=1e-5)
again = understudy.load_exported(sys.argv[2] + "/e").sample(0, 5)["slope"]
np.testing.assert_allclose(again, wanted, rtol=1e-5)
# A fit's flow is compiled by a thread of its own.
rows = np.random.default_rng(0).normal(size=(512, 2))
pupil = Learning(2, 0, 1, 4).begin(plain_coordinates(np.zeros(2), np.ones(2)), rows, WHITE)
assert np.isfinite(pupil.learn(rows, rows, 100, 1e-3))
"""

STRICT, WIDE, STOPPING = (
    ("jax_numpy_dtype_promotion", "strict"),
    ("jax_enable_x64", True),
    ("jax_debug_nans", True),
)


@pytest.mark.parametrize(
    "settings",
    [
        pytest.param((STRICT, WIDE, STOPPING), id="all"),
        pytest.param((WIDE,), id="x64", marks=pytest.mark.slow),
        pytest.param((STRICT,), id="strict promotion", marks=pytest.mark.slow),
        pytest.param((STOPPING,), id="debug_nans", marks=pytest.mark.slow),
    ],
)
def test_every_method_works_under(settings, tmp_path):
    given = [sys.executable, "-c", CODE, repr(settings), str(tmp_path)]
    ran = subprocess.run(given, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr[-3000:]


FORK = """
import os, sys, warnings
warnings.simplefilter("ignore")
import understudy
import understudy.fitting, understudy.methods, understudy.targets.numpyro
from understudy.posterior import Posterior
from understudy.students import FullGaussian

def made():
    # Nothing that is imported starts JAX, after which a process must not be forked.
    return Posterior(understudy.LogDensity(lambda z: -0.5 * z @ z, 2), FullGaussian(2))

if sys.argv[1] == "after":
    result = made()
    result.sample(0, 40_000)
child = os.fork()
if child == 0:
    try:
        (result if sys.argv[1] == "after" else made()).sample(0, 40_000)
    except RuntimeError as error:
        print(error, flush=True)
        os._exit(3)
    os._exit(0)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs a system that forks")
@pytest.mark.parametrize(("when", "words"), [("after", "spawn"), ("before", "0")])
def test_a_fork_never_hangs(when, words):
    given = [sys.executable, "-c", textwrap.dedent(FORK), when]
    ran = subprocess.run(given, capture_output=True, text=True, check=False, timeout=300)
    assert words in ran.stdout, ran.stdout + ran.stderr[-2000:]
    assert when == "before" or ran.stdout.strip().endswith("3")
