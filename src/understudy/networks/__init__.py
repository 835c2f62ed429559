"""Networks that students, critics and models are made of."""

from understudy.networks.layers import join_layers, layers_size, split_layers
from understudy.networks.perceptrons import Critic, Perceptron, flat

__all__ = ["Critic", "Perceptron", "flat", "join_layers", "layers_size", "split_layers"]
