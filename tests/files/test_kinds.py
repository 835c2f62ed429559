"""A right checksum does not make a right module: fields are compared with what their class declares."""

import equinox as eqx
import jax
import jax.numpy as jnp
import pytest

import understudy
from understudy.core import Student
from understudy.files import StoreError
from understudy.files.kinds import check_drawing, check_fields
from understudy.students import SplineFlow

KEY = jax.random.key(0)


def flow(**changed):
    made = SplineFlow(KEY, 2, layers=2, width=8, bins=4)
    for name, value in changed.items():
        object.__setattr__(made, name, value)
    return made


WRONG = {
    "infinite": flow(bins=float("inf")),
    "a truth for a number": flow(bins=True),
    "a list for an array": flow(middle=[0.0]),
    "a word for an array": flow(enter="x"),
    "too few axes": flow(middle=jnp.zeros(8)),
    "another width": flow(middle_bias=jnp.zeros((2, 7))),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_field_that_cannot_be_is_refused(name, tmp_path):
    understudy.save(tmp_path / "flow", WRONG[name])
    with pytest.raises(StoreError, match="SplineFlow has"):
        understudy.load(tmp_path / "flow")


def test_modules_side_by_side_are_of_the_kinds_declared(tmp_path):
    several = eqx.filter_vmap(lambda key: SplineFlow(key, 2, layers=2, width=8, bins=4))(
        jax.random.split(KEY, 3)
    )
    understudy.save(tmp_path / "several", several)
    assert eqx.tree_equal(understudy.load(tmp_path / "several"), several)


def test_an_array_may_stand_for_a_number():
    check_fields(SplineFlow, {"dim": jnp.asarray(2), "reach": 3})


def test_a_student_that_cannot_draw_is_refused():
    with pytest.raises(StoreError, match="cannot draw"):
        check_drawing(flow(bins=5), None)


class Wide(Student):
    dim: int = 2

    def sample(self, key, x, n):
        return jnp.zeros((n, self.dim + 1))


def test_a_student_draws_as_many_numbers_as_it_says():
    with pytest.raises(StoreError, match="draws an array of shape"):
        check_drawing(Wide(), None)
