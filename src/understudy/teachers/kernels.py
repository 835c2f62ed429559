"""Any BlackJAX kernel as a teacher.

Step sizes follow one convention: a Langevin step is z' = z + eps grad log p(z) + sqrt(2 eps) noise, so
one leapfrog step of size h is a Langevin step with eps = h^2 / 2. Kernels that are not exact say so in
their names or first sentence.
"""

from collections.abc import Callable, Mapping
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PyTree

from understudy.checks import count, fraction, function, instance, number, optional, positive, whole
from understudy.core import (
    BoundLogDensity,
    Draws,
    Improved,
    IngredientError,
    Key,
    Proposal,
    Teacher,
    numbered,
)
from understudy.teachers import adapters
from understudy.teachers.common import moved

Setting = Any


class Kernel(Teacher):
    """T transitions of any BlackJAX kernel, every chain on its own.

    Changing a parameter or T does not recompile. The kernel's state is made afresh on every call,
    since the target may have changed in between.

    Reference: Cabezas et al., "BlackJAX: Composable Bayesian inference in JAX", 2024.

    Args:
        build: a function of the log density and the parameters that returns BlackJAX's pair of
            ``init`` and ``step``, such as ``blackjax.mcmc.mala.as_top_level_api``.
        parameters: numbers and arrays given to ``build`` by name; they become leaves.
        steps: the number of transitions T.
        target_acceptance: ``adapt`` moves the parameter ``step_size`` towards this acceptance; None
            leaves it alone.
        rate: how fast it moves: log step += rate (a - t) / (t (1 - t)) for acceptance a and target t.
        largest_step: the step size never grows past this.
        jitter: each chain and transition scales its step by a uniform draw from [1 - jitter, 1],
            which breaks the periodic orbits of Hamiltonian kernels.
        options: whatever ``build`` takes that is not a number to trace (it is static).

    Examples:
        >>> import blackjax
        >>> from understudy.teachers import Kernel
        >>> teacher = Kernel(blackjax.mcmc.mala.as_top_level_api, {"step_size": 0.1}, steps=5)
        >>> int(teacher.steps)
        5
    """

    space = "continuous"
    deterministic = False

    build: Callable[..., Any] = eqx.field(static=True)
    parameters: dict[str, PyTree[Array]]
    steps: Int[Array, "..."]
    target_acceptance: Float[Array, "..."] | None
    rate: Float[Array, "..."]
    largest_step: Float[Array, "..."] | None
    jitter: Float[Array, "..."] | None
    options: tuple[tuple[str, Any], ...] = eqx.field(static=True)

    def __init__(
        self,
        build: Callable[..., Any],
        parameters: Mapping[str, Any],
        steps: Setting = 1,
        *,
        target_acceptance: Setting = None,
        rate: Setting = 0.1,
        largest_step: Setting = None,
        jitter: Setting = None,
        options: Mapping[str, Any] | None = None,
    ):
        instance("parameters", Mapping, "{'step_size': 0.1}", parameters)
        steered = [target_acceptance, largest_step, jitter]
        if any(setting is not None for setting in steered) and "step_size" not in parameters:
            raise IngredientError(
                "target_acceptance, largest_step and jitter steer the parameter step_size, and "
                f"the parameters {sorted(parameters)} came; leave those settings out."
            )
        self.build = function("build", build)
        self.parameters = {name: _leaf(name, value) for name, value in parameters.items()}
        self.steps = count("steps", steps)
        self.target_acceptance = optional(fraction, "target_acceptance", target_acceptance)
        self.rate = positive("rate", rate)
        self.largest_step = optional(positive, "largest_step", largest_step)
        self.jitter = optional(fraction, "jitter", jitter)
        fixed = instance("options", Mapping, '{"a": 1}', {} if options is None else options)
        self.options = tuple(sorted(fixed.items()))

    def improve(self, key: Key, log_density: BoundLogDensity, z: Draws, proposal: Proposal) -> Improved:
        """Run T transitions of every chain."""
        del proposal
        keys = jax.random.split(key, z.shape[0])
        return Improved(*jax.vmap(lambda k, start: self._chain(k, log_density, start))(keys, z))

    def adapt(self, acceptance: PyTree) -> "Kernel":
        """Move the step size towards the acceptance wanted."""
        if acceptance is None or self.target_acceptance is None:
            return self
        step = moved(
            self.parameters["step_size"],
            acceptance,
            self.target_acceptance,
            self.rate,
            self.largest_step,
        )
        return eqx.tree_at(lambda kernel: kernel.parameters["step_size"], self, step)

    def _chain(
        self, key: Key, log_density: BoundLogDensity, z: Float[Array, " d"]
    ) -> tuple[Float[Array, " d"], Bool[Array, ""], Float[Array, ""] | None]:
        plain = self.build(log_density, **self.parameters, **dict(self.options))

        def transition(i, carry):
            state, total = carry
            kernel, step_key = self._jittered(plain, numbered(key, i), log_density)
            state, info = kernel.step(step_key, state)
            return state, total + jnp.nan_to_num(getattr(info, "acceptance_rate", 0.0))

        start = plain.init(z, jax.random.fold_in(key, self.steps))
        tested = hasattr(jax.eval_shape(plain.step, key, start)[1], "acceptance_rate")
        end, total = jax.lax.fori_loop(0, self.steps, transition, (start, jnp.zeros(())))
        finite = _finite(start, log_density) & _finite(end, log_density)
        return end.position, finite, total / self.steps if tested else None

    def _jittered(self, plain: Any, key: Key, log_density: BoundLogDensity) -> tuple[Any, Key]:
        if self.jitter is None:
            return plain, key
        key, step_key = jax.random.split(key)
        scale = 1 - self.jitter * jax.random.uniform(key)
        parameters = self.parameters | {"step_size": self.parameters["step_size"] * scale}
        return self.build(log_density, **parameters, **dict(self.options)), step_key


