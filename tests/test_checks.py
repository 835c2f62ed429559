"""Settings as users have them: Python's numbers, NumPy's, JAX's, and arrays of no axis."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import understudy
from understudy import checks
from understudy.core import IngredientError

THREES = [3, np.int64(3), np.uint8(3), np.array(3), jnp.array(3)]
NO_NUMBERS = [True, np.True_, np.array(True), jnp.array(True), 3.0, np.array([3]), "3", None]


@pytest.mark.parametrize("three", THREES, ids=lambda value: type(value).__name__)
def test_a_whole_number_is_one_whoever_made_it(three):
    assert type(checks.whole("n", three)) is int
    assert checks.whole("n", three) == 3
    assert checks.seed("seed", three) == 3
    assert jax.random.bits(checks.random_key(three)) == jax.random.bits(jax.random.key(3))


@pytest.mark.parametrize("value", NO_NUMBERS, ids=repr)
def test_what_is_no_whole_number_is_none(value):
    with pytest.raises(IngredientError, match="n is a whole number"):
        checks.whole("n", value)


def test_keys_of_both_styles_are_keys():
    for key in (0, jax.random.key(0), jax.random.PRNGKey(0), jax.random.key(0, impl="rbg")):
        assert jax.random.normal(checks.random_key(key)).shape == ()


def test_a_key_of_another_generator_is_told():
    with pytest.raises(IngredientError, match="wrap_key_data"):
        checks.random_key(jax.random.PRNGKey(0, impl="rbg"))


def test_a_count_is_no_number_of_seconds():
    with pytest.raises(IngredientError, match="Gradients"):
        checks.one_positive("budget", understudy.Gradients(3))
    assert checks.one_positive("budget", np.array(2)) == 2.0


def test_gradients_are_counted_in_whole_numbers():
    assert understudy.Gradients(5e5) == understudy.Gradients(500_000) == 500_000
    with pytest.raises(IngredientError, match="whole number"):
        understudy.Gradients(0.5)


@pytest.mark.parametrize("text", ["a\0b", "\ud800"])
def test_some_characters_cannot_stand_in_the_name_of_a_file(text):
    assert not checks.can_name_a_file(text)
    assert checks.can_name_a_file("größe 数")
