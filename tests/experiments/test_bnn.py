"""A tiny run of the networks writes everything, goes on where it stopped, and measures right."""

import dataclasses
import json

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import expit, logit

from experiments import bnn
from experiments.bnn import methods, problems, recipes
from experiments.bnn.averaging import averaged
from experiments.bnn.course import follow, network, predictions
from experiments.bnn.methods import Result
from experiments.bnn.predictions import keep_predictions, load_predictions, predictions_of
from experiments.bnn.report import calibration_error, cells, goals, paired, pooled_ece
from understudy import files
from understudy.core import IngredientError
from understudy.students import DiagonalGaussian
from understudy.targets import BayesianNetwork

TINY = {"datasets": "crabs", "splits": 2, "updates": 4, "folds": 1}


def fake(mean):
    """A task that predicts ``mean`` for every row."""

    def task(table, sizes):
        del sizes
        splits, rows = table.new_labels.shape
        return {"HMC": Result(np.full((splits, rows), mean), np.ones(splits), {})}

    return task


def test_a_run_writes_rows_picture_and_report_and_resumes(tmp_path, monkeypatch):
    monkeypatch.setitem(bnn.TASKS, ("HMC",), fake(0.5))
    settings = bnn.Settings(methods="HMC", **TINY)
    figures = bnn.run(settings, tmp_path, progress=False)
    written = {"bnn.jsonl", "bnn_predictions.npz", "bnn.png", "report.json", "report.html"}
    assert {p.name for p in tmp_path.iterdir()} == written
    assert json.dumps(figures, allow_nan=False)
    rows = files.read_rows(tmp_path / "bnn.jsonl")
    assert [row["split"] for row in rows] == [0, 1]
    wanted = {"dataset", "method", "split", "test_ll", "test_error", "ece", "train_seconds"}
    wanted |= {"tuned", "amortised", "refined", "learns_from_teacher", "settings", "seed", "commit"}
    assert wanted <= set(rows[0])
    assert not {"probabilities", "labels"} & set(rows[0]), "predictions are kept beside the rows"
    assert rows[0]["test_ll"] == pytest.approx(np.log(0.5))

    monkeypatch.setitem(bnn.TASKS, ("HMC",), fake(0.9))
    bnn.run(settings, tmp_path, progress=False)
    assert files.read_rows(tmp_path / "bnn.jsonl") == rows, "rows of the same settings are kept"
    with (tmp_path / "bnn.jsonl").open("w") as file:
        file.write(json.dumps(rows[0]) + "\n")
    bnn.run(settings, tmp_path, progress=False)
    again = files.read_rows(tmp_path / "bnn.jsonl")
    assert [row["split"] for row in again] == [0, 1], "half a group is made again"
    assert again[0]["test_ll"] != rows[0]["test_ll"]


def test_another_seed_adds_further_splits(tmp_path, monkeypatch):
    monkeypatch.setitem(bnn.TASKS, ("HMC",), fake(0.5))
    for seed in (3, 1, 3):
        bnn.run(bnn.Settings(methods="HMC", seed=seed, **TINY), tmp_path, progress=False)
    rows = files.read_rows(tmp_path / "bnn.jsonl")
    assert [(row["seed"], row["split"]) for row in rows] == [(3, 0), (3, 1), (1, 2), (1, 3)]
    assert bnn._resume(tmp_path / "bnn.jsonl", bnn.Settings(seed=7, **TINY)) == (set(), 4)
    with (tmp_path / "bnn.jsonl").open("w") as file:
        file.writelines(json.dumps(row) + "\n" for row in rows[2:] + rows[:2])
    assert bnn._resume(tmp_path / "bnn.jsonl", bnn.Settings(seed=3, **TINY))[1] == 0, "in any order"
    rows = rows[2:] + rows[:2]
    bnn.run(bnn.Settings(methods="HMC", **TINY | {"updates": 5}), tmp_path, progress=False)
    more = files.read_rows(tmp_path / "bnn.jsonl")
    assert more[:4] == rows, "rows of other settings stay"
    assert [row["split"] for row in more[4:]] == [0, 1]