def mala(
    step_size: Setting = 0.1,
    steps: Setting = 1,
    target_acceptance: Setting = None,
    **settings: Any,
) -> Kernel:
    """Metropolis-adjusted Langevin: propose z + eps grad log p + sqrt(2 eps) noise, then accept or stay.

    Reference: Roberts and Tweedie, "Exponential convergence of Langevin distributions", 1996.

    Examples:
        >>> import jax
        >>> from understudy.core import bind
        >>> from understudy.students import FullGaussian
        >>> from understudy.teachers import mala
        >>> teacher, proposal = mala(0.3, steps=5), bind(FullGaussian(2), None)
        >>> start = jax.numpy.ones((5, 2))
        >>> teacher.improve(jax.random.key(0), lambda z: -0.5 * z @ z, start, proposal).z.shape
        (5, 2)
    """
    return Kernel(
        adapters.mala,
        {"step_size": step_size},
        steps,
        target_acceptance=target_acceptance,
        **settings,
    )


def hmc(
    step_size: Setting = 0.1,
    leapfrogs: Setting = 3,
    steps: Setting = 1,
    target_acceptance: Setting = None,
    **settings: Any,
) -> Kernel:
    """Hamiltonian Monte Carlo with unit mass: a trajectory of ``leapfrogs`` steps of size ``step_size``.

    Reference: Neal, "MCMC using Hamiltonian dynamics", 2011.

    Examples:
        >>> import jax
        >>> from understudy.core import bind
        >>> from understudy.students import FullGaussian
        >>> from understudy.teachers import hmc
        >>> teacher, proposal = hmc(0.3, leapfrogs=5), bind(FullGaussian(2), None)
        >>> start = jax.numpy.ones((5, 2))
        >>> teacher.improve(jax.random.key(0), lambda z: -0.5 * z @ z, start, proposal).z.shape
        (5, 2)
    """
    parameters = {"step_size": step_size, "num_integration_steps": count("leapfrogs", leapfrogs)}
    return Kernel(adapters.hmc, parameters, steps, target_acceptance=target_acceptance, **settings)


