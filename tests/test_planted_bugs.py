"""Bugs put into a copy of the package on purpose: the tests that exist must notice each of them."""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parent.parent


class Bug(NamedTuple):
    """A textual change of one file, and the tests that should fail for it."""

    file: str
    old: str
    new: str
    tests: str
    only: str = ""


BUGS = {
    "checksum not verified": Bug(
        "files/container.py",
        "if raw[start.place : start.place + 64] != _digest(raw, start.place):",
        "if len(raw) < start.place:",
        "tests/files/test_container.py",
        "no_damaged_file_loads",
    ),
    "accept sign of independence Metropolis": Bug(
        "teachers/independence.py",
        "jnp.minimum(candidate_weight - weight, 0.0)",
        "jnp.minimum(weight - candidate_weight, 0.0)",
        "tests/teachers/test_independence.py",
    ),
    "accept sign of tempered transitions": Bug(
        "teachers/tempered.py",
        "jnp.exp(jnp.minimum(end.log_ratio, 0.0))",
        "jnp.exp(jnp.minimum(-end.log_ratio, 0.0))",
        "tests/teachers/test_tempered.py",
        "unequal_weights or fills",
    ),
    "accept sign of the random walk within": Bug(
        "teachers/tempered.py",
        "log_ratio = beta * (height - state.height)",
        "log_ratio = beta * (state.height - height)",
        "tests/teachers/test_tempered.py",
        "unequal_weights or fills",
    ),
    "accept sign of single flips": Bug(
        "teachers/gibbs.py",
        "log_ratio = log_density(candidate) - log_density(z)",
        "log_ratio = log_density(z) - log_density(candidate)",
        "tests/teachers/test_gibbs.py",
        "metropolis",
    ),
    "importance weights upside down": Bug(
        "evaluation/trust/weights.py",
        "array_stats.psislw(-filled)",
        "array_stats.psislw(filled)",
        "tests/evaluation/test_trust.py",
        "tail_is_known",
    ),
    "no correction for the number of effects": Bug(
        "evaluation/trust/findings.py",
        "level / (2 * max(self.size.size, 1))",
        "level / 2",
        "tests/evaluation/test_trust.py",
        "levels_are_corrected",
    ),
    "climbs that go down": Bug(
        "evaluation/trust/climbs.py",
        "cosine_decay_schedule(-_RATE",
        "cosine_decay_schedule(_RATE",
        "tests/evaluation/test_trust.py",
        "missing_mode",
    ),
    "no volume in the whitened density": Bug(
        "numerics.py",
        "return lambda u: log_density(self.colour(u)) + self.log_volume",
        "return lambda u: log_density(self.colour(u))",
        "tests/teachers/test_preconditioned.py",
        "right_density",
    ),
    "no Jacobian in a warped target": Bug(
        "targets/toy.py",
        "return norm.logpdf(noise).sum() + log_det",
        "return norm.logpdf(noise).sum()",
        "tests/targets/test_toy.py",
        "normalised",
    ),
    "a stale density in the kernel's state": Bug(
        "teachers/kernels.py",
        "start = plain.init(z, jax.random.fold_in(key, self.steps))",
        "stale = self.build(lambda z: 0.0 * z.sum(), **self.parameters, **dict(self.options))\n"
        "        start = stale.init(z, jax.random.fold_in(key, self.steps))",
        "tests/teachers/test_kernels.py",
        "documented_formula or leapfrog_step",
    ),
    "a kept diagonal": Bug(
        "feedbacks/common.py",
        "    if distinct:\n",
        "    if False:\n",
        "tests/feedbacks/test_matching.py",
        "fixed_point or closed_form",
    ),
    "the sign of the inclusive KL": Bug(
        "feedbacks/likelihood.py",
        "return average(control, lesson.uniform) - average(after, lesson.weights)",
        "return average(control, lesson.uniform) + average(after, lesson.weights)",
        "tests/feedbacks/test_likelihood.py",
        "inclusive",
    ),
    "the sign of the control variate": Bug(
        "feedbacks/likelihood.py",
        "return average(control, lesson.uniform) - average(after, lesson.weights)",
        "return -average(control, lesson.uniform) - average(after, lesson.weights)",
        "tests/feedbacks/test_likelihood.py",
        "control_variate",
    ),
    "the sign of the exclusive KL": Bug(
        "feedbacks/likelihood.py",
        "costs = log_probs(density, draws, lesson.x) - log_densities(target, draws, lesson.x)",
        "costs = log_densities(target, draws, lesson.x) - log_probs(density, draws, lesson.x)",
        "tests/feedbacks/test_likelihood.py",
        "exclusive",
    ),
    "weights ignored": Bug(
        "training/lesson.py",
        "weights=jax.nn.softmax(log_weights, where=kept)",
        "weights=jax.nn.softmax(0 * log_weights, where=kept)",
        "tests/training/test_lesson.py",
    ),
    "weights ignored in an average": Bug(
        "feedbacks/common.py",
        "return jnp.sum(weights * jnp.where(weights == 0, 0.0, values))",
        "return values.mean()",
        "tests/feedbacks/test_matching.py",
        "weight_zero",
    ),
    "half of the squares missing": Bug(
        "students/gaussian.py",
        "return -0.5 * (squares + log_determinant + self.dim * jnp.log(2 * jnp.pi))",
        "return -(squares + log_determinant + self.dim * jnp.log(2 * jnp.pi))",
        "tests/students/test_gaussian.py",
        "scipy",
    ),
    "chains that are not finite are kept": Bug(
        "training/lesson.py",
        "kept = improved.finite & drawn if self.guard else drawn",
        "kept = drawn",
        "tests/training/test_update.py",
        "not_finite_stay_out",
    ),
    "the wrong noise of Langevin": Bug(
        "teachers/langevin.py",
        "jnp.sqrt(2 * self.step_size)",
        "jnp.sqrt(self.step_size)",
        "tests/teachers/test_langevin.py",
        "recursion",
    ),
    "annealing forgets the base": Bug(
        "teachers/annealed.py",
        "log_density(z) - base(z)",
        "log_density(z)",
        "tests/teachers/test_annealed.py",
        "evidence or importance",
    ),
    "the model climbs the wrong way": Bug(
        "training/update.py",
        "return -jnp.sum(jnp.where(lesson.kept, lesson.weights * values, 0.0))",
        "return jnp.sum(jnp.where(lesson.kept, lesson.weights * values, 0.0))",
        "tests/training/test_update.py",
        "maximum_likelihood",
    ),
    "the same noise in every update": Bug(
        "training/loop.py",
        "numbered(state.key, state.step)",
        "numbered(state.key, 0)",
        "tests/test_methods.py",
        "chains_of_mcmc",
    ),
    "the sign of the Stein kernel's drift": Bug(
        "numerics.py",
        "drift = 2 * slope * ((other_score - score) @ difference)",
        "drift = 2 * slope * ((score - other_score) @ difference)",
        "tests/evaluation/test_stein.py",
        "definition",
    ),
    "correlations left in whitened draws": Bug(
        "numerics.py",
        "correlation = (1 - shrinkage) * (standard.T @ standard) / n + shrinkage * xp.eye(len(mean))",
        "correlation = xp.eye(len(mean))",
        "tests/test_numerics.py",
        "white",
    ),
    "a sum that forgets its weights": Bug(
        "feedbacks/weighted.py",
        "weight * one.loss(student, own, target, lesson)",
        "one.loss(student, own, target, lesson)",
        "tests/feedbacks/test_weighted.py",
        "add_up",
    ),
    "noise that the factor explains twice": Bug(
        "students/gaussian.py",
        "jnp.maximum(total - (factor * crossed).sum(1), _LEAST_OWN * total)",
        "jnp.maximum(total, _LEAST_OWN * total)",
        "tests/students/test_gaussian.py",
        "low_rank_projection",
    ),
    "a mixture's density without its number of Gaussians": Bug(
        "feedbacks/likelihood.py",
        "return logsumexp(each, 1) - jnp.log(len(means))",
        "return logsumexp(each, 1)",
        "tests/feedbacks/test_likelihood.py",
        "semi_implicit",
    ),
    "all weights before all biases": Bug(
        "networks/layers.py",
        "[part for weight, bias in layers for part in (weight.ravel(), bias)]",
        "[*(weight.ravel() for weight, _ in layers), *(bias for _, bias in layers)]",
        "tests/students/test_encoders.py",
        "bayesian_network",
    ),
    "a chain that stays at the first theta": Bug(
        "training/update.py",
        "return Learnt(_followed(state), loss, fine)",
        "return Learnt(state, loss, fine)",
        "tests/students/test_encoders.py",
        "follows",
    ),
}
FAST = "checksum not verified"


