import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from understudy import files, methods, train
from understudy.core import CONDITIONS, IngredientError
from understudy.feedbacks import JensenShannon
from understudy.networks.images import ConvolutionalFeatures, ImageCriticBuilder, ImageDecoder
from understudy.students import DropoutEncoder, NoisyEncoder, image_encoder
from understudy.targets import LatentVariableModel, LogDensity
from understudy.teachers import Langevin

KEY = jax.random.key(0)
X = jax.random.normal(jax.random.key(1), (6, 8, 8))
SMALL = {"hidden": (6,), "channels": (4, 8)}


def _near_the_image(z, x):
    return -jnp.sum((z - x[0, :2]) ** 2)


WILD = {
    "CNN-G": lambda: NoisyEncoder(KEY, 2, (8, 8), noise=3, **SMALL),
    "CNN-B": lambda: DropoutEncoder(KEY, 2, (8, 8), **SMALL),
}


@pytest.mark.parametrize("name", WILD)
def test_wild_encoders_draw_with_gradients_and_settle(name):
    student = WILD[name]()
    draw = jax.vmap(lambda x: student.sample(KEY, x, 5), axis_name=CONDITIONS)
    draws = jax.jit(draw)(X)
    assert draws.shape == (6, 5, 2)
    assert (draws.std(1) > 1e-3).all()
    alone = jax.jit(lambda x: student.settled(X).sample(KEY, x, 5))
    np.testing.assert_allclose(alone(X[2]), draws[2], atol=1e-5)
    with pytest.raises(IngredientError, match="settled"):
        student.sample(KEY, X[0], 5)


@pytest.mark.parametrize("name", ["CNN-G", pytest.param("CNN-B", marks=pytest.mark.slow)])
def test_wild_encoders_learn_by_a_critic_and_come_back_from_a_file(name, tmp_path):
    feedback = JensenShannon(critic=ImageCriticBuilder(channels=(4, 8), hidden=(6,)))
    target = LogDensity(_near_the_image, 2, conditional=True)
    student = WILD[name]()
    fitted = train(target, student, Langevin(0.1, 2), feedback, X, updates=3, batch_size=4, particles=1)
    changed = jax.tree.map(lambda a, b: bool((a != b).any()), *map(_arrays, (student, fitted.student)))
    assert all(jax.tree.leaves(changed))
    settled = eqx.filter_jit(lambda student: student.settled(X))(fitted.student)
    files.save(tmp_path / "student.safetensors", settled)
    again = files.load(tmp_path / "student.safetensors")
    same = jax.tree.map(lambda a, b: bool((a == b).all()), *map(_arrays, (settled, again)))
    assert all(jax.tree.leaves(same))


def _arrays(tree):
    return eqx.filter(tree, eqx.is_inexact_array)


def test_the_gaussian_encoder_of_images_has_a_density():
    student = image_encoder(KEY, 2, (8, 8), hidden=(6,), channels=(4, 8))
    draws = student.sample(KEY, X[0], 2000)
    mean, log_scale = jnp.split(student.network(X[0]), 2)
    np.testing.assert_allclose(draws.mean(0), mean, atol=4 * float(jnp.exp(log_scale).max()) / 44)
    gaussian = jax.scipy.stats.norm.logpdf(draws[0], mean, jnp.exp(log_scale)).sum()
    np.testing.assert_allclose(student.log_prob(draws[0], X[0]), gaussian, rtol=1e-5)


def test_too_many_noises_are_refused():
    with pytest.raises(IngredientError, match="fewer"):
        NoisyEncoder(KEY, 2, (8, 8), noise=100, **SMALL)


COLOUR = (6, 7, 3)


def test_colours_are_channels():
    """A network whose kernel sees one colour alone says the same of the grey image of that colour."""
    colour = ConvolutionalFeatures(KEY, COLOUR, (4,))
    kernel = colour.layers[0].kernel
    blind = eqx.tree_at(lambda f: f.layers[0].kernel, colour, kernel.at[:, :, 1:].set(0.0))
    grey = ConvolutionalFeatures(KEY, COLOUR[:2], (4,))
    grey = eqx.tree_at(lambda f: f.layers[0].kernel, grey, kernel[:, :, :1])
    x = jax.random.normal(KEY, COLOUR)
    np.testing.assert_allclose(blind(x), grey(x[..., 0]), atol=1e-5)
    assert (jnp.abs(colour(x) - blind(x)) > 1e-3).any()


def test_a_model_of_colour_images_learns():
    model = LatentVariableModel(ImageDecoder(KEY, 2, COLOUR, **SMALL), 2)
    assert model.generate(KEY, 3).shape == (3, *COLOUR)
    encoder = image_encoder(KEY, 2, COLOUR, **SMALL)
    images = (jax.random.uniform(KEY, (9, *COLOUR)) < jnp.array([0.9, 0.5, 0.1])).astype(float)
    made = methods.vae(
        model,
        encoder,
        images,
        updates=60,
        batch_size=9,
        particles=1,
        optimiser=optax.adam(1e-2),
        model_optimiser=optax.adam(1e-2),
        progress=False,
    )
    shares = made.state.target.generate(KEY, 20).mean((0, 1, 2))
    assert shares[0] > 0.7 > shares[1] > 0.3 > shares[2]


def test_wild_encoders_and_critics_see_colours():
    x = jax.random.normal(KEY, (4, *COLOUR))
    student = NoisyEncoder(KEY, 2, COLOUR, noise=3, **SMALL).settled(x)
    assert student.sample(KEY, x[0], 5).shape == (5, 2)
    assert ImageCriticBuilder((4, 8), (6,))(KEY, 2, x[0]).features.layers[0].kernel.shape[2] == 3


@pytest.mark.parametrize("size", [(8,), (8, 8, 1), (8, 8, 3, 2)])
def test_sizes_that_are_none_are_refused(size):
    with pytest.raises(IngredientError, match="height, width"):
        image_encoder(KEY, 2, size, **SMALL)


def test_images_without_their_colours_are_refused():
    with pytest.raises(IngredientError, match="3 colours"):
        image_encoder(KEY, 2, COLOUR, **SMALL).sample(KEY, jnp.zeros(COLOUR[:2]), 1)
