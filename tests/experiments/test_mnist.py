from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tqdm import tqdm

from experiments import mnist
from experiments.mnist import course, live, measures, methods, tables
from understudy import files
from understudy.core import ExplicitStudent, IngredientError
from understudy.feedbacks import (
    ExclusiveKL,
    InclusiveKL,
    JensenShannon,
    SemiImplicitInclusiveKL,
    WeightedSum,
)
from understudy.networks import Perceptron
from understudy.networks.images import ImageDecoder
from understudy.report import training_curves
from understudy.students import DiagonalGaussian, gaussian_encoder, image_encoder
from understudy.targets import LatentVariableModel, two_gaussians
from understudy.teachers import Identity
from understudy.training import Learner, StopTraining, Training

SMALL = {"hidden": (6,), "channels": (2, 3)}
RESULTS = Path(__file__).parents[2] / "results"


class Painter(eqx.Module):
    """A perceptron whose output is an image of 8 x 8; it compiles much sooner than convolutions."""

    perceptron: Perceptron

    def __call__(self, z):
        return self.perceptron(z).reshape(8, 8)


def shrunk(monkeypatch, convolutions):
    """The same experiment on images of 8 x 8, with 2 latents; the images."""
    monkeypatch.setattr(methods, "DIM", 2)
    monkeypatch.setattr(methods, "SIZE", (8, 8))

    def student(encoder, key, rows, before=None):
        assert encoder == "gaussian"
        if convolutions:
            return image_encoder(key, 2, (8, 8), **SMALL)
        return gaussian_encoder(key, 2, jnp.zeros((8, 8)), hidden=(6,))

    def model(key):
        plain = Painter(Perceptron(key, [2, 6, 64]))
        return LatentVariableModel(ImageDecoder(key, 2, (8, 8), **SMALL) if convolutions else plain, 2)

    monkeypatch.setattr(course, "make_student", student)
    monkeypatch.setattr(course, "make_model", model)
    if not convolutions:
        load = files.load
        monkeypatch.setattr(files, "load", lambda path: load(path, classes=[Painter]))
    return np.random.default_rng(0).integers(0, 256, (40, 8, 8), np.uint8)


@pytest.fixture
def small(monkeypatch):
    return shrunk(monkeypatch, convolutions=False)


def plan(**changes):
    given = {"core_seconds": 100.0, "updates": 8, "batch": 5, "reading": "eta", "seed": 0, "chunk": 2}
    return course.Plan(**given | changes)


def leaves(tree):
    return [np.asarray(leaf) for leaf in jax.tree.leaves(eqx.filter(tree, eqx.is_array))]