def nuts(
    step_size: Setting = 0.1,
    steps: Setting = 1,
    target_acceptance: Setting = None,
    doublings: int = 10,
    **settings: Any,
) -> Kernel:
    """The no-U-turn sampler with unit mass: a trajectory grows by doubling until it turns back.

    Many chains in lockstep wait for the longest trajectory, so it costs far more than its gradients.

    Reference: Hoffman and Gelman, "The No-U-Turn Sampler", 2014.

    Examples:
        >>> import jax
        >>> from understudy.core import bind
        >>> from understudy.students import FullGaussian
        >>> from understudy.teachers import nuts
        >>> teacher, proposal = nuts(0.3), bind(FullGaussian(2), None)
        >>> start = jax.numpy.ones((5, 2))
        >>> teacher.improve(jax.random.key(0), lambda z: -0.5 * z @ z, start, proposal).z.shape
        (5, 2)
    """
    return Kernel(
        adapters.nuts,
        {"step_size": step_size},
        steps,
        target_acceptance=target_acceptance,
        options={"max_num_doublings": whole("doublings", doublings)},
        **settings,
    )


def ghmc(
    step_size: Setting = 0.1,
    steps: Setting = 1,
    target_acceptance: Setting = None,
    refreshment: Setting = 0.3,
    **settings: Any,
) -> Kernel:
    """Generalised Hamiltonian Monte Carlo: one leapfrog step a transition, the momentum partly kept.

    Reference: Neal, "Non-reversibly updating a uniform [0, 1] value for Metropolis accept/reject
    decisions", 2020.

    Args:
        step_size: leapfrog step.
        steps: number of transitions T.
        target_acceptance: what ``adapt`` aims at.
        refreshment: the share of the momentum's variance that is drawn anew at every transition.
        settings: the other settings of :class:`Kernel`.

    Examples:
        >>> import jax
        >>> from understudy.core import bind
        >>> from understudy.students import FullGaussian
        >>> from understudy.teachers import ghmc
        >>> teacher, proposal = ghmc(0.1), bind(FullGaussian(2), None)
        >>> start = jax.numpy.ones((5, 2))
        >>> teacher.improve(jax.random.key(0), lambda z: -0.5 * z @ z, start, proposal).z.shape
        (5, 2)
    """
    share = fraction("refreshment", refreshment)
    parameters = {"step_size": step_size, "alpha": share, "delta": share / 2}
    return Kernel(adapters.ghmc, parameters, steps, target_acceptance=target_acceptance, **settings)


def barker(
    step_size: Setting = 0.5,
    steps: Setting = 1,
    target_acceptance: Setting = None,
    **settings: Any,
) -> Kernel:
    """Barker's proposal: a random walk skewed by the gradient, robust to steps that are too large.

    Reference: Livingstone and Zanella, "The Barker proposal", 2022.

    Args:
        step_size: standard deviation of the move before it is skewed.
        steps: number of transitions T.
        target_acceptance: what ``adapt`` aims at, 0.4 to 0.6 say.
        settings: the other settings of :class:`Kernel`.

    Examples:
        >>> import jax
        >>> from understudy.core import bind
        >>> from understudy.students import FullGaussian
        >>> from understudy.teachers import barker
        >>> teacher, proposal = barker(0.5), bind(FullGaussian(2), None)
        >>> start = jax.numpy.ones((5, 2))
        >>> teacher.improve(jax.random.key(0), lambda z: -0.5 * z @ z, start, proposal).z.shape
        (5, 2)
    """
    parameters = {"step_size": step_size}
    return Kernel(adapters.barker, parameters, steps, target_acceptance=target_acceptance, **settings)


