"""Reference summaries of every proper case, and the comparison of draws with them.

``python -m benchmarks.suite.reference`` makes what is missing; ``--only NAME --again`` makes one once
more.
"""

import argparse
import os
import tempfile
import time
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpyro.diagnostics import effective_sample_size, split_gelman_rubin
from numpyro.infer import NUTS

from .case import Case, Sites, flatten, site_names
from .models import CASES

FOLDER = Path(__file__).parent / "references"
EXACT_DRAWS = 200_000
WIDE = 300
CHECKED = (0.05, 0.25, 0.5, 0.75, 0.95)
TOLERANCE = 0.1
ADAPT, KEEP, CHAINS = 1000, 1000, 40
# A long run whose chains disagree by more is no reference.
LARGEST_RHAT = 1.05
# A chain is lost where its log density lies so many interquartile ranges below that of the best.
LOST = 20


def levels(dim: int) -> np.ndarray:
    """The probabilities of the stored quantiles: every hundredth, or every twentieth of a wide case.

    The ends are .005 and .995, since the extremes of a sample say little.
    """
    grid = np.linspace(0, 1, 21 if dim > WIDE else 101)
    grid[[0, -1]] = 0.005, 0.995
    return grid


def load(name: str) -> dict[str, Any]:
    """The stored reference of a case."""
    with np.load(FOLDER / f"{name}.npz") as stored:
        return {key: stored[key] for key in stored.files}


def compare(name: str, draws: dict[str, Any], effective: float | None = None) -> dict[str, Any]:
    """How far draws of the named sites are from the reference of a case.

    A Monte Carlo allowance of two standard errors, those of both sets together, is taken off each
    difference before ``right`` is judged: sd sqrt(1/n + 1/m) for a mean, and sqrt(p (1 - p)) dq/dp
    sqrt(1/n + 1/m) for the quantile of p, where m is the effective number of reference draws and the
    slope dq/dp is the reference's. The other figures hold no allowance. Coordinates that are constant,
    such as the zeros of a Cholesky factor, are left out.

    Args:
        name: the case.
        draws: the sites by name, one draw per row, on their own scale; sites unknown to the reference
            are ignored.
        effective: the number of independent draws they are worth; all, unless told.

    Returns:
        ``w1`` (worst distance of Wasserstein over .005 to .995 in standard deviations, or in
        IQR / 1.349 where the case has no moments), ``mean`` (worst difference in standard deviations),
        ``sd_low`` and ``sd_high`` (smallest and largest ratio of standard deviations), ``quantile``
        (worst difference at .05, .25, .5, .75, .95 in IQRs), ``square`` (worst squared difference of
        E[z^2] in units of the standard deviation of z^2), ``finite`` and ``right``: whether every such
        quantile is within .1 IQR and every mean within .1 standard deviations, after the allowance.
    """
    return compare_with(load(name), draws, effective)


def compare_with(
    reference: dict[str, Any], draws: dict[str, Any], effective: float | None = None
) -> dict[str, Any]:
    """As :func:`compare`, with a reference at hand."""
    moments = bool(reference["moments"])
    moving = reference["iqr"] > 0
    values = flatten(draws, [str(name) for name in reference["sites"]])[:, moving]
    if not np.isfinite(values).all():
        return {"finite": False, "right": False}
    ref = {key: reference[key][moving] for key in ("centre", "scale", "mean", "sd", "iqr", "ess")}
    grid = reference["levels"]
    # Standardised quantiles, one row per coordinate.
    expected = reference["quantiles"][moving].astype(np.float64)
    found = np.quantile((values - ref["centre"]) / ref["scale"], grid, axis=0).T
    width = ref["iqr"] / ref["scale"]
    noise = 1 / (len(values) if effective is None else effective) + 1 / ref["ess"]

    at = [int(np.argmin(np.abs(grid - level))) for level in CHECKED]
    off = np.abs(found - expected)[:, at] / width[:, None]
    slope = np.gradient(expected, grid, axis=1)[:, at] / width[:, None]
    spread = np.sqrt(grid[at] * (1 - grid[at])) * slope
    right = bool((off - 2 * spread * np.sqrt(noise)[:, None] <= TOLERANCE).all())

    result = {
        "finite": True,
        "w1": float(np.trapezoid(np.abs(found - expected), grid, axis=1).max()),
        "quantile": float(off.max()),
    }
    if moments:
        away = np.abs(values.mean(0) - ref["mean"]) / ref["sd"]
        ratio = values.std(0) / ref["sd"]
        square = (values**2).mean(0) - reference["square"][moving]
        right = right and bool((away - 2 * np.sqrt(noise) <= TOLERANCE).all())
        result |= {
            "mean": float(away.max()),
            "sd_low": float(ratio.min()),
            "sd_high": float(ratio.max()),
            "square": float(((square / reference["square_sd"][moving]) ** 2).max()),
        }
    return result | {"right": right}


