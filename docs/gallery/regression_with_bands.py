"""A regression and its predictions.

The posterior predictive at new covariates: one call, a band of ninety per cent.
"""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist

import understudy
from understudy.report.figures import EXACT, STUDENT, blank_panels


def growth(x, y=None):
    level = numpyro.sample("level", dist.Normal(0, 3))
    slope = numpyro.sample("slope", dist.Normal(0, 3))
    bend = numpyro.sample("bend", dist.Normal(0, 1))
    sigma = numpyro.sample("sigma", dist.HalfNormal(1))
    numpyro.sample("y", dist.StudentT(4, level + slope * x + bend * x**2, sigma), obs=y)


x = jnp.linspace(-2, 2, 40)
y = 1 + 0.5 * x - 0.6 * x**2 + 0.4 * jax.random.t(jax.random.key(0), 4.0, (40,))
result = understudy.fit(understudy.from_numpyro(growth, x, y))
new = jnp.linspace(-3, 3, 121)
drawn = result.predict(1, x=new, draws=4000)["y"]
low, middle, high = np.quantile(drawn, [0.05, 0.5, 0.95], axis=0)
print(result.summary().round(3))
picture, (axes,) = blank_panels(1, (7.2, 3.6))
axes.fill_between(new, low, high, color=STUDENT, alpha=0.25, label="90 % of new data")
axes.plot(new, middle, color=STUDENT)
axes.plot(x, y, ".", color=EXACT, label="data")
axes.set(xlabel="x", ylabel="y")
axes.legend(frameon=False)
