"""The four nouns of amortised MCMC and the lesson that connects them.

A *student* proposes draws, a *teacher* improves them with T transitions of a Markov chain that keeps
a *target* invariant, and a *feedback* (a divergence between the two sets) moves the student towards
what the teacher made of its draws. Everything is written for one condition ``x`` and ``n`` particles;
batches of conditions are one ``vmap`` over the axis named :data:`CONDITIONS`, in one place
(:mod:`understudy.training.lesson`).

Known methods are choices of ingredients, see :mod:`understudy.methods`.

Reference: Li, Turner and Liu, "Approximate Inference with Amortised MCMC", 2017.
"""

from abc import abstractmethod
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, ClassVar, Literal, NamedTuple, Protocol, runtime_checkable

import equinox as eqx
import jax
import jax.numpy as jnp
import paramax
from jaxtyping import Array, ArrayLike, Bool, Float, Int, PyTree, Scalar

CONDITIONS = "conditions"

Key = jax.Array
"""A random key, as ``jax.random.key(0)`` makes one."""

Condition = PyTree[Any]
BoundLogDensity = Callable[[Float[Array, " d"]], Scalar]
Draws = Float[Array, "n d"]
Space = Literal["continuous", "discrete", "any"]


class Indexed(NamedTuple):
    """A condition that knows its row in the data set, for students with something kept per datum."""

    index: Int[Array, "*b"]  # pyright: ignore[reportIncompatibleMethodOverride]
    value: PyTree


class Target(eqx.Module):
    """What we want draws from: log p(z), log p(z | x) or log p_theta(x, z), up to a constant.

    Examples:
        >>> import jax.numpy as jnp, understudy
        >>> class Bump(understudy.Target):
        ...     dim: int = 2
        ...     def log_density(self, z, x=None):
        ...         return -0.5 * jnp.sum(z**2)
        >>> float(Bump().log_density(jnp.zeros(2)))
        -0.0
    """

    dim: eqx.AbstractVar[int]

    @abstractmethod
    def log_density(self, z: Float[Array, " d"], x: Condition = None) -> Scalar:
        """Log density of one draw ``z`` given one condition ``x`` (None if there is none)."""


class Student(eqx.Module):
    """A sampler q_phi: any program that turns noise into draws.

    Examples:
        >>> import jax, understudy
        >>> class Uniform(understudy.Student):
        ...     dim: int = 2
        ...     def sample(self, key, x, n):
        ...         return jax.random.uniform(key, (n, self.dim))
        >>> Uniform().sample(jax.random.key(0), None, 3).shape
        (3, 2)
    """

    dim: eqx.AbstractVar[int]

    @abstractmethod
    def sample(self, key: Key, x: Condition, n: int) -> Float[Array, "n d"]:
        """Draw ``n`` particles for one condition."""


class ExplicitStudent(Student):
    """A student whose density can be evaluated."""

    @abstractmethod
    def log_prob(self, z: Float[Array, " d"], x: Condition = None) -> Scalar:
        """Log density of one draw, normalised."""


class DiscreteStudent(ExplicitStudent):
    """An explicit student over discrete values, kept as floats: its draws have no gradients."""


class StratifiedStudent(Student):
    """A student with discrete choices (a gate) whose probabilities learn through weights.

    Set-wise feedbacks draw every branch and weigh it by its probability, so that the probabilities
    receive a gradient although a random choice has none.
    """

    @abstractmethod
    def stratified(
        self, key: Key, x: Condition, n: int
    ) -> tuple[Float[Array, "n d"], Float[Array, " n"]]:
        """Draw ``n`` particles spread evenly over the branches, and weights that sum to one."""


class SemiImplicitStudent(Student):
    """Draws a diagonal Gaussian at random, and then from it; the mixture has no density."""

    @abstractmethod
    def noise(self, key: Key, n: int) -> Float[Array, "n e"]:
        """Draw what ``n`` Gaussians are made of."""

    @abstractmethod
    def components(
        self, noise: Float[Array, "n e"], x: Condition
    ) -> tuple[Float[Array, "n d"], Float[Array, "n d"]]:
        """Means and log scales of the Gaussians of these noises, for one condition."""

    def sample(self, key: Key, x: Condition, n: int) -> Float[Array, "n d"]:
        """Draw ``n`` Gaussians, and from each once."""
        first, second = jax.random.split(key)
        mean, log_scale = self.components(self.noise(first, n), x)
        return mean + jnp.exp(log_scale) * jax.random.normal(second, mean.shape)


class ProjectableStudent(Student):
    """A student whose best fit to a set of draws has a closed form."""

    @abstractmethod
    def project(self, lessons: "Lesson", rate: Scalar) -> "ProjectableStudent":
        """Move the share ``rate`` of the way to the closed-form fit of ``lessons.after``.

        Every field of ``lessons`` has a leading axis of conditions.
        """


