"""BlackJAX kernels that do not leave the target exactly invariant, and say so.

Three teachers look alike on a minibatch and are not: :func:`understudy.teachers.mala` on a target that
holds all the data is exact; :func:`minibatch_mala` makes its accept test on the minibatch at hand;
:func:`sgld` makes none.
"""

from typing import Any

from understudy.checks import positive, whole
from understudy.teachers import adapters
from understudy.teachers.kernels import Kernel, mala


def minibatch_mala(
    step_size: Any = 0.1, steps: Any = 1, target_acceptance: Any = None, **settings: Any
) -> Kernel:
    """MALA whose accept test sees only the minibatch at hand: biased, the more so the larger the step.

    It is the kernel :func:`~understudy.teachers.mala` for a target whose condition x is a minibatch; T
    transitions are exact for the minibatch's own posterior, which is not the posterior of all the data.

    Reference: Bardenet, Doucet and Holmes, "On Markov chain Monte Carlo methods for tall data", 2017.

    Examples:
        >>> import jax
        >>> from understudy.core import bind
        >>> from understudy.students import FullGaussian
        >>> from understudy.teachers import minibatch_mala
        >>> teacher, proposal = minibatch_mala(0.1), bind(FullGaussian(2), None)
        >>> start = jax.numpy.ones((5, 2))
        >>> teacher.improve(jax.random.key(0), lambda z: -0.5 * z @ z, start, proposal).z.shape
        (5, 2)
    """
    return mala(step_size, steps, target_acceptance, **settings)


def sgld(step_size: Any = 0.01, steps: Any = 1) -> Kernel:
    """Stochastic gradient Langevin, z' = z + eps grad + sqrt(2 eps) noise, with no accept test: biased.

    The gradient is that of the log density given, an estimate when the condition x is a minibatch.

    Reference: Welling and Teh, "Bayesian learning via stochastic gradient Langevin dynamics", 2011.

    Examples:
        >>> import jax
        >>> from understudy.core import bind
        >>> from understudy.students import FullGaussian
        >>> from understudy.teachers import sgld
        >>> teacher, proposal = sgld(0.01, steps=5), bind(FullGaussian(2), None)
        >>> start = jax.numpy.ones((5, 2))
        >>> teacher.improve(jax.random.key(0), lambda z: -0.5 * z @ z, start, proposal).z.shape
        (5, 2)
    """
    return Kernel(adapters.sgld, {"step_size": step_size}, steps)


def sghmc(step_size: Any = 0.01, leapfrogs: int = 10, steps: Any = 1, friction: Any = 1.0) -> Kernel:
    """Stochastic gradient Hamiltonian Monte Carlo, with friction and no accept test: biased.

    Reference: Chen, Fox and Guestrin, "Stochastic gradient Hamiltonian Monte Carlo", 2014.

    Args:
        step_size: step of the integrator.
        leapfrogs: steps between refreshments of the momentum (static).
        steps: number of transitions T.
        friction: how strongly the momentum decays.

    Examples:
        >>> import jax
        >>> from understudy.core import bind
        >>> from understudy.students import FullGaussian
        >>> from understudy.teachers import sghmc
        >>> teacher, proposal = sghmc(0.01), bind(FullGaussian(2), None)
        >>> start = jax.numpy.ones((5, 2))
        >>> teacher.improve(jax.random.key(0), lambda z: -0.5 * z @ z, start, proposal).z.shape
        (5, 2)
    """
    whole("leapfrogs", leapfrogs)
    parameters = {"step_size": step_size, "friction": positive("friction", friction)}
    return Kernel(adapters.sghmc, parameters, steps, options={"leapfrogs": leapfrogs})


def mclmc(step_size: Any = 0.5, steps: Any = 1, decoherence: Any = 2.0) -> Kernel:
    """Microcanonical Langevin dynamics with no accept test: biased; two dimensions or more.

    Reference: Robnik et al., "Microcanonical Hamiltonian Monte Carlo", 2023.

    Args:
        step_size: step of the integrator.
        steps: number of transitions T.
        decoherence: the length over which the direction of motion is forgotten.

    Examples:
        >>> import jax
        >>> from understudy.core import bind
        >>> from understudy.students import FullGaussian
        >>> from understudy.teachers import mclmc
        >>> teacher, proposal = mclmc(0.5), bind(FullGaussian(2), None)
        >>> start = jax.numpy.ones((5, 2))
        >>> teacher.improve(jax.random.key(0), lambda z: -0.5 * z @ z, start, proposal).z.shape
        (5, 2)
    """
    parameters = {"step_size": step_size, "L": positive("decoherence", decoherence)}
    return Kernel(adapters.mclmc, parameters, steps)
