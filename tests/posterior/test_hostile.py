"""Hostile files with right checksums: refused in a sentence, without a crash and without memory."""

import contextlib
import json
import resource

import jax
import jax.export
import jax.numpy as jnp
import numpy as np
import numpyro
import pytest
from numpyro import distributions as dist

import understudy
from benchmarks import hostile
from tests.files.hostile import (
    DAMAGE,
    flipped,
    other_description,
    other_header,
    reseal,
    reseal_export,
)
from tests.posterior.conjugate import conjugate, posterior
from understudy import files
from understudy.core import IngredientError
from understudy.files import StoreError, exported
from understudy.files.exported import load_exported, packed, parse
from understudy.posterior.export import make_program
from understudy.posterior.posterior import Posterior
from understudy.students import FullGaussian
from understudy.targets import LogDensity
from understudy.targets.numpyro import from_numpyro


@pytest.fixture(scope="module")
def program():
    return make_program(posterior().student, posterior().target)


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    path = tmp_path_factory.mktemp("saved") / "posterior.safetensors"
    posterior().save(path)
    return path


@pytest.fixture(scope="module")
def written(program):
    return b"".join(packed(program.header, program.arrays, bytes(program.code)))


def with_code(program, function, *others):
    """The export of another program under the header of a right one."""
    given = [np.zeros(4, np.uint32), list(program.arrays)]
    made = jax.export.export(jax.jit(function, keep_unused=True), disabled_checks=others)(*given)
    return b"".join(packed(program.header, program.arrays, made.mlir_module_serialized))


def blank(program):
    return {n: jnp.zeros((program.header["chunk"], *s)) for n, s in program.header["sites"].items()}


def called(name):
    shape = jax.ShapeDtypeStruct((16_384, 2), jnp.float32)

    def draw(words, arrays):
        sites = jax.ffi.ffi_call(name, shape)(jnp.zeros((16_384, 2)))
        return {"both": sites, "mu": sites}

    return draw


@pytest.mark.parametrize("name", ["hostile", "xla_python_cpu_callback", "lapack_sgeev_ffi"])
def test_calls_that_are_not_on_the_list_are_refused(program, name):
    check = jax.export.DisabledSafetyCheck.custom_call(name)
    with pytest.raises(StoreError, match=f"calls {name}, which is not on the list"):
        parse(with_code(program, called(name), check))


def test_listed_calls_with_other_shapes_are_refused(program):
    def draw(words, arrays):
        shapes = (jax.ShapeDtypeStruct((3, 3), jnp.float32), jax.ShapeDtypeStruct((), jnp.int32))
        wrong = jax.ffi.ffi_call("lapack_spotrf_ffi", shapes)(jnp.zeros((500, 500)))[0]
        return {n: v + wrong[0, 0] for n, v in blank(program).items()}

    check = jax.export.DisabledSafetyCheck.custom_call("lapack_spotrf_ffi")
    with pytest.raises(StoreError, match="shapes that do not fit"):
        parse(with_code(program, draw, check))


def test_arrays_of_terabytes_are_refused(program):
    def draw(words, arrays):
        huge = jnp.broadcast_to(words[0], (10**6, 10**6)).sum().astype(jnp.float32)
        return {n: v + huge for n, v in blank(program).items()}

    with pytest.raises(StoreError, match="makes an array of"):
        parse(with_code(program, draw))


def test_a_program_of_other_arrays_is_refused(program):
    with pytest.raises(StoreError, match="other arrays than its header says"):
        parse(with_code(program, lambda words, arrays: {"both": jnp.zeros(2), "mu": jnp.zeros(2)}))


def test_bytes_that_are_no_program_are_refused(program):
    with pytest.raises(StoreError, match="cannot be parsed"):
        parse(b"".join(packed(program.header, program.arrays, b"no program")))


def test_the_program_inside_a_saved_posterior_is_looked_at_too(program, tmp_path):
    loaded_from = tmp_path / "p"
    target = LogDensity(lambda z: -z @ z, 2)
    stored = Posterior(target, FullGaussian(2)).storable()
    hostile = np.frombuffer(b"no program at all", np.uint8)
    object.__setattr__(stored.target.program, "code", hostile)
    files.save(loaded_from, [stored])
    with pytest.raises(StoreError, match="cannot be parsed"):
        files.load(loaded_from)[0].sample(0, 1)
    files.save(loaded_from, stored)
    with pytest.raises(StoreError, match="cannot be parsed"):
        files.load(loaded_from)


def linear(y):
    scale = numpyro.sample("scale", dist.LKJCholesky(3, 2.0))
    numpyro.deterministic("solved", jnp.linalg.solve(scale @ scale.T, jnp.ones(3)))
    numpyro.sample("y", dist.MultivariateNormal(jnp.zeros(3), scale_tril=scale), obs=y)


def test_linear_algebra_of_models_is_on_the_list(tmp_path):
    target = from_numpyro(linear, jnp.ones(3))
    result = Posterior(target, FullGaussian(3))
    result.export(tmp_path / "p")
    made = load_exported(tmp_path / "p").sample(0, 4)
    np.testing.assert_allclose(made["solved"], result.sample(0, 4)["solved"], rtol=1e-3, atol=1e-3)


def decomposed(y):
    mu = numpyro.sample("mu", dist.Normal(0, 1).expand([2]).to_event(1))
    numpyro.deterministic("roots", jnp.linalg.eigvals(jnp.outer(mu, mu)).real)
    numpyro.sample("y", dist.Normal(mu, 1), obs=y)