def summarise(case: Case, sites: Sites, names: list[str], ess: np.ndarray) -> dict[str, Any]:
    """What is stored of reference draws."""
    values = flatten(sites, names)
    grid = levels(case.dim)
    quantiles = np.quantile(values, grid, axis=0)
    low, median, high = np.quantile(values, [0.25, 0.5, 0.75], axis=0)
    mean, sd, iqr = values.mean(0), values.std(0), high - low
    iqr = np.where(sd > 1e-12 * np.maximum(np.abs(mean), 1e-300), iqr, 0.0)
    centre, scale = (mean, sd) if case.moments else (median, iqr / 1.349)
    safe = np.where(iqr > 0, scale, 1.0)
    return {
        "sites": np.array(names),
        "moments": case.moments,
        "levels": grid,
        "centre": centre,
        "scale": safe,
        "mean": mean,
        "sd": sd,
        "iqr": iqr,
        "square": (values**2).mean(0),
        "square_sd": (values**2).std(0),
        "quantiles": ((quantiles - centre) / safe).T.astype(np.float32),
        "ess": ess.astype(np.float32),
    }


class Sampler:
    """NumPyro's NUTS on a target: chains of 1,000 adapting steps and 1,000 draws, one after another.

    One program serves every acceptance rate, so the default chains and the long run share it.
    Times are processor seconds, which do not depend on what else the machine does.
    """

    def __init__(self, target: Any):
        self.target, self.dim = target, target.dim
        begun = time.process_time()
        example = (jax.random.key(0), jnp.zeros(self.dim), jnp.asarray(0.8))
        self.program = jax.jit(self._chain).lower(*example).compile()
        self.compile_seconds = time.process_time() - begun
        self.constrain = jax.jit(lambda z: jax.lax.map(target.constrain, z, batch_size=500))
        self.finite = jax.jit(jax.vmap(jax.value_and_grad(target.log_density)))

    def _chain(self, key: Any, start: Any, accept: Any) -> tuple[Any, Any, Any]:
        kernel = NUTS(potential_fn=lambda z: -self.target.log_density(z), target_accept_prob=accept)
        state = kernel.init(key, ADAPT, start, (), {})

        def step(state: Any, _: Any) -> tuple[Any, Any]:
            state = kernel.sample(state, (), {})
            return state, (state.z, state.num_steps, state.diverging)

        _, (draws, steps, diverging) = jax.lax.scan(step, state, None, length=ADAPT + KEEP)
        return draws[ADAPT:], steps.sum(), diverging[ADAPT:].sum()

    def start(self, key: Any) -> Any:
        """A start uniform on (-2, 2), as NumPyro's are, where density and gradient are finite."""
        for one in jax.random.split(key, 100):
            z = jax.random.uniform(one, (32, self.dim), minval=-2.0, maxval=2.0)
            value, slope = map(np.asarray, self.finite(z))
            good = np.flatnonzero(np.isfinite(value) & np.isfinite(slope).all(1))
            if len(good):
                return z[good[0]]
        raise ValueError("No start in (-2, 2) has a finite density.")

    def run(self, number: int, accept: float) -> tuple[np.ndarray, int, int, float]:
        """The draws of one chain, its gradients, its divergences and its seconds."""
        key, start_key = jax.random.split(jax.random.key(number))
        start = self.start(start_key)
        begun = time.process_time()
        draws, gradients, diverging = jax.block_until_ready(
            self.program(key, start, jnp.asarray(accept))
        )
        seconds = time.process_time() - begun
        return np.asarray(draws), int(gradients), int(diverging), seconds

    def sites(self, flat: np.ndarray) -> Sites:
        """Flat draws (n, dim) as named sites."""
        return {name: np.asarray(value) for name, value in self.constrain(flat).items()}


