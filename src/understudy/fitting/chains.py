"""Many Hamiltonian chains side by side, in coordinates that follow them."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from scipy.stats import norm

from understudy.coordinates import Coordinates
from understudy.fitting.evaluations import Evaluations
from understudy.fitting.transport import FlowCoordinates

GROUPS = 16
# Transitions of a trace that are compared.
COMPARED = 512
_ACCEPTANCE = 0.8
_RATE = 0.15
_JITTER = 0.5
_LARGEST_STEP = 1.2
# A trajectory of a quarter turn carries a draw of a standard Gaussian to a fresh one.
_QUARTER = np.pi / 2
_LEAST, _MOST = 3, 32


class Chains:
    """Hamiltonian Monte Carlo with the host in charge: a leapfrog step is one call of the program.

    Reference: Neal, "MCMC using Hamiltonian dynamics", 2011.

    Args:
        evaluate: the target's log density and gradient.
        seed: of everything random.

    Attributes:
        count: how many, as many as the program takes at once.
        home: the newest coordinates that are not a flow's.
        seen: figures of the newest look at them, for whoever watches.
    """

    def __init__(self, evaluate: Evaluations, seed: int):
        self.evaluate = evaluate
        self.coordinates: Coordinates | FlowCoordinates = evaluate.plain
        self.home: Coordinates = evaluate.plain
        self.generator = np.random.default_rng(seed)
        self.step_size, self.leapfrogs, self.acceptance = 0.1, 8, 0.0
        self.count = evaluate.block
        self.rates = np.full(self.count, _ACCEPTANCE)
        self.u = np.zeros((self.count, evaluate.dim))
        self.seen: dict[str, float] = {}
        self._at: tuple[np.ndarray, np.ndarray] | None = None

    @property
    def z(self) -> Float[np.ndarray, "m d"]:
        """Where the chains are."""
        return self.coordinates.colour(self.u)[0]

    def place(self, z: Float[np.ndarray, "m d"]) -> None:
        """Put the chains somewhere else."""
        self.u, self._at = self.coordinates.whiten(z)[0], None

    def change(self, coordinates: Coordinates | FlowCoordinates) -> None:
        """Go on in other coordinates."""
        z = self.z
        self.coordinates = coordinates
        if isinstance(coordinates, Coordinates):
            self.home = coordinates
        self.place(z)

    def pace(self, step_size: float) -> None:
        """Set the step size, and as many steps as a quarter turn takes."""
        self.step_size = float(step_size)
        mean = (1 - _JITTER / 2) * step_size
        self.leapfrogs = int(np.clip(np.ceil(_QUARTER / mean), _LEAST, _MOST))

    def run(
        self, transitions: int, every: int = 1, adapt: bool = True, best_half: bool = False
    ) -> Float[np.ndarray, "t m d"]:
        """Go on, and give where the chains were after every so many transitions, as u.

        Args:
            transitions: how many.
            every: between two that are kept.
            adapt: whether the step size follows the acceptance.
            best_half: whether it follows the half of the chains that has accepted most so far, so that
                those in a canyon do not slow down all.
        """
        kept, rates = [], []
        for i in range(transitions):
            better = np.argsort(self.rates)[-self.count // 2 :] if best_half else slice(None)
            rates.append(float(self._transition()[better].mean()))
            if adapt:
                change = _RATE * (rates[-1] - _ACCEPTANCE) / (_ACCEPTANCE * (1 - _ACCEPTANCE))
                self.step_size = float(np.clip(self.step_size * np.exp(change), 1e-10, _LARGEST_STEP))
            if (i + 1) % every == 0:
                kept.append(self.u)
        self.acceptance = float(np.mean(rates))
        return np.stack(kept)

    @np.errstate(over="ignore", invalid="ignore")
    def _transition(self) -> np.ndarray:
        """One trajectory of every chain and its accept test; the acceptance of each.

        A trajectory that runs away overflows, and is turned down.
        """
        start = self.u
        log_p, slope = self._at or self._evaluate(start)
        momentum = self.generator.normal(size=start.shape)
        step = self.step_size * (1 - _JITTER * self.generator.uniform(size=(len(start), 1)))
        energy = log_p - 0.5 * (momentum**2).sum(1)
        u, new_log_p, new_slope = start, log_p, slope
        for _ in range(self.leapfrogs):
            momentum = momentum + 0.5 * step * new_slope
            u = u + step * momentum
            new_log_p, new_slope = self._evaluate(u)
            momentum = momentum + 0.5 * step * new_slope
        # Outside the support the log density is minus infinity, and the move is turned down.
        gain = new_log_p - 0.5 * (momentum**2).sum(1) - np.where(np.isfinite(energy), energy, -np.inf)
        chance = np.where(np.isnan(gain), 0.0, np.exp(np.minimum(np.nan_to_num(gain, nan=-np.inf), 0.0)))
        accept = self.generator.uniform(size=len(start)) < chance
        self.u = np.where(accept[:, None], u, start)
        self._at = np.where(accept, new_log_p, log_p), np.where(accept[:, None], new_slope, slope)
        self.rates = 0.8 * self.rates + 0.2 * chance
        return chance

    def _evaluate(self, u: Float[np.ndarray, "m d"]) -> tuple[np.ndarray, np.ndarray]:
        """Log density and gradient in the coordinates of the chains."""
        if isinstance(self.coordinates, Coordinates):
            return self.evaluate(u, self.coordinates)
        z, log_volume = self.coordinates.colour(u)
        log_p, slope = self.evaluate(z)
        return log_p + log_volume, self.coordinates.pull(u, slope)

    def relocate(self, least: float = 0.02) -> np.ndarray:
        """Move chains that no longer move to where chains of the better half are; who is whose copy."""
        order = np.argsort(self.rates)
        stuck, better = order[self.rates[order] < least], order[self.count // 2 :]
        source = np.arange(self.count)
        source[stuck] = self.generator.choice(better, len(stuck))
        if len(stuck) and self._at is not None:
            self.u, self._at = self.u[source], (self._at[0][source], self._at[1][source])
            self.rates = self.rates[source]
        return source

    def colour(self, trace: Float[np.ndarray, "t m d"]) -> Float[np.ndarray, "n d"]:
        """Rows of a trace as draws z, oldest first."""
        return self.coordinates.colour(trace.reshape(-1, trace.shape[-1]))[0]

    def traced(self, trace: Float[np.ndarray, "t m d"]) -> Float[np.ndarray, "t m d"]:
        """A trace as draws z."""
        return self.colour(trace).reshape(trace.shape)


class Agreement(NamedTuple):
    """Whether chains that started apart tell the same, and how precisely.

    Attributes:
        r_hat: nested R-hat, the largest of all coordinates and their sizes.
        excess: how far groups differ beyond what chains within them do, in deviations of the draws.
        error: standard error of the mean of all chains, the largest, in deviations.
        drift: largest move of a mean from the first half to the second beyond chance, in deviations.
        effective: draws they are worth, by coordinate.
    """

    r_hat: float
    excess: float
    error: float
    drift: float
    effective: Float[np.ndarray, " c"]

    @property
    def settled(self) -> bool:
        """Whether the chains have forgotten where they began."""
        return self.r_hat < 1.1 and self.excess < 0.1 and self.drift < 0.1


def thinned(trace: Float[np.ndarray, "t m d"], most: int) -> Float[np.ndarray, "s m d"]:
    """So many transitions of a trace, evenly."""
    return trace[np.linspace(0, len(trace) - 1, min(len(trace), most)).astype(int)]


def agreement(trace: Float[np.ndarray, "t m d"], groups: int = GROUPS) -> Agreement:
    """Compare groups of chains that began at one place, and the halves of the run.

    Reference: Margossian et al., "Nested R-hat: Assessing the Convergence of Markov Chain Monte Carlo
    When Running Many Short Chains", 2024.
    """
    bounded = np.arcsinh(thinned(trace, COMPARED))
    values = np.concatenate([bounded, np.abs(bounded)], -1)
    t, m, c = values.shape
    total = np.maximum(values.reshape(-1, c).var(0), 1e-24)
    means = values.mean(0)
    grouped = means.reshape(groups, m // groups, c)
    within = grouped.var(1, ddof=1).mean(0)
    between = grouped.mean(1).var(0, ddof=1)
    chance = within / (m // groups)
    inside = np.maximum(total - means.var(0), 0) + within
    r_hat = np.sqrt(1 + np.maximum(between, 0) / np.maximum(inside, 1e-24))
    quantile = 1 + norm.isf(0.01 / c) * np.sqrt(2 / (groups - 1))
    excess = np.sqrt(np.maximum(between - chance * quantile, 0) / total)
    error = np.sqrt(means.var(0, ddof=1) / m / total)
    halves = values[t // 2 :].mean(0) - values[: t // 2].mean(0) if t > 1 else np.zeros((m, c))
    noise = norm.isf(0.01 / c) * halves.std(0, ddof=1) / np.sqrt(m)
    drift = np.maximum(np.abs(halves.mean(0)) - noise, 0) / np.sqrt(total)
    effective = np.minimum(1 / np.maximum(error, 1e-12) ** 2, t * m)
    worst = {"r_hat": r_hat, "excess": excess, "error": error, "drift": drift}
    return Agreement(**{name: float(v.max()) for name, v in worst.items()}, effective=effective)
