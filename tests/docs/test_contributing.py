"""The skeletons of CONTRIBUTING are classes that work, with each other and with the package's own."""

import re
from pathlib import Path

import numpy as np
import optax
import pytest

import understudy
from understudy.feedbacks import EnergyDistance
from understudy.students import DiagonalGaussian
from understudy.teachers import mala

PAGE = Path(__file__).parents[2] / "CONTRIBUTING.md"


@pytest.fixture(scope="module")
def names():
    """What the code blocks of the page, run one after the other, define."""
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    defined = {"__name__": "contributing"}
    for block in blocks:
        exec(compile(block, str(PAGE), "exec"), defined)
    return defined


def test_the_skeletons_train_together(names):
    assert {"MyStudent", "MyTeacher", "MyFeedback"} <= set(names)
    weight = np.asarray(names["trained"].student.weight)
    assert (weight > 0.1).all()


@pytest.mark.parametrize("mine", ["MyStudent", "MyTeacher", "MyFeedback"])
def test_each_skeleton_works_with_what_is_there(names, mine):
    ingredients = {
        "MyStudent": DiagonalGaussian(2),
        "MyTeacher": mala(0.1),
        "MyFeedback": EnergyDistance(),
    }
    made = {"MyStudent": (2,), "MyTeacher": (0.1,), "MyFeedback": ()}
    ingredients[mine] = names[mine](*made[mine])
    trained = understudy.train(
        names["target"],
        *ingredients.values(),
        updates=100,
        particles=32,
        optimiser=optax.adam(0.02),
        progress=False,
    )
    assert trained.sample(0, 2000).mean() > 0.2
