"""A funnel, fitted without settings.

The scale of every other coordinate is the exponential of the first. The fit sees whether its student can be trusted; where
it cannot, draws are finished by chains, and the summary says so.
"""

import warnings

import jax
import numpy as np

import understudy
from understudy.report import draws_beside_exact
from understudy.targets import funnel

target = funnel(dim=5)
result = understudy.fit(target)
print(result)
with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # what it would say is in the summary already
    draws = result.sample(0, 5000)["z"]
exact = np.asarray(target.sample(jax.random.key(1), 5000))
picture = draws_beside_exact(draws[:, :2], exact[:, :2], "fit")