class Proposal(NamedTuple):
    """A student bound to its condition, as teachers see it."""

    sample: Callable[[Key, int], Float[Array, "n d"]]
    log_prob: Callable[[Float[Array, " d"]], Scalar] | None


class Improved(NamedTuple):
    """What a teacher made of ``n`` draws.

    Attributes:
        z: the improved draws.
        finite: False for chains that started from, or reached, a point that is not finite.
        acceptance: mean acceptance probability of each chain; None where there is no accept test,
            a tuple where teachers are composed.
        log_weights: log importance weights of annealed teachers; None means equal weights.
        control: draws of the student, correlated with ``z``, to use as control variates.
    """

    z: Float[Array, "n d"]
    finite: Bool[Array, " n"]
    acceptance: PyTree = None
    log_weights: Float[Array, " n"] | None = None
    control: Float[Array, "n d"] | None = None


class Teacher(eqx.Module):
    """A Markov kernel run for T transitions.

    Attributes:
        space: where its moves make sense: for continuous draws, for discrete ones, or for any.
        deterministic: whether equal draws always end at equal draws.
        moves: False for the teacher that hands every draw back.
    """

    space: eqx.AbstractVar[Space]
    deterministic: eqx.AbstractVar[bool]
    moves: ClassVar[bool] = True

    @abstractmethod
    def improve(self, key: Key, log_density: BoundLogDensity, z: Draws, proposal: Proposal) -> Improved:
        """Move ``n`` draws towards the target; ``log_density`` is already bound to x and theta."""

    @abstractmethod
    def adapt(self, acceptance: PyTree) -> "Teacher":
        """The teacher with its settings moved towards the acceptance it wants.

        ``acceptance`` has the structure of :attr:`Improved.acceptance`, averaged to scalars.
        """


class Lesson(eqx.Module):
    """One condition's worth of teaching, as data: no gradient flows through any of it.

    Attributes:
        key: the key with which the student drew ``before``; drawing again with it, inside a loss,
            gives the same draws with gradients attached.
        noise: a key for whatever else a loss draws at random.
        x: the condition.
        before: the student's draws.
        after: the teacher's improvement of them, row by row where the two are paired.
        weights: weights of the rows of ``after``; zero where a chain was not finite, sum one.
        control: draws of the student that serve as control variates, usually ``before``.
        kept: True where the row is used, False where its chain was not finite.
    """

    key: Key
    noise: Key
    x: Condition
    before: Float[Array, "*b n d"]
    after: Float[Array, "*b n d"]
    weights: Float[Array, "*b n"]
    control: Float[Array, "*b n d"]
    kept: Bool[Array, "*b n"]

    @property
    def uniform(self) -> Float[Array, "*b n"]:
        """Equal weights over the rows that are kept."""
        return self.kept / jnp.maximum(self.kept.sum(-1, keepdims=True), 1)

    def propose(self, student: "Student") -> Float[Array, "n d"]:
        """``before`` again, differentiable in the student's parameters."""
        draws = student.sample(self.key, self.x, self.before.shape[0])
        return jnp.where(self.kept[:, None], draws, self.before)

    def propose_weighted(self, student: Student) -> tuple[Float[Array, "n d"], Float[Array, " n"]]:
        """Differentiable draws and weights: fresh and stratified where the student can, else paired."""
        if isinstance(student, StratifiedStudent):
            return student.stratified(self.noise, self.x, self.before.shape[0])
        return self.propose(student), self.uniform


class Feedback(eqx.Module):
    """How the student learns from a lesson: a :class:`Divergence` or a :class:`Projection`."""

    @abstractmethod
    def check(self, target: Target, student: Student, teacher: Teacher) -> None:
        """Raise :class:`IngredientError` if these ingredients cannot work together."""


class Divergence(Feedback):
    """A divergence D[q_T, q_phi] to descend, and the critic it needs to be estimated, if any.

    A loss may gather the other conditions of its batch with ``jax.lax.all_gather(.., CONDITIONS)``.
    """

    critic_steps: eqx.AbstractVar[int]

    @property
    def is_free_energy(self) -> bool:
        """Whether the loss is E_q[log q(z) - log p(x, z)] at the student's draws, in theta as well.

        Then student and theta can learn from one gradient of it, where no teacher moves the draws.
        """
        return False

    @abstractmethod
    def init(self, key: Key, dim: int, x: Condition) -> PyTree:
        """Create the critic for draws of size ``dim`` and one condition ``x``, or None."""

    @abstractmethod
    def critic_loss(self, critic: PyTree, target: Target, lesson: Lesson) -> Scalar:
        """Loss of the critic on one lesson; never called where the critic is None."""

    @abstractmethod
    def loss(self, student: Student, critic: PyTree, target: Target, lesson: Lesson) -> Scalar:
        """Loss of the student on one lesson."""