def _long_run(
    case: Case, sampler: Sampler, names: list[str], seconds: float
) -> tuple[Sites, np.ndarray, dict[str, Any]]:
    """Chains with acceptance .95 until enough draws are effective, or the time is over.

    Chains that never came near the mass are left out and counted.
    """
    wanted = 4000 if case.dim <= 60 else 2000
    parts, heights, divergences, spent, ready, made = [], [], 0, 0.0, False, 0
    while not ready:
        draws, _, diverging, cost = sampler.run(1000 + made, 0.95)
        sites = sampler.sites(draws)
        parts.append({name: sites[name] for name in names})
        heights.append(np.quantile(np.asarray(sampler.finite(draws)[0]), [0.25, 0.5, 0.75]))
        divergences, spent, made = divergences + diverging, spent + cost, made + 1
        parts, heights = near_the_mass(parts, heights)
        if len(parts) >= 4:
            ess, rhat = chains_quality(np.stack([flatten(part, names) for part in parts]), wanted)
            ready = (ess.min() > wanted and rhat < 1.01) or spent > seconds
        ready = ready or made >= CHAINS
    print(
        f"  long run: {len(parts)} chains of {made}, {spent:.0f} s, ESS {ess.min():.0f}, "
        f"R-hat {rhat:.4f}, diverging {divergences}",
        flush=True,
    )
    if rhat > LARGEST_RHAT:
        raise ValueError(f"the chains disagree: R-hat is {rhat:.3f} after {spent:.0f} seconds.")
    together = {name: np.concatenate([part[name] for part in parts]) for name in names}
    facts = {"rhat": rhat, "divergences": divergences, "seconds": spent, "lost": made - len(parts)}
    return together, np.minimum(ess, len(parts) * KEEP), facts


def near_the_mass(parts: list[Sites], heights: list[np.ndarray]) -> tuple[list[Sites], list[np.ndarray]]:
    """Chains whose log density is of the order of the best's, and the quartiles of those."""
    low, median, high = max(heights, key=lambda one: one[1])
    near = [one[1] > median - LOST * (high - low) for one in heights]
    return (
        [part for part, good in zip(parts, near, strict=True) if good],
        [one for one, good in zip(heights, near, strict=True) if good],
    )


def chains_quality(chained: np.ndarray, constant: float) -> tuple[np.ndarray, float]:
    """The effective draws of every coordinate, ``constant`` where it never moves, and worst R-hat."""
    moving = chained.std((0, 1)) > 1e-12 * np.maximum(np.abs(chained.mean((0, 1))), 1e-300)
    ess = np.full(chained.shape[-1], float(constant))
    ess[moving] = effective_sample_size(chained[..., moving])
    return ess, float(split_gelman_rubin(chained[..., moving]).max())


def _exact(case: Case, target: Any) -> Sites:
    draws = case.draws(np.random.default_rng(7), EXACT_DRAWS)
    if site_names(target) == ["z"]:
        return {"z": draws}
    found = jax.lax.map(target.constrain, jnp.asarray(draws), batch_size=1000)
    return {name: np.asarray(value) for name, value in found.items()}


def _stored_ess(sites: Sites, names: list[str]) -> np.ndarray:
    """The effective number of posteriordb's draws, ten chains of a thousand, one after another."""
    values = flatten(sites, names)
    chained = values.reshape(10, -1, values.shape[1])
    return np.minimum(effective_sample_size(chained), len(values))


