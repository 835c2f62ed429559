import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from understudy.backend import backend
from understudy.core import CONDITIONS, IngredientError
from understudy.networks import convolutions
from understudy.networks.convolutions import BatchNormalisation, Convolution, Deconvolution, leaky
from understudy.networks.images import (
    ConvolutionalFeatures,
    ImageCriticBuilder,
    ImageDecoder,
    ImageNetwork,
    wild_features,
)

KEY = jax.random.key(0)
NAMES = ("NHWC", "HWIO", "NHWC")


def plain(image, kernel, stride):
    """XLA's own convolution, in double precision's place: the highest it has."""
    return jax.lax.conv_general_dilated(
        image[None], kernel, (stride, stride), "SAME", dimension_numbers=NAMES, precision="highest"
    )[0]


def plain_transposed(image, kernel, stride, size):
    """The transpose of XLA's convolution from ``size``."""
    large = jnp.zeros((*size, kernel.shape[3]))
    back = lambda large: plain(large, kernel.swapaxes(2, 3), stride)  # noqa: E731
    return jax.linear_transpose(back, large)(image)[0]


def value_and_gradients(function, *arguments):
    """Output and gradients of a random projection of it, in one program."""

    @jax.jit
    def run(*arguments):
        out = function(*arguments)
        direction = jax.random.normal(jax.random.key(9), out.shape)
        loss = lambda *given: jnp.vdot(function(*given), direction)  # noqa: E731
        return out, jax.grad(loss, tuple(range(len(arguments))))(*arguments)

    return jax.tree.leaves(run(*arguments))


def assert_same(found, wanted):
    for one, other in zip(found, wanted, strict=True):
        scale = np.abs(other).max()
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-5 * scale)


@pytest.fixture(params=["rows", "patches", "own"])
def form(request, monkeypatch):
    """A form on a CPU, or what other machines do."""
    if request.param != "own":
        return request.param
    monkeypatch.setattr(convolutions, "backend", lambda: backend("gpu"))
    return "rows"


@pytest.mark.parametrize(("size", "width", "stride"), [((28, 28), 5, 2), ((7, 6), 3, 2), ((9, 5), 5, 3)])
def test_a_convolution_is_the_plain_one(form, size, width, stride):
    layer = Convolution(KEY, size, (3, 4), width, stride, form)
    image = jax.random.normal(jax.random.key(1), (*size, 3))
    ours = lambda image, kernel: eqx.tree_at(lambda la: la.kernel, layer, kernel)(image)  # noqa: E731
    found = value_and_gradients(ours, image, layer.kernel)
    wanted = value_and_gradients(lambda i, k: plain(i, k, stride), image, layer.kernel)
    assert found[0].shape[:2] == layer.out
    assert_same(found, wanted)