def random_walk(
    step_size: Setting = 0.5,
    steps: Setting = 1,
    target_acceptance: Setting = None,
    **settings: Any,
) -> Kernel:
    """Random-walk Metropolis: propose z + step_size noise, then accept or stay; needs no gradient.

    Reference: Metropolis et al., "Equation of state calculations by fast computing machines", 1953.

    Examples:
        >>> import jax
        >>> from understudy.core import bind
        >>> from understudy.students import FullGaussian
        >>> from understudy.teachers import random_walk
        >>> teacher, proposal = random_walk(0.5, steps=10), bind(FullGaussian(2), None)
        >>> start = jax.numpy.ones((5, 2))
        >>> teacher.improve(jax.random.key(0), lambda z: -0.5 * z @ z, start, proposal).z.shape
        (5, 2)
    """
    parameters = {"step_size": step_size}
    return Kernel(
        adapters.random_walk, parameters, steps, target_acceptance=target_acceptance, **settings
    )


def elliptical_slice(mean: Setting, covariance: Setting, steps: Setting = 1) -> Kernel:
    """Elliptical slice sampling for a target that is a Gaussian prior times a likelihood.

    There is no step size to choose and every transition moves. The likelihood is the target's density
    divided by the prior's.

    Reference: Murray, Adams and MacKay, "Elliptical slice sampling", 2010.

    Args:
        mean: mean of the prior, a number or a vector.
        covariance: covariance of the prior, a vector of variances or a matrix.
        steps: number of transitions T.

    Examples:
        >>> import jax
        >>> from understudy.core import bind
        >>> from understudy.students import FullGaussian
        >>> from understudy.teachers import elliptical_slice
        >>> teacher = elliptical_slice(jax.numpy.zeros(2), jax.numpy.eye(2))
        >>> proposal = bind(FullGaussian(2), None)
        >>> start = jax.numpy.ones((5, 2))
        >>> teacher.improve(jax.random.key(0), lambda z: -0.5 * z @ z, start, proposal).z.shape
        (5, 2)
    """
    covariance = jnp.atleast_1d(number("covariance", covariance))
    positive("the variances in covariance", jnp.diag(covariance) if covariance.ndim == 2 else covariance)
    parameters = {"mean": number("mean", mean), "covariance": covariance}
    return Kernel(adapters.elliptical_slice, parameters, steps)


def adjusted_mclmc(
    step_size: Setting = 0.5,
    leapfrogs: Setting = 3,
    steps: Setting = 1,
    target_acceptance: Setting = None,
    **settings: Any,
) -> Kernel:
    """Microcanonical Hamiltonian dynamics with an accept test; two dimensions or more.

    Reference: Robnik, Cohn-Gordon and Seljak, "Metropolis adjusted microcanonical Hamiltonian Monte
    Carlo", 2025.

    Examples:
        >>> import jax
        >>> from understudy.core import bind
        >>> from understudy.students import FullGaussian
        >>> from understudy.teachers import adjusted_mclmc
        >>> teacher, proposal = adjusted_mclmc(0.5), bind(FullGaussian(2), None)
        >>> start = jax.numpy.ones((5, 2))
        >>> teacher.improve(jax.random.key(0), lambda z: -0.5 * z @ z, start, proposal).z.shape
        (5, 2)
    """
    parameters = {"step_size": step_size, "leapfrogs": count("leapfrogs", leapfrogs)}
    return Kernel(
        adapters.adjusted_mclmc, parameters, steps, target_acceptance=target_acceptance, **settings
    )


def _finite(state: Any, log_density: BoundLogDensity) -> Bool[Array, ""]:
    value = state.logdensity if hasattr(state, "logdensity") else log_density(state.position)
    return jnp.isfinite(value) & jnp.isfinite(state.position).all()


def _leaf(name: str, value: Setting) -> Array:
    if name == "step_size":
        return positive(name, value)
    number(name, value)
    return jnp.asarray(value)
