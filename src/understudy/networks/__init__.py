"""Networks that students, critics and models are made of."""

from understudy.networks.perceptrons import Critic, Perceptron, flat

__all__ = ["Critic", "Perceptron", "flat"]
