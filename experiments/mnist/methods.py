"""The methods as choices of ingredients: an encoder, a teacher and a feedback per stage of training.

The paper's eta is read in one of two ways. A Langevin step is z' = z + eps grad log p(z) + sqrt(2 eps)
noise; "eta" takes eps = eta, "root" takes eps = eta^2 / 2, the eps of a leapfrog step of size eta.
"""

from collections.abc import Callable
from dataclasses import dataclass

import jax

from understudy.core import Feedback, Key, Student, Teacher
from understudy.feedbacks import (
    AdversarialELBO,
    Copy,
    ExclusiveKL,
    InclusiveKL,
    JensenShannon,
    SemiImplicitInclusiveKL,
    SemiImplicitKL,
    WeightedSum,
)
from understudy.networks.images import ImageCriticBuilder, ImageDecoder
from understudy.students import (
    ChainTable,
    DropoutEncoder,
    GaussianEncoder,
    NoisyEncoder,
    flow_encoder,
    image_encoder,
    semi_implicit_encoder,
)
from understudy.targets import LatentVariableModel
from understudy.teachers import Identity, Langevin, Preconditioned, hmc

DIM, SIZE = 32, (28, 28)
EPS = {"eta": lambda eta: eta, "root": lambda eta: eta**2 / 2}
# No drift moves a draw further than this; the prior's radius is about sqrt(32), or 5.7.
DRIFT_BOUND = 2.0


@dataclass(frozen=True)
class Stage:
    """A part of a training.

    Attributes:
        name: of what is trained in it; stages of one name and share are trained once and shared.
        encoder: "gaussian", "flow", "CNN-G", "CNN-B", "semi-implicit" or "table" (a chain per image, no
            encoder).
        teacher: makes the teacher, given the reading of the paper's eta.
        feedback: makes the feedback.
        share: of the method's core-seconds.
        rate: peak of Adam's learning rate, of encoder and decoder; it falls over all stages.
        critic_rate: of the critic's.
        theta: whether theta learns; where it rests, a new encoder is taught on the decoder as it is.
    """

    name: str
    encoder: str
    teacher: Callable[[str], Teacher]
    feedback: Callable[[], Feedback]
    share: float = 1.0
    rate: float = 1e-3
    critic_rate: float = 1e-3
    theta: bool = True


@dataclass(frozen=True)
class Method:
    """A way to train encoder and decoder, stage after stage.

    Attributes:
        stages: each starts from the decoder, and from the encoder if of its kind, of the one before.
        encoder: as the paper's table names it.
        amortised: whether theta learns from a teacher that starts at an encoder's draws.
        learns_from_teacher: whether the encoder's own loss uses the teacher's draws.
        wild: whether the encoder has no density.
        own_proposal: whether the encoder serves as the proposal of importance sampling.
    """

    stages: tuple[Stage, ...]
    encoder: str = "Gaussian"
    amortised: bool = False
    learns_from_teacher: bool = False
    wild: bool = False
    own_proposal: bool = False


def make_model(key: Key) -> LatentVariableModel:
    """The paper's generative model: 32 latents, a decoder of three deconvolutions."""
    return LatentVariableModel(ImageDecoder(key, DIM, SIZE), DIM)


def make_student(encoder: str, key: Key, rows: int, before: Student | None = None) -> Student:
    """An encoder of one of the kinds, untrained; a flow goes around the Gaussian encoder before it."""
    if encoder == "gaussian":
        return image_encoder(key, DIM, SIZE)
    if encoder == "flow":
        place = before if isinstance(before, GaussianEncoder) else image_encoder(key, DIM, SIZE)
        return flow_encoder(jax.random.fold_in(key, 1), place)
    if encoder == "CNN-G":
        return NoisyEncoder(key, DIM, SIZE)
    if encoder == "CNN-B":
        return DropoutEncoder(key, DIM, SIZE)
    if encoder == "semi-implicit":
        return semi_implicit_encoder(key, DIM, SIZE)
    return ChainTable(rows, 1, DIM, jax.random.normal(key, (rows, 1, DIM)))


def _none(reading: str) -> Teacher:
    del reading
    return Identity()


def _langevin(steps: int, eta: float) -> Callable[[str], Teacher]:
    return lambda reading: Langevin(EPS[reading](eta), steps, DRIFT_BOUND)


def _hamiltonian(transitions: int) -> Callable[[str], Teacher]:
    def make(reading):
        del reading
        inner = hmc(0.2, 3, steps=transitions, target_acceptance=0.8, rate=0.02, largest_step=1.0)
        return Preconditioned(inner, draws=32, full=False)

    return make


def _jensen_shannon() -> Feedback:
    return JensenShannon(critic=ImageCriticBuilder())


def _elbo() -> Feedback:
    return AdversarialELBO(critic=ImageCriticBuilder())


def _both_kl() -> Feedback:
    """A bound that holds the place, and the teacher's draws, which give the shape."""
    return WeightedSum([(1.0, ExclusiveKL()), (1.0, InclusiveKL())])


def _both_semi_implicit() -> Feedback:
    return WeightedSum([(1.0, SemiImplicitKL()), (1.0, SemiImplicitInclusiveKL())])


def _vae(share: float) -> Stage:
    return Stage("VAE", "gaussian", _none, ExclusiveKL, share, 2e-3)


def _amc(encoder: str, steps: int, eta: float) -> tuple[str, Method]:
    name = f"AMC {encoder}, T={steps}, eta={eta}"
    stage = Stage(name, encoder, _langevin(steps, eta), _jensen_shannon)
    return name, Method((stage,), encoder, amortised=True, learns_from_teacher=True, wild=True)


