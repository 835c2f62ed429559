"""Posteriors in files: the same bits back, damage refused, no model needed to draw."""

import subprocess
import sys

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import pytest
from numpyro import distributions as dist

import understudy
from tests.posterior.conjugate import Y, conjugate, posterior, scaled
from tests.site_names import NAMES
from understudy.core import IngredientError, Site, Target
from understudy.files import StoreError
from understudy.files import exported as exported_files
from understudy.files.exported import load_exported, parse
from understudy.posterior.posterior import Posterior
from understudy.posterior.storing import StoredTarget
from understudy.students import FullGaussian, coupling_flow
from understudy.targets import LogDensity, MixtureOfGaussians
from understudy.targets.numpyro import from_numpyro
from understudy.teachers import hmc

KEY = jax.random.key(2)


def same(one, other):
    assert list(one) == list(other)
    for name in one:
        np.testing.assert_array_equal(one[name], other[name])


class Named(Target):
    dim: int = eqx.field(static=True, default=len(NAMES))
    sites = tuple(Site(name, ()) for name in NAMES)

    def log_density(self, z, x=None):
        return -0.5 * z @ z

    def constrain(self, z, x=None):
        return dict(zip(NAMES, z, strict=True))


def test_every_legal_name_comes_back_from_saved_and_exported_files(tmp_path):
    made = Posterior(Named(), FullGaussian(len(NAMES)))
    made.save(tmp_path / "saved")
    made.export(tmp_path / "exported")
    wanted = made.sample(KEY, 5)
    assert set(wanted) == set(NAMES)
    for again in (understudy.load(tmp_path / "saved"), load_exported(tmp_path / "exported")):
        found = again.sample(KEY, 5)
        assert set(found) == set(NAMES)
        for name in NAMES:
            np.testing.assert_allclose(found[name], wanted[name], rtol=1e-5)


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    path = tmp_path_factory.mktemp("posterior") / "posterior.safetensors"
    posterior(teacher=hmc(0.1), seed=3).save(path)
    return path


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    path = tmp_path_factory.mktemp("export") / "posterior.bin"
    posterior().export(path)
    return path


def test_without_its_model_it_draws_the_same_bits(saved):
    loaded = understudy.load(saved)
    assert isinstance(loaded.target, StoredTarget)
    same(loaded.sample(KEY, 20_000), posterior().sample(KEY, 20_000))
    np.testing.assert_array_equal(loaded.draws(KEY, 100), posterior().draws(KEY, 100))
    assert (loaded.seed, loaded.gradients, loaded.stages[1].kept) == (3, 1500, True)
    assert loaded.teacher is not None


@pytest.mark.parametrize("call", ["refine", "resample", "to_arviz", "check", "break_even", "report"])
def test_without_its_model_the_rest_is_refused_with_a_sentence(saved, call):
    loaded = understudy.load(saved)
    given = (
        (KEY, 8) if call in ("refine", "resample", "to_arviz") else ("x",) if call == "report" else ()
    )
    with pytest.raises(IngredientError, match="loaded without its model conjugate"):
        getattr(loaded, call)(*given)


def test_with_its_model_or_target_it_is_whole(saved):
    fresh = posterior().resample(KEY, 50)
    for given in ({"classes": [conjugate]}, {"target": posterior().target}):
        loaded = understudy.load(saved, **given)
        assert not isinstance(loaded.target, StoredTarget)
        same(loaded.sample(KEY, 100), posterior().sample(KEY, 100))
        np.testing.assert_array_equal(loaded.resample(KEY, 50).z, fresh.z)


def test_a_loaded_posterior_can_be_saved_and_exported_again(saved, tmp_path):
    loaded = understudy.load(saved)
    loaded.save(tmp_path / "again")
    again = understudy.load(tmp_path / "again")
    loaded.export(tmp_path / "export")
    wanted = posterior().sample(KEY, 10)
    same(again.sample(KEY, 10), wanted)
    same(load_exported(tmp_path / "export").sample(KEY, 10), wanted)


def test_arguments_come_back_as_they_were(tmp_path):
    target = from_numpyro(scaled, jnp.asarray(Y[:, 0]), width=2.5)
    Posterior(target, FullGaussian(1)).save(tmp_path / "p")
    back = understudy.load(tmp_path / "p", classes=[scaled]).target
    args, kwargs = back.arguments
    np.testing.assert_array_equal(args[0], Y[:, 0])
    assert kwargs == {"width": 2.5}
    z = jnp.array([0.3])
    assert float(back.log_density(z)) == float(target.log_density(z))


