"""Sanity of every case: its size, a finite start, and a Stein check of exact or stored draws."""

import argparse

import jax
import jax.numpy as jnp
import numpy as np

from .case import Case, site_names
from .models import CASES

DRAWS = 20_000
# Walls, where the density does not vanish, break Stein's identity for the score itself.
WALLS = {"uniform_box_3", "exponential_wall_1", "half_normal_wall_2", "truncated_normal_3"}


def check_start(case: Case) -> list[str]:
    """What is wrong with the size of a case, its density and its gradient at starts in (-2, 2)."""
    target = case.make()
    wrong = [] if target.dim == case.dim else [f"dim is {target.dim}, not {case.dim}"]
    starts = jax.random.uniform(jax.random.key(0), (100, target.dim), minval=-2.0, maxval=2.0)
    value, slope = jax.jit(jax.vmap(jax.value_and_grad(target.log_density)))(starts)
    good = np.isfinite(value) & np.isfinite(slope).all(1)
    if not good.any():
        wrong.append("no finite start")
    elif good.mean() < 0.5:
        wrong.append(f"only {good.mean():.0%} of the starts are finite (fine with walls)")
    shape = jax.eval_shape(target.constrain, jax.ShapeDtypeStruct((target.dim,), starts.dtype))
    missing = set(site_names(target)) - set(shape)
    if case.easier is not None:
        easier = case.easier()
        missing |= set(site_names(target)) - set(
            jax.eval_shape(easier.constrain, jax.ShapeDtypeStruct((easier.dim,), starts.dtype))
        )
    return wrong + ([f"sites are missing: {missing}"] if missing else [])


def check_draws(case: Case) -> list[str]:
    """Whether known draws fit the density: E[score] = 0 and E[tanh(u) score] = -E[tanh'(u)].

    The second identity uses u, the coordinate in units of its IQR around its median; both are judged in
    standard errors, with a limit of five.
    """
    target = case.make()
    if case.draws is not None:
        z = jnp.asarray(case.draws(np.random.default_rng(3), DRAWS))
    elif case.stored is not None:
        sites = {k: jnp.asarray(v) for k, v in case.stored().items() if k in site_names(target)}
        z = jax.vmap(lambda values: target.unconstrain(values))(sites)
    else:
        return []
    if case.name in WALLS:
        value = np.asarray(jax.vmap(target.log_density)(z))
        return [] if np.isfinite(value).all() else ["a draw lies outside the support"]
    score = np.asarray(jax.jit(jax.vmap(jax.grad(target.log_density)))(z))
    low, median, high = np.quantile(np.asarray(z), [0.25, 0.5, 0.75], axis=0)
    width = high - low
    u, score = (np.asarray(z) - median) / width, score * width
    pairs = {"score": score, "tanh": np.tanh(u) * score + 1 - np.tanh(u) ** 2}
    wrong = []
    for name, values in pairs.items():
        errors = values.mean(0) / (values.std(0) / np.sqrt(len(values)))
        if not np.abs(errors).max() < 5:
            wrong.append(f"{name} is off by {np.abs(errors).max():.1f} standard errors")
    return wrong


def main() -> None:
    """Checks all cases, or those which are named, and prints what is wrong."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--only", nargs="*")
    arguments = parser.parse_args()
    jax.config.update("jax_enable_x64", True)
    for name in arguments.only or CASES:
        case = CASES[name]
        if not case.available():
            print(f"{name}: skipped, its data are not at hand")
            continue
        wrong = check_start(case) + check_draws(case)
        print(f"{name} ({case.dim}): {'; '.join(wrong) or 'fine'}", flush=True)
        jax.clear_caches()


if __name__ == "__main__":
    main()