def copied(folder: Path) -> Path:
    copy = folder / "understudy"
    shutil.copytree(ROOT / "src" / "understudy", copy, ignore=shutil.ignore_patterns("__pycache__"))
    return copy


def plant(folder: Path, bug: Bug) -> Path:
    copy = copied(folder)
    place = copy / bug.file
    text = place.read_text()
    assert text.count(bug.old) == 1, f"the text to change occurs {text.count(bug.old)} times"
    place.write_text(text.replace(bug.old, bug.new))
    return copy


def run(folder: Path, *command: str) -> subprocess.CompletedProcess:
    environment = {**os.environ, "PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run(
        [sys.executable, *command], cwd=ROOT, env=environment, capture_output=True, text=True
    )


def run_tests(folder: Path, tests: str, only: str) -> subprocess.CompletedProcess:
    options = ["-q", "-x", "-m", "not slow", "-p", "no:cacheprovider", "-p", "no:xdist"]
    return run(folder, "-m", "pytest", tests, *options, *(["-k", only] if only else []))


def test_the_copy_is_what_is_imported(tmp_path):
    copy = plant(tmp_path, BUGS[FAST])
    found = run(tmp_path, "-c", "import importlib.util as u; print(u.find_spec('understudy').origin)")
    assert found.stdout.strip() == str(copy / "__init__.py")


@pytest.mark.parametrize("name", BUGS)
def test_every_bug_can_still_be_planted(name):
    assert (ROOT / "src" / "understudy" / BUGS[name].file).read_text().count(BUGS[name].old) == 1


@pytest.mark.slow
@pytest.mark.parametrize(("tests", "only"), sorted({(bug.tests, bug.only) for bug in BUGS.values()}))
def test_a_copy_without_a_bug_passes(tmp_path, tests, only):
    """Otherwise a failure below would prove nothing."""
    copied(tmp_path)
    found = run_tests(tmp_path, tests, only)
    assert found.returncode == 0, found.stdout[-2000:]


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name == FAST else pytest.mark.slow) for name in BUGS]
)
def test_the_tests_notice(tmp_path, name):
    bug = BUGS[name]
    plant(tmp_path, bug)
    found = run_tests(tmp_path, bug.tests, bug.only)
    assert found.returncode == 1, found.stdout[-2000:]
    assert " failed" in found.stdout.splitlines()[-1], found.stdout[-2000:]