def test_models_without_a_name_and_plain_densities_still_draw(tmp_path):
    def local(y):
        mu = numpyro.sample("mu", dist.Normal(0, 1))
        numpyro.sample("y", dist.Normal(mu, 1), obs=y)

    target = from_numpyro(local, jnp.ones(3))
    for made in (target, LogDensity(lambda z: -z @ z, 1)):
        result = Posterior(made, FullGaussian(1))
        result.save(tmp_path / "p")
        loaded = understudy.load(tmp_path / "p")
        same(loaded.sample(KEY, 5), result.sample(KEY, 5))
        with pytest.raises(IngredientError, match=r"understudy\.load\(path, target=\.\.\.\)"):
            loaded.check()
        assert not isinstance(understudy.load(tmp_path / "p", target=made).target, StoredTarget)


def test_targets_of_understudy_come_back_by_themselves(tmp_path):
    target = MixtureOfGaussians([[0.0, 0.0], [3.0, 3.0]])
    Posterior(target, FullGaussian(2)).save(tmp_path / "p")
    assert isinstance(understudy.load(tmp_path / "p").target, MixtureOfGaussians)


def test_a_flow_comes_back_bit_for_bit(tmp_path):
    target = LogDensity(lambda z: -0.5 * z @ z, 3)
    result = Posterior(target, coupling_flow(KEY, 3, layers=2, width=4))
    result.save(tmp_path / "p")
    same(understudy.load(tmp_path / "p").sample(KEY, 1000), result.sample(KEY, 1000))


def test_a_flow_is_made_saved_and_loaded_under_strict_promotion(tmp_path):
    with jax.numpy_dtype_promotion("strict"):
        flow = coupling_flow(KEY, 2, layers=1, width=4, knots=3)
        Posterior(LogDensity(lambda z: -0.5 * z @ z, 2), flow).save(tmp_path / "p")
        assert understudy.load(tmp_path / "p").student.dim == 2


def test_a_target_of_another_size_is_refused(saved):
    with pytest.raises(StoreError, match="size 2; one of size 3 came"):
        understudy.load(saved, target=LogDensity(lambda z: -z @ z, 3))
    with pytest.raises(StoreError, match="size 2; a str came"):
        understudy.load(saved, target="target")


@pytest.mark.parametrize("place", [0.0, 0.2, 0.5, 0.9, 0.999])
def test_damaged_files_are_refused(saved, exported, place):
    for path, read in ((saved, understudy.load), (exported, load_exported)):
        raw = bytearray(path.read_bytes())
        raw[int(place * len(raw))] ^= 4
        damaged = path.with_suffix(".damaged")
        damaged.write_bytes(raw)
        with pytest.raises(ValueError, match=r"damaged|not written by|not an exported"):
            read(damaged)


def test_a_cut_export_is_refused(exported):
    with pytest.raises(ValueError, match="damaged"):
        parse(exported.read_bytes()[:-10])


def test_an_export_draws_what_the_posterior_draws(exported):
    loaded = load_exported(exported)
    assert loaded.sites == {"both": (2,), "mu": (2,)}
    same(loaded.sample(KEY, 20_000), posterior().sample(KEY, 20_000))


def test_an_export_leaves_out_data_that_no_site_needs(tmp_path):
    target = from_numpyro(scaled, jnp.zeros(100_000) + 1.0)
    Posterior(target, FullGaussian(1)).export(tmp_path / "p")
    assert (tmp_path / "p").stat().st_size < 50_000


BARE = """
import sys
class Block:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {"understudy", "equinox", "flowjax", "numpyro", "paramax", "blackjax"}:
            raise ImportError(name)
sys.meta_path.insert(0, Block())
import importlib.util
spec = importlib.util.spec_from_file_location("loader", sys.argv[1])
loader = importlib.util.module_from_spec(spec)
spec.loader.exec_module(loader)
import jax, numpy as np
draws = loader.load_exported(sys.argv[2]).sample(jax.random.key(2), 100)
np.savez(sys.argv[3], **draws)
"""


def test_an_export_needs_jax_and_numpy_alone(exported, tmp_path):
    out = tmp_path / "draws.npz"
    loader = exported_files.__file__
    given = [sys.executable, "-I", "-c", BARE, loader, str(exported), str(out)]
    ran = subprocess.run(given, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    with np.load(out) as draws:
        wanted = posterior().sample(KEY, 100)
        for name, value in wanted.items():
            np.testing.assert_allclose(draws[name], value, rtol=1e-5)