class Projection(Feedback):
    """A feedback whose best student has a closed form: no gradient, no optimiser."""

    @abstractmethod
    def project(self, student: Student, lessons: Lesson) -> Student:
        """The student after one batch of lessons (every field has a leading axis of conditions)."""


@runtime_checkable
class Named(Protocol):
    """A target whose flat draws stand for named quantities on their own scale."""

    def constrain(self, z: Float[Array, " d"], x: Condition = None) -> dict[str, Array]:
        """The named quantities of one flat draw."""
        ...


class Site(NamedTuple):
    """A named part of a flat draw."""

    name: str
    shape: tuple[int, ...]


@runtime_checkable
class HasSites(Protocol):
    """A target whose flat draws are filled by named parts, one after the other."""

    @property
    def sites(self) -> tuple[Site, ...]:
        """The parts, in the order in which they fill the draw."""
        ...


@runtime_checkable
class HasPrior(Protocol):
    """A target whose prior can be drawn from, as flat vectors."""

    def draw_prior(self, key: Key) -> Float[Array, " d"]:
        """One draw of the prior."""
        ...


@runtime_checkable
class Preparable(Protocol):
    """A target or network that can work out once what depends on neither draw nor condition."""

    def prepared(self) -> Any:
        """The same, ready for many draws."""
        ...


@runtime_checkable
class Storable(Protocol):
    """What cannot be written as it is (it holds a model, say) but has a form that can."""

    def storable(self) -> Any:
        """The form that a file holds."""
        ...

    def restored(self, known: Mapping[str, Any], target: Any = None) -> Any:
        """What the file's form stands for, as far as the reader's own classes allow."""
        ...


@runtime_checkable
class Following(Protocol):
    """A student that holds the target, and so has to follow it where theta learns."""

    def following(self, target: Target) -> Any:
        """The same student with the target as it is now."""
        ...


LONGEST_WORD = 120
"""Letters of a word in a sentence, of the name of a file say, beyond which its middle is left out."""


def one_line(sentence: object) -> str:
    """A sentence on one line that a terminal can show, whatever names of the user's stand in it."""
    shown = "".join(c if c.isprintable() or c.isspace() else "?" for c in str(sentence))
    half = LONGEST_WORD // 2
    return " ".join(w if len(w) <= LONGEST_WORD else f"{w[:half]}...{w[-half:]}" for w in shown.split())


class IngredientError(ValueError):
    """Ingredients, settings or data that cannot work, with what to choose instead.

    Examples:
        >>> import understudy
        >>> from understudy.students import FullGaussian
        >>> try:
        ...     FullGaussian(-1)
        ... except understudy.IngredientError:
        ...     print("one clear sentence")
        one clear sentence
    """

    def __init__(self, *words: object):
        super().__init__(*map(one_line, words))


class CannotMoveError(RuntimeError):
    """No chain can move, so there is nothing to learn from."""

    def __init__(self, *words: object):
        super().__init__(*map(one_line, words))


def partition(tree: PyTree) -> tuple[PyTree, PyTree]:
    """Split a module into what learns (floating-point arrays not frozen by paramax) and the rest."""
    return eqx.partition(
        tree,
        eqx.is_inexact_array,
        is_leaf=lambda leaf: isinstance(leaf, paramax.NonTrainable),
    )


def batch_size(x: Condition) -> int:
    """Number of conditions in a batch, one where there is no condition."""
    return 1 if x is None else jax.tree.leaves(x)[0].shape[0]


def numbered(key: Key, i: ArrayLike) -> Key:
    """The i-th key of a loop, by counting.

    Keys that differ give independent streams in a counter-based generator, so no hash is spent on each.
    """
    data = jax.random.key_data(key)
    return jax.random.wrap_key_data(
        data.at[..., -1].add(jnp.asarray(i, data.dtype)), impl=jax.random.key_impl(key)
    )


def prepared(module: Any) -> Any:
    """The module made ready for many draws where it can be (:class:`Preparable`), else as it is."""
    return module.prepared() if isinstance(module, Preparable) else module


def follow(student: Any, target: Target) -> Any:
    """The student with the target as it is now in every part of it that is :class:`Following`."""
    holds = lambda node: isinstance(node, Following)  # noqa: E731
    return jax.tree.map(
        lambda node: node.following(target) if holds(node) else node, student, is_leaf=holds
    )


def bind(student: Student, x: Condition) -> Proposal:
    """Bind a student to one condition, for teachers that make use of it."""
    log_prob = partial(_log_prob, student, x) if isinstance(student, ExplicitStudent) else None
    return Proposal(lambda key, n: student.sample(key, x, n), log_prob)


def _log_prob(student: ExplicitStudent, x: Condition, z: Float[Array, " d"]) -> Scalar:
    return student.log_prob(z, x)