def assert_same(one, other):
    for a, b in zip(leaves(one), leaves(other), strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize(
    ("name", "convolutions"),
    [
        ("VAE", False),
        pytest.param("VAE", True, marks=pytest.mark.slow),
        pytest.param("HMC-VI, T=2", True, marks=pytest.mark.slow),
    ],
)
def test_a_killed_training_goes_on_bit_for_bit(name, convolutions, tmp_path, monkeypatch):
    method, small = mnist.METHODS[name], shrunk(monkeypatch, convolutions)
    whole = course.train_method(tmp_path / "whole", method, small, plan())
    assert whole.updates == 8

    real, calls = course.Budget.__call__, []

    def dies(self, chunk):
        calls.append(chunk)
        if len(calls) == 4:
            raise OSError("killed")
        return real(self, chunk)

    monkeypatch.setattr(course.Budget, "__call__", dies)
    original = course.train
    monkeypatch.setattr(course, "train", lambda *a, **k: original(*a, **k | {"checkpoint_seconds": 0.0}))
    with pytest.raises(OSError, match="killed"):
        course.train_method(tmp_path / "cut", method, small, plan())
    monkeypatch.setattr(course.Budget, "__call__", real)
    again = course.train_method(tmp_path / "cut", method, small, plan())
    assert_same((whole.model, whole.student), (again.model, again.student))


def test_the_budget_is_cpu_time_and_survives_a_break(tmp_path, monkeypatch):
    clock = iter(np.arange(0.0, 100.0, 3.0))
    monkeypatch.setattr(course.time, "process_time", lambda: next(clock))
    path = tmp_path / "spent.jsonl"
    learner = Learner(ExclusiveKL(), optimiser=course.adam(0.1, None))
    training = Training(learner, two_gaussians(), DiagonalGaussian(1), Identity())

    def chunk(step):
        return course.Chunk({"step": step}, training.state, training.learner, False)

    first = course.Budget(path, 10.0, None, {"student": 0.1})
    first(chunk(1))
    first(chunk(11))
    second = course.Budget(path, 10.0, None, {"student": 0.1})
    after = second(chunk(12))
    rate = after.memory["student"].hyperparams["learning_rate"]
    np.testing.assert_allclose(rate, 0.1 * course.factor(0.3), rtol=1e-6)
    assert second.core == 3.0
    second(chunk(22))
    second(chunk(32))
    with pytest.raises(StopTraining):
        second(chunk(42))
    assert files.read_rows(path)[-1]["core_seconds"] == 12.0


def test_what_is_done_in_a_pause_does_not_count(tmp_path, monkeypatch):
    clock = iter([0.0, 3.0, 50.0, 54.0])
    monkeypatch.setattr(course, "_clocks", lambda: (now := next(clock), now))
    training = Training(Learner(ExclusiveKL()), two_gaussians(), DiagonalGaussian(1), Identity())
    budget = course.Budget(tmp_path / "spent.jsonl", 10.0, None, {})
    chunk = course.Chunk({"step": 1}, training.state, training.learner, False)
    budget(chunk)
    with budget.paused():
        pass
    budget(chunk)
    assert budget.core == budget.wall == 7.0
    assert budget.share(1) == 0.7


def test_live_figures_are_those_of_the_encoder(small):
    model = course.make_model(jax.random.key(0))
    x = course.Binarised(small, 40)(jax.random.key(0))
    prior = DiagonalGaussian(2)
    found = live.figures(jax.random.key(1), model, prior, x)
    z = jax.random.normal(jax.random.key(2), (4000, 2))
    each = jax.vmap(lambda x: jax.vmap(lambda z: model.log_likelihood(z, x))(z))(x)
    np.testing.assert_allclose(found["reconstruction"], each.mean(), rtol=0.02)
    # With the prior as its encoder the bound is the reconstruction.
    np.testing.assert_allclose(found["bound"], found["reconstruction"], rtol=1e-5)
    assert 1 < found["effective"] < live.DRAWS
    blank = jax.tree.map(lambda leaf: jnp.zeros_like(leaf) if eqx.is_array(leaf) else leaf, model)
    found = live.figures(jax.random.key(1), blank, prior, x)
    np.testing.assert_allclose(found["bound"], -64 * np.log(2), rtol=1e-5)
    np.testing.assert_allclose(found["effective"], live.DRAWS, rtol=1e-4)


def test_a_training_leaves_its_live_figures_and_shows_them(small, tmp_path, monkeypatch):
    monkeypatch.setattr(live, "SECONDS", 0.0)
    shown = []

    class Bar(tqdm):
        def set_postfix(self, figures):
            shown.append(figures)

    method = mnist.METHODS["VAE"]
    course.train_method(tmp_path, method, small, plan(), Bar(disable=True))
    rows = live.rows_of(course.stage_folders(tmp_path, method))
    assert [row["step"] for row in rows] == [1, 2, 4, 5, 6, 8]
    assert set(live.CURVES) - {"acceptance"} <= set(rows[0])
    assert shown[-1]["spent"] == "100%"
    assert float(shown[0]["bound"]) < 0
    assert training_curves(rows, live.CURVES).axes


def test_rates_rise_and_fall():
    shares = np.linspace(0, 1, 101)
    factors = np.array([course.factor(share) for share in shares])
    assert factors[0] < 0.05
    assert factors.max() > 0.95
    assert factors[-1] < 0.05
    assert (np.diff(factors[5:]) < 0).all()


def test_rates_of_two_stages_are_those_of_one_but_for_the_new_rise():
    halves = [course.factor(0.4, (0.0, 0.5)), course.factor(0.4, (0.5, 0.5))]
    np.testing.assert_allclose(halves, [course.factor(0.2), course.factor(0.7)], rtol=1e-6)
    assert course.factor(0.0, (0.5, 0.5)) < 0.05


def test_stages_see_other_noise():
    first, second = (course._stage_seed(3, (begun, 0.5)) for begun in (0.0, 0.5))
    assert first != second


def test_every_method_is_made_of_ingredients_that_fit():
    shares = [sum(stage.share for stage in method.stages) for method in mnist.METHODS.values()]
    np.testing.assert_allclose(shares, 1)
    for method in mnist.METHODS.values():
        for stage in method.stages:
            for reading in methods.EPS:
                stage.teacher(reading)
            stage.feedback()
        last = method.stages[-1].encoder
        student = eqx.filter_eval_shape(methods.make_student, last, jax.random.key(0), 10)
        assert method.wild == (last in ("CNN-G", "CNN-B", "semi-implicit"))
        assert isinstance(student, ExplicitStudent) or not method.own_proposal


def test_theta_rests_where_a_stage_says_so(small, tmp_path):
    rest, learn = (
        methods.Stage("a stage", "gaussian", methods._none, ExclusiveKL, 1.0, theta=theta)
        for theta in (False, True)
    )
    start = course.make_model(jax.random.split(jax.random.key(0))[0])
    kept, moved = (
        course.train_method(tmp_path / str(stage.theta), methods.Method((stage,)), small, plan())
        for stage in (rest, learn)
    )
    assert_same(kept.model, start)
    assert any(not np.array_equal(a, b) for a, b in zip(leaves(moved.model), leaves(start), strict=True))


def test_a_wild_encoder_that_takes_over_is_taught_before_theta_learns_from_it():
    taught = [stage for stage in mnist.METHODS["HMC-AMC CNN-G, T=4"].stages if stage.encoder == "CNN-G"]
    assert [stage.theta for stage in taught] == [False, True]


def test_a_flow_takes_over_the_gaussian_encoder_before_it():
    place = image_encoder(jax.random.key(3), methods.DIM, methods.SIZE)
    made = methods.make_student("flow", jax.random.key(0), 10, place)
    assert made.place is place


def test_the_first_test_images_do_not_depend_on_how_many_are_asked_for():
    pixels = np.random.default_rng(0).integers(0, 256, (30, 4, 4), np.uint8)
    few, many = measures.test_images(pixels, 5), measures.test_images(pixels, 20)
    np.testing.assert_array_equal(few, many[:5])
    assert set(np.unique(many)) == {0.0, 1.0}


@pytest.mark.parametrize("convolutions", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_measures_agree_with_each_other(convolutions, monkeypatch):
    small = shrunk(monkeypatch, convolutions)
    model = course.make_model(jax.random.key(0))
    encoder = course.make_student("gaussian", jax.random.key(1), 0)
    sizes = measures.Sizes(4, 2000, 4, 16, 20)
    row, values = measures.measure(model, encoder, small, sizes)
    assert len(values) == 4
    np.testing.assert_allclose(row["hais_ll"], values.mean(), rtol=1e-5)
    np.testing.assert_allclose(row["hais_ll"], exact(model, small, 4), atol=0.1)
    assert row["iw_ll_of_images"] < row["hais_ll"] + 0.1
    np.testing.assert_allclose(
        row["iw_ll"], exact(model, small, len(small)), atol=5 * row["iw_se"] + 0.1
    )
    assert row["iw_ll_of_hais_images"] == row["iw_ll_of_images"]
    assert -0.1 < row["gap"] < 3 * row["gap_se"] + 0.2
    assert row["hais_ess"] <= 16.01


def exact(model, pixels, count):
    line = jnp.linspace(-6, 6, 121)
    grid = jnp.stack(jnp.meshgrid(line, line), -1).reshape(-1, 2)
    density = jax.vmap(lambda x: jax.vmap(lambda z: model.log_density(z, x))(grid))
    values = jax.jit(density)(measures.test_images(pixels, count))
    return (jax.nn.logsumexp(values, axis=1) + 2 * jnp.log(line[1] - line[0])).mean()


def test_settings_are_checked(tmp_path):
    with pytest.raises(IngredientError, match="one of VAE"):
        mnist.Settings(methods="GAN")
    chosen = mnist.Settings(methods="VAE; HMC-VI, T=2").chosen
    assert chosen == ["VAE", "HMC-VI, T=2"]
    (tmp_path / "runs").mkdir()
    with pytest.raises(IngredientError, match="--resume"):
        mnist.run(mnist.Settings(), tmp_path)


def test_values_of_methods_are_kept_together(tmp_path):
    path = tmp_path / "mnist_hais.npz"
    for name in ("VAE", "VAE, seed 1"):
        mnist._keep_values(path, name, np.arange(3.0) + len(name))
    arrays = np.load(path)
    assert sorted(arrays) == ["VAE", "VAE, seed 1"]
    np.testing.assert_array_equal(arrays["VAE"], [3.0, 4.0, 5.0])
    assert mnist.goals([{"method": "VAE", "hais_ll": -1.0}])["best"] == "VAE"
    assert jnp.isfinite(mnist.goals([{"method": "VAE", "hais_ll": -1.0}])["hais_ll"]["VAE"])


def test_tables_pair_every_method_with_the_vae_of_its_seed(tmp_path):
    values = {"VAE": [-90.0, -80.0], "VAE, seed 1": [-80.0, -70.0]}
    values |= {"HMC-VI, T=2": [-88.0, -79.0], "HMC-VI, T=2, seed 1": [-78.0, -69.0]}
    np.savez(tmp_path / "mnist_hais.npz", **{name: np.asarray(v) for name, v in values.items()})
    figures = {"encoder": "Gaussian", "updates": 9, "iw_ll": -86.0, "iw_ess": 5.0, "hais_ll": -85.0}
    figures |= {"hais_se": 1.0, "hais_ess": 12.0, "learns_from_teacher": False}
    for name in values:
        method, _, seed = name.partition(", seed ")
        row = {"name": name, "method": method, "train_seed": int(seed or 0), **figures}
        files.append_row(tmp_path / "mnist.jsonl", row)
    assert tables.paired(tmp_path) == {"HMC-VI, T=2": (1.5, 0.5, 2)}
    assert tables.differences(tmp_path) == [("HMC-VI, T=2", "no", "2", "+1.50 ± 0.50")]
    lines = tables.likelihoods(tmp_path)
    assert lines[0][:5] == ("VAE", "Gaussian", "no", "-81.31", "-80.64")
    assert lines[2][3:5] == ("", "")
    assert tables.likelihoods(tmp_path / "nothing") == []
    assert tables.imputations(tmp_path)[2] == ("CNN-B (paper)", "", "", "", "0.933", "0.064", "", "", "")


def test_both_readings_of_eta_are_paired_with_one_vae(tmp_path):
    langevin = "MCMC-VI, T=5, eta=0.2"
    values = {
        "eta": {"VAE": [-90.0, -80.0], langevin: [-93.0, -82.0]},
        "root": {langevin: [-88.0, -79.0]},
    }
    for reading, found in values.items():
        folder = tmp_path / f"short_{reading}"
        folder.mkdir()
        np.savez(folder / "mnist_hais.npz", **{name: np.asarray(v) for name, v in found.items()})
        for name in found:
            row = {"name": name, "method": name, "train_seed": 0, "encoder": "Gaussian", "updates": 9}
            row |= {"settings": {"eta": reading}, "learns_from_teacher": False}
            files.append_row(folder / "mnist.jsonl", row)
    vae, first, second = tables.short(tmp_path)
    assert vae == ("VAE", "Gaussian", "no", "", "+0.00", "9", "")
    assert first == (langevin, "Gaussian", "no", "eta", "-9.15", "9", "-2.50 ± 0.50")
    assert second == (langevin, "Gaussian", "no", "eta^2 / 2", "-9.15", "9", "+1.50 ± 0.50")


TEACHING = (InclusiveKL, JensenShannon, SemiImplicitInclusiveKL)


@pytest.mark.parametrize("name", mnist.METHODS)
def test_a_row_says_whether_its_encoder_learns_from_its_teacher(name):
    method = mnist.METHODS[name]
    feedback = method.stages[-1].feedback()
    terms = feedback.divergences if isinstance(feedback, WeightedSum) else (feedback,)
    assert method.learns_from_teacher == any(isinstance(term, TEACHING) for term in terms)
    assert method.amortised or not method.learns_from_teacher


def test_rows_in_results_say_what_their_methods_are():
    for path in (RESULTS / "mnist.jsonl", *RESULTS.glob("short_*/mnist.jsonl")):
        for row in files.read_rows(path):
            assert row["learns_from_teacher"] == mnist.METHODS[row["method"]].learns_from_teacher
            assert row["refined"] is False
    for row in files.read_rows(RESULTS / "imputation.jsonl"):
        assert row["refined"] == (row["settings"]["transitions"] > 0)
