"""Leave-one-out cross-validation by ArviZ with draws of a fit and with draws of NUTS.

The largest Pareto k of eight schools says how far the weights of LOO may be believed; a student whose
tails are wrong would change it. A k hangs on a few extreme draws, so both are drawn with several seeds
and their medians are compared. Run: ``python benchmarks/leave_one_out.py``.
"""

import argparse
import sys
import time
from pathlib import Path
from typing import Any

import jax
import numpy as np
from arviz_base import from_numpyro as arviz_of_numpyro
from arviz_stats import loo
from numpyro.infer import MCMC, NUTS

sys.path.insert(0, str(Path(__file__).parents[1]))

import understudy
from experiments.rows import commit, last_line, provenance, write_rows
from understudy.cli.schools import EFFECTS, ERRORS, eight_schools

CHAINS, DRAWS = 4, 1000


def measured(seeds: int) -> dict[str, Any]:
    """LOO with draws of one fit and with those of NUTS, for every seed."""
    result = understudy.fit(understudy.from_numpyro(eight_schools, EFFECTS, ERRORS), verbose=False)
    row: dict[str, Any] = {"trusted": result.trusted}
    for name, draw in {
        "fit": lambda seed: result.to_arviz(seed, CHAINS * DRAWS, CHAINS),
        "nuts": nuts,
    }.items():
        each = [loo(draw(seed), pointwise=True) for seed in range(seeds)]
        ks = [float(np.max(one.pareto_k)) for one in each]
        elpd = [float(one.elpd) for one in each]
        row |= {f"{name}_k": float(np.median(ks)), f"{name}_ks": ks}
        row |= {f"{name}_elpd": float(np.median(elpd)), f"{name}_elpds": elpd}
    return row | {"k_apart": abs(row["fit_k"] - row["nuts_k"])}


def nuts(seed: int) -> Any:
    """Draws of NumPyro's NUTS with the log likelihood of every datum."""
    lengths = {"num_warmup": DRAWS, "num_samples": DRAWS, "num_chains": CHAINS}
    sampler = MCMC(NUTS(eight_schools), **lengths, chain_method="sequential", progress_bar=False)
    sampler.run(jax.random.key(seed), EFFECTS, ERRORS)
    return arviz_of_numpyro(sampler, log_likelihood=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=20, help="of the draws (default: %(default)s)")
    parser.add_argument(
        "--out", default="results/leave_one_out.jsonl", help="rows (default: %(default)s)"
    )
    given = parser.parse_args()
    tried, began = commit(), time.perf_counter()
    row = {"kind": "leave one out", "name": "eight schools", **measured(given.seeds)}
    made = provenance({"seeds": given.seeds}, 0, time.perf_counter() - began)
    write_rows(given.out, [{**row, **made, "commit": tried}])
    last_line({name: row[name] for name in ("k_apart", "fit_k", "nuts_k", "fit_elpd", "nuts_elpd")})


if __name__ == "__main__":
    main()