def test_every_split_learns_with_its_own_setting():
    table = problems.outer(problems.load("crabs"), 2, 0)
    course = recipes.variational(recipes.Sizes(40, 1, 1, 1, 4, 1, 0))
    made = follow(course, jax.random.key(0), table, [0.05, 1e-9])
    assert made.probabilities.shape == (2, len(course.marks), 100, 20)
    assert made.students.mean.shape == (2, len(course.marks), 401)
    moved = jnp.abs(made.students.mean[:, -1] - made.students.mean[:, 0]).max(1)
    assert moved[0] > 0.1
    assert moved[1] < 1e-5
    values = problems.log_likelihood(made.mean, np.asarray(table.new_labels)[:, None])
    assert values[0, -1] > values[0, 0]


def test_a_training_that_diverges_is_not_silent():
    table = problems.outer(problems.load("crabs"), 2, 0)
    course = recipes.variational(recipes.Sizes(4, 1, 1, 1, 4, 1, 0))
    with pytest.raises(IngredientError, match=r"1 of 2 trainings .* settings \[1e\+30\]"):
        follow(course, jax.random.key(0), table, [0.01, 1e30])


@pytest.mark.slow
def test_vi_is_tuned_and_calibrated():
    table = problems.outer(problems.load("crabs"), 2, 0)
    made = methods.variational_family(table, recipes.Sizes(4, 4, 4, 1, 4, 1, 0))
    assert set(made) == {"VI", "VI (paper)", "VI calibrated"}
    assert set(made["VI"].extra["rate"]) <= set(methods.RATES)
    proper(made)


@pytest.mark.slow
def test_a_mixture_is_finished_and_learnt_again(monkeypatch):
    monkeypatch.setattr(methods, "MEMBERS", 2)
    monkeypatch.setattr(methods, "TRANSITIONS", 4)
    table = problems.outer(problems.load("crabs"), 2, 0)
    made = methods.finished_family(table, recipes.Sizes(4, 4, 4, 1, 4, 1, 0))
    assert set(made) == {"VI mixture", "finished", "taught mixture"}
    proper(made)
    assert (made["finished"].seconds > made["VI mixture"].seconds).all()


def proper(made):
    """Every method predicts probabilities for all rows, and takes time."""
    for result in made.values():
        assert result.mean.shape == (2, 20)
        assert ((result.mean > 0) & (result.mean < 1)).all()
        assert (result.seconds > 0).all()


def test_members_of_a_mixture_learn_apart_and_predict_together():
    table = problems.outer(problems.load("crabs"), 2, 0)
    sizes = recipes.Sizes(4, 4, 4, 1, 4, 1, 0)
    made = methods.mixture(table, sizes, 3, "all")
    assert made.students.mean.shape == (2, 3, 3, 401)
    assert made.probabilities.shape == (2, 3, 1, 20)
    every = follow(recipes.member(sizes), sizes.key("mixture all"), table.repeat(3), np.full(6, 0.01))
    np.testing.assert_allclose(made.students.mean[1, :, 2], every.students.mean[5], rtol=1e-5)
    first, second = (every.mean[[1, 3, 5], mark].mean(0) for mark in (0, 1))
    np.testing.assert_allclose(made.mean[1, 1], (first + second) / 2, rtol=1e-5)
    means = np.asarray(made.students.mean[0, 2])
    assert min(np.abs(means[i] - means[j]).max() for i, j in ((0, 1), (0, 2), (1, 2))) > 0.1