def default_nuts(sampler: Sampler, reference: dict[str, Any]) -> dict[str, Any]:
    """What four chains of NumPyro's default NUTS cost and give."""
    chains = [sampler.run(number, 0.8) for number in range(4)]
    seconds = sampler.compile_seconds + sum(chain[3] for chain in chains)
    gradients = sum(chain[1] for chain in chains)
    flat = np.stack([chain[0] for chain in chains])
    ess, rhat = chains_quality(flat, 4 * KEEP)
    effective = float(np.clip(ess.min(), 1, 4 * KEEP))
    found = compare_with(reference, sampler.sites(flat.reshape(-1, sampler.dim)))
    shown = {key: round(value, 4) for key, value in found.items()}
    print(
        f"  default NUTS: {seconds:.1f} s ({sampler.compile_seconds:.1f} s compiling), "
        f"{gradients} gradients, ESS {effective:.0f}, R-hat {rhat:.3f}, {shown}",
        flush=True,
    )
    return {
        "nuts_seconds": seconds,
        "nuts_compile_seconds": sampler.compile_seconds,
        "nuts_gradients": gradients,
        "nuts_divergences": sum(chain[2] for chain in chains),
        "nuts_ess": effective,
        "nuts_rhat": rhat,
        "nuts_right": found["right"],
        "nuts_w1": found.get("w1", np.nan),
    }


def make_reference(case: Case, seconds: float, nuts: bool = True) -> None:
    """Makes and stores the reference of one case; with ``nuts``, what default NUTS costs too."""
    target = case.make()
    names = site_names(target)
    known = case.draws is not None or case.stored is not None
    sampler = Sampler(target) if nuts or not (known or case.easier) else None
    facts = {"rhat": 1.0, "divergences": 0, "seconds": 0.0}
    if case.draws is not None:
        source, sites = "exact draws", _exact(case, target)
        ess = np.full(flatten(sites, names).shape[1], float(EXACT_DRAWS))
    elif case.stored is not None:
        source, sites = "posteriordb", case.stored()
        ess = _stored_ess(sites, names)
    else:
        source = "long NUTS"
        easier = Sampler(case.easier()) if case.easier else sampler
        sites, ess, facts = _long_run(case, easier, names, seconds)
        sites = case.symmetrise(sites) if case.symmetrise else sites
        ess = np.full_like(ess, ess.min()) if case.symmetrise else ess
    reference = summarise(case, sites, names, ess) | {"source": source}
    reference |= {f"reference_{key}": value for key, value in facts.items()}
    _store(case.name, reference)
    if sampler is not None:
        _store(case.name, reference | default_nuts(sampler, reference))


def add_nuts(case: Case) -> None:
    """Adds what default NUTS costs to a stored reference that lacks it."""
    reference = load(case.name)
    if "nuts_seconds" not in reference:
        _store(case.name, reference | default_nuts(Sampler(case.make()), reference))


def _store(name: str, reference: dict[str, Any]) -> None:
    """Writes beside the file and moves it there, so that no reader sees half of it."""
    FOLDER.mkdir(exist_ok=True)
    handle, path = tempfile.mkstemp(dir=FOLDER, suffix=".tmp")
    with os.fdopen(handle, "wb") as file:
        np.savez_compressed(file, **reference)
    os.chmod(path, 0o644)
    os.replace(path, FOLDER / f"{name}.npz")


def main() -> None:
    """Makes references which are missing, or those which are named."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--only", nargs="*", help="the cases to make; all, by default")
    parser.add_argument("--again", action="store_true", help="make references which exist once more")
    parser.add_argument("--no-nuts", action="store_true", help="leave default NUTS for another time")
    parser.add_argument(
        "--seconds",
        type=float,
        default=150.0,
        help="processor seconds after which no further chain of a long run starts",
    )
    arguments = parser.parse_args()
    jax.config.update("jax_enable_x64", True)
    failed = []
    for name in arguments.only or CASES:
        case = CASES[name]
        if case.improper or not case.available():
            continue
        print(name, flush=True)
        try:
            if arguments.again or not (FOLDER / f"{name}.npz").exists():
                make_reference(case, arguments.seconds, not arguments.no_nuts)
            elif not arguments.no_nuts:
                add_nuts(case)
        except Exception as error:  # one case that fails does not hold up the others
            print(f"  failed: {type(error).__name__}: {error}", flush=True)
            failed.append(name)
        jax.clear_caches()
    if failed:
        raise SystemExit(f"No reference was made of {', '.join(failed)}.")


if __name__ == "__main__":
    main()