@pytest.mark.parametrize(("size", "width", "stride"), [((28, 28), 5, 2), ((7, 6), 5, 2), ((9, 5), 4, 3)])
def test_a_deconvolution_is_the_transpose_of_the_plain_one(form, size, width, stride):
    layer = Deconvolution(KEY, size, (3, 2), width, stride, form)
    small = tuple(-(-length // stride) for length in size)
    image = jax.random.normal(jax.random.key(1), (*small, 3))
    ours = lambda image, kernel: eqx.tree_at(lambda la: la.kernel, layer, kernel)(image)  # noqa: E731
    found = value_and_gradients(ours, image, layer.kernel)
    wanted = value_and_gradients(lambda i, k: plain_transposed(i, k, stride, size), image, layer.kernel)
    assert found[0].shape[:2] == size
    assert_same(found, wanted)


def test_forms_of_a_deconvolution_agree_on_second_derivatives_of_a_batch():
    images = jax.random.normal(jax.random.key(1), (4, 3, 2, 3))

    def slopes_of_slopes(form):
        layer = Deconvolution(KEY, (9, 5), (3, 2), 4, 3, form)

        def bent(kernel, images):
            return jnp.sum(jnp.sin(jax.vmap(eqx.tree_at(lambda la: la.kernel, layer, kernel))(images)))

        def steepness(*given):
            return sum(jnp.sum(jnp.square(slope)) for slope in jax.grad(bent, (0, 1))(*given))

        return jax.jit(jax.grad(steepness, (0, 1)))(layer.kernel, images)

    assert_same(slopes_of_slopes("rows"), slopes_of_slopes("patches"))


@pytest.mark.parametrize("form", ["rows", "patches"])
def test_a_deconvolution_keeps_single_precision_where_double_is_on(form):
    layer = Deconvolution(KEY, (6, 6), (3, 2), 5, form=form)
    image = jnp.ones((3, 3, 3))
    with jax.enable_x64(True):
        assert layer(image).dtype == jnp.float32


@pytest.mark.parametrize("form", ["rows", "patches"])
def test_a_prepared_deconvolution_gives_the_same(form):
    layer = Deconvolution(KEY, (9, 14), (3, 2), 5, form=form)
    image = jax.random.normal(jax.random.key(1), (5, 7, 3))
    assert_same([layer.prepared()(image)], [layer(image)])


def test_a_deconvolution_is_conv_transpose_where_that_is_defined():
    layer = Deconvolution(KEY, (14, 14), (3, 2), 5)
    image = jax.random.normal(jax.random.key(1), (7, 7, 3))
    kernel = layer.kernel.swapaxes(2, 3)
    wanted = jax.lax.conv_transpose(
        image[None], kernel, (2, 2), "SAME", dimension_numbers=NAMES, transpose_kernel=True
    )[0]
    np.testing.assert_allclose(layer(image), wanted, atol=1e-5)


def test_the_decoder_is_the_chain_of_plain_layers():
    decoder = ImageDecoder(KEY, 4, (28, 28), hidden=(20,), channels=(3, 5, 4))
    decoder = eqx.tree_at(lambda d: d.layers[0].bias, decoder, jnp.arange(5.0))

    def chain(z, head):
        h = head(z).reshape(4, 4, 4)
        for layer in decoder.layers:
            h = plain_transposed(leaky(h), layer.kernel, 2, layer.size) + layer.bias
        return h[..., 0]

    z = jax.random.normal(jax.random.key(2), (4,))
    found = value_and_gradients(lambda z: decoder(z), z)
    assert found[0].shape == (28, 28)
    assert_same(found, value_and_gradients(lambda z: chain(z, decoder.head), z))


def test_the_paper_s_networks_have_the_paper_s_sizes():
    size = (28, 28)
    assert ImageNetwork(KEY, size, 64).head.weights[0].shape == (500, 4 * 4 * 32)
    assert wild_features(KEY, size).count == 1024
    critic = ImageCriticBuilder()(KEY, 32, jnp.zeros(size))
    assert [w.shape for w in critic.head.weights] == [(500, 32 + 1024), (500, 500), (1, 500)]
    decoder = ImageDecoder(KEY, 32, size)
    assert [la.kernel.shape for la in decoder.layers] == [(5, 5, 32, 32), (5, 5, 32, 16), (5, 5, 16, 1)]


def test_batch_normalisation_sees_the_batch_and_its_statistics_can_be_stored():
    h = 3 + 2 * jax.random.normal(KEY, (50, 6, 4))
    norm = BatchNormalisation(4)
    out = jax.vmap(norm, axis_name=CONDITIONS)(h)
    np.testing.assert_allclose(out.mean((0, 1)), 0, atol=1e-5)
    np.testing.assert_allclose(out.std((0, 1)), 1, atol=1e-4)
    settled = norm.settled(h)
    np.testing.assert_allclose(jax.vmap(settled)(h), out, atol=1e-5)
    np.testing.assert_allclose(settled(h[0]), out[0], atol=1e-5)
    with pytest.raises(IngredientError, match="settled"):
        norm(h[0])


def test_settled_features_of_a_batch_are_those_of_training():
    features = ConvolutionalFeatures(KEY, (9, 8), (3, 4), 3, normalised=True)
    x = jax.random.normal(jax.random.key(1), (20, 9, 8))
    trained = jax.jit(jax.vmap(features, axis_name=CONDITIONS))(x)
    settled = jax.jit(lambda x: jax.vmap(features.settled(x))(x))(x)
    np.testing.assert_allclose(settled, trained, atol=1e-5)


def test_stored_statistics_do_not_learn():
    from understudy.core import partition

    settled = BatchNormalisation(4).settled(jnp.ones((3, 4)))
    learns, _ = partition(settled)
    assert len(jax.tree.leaves(learns)) == 2