def test_chains_start_at_a_draw_of_each_gaussian():
    target = BayesianNetwork(np.zeros((3, 1)), np.arange(3) % 2, (2,))
    mean = 10.0 * jnp.arange(4)[:, None] + jnp.zeros((4, target.dim))
    start = eqx.filter_vmap(lambda m: DiagonalGaussian(target.dim, m, 0.01))(mean)
    begun = recipes.chains(3)(jax.random.key(0), target, start).z
    np.testing.assert_allclose(begun, mean[:3], atol=0.1)
    assert jnp.abs(begun - mean[:3]).max() > 0


def test_unknown_names_are_refused():
    with pytest.raises(IngredientError, match="A data set is one of crabs"):
        bnn.Settings(datasets="iris")
    with pytest.raises(IngredientError, match="A method is one of VI"):
        bnn.Settings(methods="magic")


def test_validation_parts_lie_inside_their_training_part_and_do_not_meet():
    table = problems.outer(problems.load("crabs"), 3, 0)
    parts = problems.inner(table, 2, 0)
    assert parts.features.shape == (6, 144, 6)
    assert parts.new_features.shape == (6, 36, 6)
    for split in range(3):
        rows = {tuple(row) for row in np.asarray(table.features[split])}
        first, second = (
            {tuple(r) for r in np.asarray(parts.new_features[2 * split + f])} for f in (0, 1)
        )
        assert first <= rows
        assert second <= rows
        assert not first & second
        learnt = {tuple(r) for r in np.asarray(parts.features[2 * split])}
        assert not first & learnt


def test_wide_tables_keep_their_posterior_and_their_predictions():
    random = np.random.default_rng(0)
    train, new = random.normal(size=(5, 30)), random.normal(size=(4, 30))
    small, small_new = problems.reduced(train, new)
    assert small.shape == (5, 6)
    np.testing.assert_allclose(small @ small.T, train @ train.T, atol=1e-9)
    np.testing.assert_allclose(small_new @ small.T, new @ train.T, atol=1e-9)
    np.testing.assert_allclose((small_new**2).sum(1), (new**2).sum(1))


def test_calibration_error_of_known_cases():
    labels = np.array([0, 1, 1, 1])
    assert calibration_error(np.full(4, 0.75), labels) == pytest.approx(0)
    assert calibration_error(np.full(4, 0.25), labels) == pytest.approx(0.5)
    assert calibration_error(labels.astype(float), labels) == pytest.approx(0)


def test_splits_that_err_in_turn_are_calibrated_together(tmp_path):
    settings = {"splits": 2, "seed": 0}
    rows = [
        {"dataset": "pima", "method": "VI", "split": split, "settings": settings} for split in (0, 1)
    ]
    keep_predictions(tmp_path, settings, "pima", {"VI": np.full((2, 1), 0.5)}, np.array([[0], [1]]))
    assert pooled_ece(rows, load_predictions(tmp_path), "pima", "VI") == pytest.approx(0)
    assert calibration_error([0.5], [1]) == pytest.approx(0.5)


def test_predictions_of_a_split_are_those_of_its_settings(tmp_path):
    told, truth = np.array([[0.1234, 1.0], [0.0, 0.5]]), np.array([[0, 1], [1, 0]])
    kept = {"splits": 2, "seed": 3}, {"splits": 2, "seed": 4}
    keep_predictions(tmp_path, kept[0], "pima", {"VI": told}, truth)
    keep_predictions(tmp_path, kept[1], "pima", {"VI": 1 - told}, 1 - truth)
    arrays = load_predictions(tmp_path)
    for split in (0, 1):
        # The second seed's splits are counted on from those of the first.
        first = {"dataset": "pima", "method": "VI", "split": split, "settings": kept[0]}
        second = {**first, "split": 2 + split, "settings": kept[1]}
        np.testing.assert_allclose(predictions_of(arrays, first), (told[split], truth[split]))
        np.testing.assert_allclose(predictions_of(arrays, second), (1 - told[split], 1 - truth[split]))
    assert load_predictions(tmp_path / "nowhere") == {}