def test_what_could_not_be_read_is_not_written(tmp_path):
    result = Posterior(from_numpyro(decomposed, jnp.ones(2)), FullGaussian(2))
    for write in (result.export, result.save):
        with pytest.raises(IngredientError, match="leave the deterministic site"):
            write(tmp_path / "p")
    assert list(tmp_path.iterdir()) == []


CALLED = []


def spying(y):
    CALLED.append(1)
    return conjugate(y)


def other(y):
    return conjugate(y)


def test_a_model_that_only_the_file_names_is_not_called(tmp_path):
    target = from_numpyro(spying, jnp.ones((5, 2)))
    Posterior(target, FullGaussian(2)).save(tmp_path / "p")
    for name in ("understudy.targets.numpyro:from_numpyro", "jax.numpy:sum", "tests.posterior:spying"):
        arrays, inside = files.read(tmp_path / "p")
        fields = inside["module"]["fields"]["target"]["fields"]
        recipe = json.loads(fields["recipe"])
        recipe["fields"]["model"] = {"function": name}
        fields["recipe"] = json.dumps(recipe)
        files.write(tmp_path / "evil", arrays, inside)
        CALLED.clear()
        assert type(understudy.load(tmp_path / "evil").target).__name__ == "StoredTarget"
        assert not CALLED
    with pytest.raises(
        StoreError, match=r"classes holds .*other, which it does not name; it names .*spying"
    ):
        understudy.load(tmp_path / "p", classes=[other])
    assert not CALLED
    understudy.load(tmp_path / "p", classes=[spying])
    assert CALLED


READ = {
    "a missing file": lambda folder: load_exported(folder / "missing"),
    "a folder": lambda folder: load_exported(folder),
    "no name": lambda folder: load_exported(""),
    "a zero byte": lambda folder: load_exported("a\0b"),
}


@pytest.mark.parametrize("name", READ)
def test_what_cannot_be_read_gets_a_sentence(tmp_path, name):
    with pytest.raises(StoreError, match=r"cannot be read|is the name of a file"):
        READ[name](tmp_path)


def test_a_header_larger_than_any_that_is_written_is_refused(written, monkeypatch):
    monkeypatch.setattr(exported, "_LARGEST_HEADER", 50)
    with pytest.raises(StoreError, match="its header takes more than 50 bytes"):
        parse(written)


def test_a_file_larger_than_any_that_is_written_is_not_read(tmp_path, written):
    with open(tmp_path / "f", "wb") as file:
        file.write(written)
        file.truncate(2**40)
    with pytest.raises(StoreError, match="more than the"):
        load_exported(tmp_path / "f")


def test_a_file_too_large_to_be_read_is_not_written(tmp_path, program, monkeypatch):
    monkeypatch.setattr(exported, "_LARGEST_FILE", len(program.code))
    with pytest.raises(StoreError, match="more than the"):
        program.write(tmp_path / "p")
    assert list(tmp_path.iterdir()) == []


def test_the_end_of_the_first_line_counts_too(written):
    place = written.index(b"\n")
    with pytest.raises(StoreError, match="damaged"):
        parse(written[:place] + b"x" + written[place + 1 :])


def test_a_bad_number_of_draws_or_key_gets_a_sentence(written):
    loaded = parse(written)
    for n in (-1, 0, 10**16):
        with pytest.raises(StoreError, match=r"^n "):
            loaded.sample(0, n)
    for key in ("x", -1, 0.5, None):
        with pytest.raises(StoreError, match="key is a random key"):
            loaded.sample(key, 1)


@pytest.mark.slow
def test_damaged_and_hostile_files_are_refused():
    counts = hostile.count(180, seed=1)
    bad = ("loaded", "crashed", "hung", "traceback", "long")
    assert {name: counts[name] for name in bad} == dict.fromkeys(bad, 0), counts
    assert counts["refused"] > 140
    assert counts["largest_reader_kilobytes"] < 2**20


def test_a_few_damaged_files(saved, written, tmp_path):
    rng, path = np.random.default_rng(0), tmp_path / "f"
    for read, whole in ((understudy.load, saved.read_bytes()), (load_exported, written)):
        for damage in DAMAGE * 4:
            path.write_bytes(made := damage(whole, rng))
            if made != whole:
                with pytest.raises(StoreError, match=r"^[^\n]+$"):
                    read(path)


@pytest.mark.parametrize("seed", range(12))
def test_other_descriptions_with_right_digests(saved, tmp_path, seed):
    path = tmp_path / "f"
    path.write_bytes(reseal(other_description(saved.read_bytes(), np.random.default_rng(seed))))
    assert hostile.outcome(str(path), exported=False, sealed=True)[0] in ("refused", "legal")


@pytest.mark.parametrize("seed", range(4))
def test_other_headers_with_right_digests(written, tmp_path, seed):
    path = tmp_path / "f"
    path.write_bytes(reseal_export(other_header(written, np.random.default_rng(seed))))
    assert hostile.outcome(str(path), exported=True, sealed=True)[0] in ("refused", "legal")


def test_programs_that_are_not_parsed_take_no_memory_here(program):
    rng, code = np.random.default_rng(1), bytes(program.code)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for _ in range(8):
        raw = b"".join(packed(program.header, program.arrays, flipped(code, rng)))
        with contextlib.suppress(StoreError):
            parse(raw)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 500_000
    assert exported.inspected(code)