def _avb(encoder: str) -> tuple[str, Method]:
    name = f"AVB {encoder}"
    return name, Method((Stage(name, encoder, _none, _elbo),), encoder, wild=True)


def _ours(*transitions: int, warm: float = 0.5) -> tuple[str, Method]:
    """First as the VAE; then theta learns from Hamiltonian chains that start at the encoder's draws.

    With several numbers of transitions the chains grow longer, one stage for each.
    """
    return _after_vae("HMC-VI", ExclusiveKL, transitions, warm)


def _loop(*transitions: int, warm: float = 0.5) -> tuple[str, Method]:
    """As ours, but that the encoder learns from its teacher too: exclusive and inclusive KL."""
    return _after_vae("HMC-AMC Gaussian", _both_kl, transitions, warm, learns_from_teacher=True)


def _after_vae(
    kind: str,
    feedback: Callable[[], Feedback],
    transitions: tuple[int, ...],
    warm: float,
    learns_from_teacher: bool = False,
) -> tuple[str, Method]:
    share = (1 - warm) / len(transitions)
    stages = [
        Stage(f"{kind}, T={t}", "gaussian", _hamiltonian(t), feedback, share, 2e-3) for t in transitions
    ]
    method = Method(
        (_vae(warm), *stages),
        amortised=True,
        learns_from_teacher=learns_from_teacher,
        own_proposal=True,
    )
    return f"{kind}, T={' then '.join(map(str, transitions))}", method


def _ours_wild(
    encoder: str, transitions: int, rest: float = 0.2, warm: float = 0.5
) -> tuple[str, Method]:
    """First as the VAE; then a wild encoder is taught while theta rests, then both learn.

    Chains that start at the draws of an encoder that knows nothing ruin the decoder.
    """
    name = f"HMC-AMC {encoder}, T={transitions}"
    teacher = _hamiltonian(transitions)
    parts = ((f"{name}, theta at rest", rest, False), (name, 1 - warm - rest, True))
    taught = [
        Stage(called, encoder, teacher, _jensen_shannon, share, 2e-3, theta=theta)
        for called, share, theta in parts
    ]
    stages = (_vae(warm), *taught)
    return name, Method(stages, encoder, amortised=True, learns_from_teacher=True, wild=True)


def _flow_loop(transitions: int, warm: float = 0.5) -> tuple[str, Method]:
    """As the loop of the Gaussian encoder, but that a flow bends its noise from half-way on."""
    name = f"HMC-AMC flow, T={transitions}"
    taught = Stage(name, "flow", _hamiltonian(transitions), _both_kl, 1 - warm, 2e-3)
    return name, Method(
        (_vae(warm), taught), "flow", amortised=True, learns_from_teacher=True, own_proposal=True
    )


def _sivi(warm: float) -> Stage:
    return Stage("SIVI", "semi-implicit", _none, SemiImplicitKL, warm, 2e-3)


def _ours_semi_implicit(transitions: int, warm: float = 0.5) -> tuple[str, Method]:
    """As ours, with a wild encoder from the first update on."""
    name, encoder = f"HMC-VI semi-implicit, T={transitions}", "semi-implicit"
    taught = Stage(name, encoder, _hamiltonian(transitions), SemiImplicitKL, 1 - warm, 2e-3)
    return name, Method((_sivi(warm), taught), encoder, amortised=True, wild=True)


def _wild_loop(transitions: int, warm: float = 0.5) -> tuple[str, Method]:
    """The same, but that the wild encoder learns from its teacher too, through its mixture."""
    name, encoder = f"HMC-AMC semi-implicit, T={transitions}", "semi-implicit"
    taught = Stage(name, encoder, _hamiltonian(transitions), _both_semi_implicit, 1 - warm, 2e-3)
    return name, Method(
        (_sivi(warm), taught), encoder, amortised=True, learns_from_teacher=True, wild=True
    )


_MCMC_VI = Stage("MCMC-VI", "gaussian", _langevin(5, 0.2), ExclusiveKL)
_INCLUSIVE = Stage("AMC Gaussian", "gaussian", _langevin(5, 0.2), InclusiveKL)
_FLOW = Stage("AMC flow", "flow", _langevin(5, 0.2), InclusiveKL)
_PERSISTENT = Stage("persistent MCMC", "table", _langevin(50, 0.02), Copy)

METHODS: dict[str, Method] = {
    "VAE": Method((_vae(0.5), _vae(0.5)), own_proposal=True),
    "MCMC-VI, T=5, eta=0.2": Method((_MCMC_VI,), amortised=True, own_proposal=True),
    "AMC Gaussian, T=5, eta=0.2": Method(
        (_INCLUSIVE,), amortised=True, learns_from_teacher=True, own_proposal=True
    ),
    "AMC flow, T=5, eta=0.2": Method(
        (_FLOW,), "flow", amortised=True, learns_from_teacher=True, own_proposal=True
    ),
    **dict(_amc(encoder, *how) for encoder in ("CNN-G", "CNN-B") for how in ((5, 0.2), (50, 0.02))),
    **dict(map(_avb, ("CNN-G", "CNN-B"))),
    "persistent MCMC, T=50, eta=0.02": Method((_PERSISTENT,), "none"),
    **dict([_ours(2), _ours(4), _ours(4, 12), _ours_semi_implicit(4)]),
    **dict([_loop(4), _loop(4, 12), _flow_loop(4), _wild_loop(4), _ours_wild("CNN-G", 4)]),
}
QUICK = ("VAE", "HMC-VI, T=2", "AMC CNN-G, T=5, eta=0.2", "persistent MCMC, T=50, eta=0.02")