def test_choices_follow_the_best_fold_mean():
    values = np.arange(2 * 3 * 2 * 4).reshape(12, 4)
    rate, mark = np.array([1, 0, 1]), np.array([3, 2, 0])
    chosen = methods._chosen(values, rate, mark, folds=2)
    cube = values.reshape(2, 3, 2, 4)
    pairs = list(enumerate(zip(rate, mark, strict=True)))
    np.testing.assert_array_equal(chosen, [cube[r, s, f, m] for s, (r, m) in pairs for f in (0, 1)])
    offers = [np.array([0.0, 0.0, 5.0, 1.0]), np.ones(4)]
    assert methods._best(offers, splits=2, folds=2).tolist() == [1, 0]


def test_averaging_integrates_over_factors_and_predictions():
    random = np.random.default_rng(0)
    student, chains = random.uniform(0.05, 0.95, (2, 2, 12))
    labels = (random.uniform(size=(2, 12)) < 0.5 * (student + chains)).astype(float)
    made = averaged([student, chains], labels, [student, chains])
    for split in range(2):
        pair = logit(student[split]), logit(chains[split])

        def belief(factor, logits, split=split):
            tilted = factor * logits
            fit = (labels[split] * tilted - np.logaddexp(0, tilted)).sum()
            return np.exp(fit) / (1 + ((factor - 1) / 0.1) ** 2)

        evidence = np.array([quad(belief, 0.2, 3, (one,), points=[1])[0] for one in pair])
        np.testing.assert_allclose(made.shares[split], evidence / evidence.sum(), atol=2e-3)
        slopes, firsts = [], []
        for logits, total in zip(pair, evidence, strict=True):
            of = lambda f: (  # noqa: E731
                quad(lambda b: f(b) * belief(b, logits), 0.2, 3, points=[1])[0] / total
            )
            slopes.append(of(lambda b: b))
            firsts.append(of(lambda b: expit(b * logits[0])))
        np.testing.assert_allclose(made.slopes[split], slopes, atol=5e-3)
        assert made.mean[split, 0] == pytest.approx(made.shares[split] @ firsts, abs=2e-3)


def test_averaging_without_labels_believes_all_alike():
    nothing = np.zeros((1, 0))
    student, chains = np.array([[0.9, 0.2]]), np.array([[0.3, 0.6]])
    made = averaged([nothing] * 2, nothing, [student, chains])
    np.testing.assert_allclose(made.shares, [[0.5, 0.5]], atol=1e-6)
    np.testing.assert_allclose(made.mean, (student + chains) / 2, atol=0.05)


def test_averaging_believes_what_told_the_labels():
    random = np.random.default_rng(0)
    right, wrong = random.uniform(0.05, 0.95, (2, 1, 400))
    labels = (random.uniform(size=(1, 400)) < right).astype(float)
    made = averaged([wrong, right], labels, [wrong, right])
    assert made.shares[0, 1] > 0.999
    np.testing.assert_allclose(made.mean, right, atol=0.05)


@pytest.mark.parametrize("heat", [0.7, 1.5])
def test_averaging_undoes_too_much_and_too_little_confidence(heat):
    random = np.random.default_rng(0)
    logits = random.normal(0, 2, (1, 5000))
    labels = (random.uniform(size=logits.shape) < expit(logits)).astype(float)
    told = expit(logits / heat)
    made = averaged([told], labels, [told])
    assert made.slopes[0, 0] == pytest.approx(heat, rel=0.06)
    np.testing.assert_allclose(made.mean, expit(logits), atol=0.03)


def test_networks_on_the_way_predict_but_for_the_first_quarter():
    means = np.arange(1, 9, dtype=float)[None, :, None]
    assert methods.late(means)[0, 0] == np.mean([3, 4, 5, 6, 7, 8])
    assert methods.late(means, 4)[0, 0] == np.mean([2, 3, 4])


