"""Questions that users of neighbouring libraries ask have an answer on a page of the contents."""

from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CONTENTS = (ROOT / "mkdocs.yml").read_text()

# The question, the page that answers it, words of the answer.
QUESTIONS = [
    ("How do I install it?", "index.md", "pip install ."),
    ("How do I fit my NumPyro model?", "howto/model.md", "from_numpyro(model"),
    ("Can I use a PyMC model?", "howto/model.md", "from_pymc(model)"),
    ("How do I constrain a parameter to be positive?", "howto/model.md", "constraints.positive"),
    ("How do I know that it converged?", "howto/right.md", "not converged"),
    ("Why do two runs differ?", "howto/reruns.md", "seeds"),
    ("How do I set a seed?", "howto/reruns.md", "`seed`"),
    ("My posterior has several modes.", "howto/modes.md", "weights"),
    ("Does it scale to hundreds of parameters?", "howto/large.md", "hundreds of dimensions"),
    ("Discrete latent variables?", "howto/discrete.md", "SingleFlip"),
    ("Minibatches?", "howto/large-data.md", "Minibatches"),
    ("I have only a simulator.", "concepts/when-not.md", "simulator"),
    ("One network for many data sets?", "howto/simulator.md", "conditional"),
    ("Simulation-based calibration?", "howto/simulator.md", "calibration"),
    ("Posterior predictive draws at new inputs?", "howto/predict.md", "predict("),
    ("Leave-one-out and model comparison?", "howto/compare.md", "loo"),
    ("Saving and loading?", "howto/ship.md", "understudy.load"),
    ("Deploying without the library?", "howto/ship.md", "load_exported"),
    ("Resume after a crash?", "howto/scale.md", "resume=True"),
    ("Does it run on a GPU?", "howto/scale.md", "GPU"),
    ("ArviZ?", "howto/arviz.md", "to_arviz"),
    ("The log density is NaN.", "howto/trouble.md", "not finite"),
    ("Which network or learning rate?", "concepts/ingredients.md", "Where to start"),
    ("How fast is it, compared with NUTS?", "quickstart/posterior.md", "break_even"),
    ("When should I use something else?", "concepts/when-not.md", "NUTS"),
    ("How do I write a student of my own?", "../CONTRIBUTING.md", "class MyStudent"),
]


@pytest.mark.parametrize(("question", "page", "words"), QUESTIONS, ids=[q for q, _, _ in QUESTIONS])
def test_a_question_has_an_answer(question, page, words):
    assert words in (ROOT / "docs" / page).read_text()
    assert page.startswith("..") or page in CONTENTS


def test_there_are_enough():
    assert len(QUESTIONS) >= 25
