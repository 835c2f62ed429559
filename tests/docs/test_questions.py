"""Questions that users of neighbouring libraries ask have an answer within two steps of the site.

Two steps: one into the contents or the search, one to the page. The questions are those of the forums
and issue trackers of NumPyro, Pyro, PyMC, Stan, sbi, BayesFlow and flowMC, in other words.
"""

from pathlib import Path
from typing import NamedTuple

import pytest

from docs.tools import browse

ROOT = Path(__file__).parents[2]
CONTENTS = (ROOT / "mkdocs.yml").read_text()


class Question(NamedTuple):
    """What somebody asks, what they type into the search, the page that answers, words of the answer."""

    asked: str
    typed: str
    page: str
    words: str


QUESTIONS = [
    # NumPyro and Pyro
    Question("Does SVI converge to the right solution?", "converged", "howto/right.md", "not converged"),
    Question("My SVI loss becomes NaN.", "loss nan", "howto/questions.md", "no chain can move"),
    Question("The guide's variances are too small.", "too narrow", "howto/questions.md", "inclusive KL"),
    Question("Can SVI start my NUTS run?", "warm start NUTS", "howto/questions.md", "init_params"),
    Question("A simple model compiles for minutes.", "compiling slow", "howto/trouble.md", "lax.scan"),
    Question("How do I subsample data?", "minibatches", "howto/large-data.md", "Minibatches"),
    # PyMC
    Question("Predict out of sample?", "predict new data", "howto/predict.md", "predict("),
    Question("Can I use my PyMC model here?", "pymc model", "howto/model.md", "from_pymc(model)"),
    Question("Save a trace and load it tomorrow?", "save load", "howto/ship.md", "understudy.load"),
    Question("LOO or Bayes factor for two models?", "compare models", "howto/compare.md", "loo"),
    Question(
        "Integer or categorical latents?", "discrete parameters", "howto/discrete.md", "SingleFlip"
    ),
    # Stan
    Question("Divergences in a hierarchy?", "divergences", "howto/questions.md", "non-centred"),
    Question("Initial evaluation failed.", "initial values", "howto/questions.md", "finite at none"),
    Question("Label switching?", "label switching", "howto/questions.md", "ordered_vector"),
    Question("Use a Stan program?", "stan", "howto/from-pymc.md", "real<lower=0> sigma"),
    Question("Chains differ between runs.", "different seeds", "howto/reruns.md", "`seed`"),
    # sbi
    Question("Trials that vary in number?", "number of rows", "quickstart/many.md", "sizes=(10, 1000)"),
    Question("Samples outside the prior?", "leakage", "howto/questions.md", "inside the support"),
    Question("Simulations made elsewhere?", "simulator not in JAX", "howto/questions.md", "Pairs("),
    Question("Run SBC on my posterior?", "calibration", "quickstart/many.md", "calibration"),
    # BayesFlow
    Question("How are missing values handled?", "missing values", "quickstart/many.md", "Write NaN"),
    Question(
        "Fine in simulation, odd on real data.", "misspecification", "howto/questions.md", "`novel`"
    ),
    Question("Poor recovery of a parameter?", "recovered", "howto/questions.md", "inference.summary()"),
    Question("Which summary network?", "summary network", "howto/questions.md", "`summary=`"),
    # flowMC
    Question("Zero local acceptance?", "local acceptance", "howto/questions.md", "gradient is not"),
    Question("Low global acceptance?", "global acceptance", "howto/from-flowmc.md", "acceptance"),
    Question("Two modes, wrong weights?", "several modes", "howto/modes.md", "share of the larger mode"),
    Question("Parallel tempering?", "tempering", "howto/modes.md", "Tempering helps"),
    # A second list, made after the pages were written
    Question("How do I get the same result twice?", "reproducible", "howto/reruns.md", "reproducible"),
    Question("Hold a parameter at a value?", "fixed parameter", "howto/model.md", "handlers.condition"),
    Question("A correlation matrix?", "correlation matrix", "howto/model.md", "LKJCholesky"),
    Question("What does my prior predict?", "prior predictive", "howto/predict.md", "Predictive(model"),
    Question("Must I switch on float64?", "float64", "howto/questions.md", "whatever `jax_enable_x64`"),
    Question("Highest density intervals?", "credible interval", "howto/questions.md", "hdi(tree)"),
    Question("Potential, CustomDist?", "custom likelihood", "howto/model.md", "numpyro.factor"),
    Question("Censored data?", "censored", "howto/model.md", "cut off"),
    Question("Gaussian processes?", "gaussian process", "howto/model.md", "kernel matrix"),
    Question("New data came: update it?", "update posterior", "howto/questions.md", "Fit all the data"),
    Question("Generated quantities?", "derived quantities", "howto/model.md", "deterministic"),
    Question("Impute in one data set?", "missing values", "howto/model.md", "x.at[holes]"),
    Question("ODE models?", "differential equation", "howto/model.md", "odeint"),
    Question("Cauchy priors?", "heavy tails", "howto/model.md", "fall as powers"),
    Question("A prior of my own for sbi?", "custom prior", "howto/from-sbi.md", "a prior of one's own"),
    Question("My observation is a series.", "time series", "quickstart/many.md", "are a series"),
    Question("posterior.log_prob(theta)?", "log_prob", "howto/questions.md", "student.log_prob(z)"),
    Question("Overconfident: what now?", "overconfident", "howto/questions.md", "coverage below"),
    Question("Neural likelihood estimation?", "NLE", "howto/from-sbi.md", "posteriors alone are learnt"),
    Question(
        "Amortised model choice?", "model comparison", "howto/compare.md", "no network that chooses"
    ),
    Question("Train a saved one further?", "continue training", "howto/questions.md", "inference.teach"),
    Question("Is it overfitting?", "overfitting", "howto/questions.md", "learn by heart"),
    Question("Angles, circular parameters?", "angle", "howto/model.md", "constraints.circular"),
    Question("Marginal likelihood?", "evidence", "howto/compare.md", "mean of target over student"),
    # All of them
    Question("Does it run on a GPU?", "GPU", "howto/scale.md", "A GPU"),
    Question("When should I rather use NUTS?", "when not to", "concepts/when-not.md", "NUTS"),
    Question("Resume a run that was cut off?", "resume", "howto/scale.md", "resume=True"),
]
# One in twenty-five may be missed by the search; none by the contents.
MISSED = 1


@pytest.mark.parametrize("question", QUESTIONS, ids=[question.asked for question in QUESTIONS])
def test_a_question_has_an_answer(question):
    assert question.words in (ROOT / "docs" / question.page).read_text()
    assert question.page in CONTENTS


def test_there_are_enough():
    assert len(QUESTIONS) >= 25


@pytest.mark.slow
@pytest.mark.skipif(browse.chromium() is None, reason="no chromium on this machine")
@pytest.mark.skipif(not (ROOT / "site" / "index.html").exists(), reason="no site yet: make docs")
def test_the_search_of_the_site_leads_to_the_answers():
    with browse.Browser(browse.chromium()) as browser, browse.served(browse.SITE) as address:
        missed = {
            question.typed: found
            for question in QUESTIONS
            if question.page.replace(".md", ".html")
            not in (found := browser.search(address, question.typed))
        }
    assert len(missed) <= MISSED, missed