def test_fewer_chains_where_gradients_are_long():
    assert [methods.chains_for(rows) for rows in (40, 180, 316, 690)] == [32, 16, 9, 4]


def test_a_taught_mixture_comes_to_predict_as_the_paths_do():
    table = problems.outer(problems.load("crabs"), 2, 0)
    target = network(jax.tree.map(lambda leaf: leaf[0], table))
    path = jax.vmap(lambda key: target.start(key, 3))(jax.random.split(jax.random.key(1), 8))
    path = jnp.stack([path, 2 * path])  # two problems
    course = dataclasses.replace(recipes.pupil(recipes.Sizes(400, 1, 1, 1, 4, 1, 0), 3), marks=(1, 300))
    made = follow(course, jax.random.key(2), table, [0.01, 0.01], path)
    assert made.students.means.shape == (2, 2, 3, target.dim)
    np.testing.assert_allclose(made.students.means[:, 0], path[:, -1], atol=0.02)
    draws = path.reshape(2, -1, target.dim)
    told = np.stack([
        predictions(target, one, new).mean(0)
        for one, new in zip(draws, table.new_features, strict=True)
    ])  # fmt: skip
    first, last = (np.abs(made.mean[:, mark] - told).mean() for mark in (0, 1))
    assert last < 0.7 * first


def test_rhat_tells_chains_that_agree_from_those_that_do_not():
    logits = np.random.default_rng(0).normal(size=(100, 4, 3))
    apart = logits + 3 * np.arange(4)[:, None]
    together, separate = (methods.rhat(1 / (1 + np.exp(-x))) for x in (logits, apart))
    assert together < 1.05
    assert separate > 1.5


def rows_of(method, values, dataset="pima", **more):
    return [
        {"dataset": dataset, "method": method, "split": i, "test_ll": v, "test_error": -v, "ece": 0.1,
         "train_seconds": 1.0, **more}
        for i, v in enumerate(values)
    ]  # fmt: skip


def test_bold_marks_the_best_and_its_ties_by_paired_differences():
    noise = np.array([0.0, 0.3, -0.3, 0.1])
    rows = rows_of("VI", -0.5 + noise) + rows_of("finished", -0.4 + noise)
    rows += rows_of("HMC", -0.41 + noise + [0.05, -0.05, 0.05, -0.05])
    made = cells(rows, "pima", "test_ll", ("VI", "finished", "HMC", "AMC"), max)
    assert [text.startswith("**") for text in made] == [False, True, True, False]
    assert made[3] == ""


def test_goals_count_sets():
    noise = np.array([0.01, -0.01, 0.0, 0.005])
    rows = rows_of("VI", -0.5 + noise) + rows_of("finished", -0.4 + noise + [0.001, 0, 0, 0])
    rows += rows_of("MALA-100", -0.41 + noise, train_seconds=10.0)
    found = goals(rows)
    assert found["better_than_vi"] == 1
    assert found["worse_than_mala"] == 0
    assert found["paper_reached"] == 1
    assert found["largest_time_over_mala"] == pytest.approx(0.1)
    assert paired(np.array([1.0, 3.0]), np.array([0.0, 0.0])) == (2.0, pytest.approx(1.0))


def test_the_outside_of_the_span_is_one_gaussian_number():
    """Predictions of a linear model on a wide table agree with its exact posterior."""
    random = np.random.default_rng(1)
    train, new, y = random.normal(size=(4, 9)), random.normal(size=(3, 9)), random.normal(size=4)
    small, small_new = problems.reduced(train, new)
    spreads = []
    for features, rows in ((train, new), (small, small_new)):
        target = BayesianNetwork(features, y, (), "gaussian")
        precision = -jax.hessian(target.log_density)(jnp.zeros(target.dim))
        design = np.column_stack([rows, np.ones(3)])
        spreads.append(np.einsum("ni,ij,nj->n", design, np.linalg.inv(precision), design))
    np.testing.assert_allclose(*spreads, rtol=1e-4)
