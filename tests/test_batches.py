"""A stream from the host: the right batch for every update, resumed where it stopped."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import understudy
from understudy.batches import Reader, Stream, window
from understudy.core import IngredientError
from understudy.feedbacks import ExclusiveKL
from understudy.students import gaussian_encoder
from understudy.targets import LogDensity
from understudy.teachers import Identity

TARGET = LogDensity(lambda z, x: -jnp.sum((z - x) ** 2), 1, conditional=True)
BATCHES = [np.full((3, 1), float(i)) for i in range(7)]


def numbers(stream, position, count):
    return [int(batch[0, 0]) for _, batch in zip(range(count), stream.starting(position), strict=False)]


def from_position(used):
    return iter(BATCHES[used % 7 :])


@pytest.mark.parametrize("batches", [BATCHES, tuple(BATCHES), from_position])
def test_a_stream_goes_round_from_any_position(batches):
    assert numbers(Stream(batches), 5, 5) == [5, 6, 0, 1, 2]
    assert numbers(Stream(batches), 12, 3) == [5, 6, 0]


def test_a_look_at_a_generator_loses_nothing_and_its_end_is_said():
    stream = Stream(batch for batch in BATCHES)
    assert stream.first[0, 0] == 0
    with pytest.raises(IngredientError, match="ended after 7 batches"):
        numbers(stream, 0, 8)
    assert numbers(Stream(batch for batch in BATCHES), 2, 3) == [2, 3, 4]


def test_a_reader_hands_over_windows_and_errors():
    reader = Reader(Stream(BATCHES, prefetch=2), 3)
    found = reader.window(2, 4)
    assert [int(found.at(jnp.array(step))[0, 0]) for step in (3, 4)] == [3, 4]
    assert found.batches.shape == (4, 3, 1)
    assert int(reader.window(3, 4).at(jnp.array(7))[0, 0]) == 0
    reader.close()
    assert not reader._thread.is_alive()
    ends = Reader(Stream(batch for batch in BATCHES), 6)
    with pytest.raises(IngredientError, match="ended after 7 batches"):
        ends.window(2, 2)
    ends.close()


def test_a_window_reads_trees():
    tree = {"x": np.arange(4.0), "y": np.ones((4, 2))}
    made = window([tree, tree], 5, 3)
    assert jax.tree.map(jnp.shape, made.at(jnp.array(6))) == {"x": (4,), "y": (4, 2)}


BAD = {
    "a word": (lambda: Stream("rows"), "an iterable of arrays"),
    "a number": (lambda: Stream(3), "an iterable of arrays"),
    "nothing to read": (lambda: Stream([]).first, "ended after 0 batches"),
    "other shapes": (lambda: numbers(Stream([np.ones((3, 1)), np.ones((2, 1))]), 0, 2), "batch 1 has"),
    "words": (lambda: Stream([np.array(["a"])]).first, "finite numbers"),
    "nan": (lambda: numbers(Stream([np.ones((3, 1)), np.full((3, 1), np.nan)]), 0, 2), "batch 1 is"),
    "nothing ahead": (lambda: Stream(BATCHES, prefetch=0), "prefetch is a whole number"),
}


@pytest.mark.parametrize("name", BAD)
def test_what_is_no_stream_is_refused_in_one_sentence(name):
    make, words = BAD[name]
    with pytest.raises(IngredientError, match=words):
        make()


class Seen:
    """Which batches were read, and in which order."""

    def __init__(self):
        self.positions = []

    def __call__(self, used):
        self.positions.append(used)
        return iter(BATCHES[used % 7 :])


def trained(data, updates, folder=None, **settings):
    encoder = gaussian_encoder(jax.random.key(0), 1, BATCHES[0][0], hidden=(4,))
    return understudy.train(
        TARGET,
        encoder,
        Identity(),
        ExclusiveKL(),
        data,
        updates=updates,
        particles=2,
        chunk=4,
        optimiser=optax.adam(0.01),
        folder=folder,
        progress=False,
        **settings,
    )


def leaves(result):
    return jax.tree.leaves(result.state.memory)


def test_every_update_learns_from_its_own_batch_and_a_resumed_run_goes_on(tmp_path):
    whole = trained(Stream(BATCHES), 11)
    trained(Stream(BATCHES), 6, tmp_path, checkpoint_seconds=0.0)
    resumed = trained(Stream(BATCHES), 11, tmp_path, resume=True)
    for a, b in zip(leaves(whole), leaves(resumed), strict=True):
        np.testing.assert_array_equal(a, b)


def test_a_function_of_the_position_is_asked_from_where_it_stopped(tmp_path):
    trained(Stream(Seen()), 6, tmp_path, checkpoint_seconds=0.0)
    seen = Seen()
    trained(Stream(seen), 9, tmp_path, resume=True)
    assert 6 in seen.positions


def test_the_order_of_the_batches_matters_to_the_update():
    one = trained(Stream(BATCHES), 5)
    other = trained(Stream(BATCHES[::-1]), 5)
    assert any((a != b).any() for a, b in zip(leaves(one), leaves(other), strict=True))


def test_repeats_share_the_batches():
    result = trained(Stream(BATCHES), 5, repeats=2)
    assert result.state.step.tolist() == [5, 5]
